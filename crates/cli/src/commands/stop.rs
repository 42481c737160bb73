//! `agent-worker stop`: stops runs or an agent, and prints what ended with them.

use agent_worker_protocol::{
    AgentState, Code, Target,
    api::{AgentStopped, AgentView, ImminentChange, RunStopped, RunView},
};
use serde::Serialize;
use serde_json::json;

use crate::{
    client::daemon_client::{CommandScope, DaemonClient, FeedSource, ScopeReach, StopGrace},
    error::{CliError, CliErrorKind},
    input::{
        context::{CommandContext, Format, OutputArgs},
        target_args::{TargetArgs, TargetEffect},
    },
    output::{
        report, restart_method::RestartMethod, state_text, styled_line::StyledLine,
        verdict::RunVerdict,
    },
};

/// Stop a run or an agent, with all of its processes
///
/// A stopped agent is not woken until `resume`, and its messages stay pending. If nothing else is left to do in a
/// `run`, the run ends as failed, with that reason. Returns when the processes have ended.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker stop @review:pr-123
  agent-worker stop @global          # every standalone agent
  agent-worker stop coder@review --json")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Stop every run of every folder, and every standalone agent
    #[arg(long, conflicts_with_all = ["target", "target_option"])]
    all: bool,
    /// End the processes without a grace period
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The target, the grace period and the output format of a stop.
pub(super) struct StopPlan {
    pub(super) target: StopTarget,
    pub(super) grace: StopGrace,
    pub(super) format: Format,
}

/// The target of a stop.
pub(super) enum StopTarget {
    /// One named agent.
    Agent(Target),
    /// The runs of an instance; for `@global`, its agents.
    Runs(CommandScope),
    /// The only run of this folder.
    OnlyRun,
    /// Every run and every standalone agent.
    Everything,
}

impl StopTarget {
    /// Returns the meaning of a target; without one, the only run of this folder.
    pub(super) fn new(target: Option<Target>, ctx: &CommandContext<'_>) -> Self {
        match target {
            None => Self::OnlyRun,
            Some(target) if target.agent.is_some() => Self::Agent(target),
            Some(target) => Self::Runs(ctx.scope(Some(target), ScopeReach::CurrentProject)),
        }
    }
}

/// A stopped run or agent.
#[derive(Serialize)]
#[serde(untagged)]
enum StoppedItem {
    Run(RunStopped),
    Agent(AgentStopped),
}

