//! `agent-worker stop`: end runs or an agent, and say what ended with them.

use agent_worker_protocol::{
    AgentState, Code, Target,
    api::{AgentStopped, AgentView, RunStopped, RunView},
};
use serde::Serialize;
use serde_json::json;

use crate::{
    client::{Client, Grace, Reach, Scope, Watched},
    context::{Context, Format, Output},
    error::{CliError, Kind},
    line::Line,
    report,
    verdict::Verdict,
    words,
};

/// Stop a run or an agent, and every process of it
///
/// Without a target: the only run of this folder. An agent that is stopped is woken no more until `resume`; its mail
/// waits for that, unless it was the last thing a `run` had to do: then the run ends as failed, naming it. Returns when
/// the processes are gone.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agent-worker stop @review:pr-123
  agent-worker stop @global          every standalone agent
  agent-worker stop coder@review --json")]
pub(crate) struct Args {
    /// Which: `@workflow`, `@workflow:tag` or an agent
    target: Option<Target>,
    /// Every run of every folder, and every standalone agent
    #[arg(long, conflicts_with = "target")]
    all: bool,
    /// Give the processes no time to end by themselves
    #[arg(long)]
    now: bool,
    #[command(flatten)]
    pub(super) output: Output,
}

/// What is to end, and how.
pub(super) struct Stopping {
    pub(super) meant: Meant,
    pub(super) grace: Grace,
    pub(super) format: Format,
}

/// What is to end.
pub(super) enum Meant {
    /// One agent.
    Agent(Target),
    /// The runs of an instance; of `@global`, its agents.
    Runs(Scope),
    /// The only run of this folder.
    OnlyRun,
    /// Every run there is, and every standalone agent.
    Everything,
}

/// What ended.
#[derive(Serialize)]
#[serde(untagged)]
enum Ended {
    Run(RunStopped),
    Agent(AgentStopped),
}

