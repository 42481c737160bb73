//! `agent-worker rm`: deletes an instance with its runs and messages.

use agent_worker_protocol::{
    AgentState, Code, Target,
    api::{AgentView, InstanceRemoved, InstanceRequest, RunView},
};
use serde::Serialize;

use crate::{
    client::{
        daemon_client::{DaemonClient, ScopeReach, StopGrace},
        local_state::LocalState,
    },
    error::{CliError, CliErrorKind},
    input::context::{CommandContext, Format, OutputArgs},
    output::{
        report,
        styled_line::{StyledLine, Tone},
        text::{one_line, pluralize},
        verdict::RunVerdict,
    },
};

/// Maximum number of runs in one reply of the daemon.
const MAX_LISTED_RUNS: usize = 100;

/// Delete an instance permanently
///
/// Deletes its runs, messages, documents and logs. Keeps its workflow file, and the files in .workflow/ or its `dir`.
/// Does not ask for confirmation.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker rm @review:pr-123 --force")]
pub(crate) struct Args {
    /// Instance: `@workflow` or `@workflow:tag`
    target: Target,
    /// Stop its live run first
    #[arg(long, short)]
    force: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The document that `rm --json` prints.
#[derive(Serialize)]
struct RemovalReport {
    #[serde(flatten)]
    removed: InstanceRemoved,
    runs: usize,
    messages: u64,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    if let Some(agent) = &args.target.agent {
        let what = format!("`{agent}` is an agent, and `rm` deletes whole instances");
        return Err(CliError::new(CliErrorKind::Usage, what)
            .with_hint(format!("remove it from its run: agent-worker agent end {}", args.target)));
    }
    let Some(client) = ctx.connect_if_history().await? else {
        return Err(CommandContext::no_history_error());
    };
    let scope = ctx.scope(Some(args.target.clone()), ScopeReach::CurrentProject);
    let runs = client.runs(&scope).await?;
    stop_live_runs(&args, &runs, &client, ctx).await?;
    let (target, project) = (Some(args.target), Some(ctx.settings.cwd.clone()));
    let removed = client.instance_remove(&InstanceRequest { target, project }).await?;
    let memory = LocalState::open(ctx.settings);
    for run in &runs {
        // No command needs the position in a deleted run.
        memory.remove_position(run.run).ok();
    }
    let messages = runs.iter().map(|run| u64::from(run.messages)).sum();
    let gone = RemovalReport { removed, runs: runs.len(), messages };
    match args.output.format() {
        Format::Json => ctx.console.print_json(&gone)?,
        Format::Text => ctx.console.print_line(&removal_line(&gone))?,
    }
    Ok(RunVerdict::Done)
}

async fn stop_live_runs(
    args: &Args,
    runs: &[RunView],
    client: &DaemonClient,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let stopping = |agent: &AgentView| agent.state == AgentState::Stopping;
    let goes_on = |run: &&RunView| run.state.is_live() || run.agents.iter().any(stopping);
    let Some(run) = runs.iter().find(goes_on) else { return Ok(()) };
    if !args.force {
        let target = Target::instance(&run.instance);
        let what = format!("{target} has a live run: {}", one_line(&run.state.to_string()));
        return Err(CliError::new(CliErrorKind::Refused(Code::Conflict), what).with_hint(format!(
            "stop it first: agent-worker stop {target}; or stop and remove it: agent-worker rm {target} --force"
        )));
    }
    let stopped = client.run_stop(run.run, StopGrace::Default).await?;
    match args.output.format() {
        Format::Json => Ok(()),
        Format::Text => ctx.console.eprint_line(&report::run_stopped_line(&stopped)),
    }
}

fn removal_line(gone: &RemovalReport) -> StyledLine {
    let target = Target::instance(&gone.removed.instance);
    let project = one_line(&gone.removed.project.to_string_lossy());
    let what = match gone.runs {
        MAX_LISTED_RUNS.. => "all its runs".to_owned(),
        runs => {
            let messages = usize::try_from(gone.messages).unwrap_or(usize::MAX);
            format!("{} and {}", pluralize(runs, "run"), pluralize(messages, "message"))
        }
    };
    StyledLine::new(Tone::Strong, format!("removed {target}"))
        .with(Tone::Plain, format!(" of {project}: {what}"))
}
