//! `agent-worker rm`: deletes an instance with its runs and messages, after a confirmation.

use std::io::IsTerminal as _;

use agent_worker_protocol::{
    AgentState, Code, Target,
    api::{AgentView, InstanceRemoved, InstanceRequest, RunView},
};
use serde::Serialize;

use crate::{
    client::{
        daemon_client::{CommandScope, DaemonClient, ScopeReach, StopGrace},
        local_state::LocalState,
    },
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format, OutputArgs},
        target_args::TargetArgs,
    },
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
/// The command asks for confirmation at a terminal; without a terminal it needs --yes. It always needs a typed target.
#[derive(Debug, clap::Args)]
#[command(
    mut_arg("target", |arg| arg.help("Instance to delete: `@workflow` or `@workflow:tag`; always required")),
    after_help = "Example: agent-worker rm @review:pr-123 --force --yes"
)]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Stop its live run first
    #[arg(long, short)]
    force: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
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
    let target = args.target.clone().required("agent-worker rm @workflow:tag")?;
    if let Some(agent) = &target.agent {
        let what = format!("`{agent}` is an agent, and `rm` deletes whole instances");
        return Err(CliError::new(CliErrorKind::Usage, what)
            .with_hint(format!("remove it from its run: agent-worker agent end {target}")));
    }
    let Some(client) = ctx.connect_if_history().await? else {
        return Err(CommandContext::no_history_error());
    };
    let scope = ctx.scope(Some(target.clone()), ScopeReach::CurrentProject);
    let runs = client.runs(&scope).await?;
    // The daemon refuses to remove the instance of the standalone agents.
    let is_permanent = runs.iter().any(|run| run.instance.is_global());
    if !is_permanent {
        refuse_live_run(&args, &runs)?;
    }
    if !args.yes && !is_permanent && confirm(&scope, &runs, &client, ctx).await? == Confirmation::No
    {
        return Err(CliError::new(CliErrorKind::Failed, "nothing was deleted"));
    }
    if !is_permanent {
        stop_live_runs(&args, &runs, &client, ctx).await?;
    }
    let (target, project) = (Some(target), Some(ctx.settings.cwd.clone()));
    let removed = client.instance_remove(&InstanceRequest { target, project }).await?;
    let memory = LocalState::open(ctx.settings);
    for run in &runs {
        // No command needs the position in a deleted run.
        memory.remove_position(run.run).ok();
    }
    let gone = RemovalReport { removed, runs: runs.len(), messages: message_count(&runs) };
    match args.output.format() {
        Format::Json => ctx.console.print_json(&gone)?,
        Format::Text => ctx.console.print_line(&removal_line(&gone))?,
    }
    Ok(RunVerdict::Done)
}

/// The answer to the question whether to delete.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Confirmation {
    Yes,
    No,
}

/// Returns whether there is a terminal to ask at.
fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Names what is deleted and asks at the terminal; the default is no. Without a terminal `--yes` is required.
async fn confirm(
    scope: &CommandScope,
    runs: &[RunView],
    client: &DaemonClient,
    ctx: &mut CommandContext<'_>,
) -> Result<Confirmation, CliError> {
    let typed = scope.target.as_ref().map(Target::to_string).unwrap_or_default();
    if !can_ask() {
        return Err(CliError::new(CliErrorKind::Usage, format!("deleting {typed} needs --yes"))
            .with_hint(format!("there is no terminal to ask at: agent-worker rm {typed} --yes")));
    }
    let documents = client.documents(scope).await?.len();
    let instance =
        runs.first().map(|run| (Target::instance(&run.instance).to_string(), &run.project));
    let (target, project) = match &instance {
        Some((target, project)) => (target.as_str(), one_line(&project.to_string_lossy())),
        None => (typed.as_str(), one_line(&scope.project.to_string_lossy())),
    };
    let documents = pluralize(documents, "document");
    let question = format!(
        "this deletes {}, {} and {documents} of {target} in {project}; project files stay. Continue? [y/N] ",
        pluralize(runs.len(), "run"),
        pluralize(usize::try_from(message_count(runs)).unwrap_or(usize::MAX), "message"),
    );
    ctx.console.eprint_chunk(&question)?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(|error| {
        CliError::with_source(CliErrorKind::Failed, "could not read the answer", error)
    })?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(Confirmation::Yes),
        _ => Ok(Confirmation::No),
    }
}

fn live_run(runs: &[RunView]) -> Option<&RunView> {
    let stopping = |agent: &AgentView| agent.state == AgentState::Stopping;
    runs.iter().find(|run| run.state.is_live() || run.agents.iter().any(stopping))
}

fn refuse_live_run(args: &Args, runs: &[RunView]) -> Result<(), CliError> {
    let Some(run) = live_run(runs).filter(|_| !args.force) else { return Ok(()) };
    let target = Target::instance(&run.instance);
    let what = format!("{target} has a live run: {}", one_line(&run.state.to_string()));
    Err(CliError::new(CliErrorKind::Refused(Code::Conflict), what).with_hint(format!(
        "stop it first: agent-worker stop {target}; or stop and remove it: agent-worker rm {target} --force{}",
        if can_ask() { "" } else { " --yes" }
    )))
}

async fn stop_live_runs(
    args: &Args,
    runs: &[RunView],
    client: &DaemonClient,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    let Some(run) = live_run(runs) else { return Ok(()) };
    let stopped = client.run_stop(run.run, StopGrace::Default).await?;
    match args.output.format() {
        Format::Json => Ok(()),
        Format::Text => ctx.console.eprint_line(&report::run_stopped_line(&stopped)),
    }
}

fn message_count(runs: &[RunView]) -> u64 {
    runs.iter().map(|run| u64::from(run.messages)).sum()
}

/// Formats the number of deleted runs and messages; a long list of runs is incomplete.
fn deleted_text(runs: usize, messages: u64) -> String {
    match runs {
        MAX_LISTED_RUNS.. => "all its runs".to_owned(),
        runs => {
            let messages = usize::try_from(messages).unwrap_or(usize::MAX);
            format!("{} and {}", pluralize(runs, "run"), pluralize(messages, "message"))
        }
    }
}

fn removal_line(gone: &RemovalReport) -> StyledLine {
    let target = Target::instance(&gone.removed.instance);
    let project = one_line(&gone.removed.project.to_string_lossy());
    let what = deleted_text(gone.runs, gone.messages);
    StyledLine::new(Tone::Strong, format!("removed {target}"))
        .with(Tone::Plain, format!(" of {project}: {what}"))
}
