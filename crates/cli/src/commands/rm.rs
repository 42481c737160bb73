//! `agent-worker rm`: delete an instance, its runs and everything that was said in them.

use agent_worker_protocol::{
    AgentState, Code, Target,
    api::{AgentView, InstanceRequest, Removed, RunView},
};
use serde::Serialize;

use crate::{
    client::{Client, Grace, Reach},
    context::{Context, Format, Output},
    error::{CliError, Kind},
    line::{Line, Tone},
    memory::Memory,
    report,
    text::{count, one_line},
    verdict::Verdict,
};

/// As many runs as the daemon lists at once.
const MOST_RUNS: usize = 100;

/// Delete an instance for good
///
/// Its runs, messages, documents and logs are gone. Its file stays, and what was written into .workflow/ or its `dir`.
/// Asks nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker rm @review:pr-123 --force")]
pub(crate) struct Args {
    /// Which: `@workflow` or `@workflow:tag`
    target: Target,
    /// Stop its run first if one goes on
    #[arg(long, short)]
    force: bool,
    #[command(flatten)]
    pub(super) output: Output,
}

/// What `rm --json` prints.
#[derive(Serialize)]
struct Gone {
    #[serde(flatten)]
    removed: Removed,
    runs: usize,
    messages: u64,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    if let Some(agent) = &args.target.agent {
        let what = format!("`{agent}` is an agent, and `rm` deletes whole instances");
        return Err(CliError::new(Kind::Usage, what)
            .hint(format!("take it out of its run: agent-worker agent end {}", args.target)));
    }
    let Some(client) = ctx.daemon_if_any().await? else { return Err(Context::nothing_yet()) };
    let scope = ctx.scope(Some(args.target.clone()), Reach::Here);
    let runs = client.runs(&scope).await?;
    stop_what_goes_on(&args, &runs, &client, ctx).await?;
    let (target, project) = (Some(args.target), Some(ctx.settings.cwd.clone()));
    let removed = client.instance_remove(&InstanceRequest { target, project }).await?;
    let memory = Memory::of(ctx.settings);
    for run in &runs {
        // What is left of it is a file nobody will ask for.
        memory.forget(run.run).ok();
    }
    let messages = runs.iter().map(|run| u64::from(run.messages)).sum();
    let gone = Gone { removed, runs: runs.len(), messages };
    match args.output.format() {
        Format::Json => ctx.console.json(&gone)?,
        Format::Text => ctx.console.answer(&told(&gone))?,
    }
    Ok(Verdict::Done)
}

async fn stop_what_goes_on(
    args: &Args,
    runs: &[RunView],
    client: &Client,
    ctx: &mut Context<'_>,
) -> Result<(), CliError> {
    let stopping = |agent: &AgentView| agent.state == AgentState::Stopping;
    let goes_on = |run: &&RunView| run.state.is_live() || run.agents.iter().any(stopping);
    let Some(run) = runs.iter().find(goes_on) else { return Ok(()) };
    if !args.force {
        let target = Target::instance(&run.instance);
        let what = format!("{target} goes on: {}", one_line(&run.state.to_string()));
        return Err(CliError::new(Kind::Refused(Code::Conflict), what).hint(format!(
            "stop it first: agent-worker stop {target}; or at once: agent-worker rm {target} --force"
        )));
    }
    let stopped = client.run_stop(run.run, Grace::Usual).await?;
    match args.output.format() {
        Format::Json => Ok(()),
        Format::Text => ctx.console.say(&report::stopped(&stopped)),
    }
}

fn told(gone: &Gone) -> Line {
    let target = Target::instance(&gone.removed.instance);
    let project = one_line(&gone.removed.project.to_string_lossy());
    let what = match gone.runs {
        MOST_RUNS.. => "all of its runs are gone".to_owned(),
        runs => {
            let messages = usize::try_from(gone.messages).unwrap_or(usize::MAX);
            format!("{} and {} are gone", count(runs, "run"), count(messages, "message"))
        }
    };
    Line::of(Tone::Strong, format!("removed {target}"))
        .and(Tone::Plain, format!(" of {project}: {what}"))
}
