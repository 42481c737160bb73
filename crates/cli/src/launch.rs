//! From a workflow file to a run, for `run`, `start`, `up` and `restart`: read the file, take its parameters, ask the
//! daemon, follow.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use agent_worker_protocol::{
    RunMode, Tag,
    api::{RunRequest, RunStarted},
};
use agent_worker_workflow::Workflow;
use clap::Args;

use crate::{
    client::Client,
    context::{Context, Format, Output},
    ending::{self, ended},
    error::{CliError, Kind},
    follow::{Follower, OnSignal, Seen, Until},
    memory::Memory,
    params::{Asked, ask_for_help},
    signals::Signals,
    verdict::Verdict,
    view::Detail,
};

/// What of the caller's environment every run may need, besides the names its file mentions.
pub(crate) const ENV: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "TZ", "SSH_AUTH_SOCK"];

/// A file, our own switches, and the file's parameters behind it.
#[derive(Debug, Args)]
pub(crate) struct LaunchArgs {
    /// The workflow file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    switches: Switches,
    /// The file's parameters, such as `--target main`; `--help` behind the file lists them
    #[arg(value_name = "--PARAM VALUE", trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Our own switches: they may stand before the file and behind it.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Switches {
    /// Which instance of the workflow, such as `pr-123` [default: main]
    #[arg(long, visible_alias = "instance", value_name = "TAG")]
    tag: Option<Tag>,
    /// Tell tool calls and attempts too
    #[arg(long, short)]
    verbose: bool,
    /// Return while it goes on: a `run` once it exists, a `start` once its agents are awake
    #[arg(long, visible_alias = "background")]
    detach: bool,
    /// Stop the run of this instance that goes on, and begin anew
    #[arg(long)]
    replace: bool,
    /// Start each agent when it is first needed, which is always done
    #[arg(long)]
    lazy: bool,
    #[command(flatten)]
    output: Output,
}

/// How a command starts a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// What was typed.
    pub(crate) command: &'static str,
    /// `run` or `start`.
    pub(crate) mode: RunMode,
}

/// A run to be made.
pub(crate) struct Plan {
    /// The workflow file, absolute.
    pub(crate) file: PathBuf,
    /// Where its commands run.
    pub(crate) cwd: PathBuf,
    /// Which instance.
    pub(crate) tag: Option<Tag>,
    /// `run` or `start`.
    pub(crate) mode: RunMode,
    /// Values for the file's parameters.
    pub(crate) params: BTreeMap<String, String>,
    /// What becomes of a run that goes on.
    pub(crate) other: Other,
}

/// What becomes of a run of the same instance that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    /// It stays, and the new one is refused.
    Stays,
    /// It is stopped first.
    IsStopped,
}

/// Starts a run and follows it as far as was asked.
pub(crate) async fn launch(
    args: LaunchArgs,
    manner: Manner,
    ctx: &mut Context<'_>,
) -> Result<Verdict, CliError> {
    let format = args.format();
    ending::in_an_envelope(launched(args, manner, ctx).await, format, ctx)
}

async fn launched(
    args: LaunchArgs,
    manner: Manner,
    ctx: &mut Context<'_>,
) -> Result<Verdict, CliError> {
    let mode = manner.mode;
    let file = located(&ctx.settings.cwd, &args.file)?;
    let workflow = agent_worker_workflow::load(&file)?;
    let asked = Asked { manner, file: &args.file, params: &workflow.params };
    if ask_for_help(&args.rest) {
        ctx.console.help(&asked.help())?;
        return Ok(Verdict::Done);
    }
    let (switches, params) = asked.read(args.switches, &args.rest)?;
    let (cwd, tag) = (ctx.settings.cwd.clone(), switches.tag.clone());
    let other = if switches.replace { Other::IsStopped } else { Other::Stays };
    let plan = Plan { file, cwd, tag, mode, params, other };
    let request = plan.request(&workflow, ctx)?;
    for stranger in workflow.strangers() {
        ctx.console.warn(&stranger.why)?;
        ctx.console.hint(&stranger.hint)?;
    }
    let client = ctx.daemon().await?;
    let mut signals = Signals::listen_or_fail()?;
    let started = begin(&client, &request, &mut signals).await?;
    let format = switches.output.format();
    if switches.detach && mode == RunMode::Run {
        // Nothing of it was shown.
        Memory::of(ctx.settings).leave(started.run, "").ok();
        return ending::left(&started, format, ctx);
    }
    let follower = Follower {
        started: started.clone(),
        mode,
        on_signal: match mode {
            RunMode::Run => OnSignal::Stop,
            RunMode::Start => OnSignal::Leave,
        },
        until: if switches.detach { Until::Running } else { Until::Over },
        seen: Seen::Nothing,
        detail: if switches.verbose { Detail::Verbose } else { Detail::Usual },
        answers: ending::answers(format),
        client,
    };
    ended(follower.follow(ctx, &mut signals).await?, &started, format, ctx)
}

