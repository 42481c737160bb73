//! From a workflow file to a run, for `run` and `start`: read the file, take its parameters, ask the daemon, follow.

use std::path::{Path, PathBuf};

use agent_worker_protocol::{
    RunMode, Tag, Target,
    api::{RunRequest, RunStarted},
};
use agent_worker_workflow::Workflow;
use clap::Args;

use crate::{
    context::{Context, Format, Output},
    error::{CliError, Kind},
    follow::{Followed, Follower, Until},
    line::{Line, Tone},
    params,
    report::{Envelope, Report},
    screen::Answers,
    signals::Signals,
    verdict::Verdict,
    view::Detail,
};

/// What of the caller's environment every run may need, besides the names its file mentions.
const ENV: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "TZ", "SSH_AUTH_SOCK"];

/// A file, our own switches, and the file's parameters behind it.
#[derive(Debug, Args)]
pub(crate) struct LaunchArgs {
    /// The workflow file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    switches: Switches,
    /// The file's parameters, such as `--target main`; `agent-worker validate FILE` lists them
    #[arg(value_name = "--PARAM VALUE", trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Our own switches: they may stand before the file and behind it.
#[derive(Clone, Debug, Args)]
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
    #[command(flatten)]
    output: Output,
}

/// Starts a run and follows it as far as was asked.
pub(crate) async fn launch(
    args: LaunchArgs,
    mode: RunMode,
    ctx: &mut Context<'_>,
) -> Result<Verdict, CliError> {
    let format = args.format();
    match launched(args, mode, ctx).await {
        Err(error) if format == Format::Json && error.kind() != Kind::ReaderGone => {
            ctx.console.json(&Envelope::of_failure(&error))?;
            Ok(error.verdict())
        }
        other => other,
    }
}

async fn launched(
    args: LaunchArgs,
    mode: RunMode,
    ctx: &mut Context<'_>,
) -> Result<Verdict, CliError> {
    let file = located(&ctx.settings.cwd, &args.file)?;
    let workflow = agent_worker_workflow::load(&file)?;
    let (switches, params) = params::read(args.switches, &args.rest, mode, &workflow)?;
    let request = RunRequest {
        file,
        cwd: ctx.settings.cwd.clone(),
        tag: switches.tag.clone(),
        mode,
        params,
        env: ctx.settings.env_only(|name| is_wanted(name, &workflow)),
    };
    workflow.scope(&request.params, &request.env, &request.tag.clone().unwrap_or_default())?;
    let client = ctx.daemon().await?;
    let mut signals = Signals::listen()
        .map_err(|error| CliError::because(Kind::Failed, "could not listen for signals", error))?;
    let Some(started) = signals.carry(client.run_start(&request)).await else {
        return Err(CliError::new(
            Kind::Left,
            "left before the daemon said whether the run exists",
        )
        .hint("look: agent-worker ls"));
    };
    let started = started?;
    if switches.detach && mode == RunMode::Run {
        return left(&started, switches.output.format(), ctx);
    }
    let follower = Follower {
        started: started.clone(),
        mode,
        until: if switches.detach { Until::Running } else { Until::Over },
        detail: if switches.verbose { Detail::Verbose } else { Detail::Usual },
        answers: match switches.output.format() {
            Format::Text => Answers::Out,
            Format::Json => Answers::Aside,
        },
        client,
    };
    match follower.follow(ctx, &mut signals).await? {
        Followed::Left => left(&started, switches.output.format(), ctx),
        Followed::LeftStopping => Err(CliError::new(
            Kind::Left,
            "left before it was stopped; the daemon goes on stopping it",
        )
        .hint("look: agent-worker ls")),
        Followed::Over(report) => closed(&report, switches.output.format(), ctx),
    }
}

impl LaunchArgs {
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

fn is_wanted(name: &str, workflow: &Workflow) -> bool {
    ENV.contains(&name) || workflow.env_names.iter().any(|wanted| wanted == name)
}

/// Says how to come back to a run that goes on.
fn left(started: &RunStarted, format: Format, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    match format {
        Format::Json => ctx.console.json(started)?,
        Format::Text => {
            let target = Target::instance(&started.instance);
            ctx.console
                .answer(&Line::of(Tone::Strong, target.to_string()).and(Tone::Plain, " goes on"))?;
            ctx.console.hint(&format!("follow it: agent-worker peek {target} --follow"))?;
            ctx.console.hint(&format!("stop it: agent-worker stop {target}"))?;
        }
    }
    Ok(Verdict::Done)
}

/// Prints what a run came to. Whoever stopped reading does not change what that is.
fn closed(report: &Report, format: Format, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let printed = match format {
        Format::Json => ctx.console.json(&report.envelope()),
        Format::Text => report.closing().iter().try_for_each(|line| ctx.console.say(line)),
    };
    match printed {
        Err(error) if error.kind() != Kind::ReaderGone => Err(error),
        Ok(()) | Err(_) => Ok(report.verdict),
    }
}
