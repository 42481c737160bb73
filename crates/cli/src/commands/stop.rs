//! `agent-worker stop`: end runs, and say what ended with them.

use agent_worker_protocol::{
    AgentState, Target,
    api::{AgentView, RunStopped, RunView},
};
use serde::Serialize;

use crate::{
    client::Reach,
    context::{Context, Format, Output},
    error::{CliError, Kind},
    report,
    verdict::Verdict,
};

/// Stop a run and every process of it
///
/// Without a target: the only run of this folder. Returns when its processes are gone.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker stop @review:pr-123")]
pub(crate) struct Args {
    /// Which: `@workflow` or `@workflow:tag`
    target: Option<Target>,
    /// Every run of every folder
    #[arg(long, conflicts_with = "target")]
    all: bool,
    #[command(flatten)]
    pub(super) output: Output,
}

/// What `stop --json` prints.
#[derive(Serialize)]
struct Stopped {
    stopped: Vec<RunStopped>,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    if let Some(Target { agent: Some(agent), workflow, .. }) = &args.target {
        let hint = match workflow {
            Some(workflow) => format!("stop the run: agent-worker stop @{workflow}"),
            None => "`agent-worker ls` shows which run it is in".to_owned(),
        };
        let what = format!("`{agent}` is an agent, and `stop` ends whole runs");
        return Err(CliError::new(Kind::Usage, what).hint(hint));
    }
    let format = args.output.format();
    let mut stopped = Vec::new();
    if let Some(client) = ctx.daemon_if_any().await? {
        let reach = if args.all { Reach::Everywhere } else { Reach::Here };
        let choice = if args.all || args.target.is_some() { Choice::Every } else { Choice::Only };
        let runs = client.runs(&ctx.scope(args.target, reach)).await?;
        for run in chosen(runs, choice)? {
            let one = client.run_stop(run.run).await?;
            if format == Format::Text {
                ctx.console.answer(&report::stopped(&one))?;
            }
            stopped.push(one);
        }
    }
    match format {
        Format::Json => ctx.console.json(&Stopped { stopped })?,
        Format::Text if stopped.is_empty() => ctx.console.note("nothing is running here")?,
        Format::Text => {}
    }
    Ok(Verdict::Done)
}

#[derive(Clone, Copy)]
enum Choice {
    Every,
    Only,
}

/// The runs that are meant. `global` stays: it has no end.
fn chosen(runs: Vec<RunView>, choice: Choice) -> Result<Vec<RunView>, CliError> {
    // One that is being stopped already is waited for.
    let stopping = |agent: &AgentView| agent.state == AgentState::Stopping;
    let goes_on = |run: &RunView| run.state.is_live() || run.agents.iter().any(stopping);
    let is_meant = |run: &RunView| goes_on(run) && !run.instance.is_global();
    let runs: Vec<_> = runs.into_iter().filter(is_meant).collect();
    match (choice, runs.as_slice()) {
        (Choice::Only, [_, _, ..]) => {
            let names: Vec<_> =
                runs.iter().map(|run| Target::instance(&run.instance).to_string()).collect();
            Err(CliError::new(
                Kind::Usage,
                format!("{} runs go on here: {}", runs.len(), names.join(", ")),
            )
            .hint("say which: agent-worker stop @workflow:tag"))
        }
        (Choice::Only | Choice::Every, _) => Ok(runs),
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::RunState;

    use super::*;
    use crate::samples;

    fn run(instance: &str, state: RunState) -> RunView {
        RunView { instance: instance.parse().unwrap(), state, ..samples::run() }
    }

    #[test]
    fn only_runs_that_go_on_are_stopped_and_never_global() {
        let ended = samples::run().state;
        let runs = [run("a", RunState::Running), run("b", ended), run("global", RunState::Running)];
        let meant = chosen(runs.to_vec(), Choice::Only).unwrap();
        assert_eq!(meant, runs[..1]);
    }

    #[test]
    fn without_a_target_two_runs_are_one_too_many() {
        let runs = vec![run("a", RunState::Running), run("b:x", RunState::Setup)];
        assert_eq!(chosen(runs.clone(), Choice::Every).unwrap(), runs);
        let error = chosen(runs, Choice::Only).unwrap_err().body();
        assert_eq!(error.message, "2 runs go on here: @a, @b:x");
    }
}