/// Asks the daemon for a run.
pub(crate) async fn begin(
    client: &Client,
    request: &RunRequest,
    signals: &mut Signals,
) -> Result<RunStarted, CliError> {
    match signals.carry(client.run_start(request)).await {
        Some(started) => Ok(started?),
        None => {
            Err(CliError::new(Kind::Left, "left before the daemon said whether the run exists")
                .hint("look: agent-worker ls"))
        }
    }
}

impl Plan {
    /// What to ask the daemon for. What it would refuse about the file is told here, where it can be shown.
    pub(crate) fn request(
        self,
        workflow: &Workflow,
        ctx: &Context<'_>,
    ) -> Result<RunRequest, CliError> {
        refuse_silence(workflow, self.mode)?;
        let env = ctx.settings.env_only(|name| is_wanted(name, workflow));
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        workflow.scope(&self.params, &env, &self.tag.clone().unwrap_or_default(), folder)?;
        Ok(RunRequest {
            file: self.file,
            cwd: self.cwd,
            tag: self.tag,
            mode: self.mode,
            params: self.params,
            env,
            replace: self.other == Other::IsStopped,
        })
    }
}

impl LaunchArgs {
    /// The same words, with the wish to know what may stand behind the file.
    #[must_use]
    pub(crate) fn asking_for_help(mut self) -> Self {
        self.rest.push("--help".to_owned());
        self
    }

    /// The same words, for a command that always returns while the run goes on.
    #[must_use]
    pub(crate) fn detached(mut self) -> Self {
        self.switches.detach = true;
        self
    }

    /// How to answer, known even when the rest cannot be understood.
    fn format(&self) -> Format {
        let behind = self.rest.iter().any(|word| word == "--json");
        if behind { Format::Json } else { self.switches.output.format() }
    }
}

impl Switches {
    /// These, and what was found behind the file.
    #[must_use]
    pub(crate) fn and(self, later: Self) -> Self {
        Self {
            tag: later.tag.or(self.tag),
            verbose: self.verbose || later.verbose,
            detach: self.detach || later.detach,
            replace: self.replace || later.replace,
            lazy: self.lazy || later.lazy,
            output: self.output.and(later.output),
        }
    }
}

/// The file, absolute. Its folder is the project, so that must have one spelling; a file that is a link stays one.
fn located(cwd: &Path, file: &Path) -> Result<PathBuf, CliError> {
    let file = cwd.join(file);
    let folder = file.parent().map(Path::canonicalize);
    match (folder, file.file_name()) {
        (Some(Ok(folder)), Some(name)) => Ok(folder.join(name)),
        (Some(Err(error)), _) => {
            let what = format!("cannot read {}", file.display());
            Err(CliError::because(Kind::BadFile, what, error))
        }
        (_, None) | (None, _) => {
            Err(CliError::new(Kind::BadFile, format!("{} is not a file", file.display())))
        }
    }
}

/// A `run` that would wake nobody has nothing to do; a `start` waits for what is sent to it.
fn refuse_silence(workflow: &Workflow, mode: RunMode) -> Result<(), CliError> {
    match (mode, workflow.silence()) {
        (RunMode::Run, Some(silence)) => {
            Err(CliError::new(Kind::NobodyWoken, silence.why).hint(silence.hint))
        }
        (RunMode::Run, None) | (RunMode::Start, _) => Ok(()),
    }
}

fn is_wanted(name: &str, workflow: &Workflow) -> bool {
    ENV.contains(&name) || workflow.env_names.iter().any(|wanted| wanted == name)
}