impl StoppedItem {
    fn line(&self) -> StyledLine {
        match self {
            Self::Run(run) => report::run_stopped_line(run),
            Self::Agent(agent) => report::agent_stopped_line(agent),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let meant = if args.all {
        StopTarget::Everything
    } else {
        StopTarget::new(args.target.or_selected(TargetEffect::Change, ctx)?, ctx)
    };
    let grace = if args.now { StopGrace::Immediate } else { StopGrace::Default };
    let stopping = StopPlan { target: meant, grace, format: args.output.format() };
    match (ctx.connect_if_history().await?, &stopping.target) {
        (Some(client), _) => stopping.execute(&client, ctx).await,
        (None, StopTarget::Agent(_) | StopTarget::Runs(_)) => {
            Err(CommandContext::no_history_error())
        }
        (None, StopTarget::OnlyRun | StopTarget::Everything) => {
            print_nothing_stopped(stopping.format, ctx)
        }
    }
}

impl StopPlan {
    /// Stops the target and prints the result.
    pub(super) async fn execute(
        self,
        client: &DaemonClient,
        ctx: &mut CommandContext<'_>,
    ) -> Result<RunVerdict, CliError> {
        let (scope, choice) = match self.target {
            StopTarget::Agent(target) => {
                return stop_agent(client, &target, self.grace, self.format, ctx).await;
            }
            StopTarget::Runs(scope) => (scope, RunChoice::Every),
            StopTarget::OnlyRun => (ctx.scope(None, ScopeReach::CurrentProject), RunChoice::Only),
            StopTarget::Everything => (ctx.scope(None, ScopeReach::AllProjects), RunChoice::Every),
        };
        let runs = client.recent_runs(&scope).await?;
        let standalone = standalone_agents(&runs, choice);
        let mut stopped = Vec::new();
        for run in select_runs(runs, choice)? {
            let one = StoppedItem::Run(client.run_stop(run.run, self.grace).await?);
            print_stopped_item(&one, self.format, ctx)?;
            stopped.push(one);
        }
        for agent in standalone {
            let one = StoppedItem::Agent(client.agent_stop(&agent, &scope, self.grace).await?);
            print_stopped_item(&one, self.format, ctx)?;
            stopped.push(one);
        }
        print_summary(&stopped, self.format, ctx)
    }
}

async fn stop_agent(
    client: &DaemonClient,
    target: &Target,
    grace: StopGrace,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    let stopped =
        client.agent_stop(target, &ctx.scope(None, ScopeReach::CurrentProject), grace).await?;
    if format == Format::Text {
        ctx.console.print_line(&report::agent_stopped_line(&stopped))?;
        if let Some(run) = find_run_ended_by_stop(client, &stopped, ctx).await? {
            let team = Target::instance(&run.instance);
            let how = state_text::state_sentence(&state_text::run_state_text(&run));
            ctx.console.warn(&format!("no other agent had work, so {team} {how}"))?;
            ctx.console.hint(&RestartMethod::of(&run).hint())?;
        } else {
            let who = Target::agent(stopped.agent.clone(), &stopped.instance);
            ctx.console.hint(&format!("resume the agent: agent-worker resume {who}"))?;
        }
    }
    print_summary(&[stopped], format, ctx)
}

fn print_stopped_item(
    one: &StoppedItem,
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<(), CliError> {
    match format {
        Format::Json => Ok(()),
        Format::Text => ctx.console.print_line(&one.line()),
    }
}

/// Returns the run that ended because only the stopped agent had work in it.
async fn find_run_ended_by_stop(
    client: &DaemonClient,
    stopped: &AgentStopped,
    ctx: &CommandContext<'_>,
) -> Result<Option<RunView>, CliError> {
    let scope = CommandScope::for_instance(&stopped.instance, ctx.settings.cwd.clone());
    let from_now = None;
    let mut events = client.events(&FeedSource::Scope(scope.clone()), from_now).await?;
    loop {
        let run = client.newest_run(&scope).await?;
        match run {
            Some(run)
                if run.imminent == Some(ImminentChange::Ends) && events.next().await?.is_some() => {
            }
            other => return Ok(other.filter(|run| !run.state.is_live())),
        }
    }
}

/// Prints that nothing was stopped.
pub(super) fn print_nothing_stopped(
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    print_summary::<()>(&[], format, ctx)
}

/// Prints the end of the answer; for a program, all of it.
fn print_summary<Stopped: Serialize>(
    stopped: &[Stopped],
    format: Format,
    ctx: &mut CommandContext<'_>,
) -> Result<RunVerdict, CliError> {
    match format {
        Format::Json => ctx.console.print_json(&json!({ "stopped": stopped }))?,
        Format::Text if stopped.is_empty() => {
            ctx.console.note("nothing is running here")?;
        }
        Format::Text => {}
    }
    Ok(RunVerdict::Done)
}

#[derive(Clone, Copy)]
enum RunChoice {
    Every,
    Only,
}

/// Returns the standalone agents to stop; their run is permanent, so they are stopped one by one.
fn standalone_agents(runs: &[RunView], choice: RunChoice) -> Vec<Target> {
    let meant = runs.iter().filter(|run| match choice {
        RunChoice::Every => run.instance.is_global(),
        RunChoice::Only => false,
    });
    let agents = meant.flat_map(|run| run.agents.iter());
    let woken = agents.filter(|agent| !matches!(agent.state, AgentState::Stopped { .. }));
    woken.map(|agent| Target::agent(agent.name.clone(), &agent.instance)).collect()
}

/// Returns the runs to stop, without that of the standalone agents.
fn select_runs(runs: Vec<RunView>, choice: RunChoice) -> Result<Vec<RunView>, CliError> {
    // A run that is already being stopped is awaited.
    let stopping = |agent: &AgentView| agent.state == AgentState::Stopping;
    let goes_on = |run: &RunView| run.state.is_live() || run.agents.iter().any(stopping);
    let is_meant = |run: &RunView| goes_on(run) && !run.instance.is_global();
    let runs: Vec<_> = runs.into_iter().filter(is_meant).collect();
    match (choice, runs.as_slice()) {
        (RunChoice::Only, [_, _, ..]) => {
            let names: Vec<_> =
                runs.iter().map(|run| Target::instance(&run.instance).to_string()).collect();
            Err(CliError::new(
                CliErrorKind::Refused(Code::Conflict),
                format!("{} live runs here: {}", runs.len(), names.join(", ")),
            )
            .with_hint(format!("name one: agent-worker stop {}", names[0])))
        }
        (RunChoice::Only | RunChoice::Every, _) => Ok(runs),
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::RunState;

    use super::*;
    use crate::output::samples;

    fn run(instance: &str, state: RunState) -> RunView {
        RunView { instance: instance.parse().unwrap(), state, ..samples::run() }
    }

    #[test]
    fn only_runs_that_go_on_are_stopped_and_never_global() {
        let ended = samples::run().state;
        let runs = [run("a", RunState::Running), run("b", ended), run("global", RunState::Running)];
        let meant = select_runs(runs.to_vec(), RunChoice::Only).unwrap();
        assert_eq!(meant, runs[..1]);
    }

    #[test]
    fn of_global_the_agents_are_stopped_that_are_not_yet() {
        let agent = |name: &str, state| AgentView {
            name: name.parse().unwrap(),
            instance: "global".parse().unwrap(),
            state,
            ..samples::run().agents[0].clone()
        };
        let stopped = AgentState::Stopped { why: "enough".into() };
        let agents = vec![agent("a", AgentState::Idle), agent("b", stopped)];
        let runs = [RunView { agents, ..run("global", RunState::Running) }, samples::run()];
        assert_eq!(standalone_agents(&runs, RunChoice::Every), ["a@global:main".parse().unwrap()]);
        assert_eq!(standalone_agents(&runs, RunChoice::Only), []);
    }

    #[test]
    fn without_a_target_two_runs_are_one_too_many() {
        let runs = vec![run("a", RunState::Running), run("b:x", RunState::Setup)];
        assert_eq!(select_runs(runs.clone(), RunChoice::Every).unwrap(), runs);
        let error = select_runs(runs, RunChoice::Only).unwrap_err().to_report_error();
        assert_eq!(error.message, "2 live runs here: @a, @b:x");
    }
}
