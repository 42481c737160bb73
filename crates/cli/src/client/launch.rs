//! From a workflow file to a run, for `run`, `start`, `up` and `restart`: read the file, take its parameters, ask the
//! daemon, follow.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use agent_worker_protocol::{
    BASE_ENV, RunMode, Tag,
    api::{RunRequest, RunStarted},
};
use agent_worker_workflow::Workflow;
use clap::Args;

use crate::{
    client::{daemon_client::DaemonClient, local_state::LocalState},
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format, OutputArgs},
        params::{WorkflowParamsParser, requests_help},
        signals::InterruptSignals,
    },
    live::{
        follower::{FollowUntil, Follower, OnSignal, ResumePoint},
        view::Verbosity,
    },
    output::{
        exit_report::{self, finish_follow},
        verdict::RunVerdict,
    },
};

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
    output: OutputArgs,
}

/// How a command starts a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaunchCommand {
    /// What was typed.
    pub(crate) command: &'static str,
    /// `run` or `start`.
    pub(crate) mode: RunMode,
}

/// A run to be made.
pub(crate) struct LaunchPlan {
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
    pub(crate) existing_run: ExistingRunPolicy,
}

/// What becomes of a run of the same instance that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExistingRunPolicy {
    /// It stays, and the new one is refused.
    Keep,
    /// It is stopped first.
    Replace,
}

/// Starts a run and follows it as far as was asked.
pub(crate) async fn launch(
    args: LaunchArgs,
    launch_command: LaunchCommand,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let format = args.format();
    exit_report::print_error_in_envelope(launch_run(args, launch_command, ctx).await, format, ctx)
}

async fn launch_run(
    args: LaunchArgs,
    launch_command: LaunchCommand,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let mode = launch_command.mode;
    let file = resolve_workflow_file(&ctx.settings.cwd, &args.file)?;
    let workflow = agent_worker_workflow::load(&file)?;
    let asked = WorkflowParamsParser { launch_command, file: &args.file, params: &workflow.params };
    if requests_help(&args.rest) {
        ctx.console.print_help(&asked.help())?;
        return Ok(RunVerdict::Done);
    }
    let (switches, params) = asked.parse(args.switches, &args.rest)?;
    let (cwd, tag) = (ctx.settings.cwd.clone(), switches.tag.clone());
    let other = if switches.replace { ExistingRunPolicy::Replace } else { ExistingRunPolicy::Keep };
    let plan = LaunchPlan { file, cwd, tag, mode, params, existing_run: other };
    let request = plan.request(&workflow, ctx)?;
    for stranger in workflow.unknown_mentions() {
        ctx.console.warn(&stranger.why)?;
        ctx.console.hint(&stranger.hint)?;
    }
    let client = ctx.connect_or_start().await?;
    let mut signals = InterruptSignals::listen_or_fail()?;
    let started = start_run(&client, &request, &mut signals).await?;
    let format = switches.output.format();
    if switches.detach && mode == RunMode::Run {
        // Nothing of it was shown.
        LocalState::open(ctx.settings).save_last_shown_event(started.run, "").ok();
        return exit_report::print_detached_run(&started, format, ctx);
    }
    let follower = Follower {
        started: started.clone(),
        mode,
        on_signal: match mode {
            RunMode::Run => OnSignal::Stop,
            RunMode::Start => OnSignal::Leave,
        },
        until: if switches.detach { FollowUntil::Running } else { FollowUntil::Ended },
        resume_point: ResumePoint::Start,
        detail: if switches.verbose { Verbosity::Verbose } else { Verbosity::Normal },
        answer_destination: exit_report::answer_destination(format),
        client,
    };
    finish_follow(follower.follow(ctx, &mut signals).await?, &started, format, ctx)
}

/// Asks the daemon for a run.
pub(crate) async fn start_run(
    client: &DaemonClient,
    request: &RunRequest,
    signals: &mut InterruptSignals,
) -> Result<RunStarted, CliError> {
    match signals.run_until_second(client.run_start(request)).await {
        Some(started) => Ok(started?),
        None => Err(CliError::new(
            CliErrorKind::Detached,
            "left before the daemon said whether the run exists",
        )
        .with_hint("look: agent-worker ls")),
    }
}

impl LaunchPlan {
    /// What to ask the daemon for. What it would refuse about the file is told here, where it can be shown.
    pub(crate) fn request(
        self,
        workflow: &Workflow,
        ctx: &CommandContext<'_>,
    ) -> Result<RunRequest, CliError> {
        require_kickoff(workflow, self.mode)?;
        let env = ctx.settings.filtered_env(|name| is_forwarded_variable(name, workflow));
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        workflow.scope(&self.params, &env, &self.tag.clone().unwrap_or_default(), folder)?;
        Ok(RunRequest {
            file: self.file,
            cwd: self.cwd,
            tag: self.tag,
            mode: self.mode,
            params: self.params,
            env,
            replace: self.existing_run == ExistingRunPolicy::Replace,
        })
    }
}

impl LaunchArgs {
    /// The same words, with the wish to know what may stand behind the file.
    #[must_use]
    pub(crate) fn with_help_requested(mut self) -> Self {
        self.rest.push("--help".to_owned());
        self
    }

    /// The same words, for a command that always returns while the run goes on.
    #[must_use]
    pub(crate) fn with_detach(mut self) -> Self {
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
    pub(crate) fn merge(self, later: Self) -> Self {
        Self {
            tag: later.tag.or(self.tag),
            verbose: self.verbose || later.verbose,
            detach: self.detach || later.detach,
            replace: self.replace || later.replace,
            lazy: self.lazy || later.lazy,
            output: self.output.merge(later.output),
        }
    }
}

/// The file, absolute. Its folder is the project, so that must have one spelling; a file that is a link stays one.
fn resolve_workflow_file(cwd: &Path, file: &Path) -> Result<PathBuf, CliError> {
    let file = cwd.join(file);
    let folder = file.parent().map(Path::canonicalize);
    match (folder, file.file_name()) {
        (Some(Ok(folder)), Some(name)) => Ok(folder.join(name)),
        (Some(Err(error)), _) => {
            let what = format!("cannot read {}", file.display());
            Err(CliError::with_source(CliErrorKind::BadFile, what, error))
        }
        (_, None) | (None, _) => {
            Err(CliError::new(CliErrorKind::BadFile, format!("{} is not a file", file.display())))
        }
    }
}

/// A `run` that would wake nobody has nothing to do; a `start` waits for what is sent to it.
fn require_kickoff(workflow: &Workflow, mode: RunMode) -> Result<(), CliError> {
    match (mode, workflow.kickoff_problem()) {
        (RunMode::Run, Some(silence)) => {
            Err(CliError::new(CliErrorKind::NobodyWoken, silence.why).with_hint(silence.hint))
        }
        (RunMode::Run, None) | (RunMode::Start, _) => Ok(()),
    }
}

fn is_forwarded_variable(name: &str, workflow: &Workflow) -> bool {
    BASE_ENV.contains(&name) || workflow.env_names.iter().any(|wanted| wanted == name)
}