impl Ended {
    fn line(&self) -> Line {
        match self {
            Self::Run(run) => report::stopped(run),
            Self::Agent(agent) => report::agent_stopped(agent),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    let meant = match args.target {
        _ if args.all => Meant::Everything,
        None => Meant::OnlyRun,
        Some(target) if target.agent.is_some() => Meant::Agent(target),
        Some(target) => Meant::Runs(ctx.scope(Some(target), Reach::Here)),
    };
    let grace = if args.now { Grace::Nothing } else { Grace::Usual };
    let stopping = Stopping { meant, grace, format: args.output.format() };
    match (ctx.daemon_if_any().await?, &stopping.meant) {
        (Some(client), _) => stopping.carry_out(&client, ctx).await,
        (None, Meant::Agent(_) | Meant::Runs(_)) => Err(Context::nothing_yet()),
        (None, Meant::OnlyRun | Meant::Everything) => nothing(stopping.format, ctx),
    }
}

impl Stopping {
    /// Ends it, and says what that was.
    pub(super) async fn carry_out(
        self,
        client: &Client,
        ctx: &mut Context<'_>,
    ) -> Result<Verdict, CliError> {
        let (scope, choice) = match self.meant {
            Meant::Agent(target) => {
                return stop_agent(client, &target, self.grace, self.format, ctx).await;
            }
            Meant::Runs(scope) => (scope, Choice::Every),
            Meant::OnlyRun => (ctx.scope(None, Reach::Here), Choice::Only),
            Meant::Everything => (ctx.scope(None, Reach::Everywhere), Choice::Every),
        };
        let runs = client.runs(&scope).await?;
        let standalone = standalone(&runs, choice);
        let mut stopped = Vec::new();
        for run in chosen(runs, choice)? {
            let one = Ended::Run(client.run_stop(run.run, self.grace).await?);
            tell(&one, self.format, ctx)?;
            stopped.push(one);
        }
        for agent in standalone {
            let one = Ended::Agent(client.agent_stop(&agent, &scope, self.grace).await?);
            tell(&one, self.format, ctx)?;
            stopped.push(one);
        }
        told(&stopped, self.format, ctx)
    }
}

async fn stop_agent(
    client: &Client,
    target: &Target,
    grace: Grace,
    format: Format,
    ctx: &mut Context<'_>,
) -> Result<Verdict, CliError> {
    let stopped = client.agent_stop(target, &ctx.scope(None, Reach::Here), grace).await?;
    if format == Format::Text {
        ctx.console.answer(&report::agent_stopped(&stopped))?;
        if let Some(run) = ended_with_it(client, &stopped, ctx).await? {
            let team = Target::instance(&run.instance);
            let how = words::run(&run);
            ctx.console.warn(&format!("nobody else had anything to do, so {team} is {how}"))?;
            ctx.console.hint(&format!("begin it again: agent-worker restart {team}"))?;
        } else {
            let who = Target::agent(stopped.agent.clone(), &stopped.instance);
            ctx.console.hint(&format!("wake it again: agent-worker resume {who}"))?;
        }
    }
    told(&[stopped], format, ctx)
}

fn tell(one: &Ended, format: Format, ctx: &mut Context<'_>) -> Result<(), CliError> {
    match format {
        Format::Json => Ok(()),
        Format::Text => ctx.console.answer(&one.line()),
    }
}

/// The run that is over because nobody but the agent that was stopped had anything to do in it.
async fn ended_with_it(
    client: &Client,
    stopped: &AgentStopped,
    ctx: &Context<'_>,
) -> Result<Option<RunView>, CliError> {
    let scope = Scope::instance(&stopped.instance, ctx.settings.cwd.clone());
    let from_now = None;
    let mut events = client.events(&Watched::Scope(scope.clone()), from_now).await?;
    loop {
        let run = client.runs(&scope).await?.into_iter().next();
        match run {
            Some(run) if run.is_about_to_end() && events.next().await?.is_some() => {}
            other => return Ok(other.filter(|run| !run.state.is_live())),
        }
    }
}

/// There is nothing to stop.
pub(super) fn nothing(format: Format, ctx: &mut Context<'_>) -> Result<Verdict, CliError> {
    told::<()>(&[], format, ctx)
}

/// The end of the answer: for a program all of it.
fn told<Stopped: Serialize>(
    stopped: &[Stopped],
    format: Format,
    ctx: &mut Context<'_>,
) -> Result<Verdict, CliError> {
    match format {
        Format::Json => ctx.console.json(&json!({ "stopped": stopped }))?,
        Format::Text if stopped.is_empty() => {
            ctx.console.note("nothing is running here")?;
        }
        Format::Text => {}
    }
    Ok(Verdict::Done)
}

#[derive(Clone, Copy)]
enum Choice {
    Every,
    Only,
}

/// The standalone agents that are meant: their run has no end, they have.
fn standalone(runs: &[RunView], choice: Choice) -> Vec<Target> {
    let meant = runs.iter().filter(|run| match choice {
        Choice::Every => run.instance.is_global(),
        Choice::Only => false,
    });
    let agents = meant.flat_map(|run| run.agents.iter());
    let woken = agents.filter(|agent| !matches!(agent.state, AgentState::Stopped { .. }));
    woken.map(|agent| Target::agent(agent.name.clone(), &agent.instance)).collect()
}

/// The runs that are meant, but for that of the standalone agents.
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
                Kind::Refused(Code::Conflict),
                format!("{} runs go on here: {}", runs.len(), names.join(", ")),
            )
            .hint(format!("say which: agent-worker stop {}", names[0])))
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
        assert_eq!(standalone(&runs, Choice::Every), ["a@global:main".parse().unwrap()]);
        assert_eq!(standalone(&runs, Choice::Only), []);
    }

    #[test]
    fn without_a_target_two_runs_are_one_too_many() {
        let runs = vec![run("a", RunState::Running), run("b:x", RunState::Setup)];
        assert_eq!(chosen(runs.clone(), Choice::Every).unwrap(), runs);
        let error = chosen(runs, Choice::Only).unwrap_err().body();
        assert_eq!(error.message, "2 runs go on here: @a, @b:x");
    }
}
