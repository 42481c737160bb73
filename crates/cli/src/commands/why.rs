//! `agent-worker why`: explains the state of an agent or a run, and the condition that would change it.

use agent_worker_protocol::{
    AgentState, Millis, Outcome, RunMode, RunState, Target,
    api::{AgentDetail, RunView},
};
use serde::Serialize;

use super::status;
use crate::{
    client::daemon_client::ScopeReach,
    error::CliError,
    input::{
        context::{CommandContext, Format, OutputArgs},
        resolve_run,
    },
    output::{
        clock, state_text,
        styled_line::{StyledLine, Tone},
        text::{one_line, pluralize},
        verdict::RunVerdict,
    },
};

/// Explain the state of an agent or a run
///
/// Prints the state, its cause, its start, and the condition that would wake the agent or continue the run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker why coder@review:pr-123")]
pub(crate) struct Args {
    /// Agent or run: `agent`, `agent@workflow:tag` or `@workflow:tag` [default: the only run of this folder]
    target: Option<Target>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The document that `why --json` prints, for an agent and for a run.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct StateExplanation {
    target: Target,
    /// State as one word.
    state: String,
    /// State as displayed in every list.
    words: String,
    /// Causes, one line each.
    because: Vec<String>,
    /// Start of the state, if known.
    since: Option<Millis>,
    /// Condition that would wake the agent or continue the run.
    wakes_when: String,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let Some(client) = ctx.connect_if_history().await? else {
        return Err(CommandContext::no_history_error());
    };
    let scope = ctx.scope(args.target.clone(), ScopeReach::CurrentProject);
    let why = match args.target.filter(|target| target.agent.is_some()) {
        Some(target) => explain_agent(&client.agent(&target, &scope).await?, clock::now()),
        None => explain_run(&resolve_run::resolve_run(&client, &scope).await?, clock::now()),
    };
    match args.output.format() {
        Format::Json => ctx.console.print_json(&why)?,
        Format::Text => show(&why, ctx)?,
    }
    Ok(RunVerdict::Done)
}

fn show(why: &StateExplanation, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let head = StyledLine::new(Tone::Strong, why.target.to_string());
    ctx.console.print_line(&head.with(Tone::Plain, format!(" is {}", one_line(&why.words))))?;
    let since = why.since.map(|since| ("since", state_text::time_ago(since, clock::now())));
    let because = why.because.iter().map(|because| ("because", because.clone()));
    let wakes = [("wakes when", why.wakes_when.clone())];
    let facts: Vec<_> = since.into_iter().chain(because).chain(wakes).collect();
    ctx.console.print_facts(&facts)
}

fn explain_agent(agent: &AgentDetail, now: Millis) -> StateExplanation {
    let view = &agent.view;
    let mail = (view.waiting > 0).then(|| {
        let first = agent.inbox.iter().find(|mail| mail.wakes);
        let first =
            first.map(|mail| format!(", first #{} from {}", mail.message.seq, mail.message.from));
        let messages = pluralize(view.waiting as usize, "message");
        format!("{messages} waiting{}", first.unwrap_or_default())
    });
    let nothing = view.state == AgentState::Idle && agent.attempts.is_empty();
    let nothing = nothing.then(|| "no messages for it yet".to_owned());
    let last =
        agent.attempts.first().map(|last| format!("last turn {}", status::attempt_text(last, now)));
    StateExplanation {
        target: Target::agent(view.name.clone(), &view.instance),
        state: state_word(&view.state),
        words: state_text::agent_state_text(&view.state, now),
        because: mail.into_iter().chain(nothing).chain(last).collect(),
        since: agent.state_since,
        wakes_when: agent.wakes_when.clone(),
    }
}

fn explain_run(run: &RunView, now: Millis) -> StateExplanation {
    let target = Target::instance(&run.instance);
    let busy = run.agents.iter().filter(|agent| agent.state != AgentState::Idle);
    let busy = busy.map(|agent| {
        format!("{} is {}", agent.name, state_text::agent_state_text(&agent.state, now))
    });
    let undone = run.dead_letters.iter().chain(&run.dropped).map(|receipt| {
        let why = receipt.why.as_deref().unwrap_or("no reason given");
        format!("#{} for {} is {}: {why}", receipt.seq, receipt.agent, receipt.state)
    });
    let because: Vec<String> = match &run.state {
        RunState::Setup => vec!["its setup commands are running".to_owned()],
        RunState::Electing => vec!["its agents are electing the document owner".to_owned()],
        RunState::Running => busy.collect(),
        RunState::Paused { cause } => vec![cause.to_string()],
        RunState::Ended { outcome: Outcome::Done } => {
            vec!["every message was acted on".to_owned()]
        }
        RunState::Ended { outcome: Outcome::Stopped } => vec!["the run was stopped".to_owned()],
        RunState::Ended { outcome: Outcome::Failed } => {
            run.error.iter().map(|error| error.message.clone()).chain(undone).collect()
        }
    };
    let nobody = because.is_empty() && matches!(run.state, RunState::Running);
    let nobody = nobody.then(|| "no agent has work".to_owned());
    StateExplanation {
        state: state_word(&run.state),
        words: match run.state {
            RunState::Paused { .. } => "paused".to_owned(),
            _ => run.state.to_string(),
        },
        because: because.into_iter().chain(nobody).collect(),
        since: Some(run.state_since),
        wakes_when: run_change_condition(run, &target),
        target,
    }
}

/// Returns a state's word, as in every document.
fn state_word(state: &impl Serialize) -> String {
    let state = serde_json::to_value(state).unwrap_or_default();
    state["state"].as_str().unwrap_or_default().to_owned()
}

/// Returns the condition that would change the state of a run.
fn run_change_condition(run: &RunView, target: &Target) -> String {
    match (&run.state, run.mode) {
        (RunState::Setup, _) => "its setup is done".to_owned(),
        (RunState::Electing, _) => "the vote ends: agent-worker proposals".to_owned(),
        (RunState::Running, RunMode::Run) => {
            "the run is active; it ends when no agent has work left".to_owned()
        }
        (RunState::Running, RunMode::Start) => {
            format!("a message is sent: agent-worker send {target} \"…\"")
        }
        (RunState::Paused { .. }, _) if run.needs.is_empty() => {
            format!("the run is resumed: {}", run.needs.to_command(target))
        }
        (RunState::Paused { .. }, _) => {
            format!("its limit is raised: {}", run.needs.to_command(target))
        }
        (RunState::Ended { .. }, _) => {
            format!("the run is restarted: agent-worker restart {target}")
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{LimitKind, PauseCause, api::ResumeRequest};

    use super::*;
    use crate::output::samples;

    #[test]
    fn a_run_says_what_would_change_how_it_stands() {
        let ended = |outcome| RunState::Ended { outcome };
        for (state, mode, because, wakes) in [
            (RunState::Setup, RunMode::Run, "its setup commands are running", "its setup is done"),
            (
                RunState::Running,
                RunMode::Run,
                "no agent has work",
                "the run is active; it ends when no agent has work left",
            ),
            (
                RunState::Running,
                RunMode::Start,
                "no agent has work",
                "a message is sent: agent-worker send @review:pr-1 \"…\"",
            ),
            (
                RunState::Paused { cause: PauseCause::Interrupted },
                RunMode::Run,
                "interrupted",
                "the run is resumed: agent-worker resume @review:pr-1",
            ),
            (
                ended(Outcome::Done),
                RunMode::Run,
                "every message was acted on",
                "the run is restarted: agent-worker restart @review:pr-1",
            ),
        ] {
            let why = explain_run(&RunView { state, mode, ..samples::run() }, samples::at(90));
            assert_eq!((why.because, why.wakes_when), (vec![because.to_owned()], wakes.to_owned()));
        }
    }

    #[test]
    fn a_run_at_a_limit_says_what_to_type() {
        let cause = PauseCause::Limit { limit: LimitKind::Wall, detail: "2h".into() };
        let needs = ResumeRequest { wall: Some("4h".parse().unwrap()), ..Default::default() };
        let run = RunView { state: RunState::Paused { cause }, needs, ..samples::run() };
        let wakes = "its limit is raised: agent-worker resume @review:pr-1 --wall 4h";
        assert_eq!(explain_run(&run, samples::at(90)).wakes_when, wakes);
    }
}
