//! `agent-worker why`: explains the state of an agent or a run, and the condition that would change it.

use agent_worker_protocol::{
    AgentState, LimitKind, Millis, Outcome, PauseCause, RunMode, RunState, Target,
    api::{AgentDetail, AgentView, QuestionView, RunView},
};
use serde::Serialize;

use super::status;
use crate::{
    client::{
        daemon_client::{CommandScope, DaemonClient, ScopeReach},
        discovery::HELD_TEXT,
    },
    error::CliError,
    input::{
        context::{CommandContext, Format, OutputArgs},
        resolve_run,
        target_args::{TargetArgs, TargetEffect},
    },
    output::{
        clock,
        failure_text::failure_text,
        next_steps::{agent_next_steps, run_next_steps},
        restart_method::RestartMethod,
        state_text,
        styled_line::{StyledLine, Tone},
        text::{one_line, pluralize},
        verdict::RunVerdict,
    },
};

/// Explain the state of an agent or a run
///
/// The command prints the state, its cause and its start, the condition that would wake the agent or continue the run,
/// the last failure, and the next step for you.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: agent-worker why coder@review:pr-123")]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
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
    /// Step for a person after failures that are not recovered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    next_steps: Vec<String>,
}

/// Runs the command.
pub(crate) async fn run(args: Args, ctx: &mut CommandContext<'_>) -> Result<RunVerdict, CliError> {
    let Some(client) = ctx.connect_if_history().await? else {
        return Err(CommandContext::no_history_error());
    };
    let target = args.target.or_selected(TargetEffect::Read, ctx)?;
    let scope = ctx.scope(target, ScopeReach::CurrentProject);
    let format = args.output.format();
    let why = if let Some(target) = scope.target.clone().filter(|target| target.agent.is_some()) {
        let scope = resolve_run::readable_scope(&client, &scope, format, ctx).await?;
        let agent = client.agent(scope.target.as_ref().unwrap_or(&target), &scope).await?;
        let run = client.run(agent.run).await?;
        let questions = open_questions(&client, &run).await?;
        explain_agent(&agent, agent_next_steps(&agent.view, &run, &questions), clock::now())
    } else {
        let run = resolve_run::resolve_run(&client, &scope, format, ctx).await?;
        let questions = open_questions(&client, &run).await?;
        explain_run(&run, run_next_steps(&run, &questions), clock::now())
    };
    match format {
        Format::Json => ctx.console.print_json(&why)?,
        Format::Text => show(&why, ctx)?,
    }
    Ok(RunVerdict::Done)
}

/// Returns the open questions of a run; the state of an agent has at most their numbers.
pub(super) async fn open_questions(
    client: &DaemonClient,
    run: &RunView,
) -> Result<Vec<QuestionView>, CliError> {
    if run.pending == 0 {
        return Ok(Vec::new());
    }
    Ok(client.questions(&CommandScope::for_instance(&run.instance, run.project.clone())).await?)
}

fn show(why: &StateExplanation, ctx: &mut CommandContext<'_>) -> Result<(), CliError> {
    let head = StyledLine::new(Tone::Strong, why.target.to_string());
    let state = state_text::state_sentence(&one_line(&why.words));
    ctx.console.print_line(&head.with(Tone::Plain, format!(" {state}")))?;
    let since = why.since.map(|since| ("since", state_text::time_ago(since, clock::now())));
    let because = why.because.iter().map(|because| ("because", because.clone()));
    let wakes = [("wakes when", why.wakes_when.clone())];
    let steps = why.next_steps.iter().map(|step| ("next step", step.clone()));
    let facts: Vec<_> = since.into_iter().chain(because).chain(wakes).chain(steps).collect();
    ctx.console.print_facts(&facts)
}

fn explain_agent(agent: &AgentDetail, next_steps: Vec<String>, now: Millis) -> StateExplanation {
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
    let last_attempt = agent.attempts.first().map(|last| last.attempt);
    let failed = view.last_failure.as_ref();
    let failed = failed.filter(|failure| Some(failure.attempt) != last_attempt);
    let failed = failed.map(|failure| format!("last failure {}", failure_text(failure, now)));
    StateExplanation {
        target: Target::agent(view.name.clone(), &view.instance),
        state: state_word(&view.state),
        words: state_text::agent_state_text(&view.state, now),
        because: mail.into_iter().chain(nothing).chain(last).chain(failed).collect(),
        since: agent.state_since,
        wakes_when: agent.wakes_when.clone(),
        next_steps,
    }
}

fn explain_run(run: &RunView, next_steps: Vec<String>, now: Millis) -> StateExplanation {
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
        RunState::Paused { cause } => {
            let grace = state_text::grace_text(run, now);
            let grace = grace.map(|grace| format!("its live turns {grace}"));
            [cause.to_string()].into_iter().chain(grace).collect()
        }
        RunState::Ended { outcome: Outcome::Done } => vec!["every message was acted on".to_owned()],
        RunState::Ended { outcome: Outcome::Stopped } => vec!["the run was stopped".to_owned()],
        RunState::Ended { outcome: Outcome::Failed } => {
            let error = run.error.iter().map(|error| state_text::run_error_text(run, error));
            error.chain(undone).collect()
        }
    };
    let nobody = because.is_empty() && matches!(run.state, RunState::Running);
    let nobody = nobody.then(|| "no agent has work".to_owned());
    let failed = run.unlisted_failures().map(ToString::to_string);
    let is_timed = match &run.state {
        RunState::Running => true,
        RunState::Paused { cause } => {
            matches!(cause, PauseCause::Limit { limit: LimitKind::Wall, .. })
        }
        RunState::Setup | RunState::Electing | RunState::Ended { .. } => false,
    };
    let wall = state_text::wall_text(run).filter(|_| is_timed);
    let held = run.held.then(|| HELD_TEXT.to_owned());
    let unheard = run.unheard.iter().map(state_text::unheard_text);
    let because = held.into_iter().chain(because).chain(nobody).chain(failed).chain(unheard);
    StateExplanation {
        state: state_word(&run.state),
        words: match run.state {
            RunState::Paused { .. } => "paused".to_owned(),
            _ => run.state.to_string(),
        },
        because: because.chain(wall).collect(),
        since: Some(run.state_since),
        wakes_when: run_change_condition(run, &target, now),
        next_steps,
        target,
    }
}

/// Returns a state's word, as in every document.
fn state_word(state: &impl Serialize) -> String {
    let state = serde_json::to_value(state).unwrap_or_default();
    state["state"].as_str().unwrap_or_default().to_owned()
}

/// Returns the condition that would change the state of a run.
fn run_change_condition(run: &RunView, target: &Target, now: Millis) -> String {
    match (&run.state, run.mode) {
        _ if run.held => "the hold ends: agent-worker daemon start".to_owned(),
        (RunState::Setup, _) => "its setup is done".to_owned(),
        (RunState::Electing, _) => "the vote ends: agent-worker proposals".to_owned(),
        (RunState::Running, RunMode::Run) => {
            "the run is active; it ends when no agent has work left".to_owned()
        }
        (RunState::Running, RunMode::Start) => match first_of_stopped_agents(run) {
            Some(agent) => format!("an agent is resumed: agent-worker resume {agent}"),
            None => format!("a message is sent: agent-worker send {target} \"…\""),
        },
        (RunState::Paused { cause: PauseCause::Human }, _) => {
            "a person answers; the next step names the command".to_owned()
        }
        (RunState::Paused { .. }, _) if run.needs.is_empty() => {
            format!("the run is resumed: {}", run.needs.to_command(target))
        }
        (RunState::Paused { cause }, _) => {
            let room_at = cause
                .room_at()
                .map(|at| format!("it is {}, or ", clock::format_local_time(at, now)));
            let raised = run.needs.to_command(target);
            format!("{}its limit is raised: {raised}", room_at.unwrap_or_default())
        }
        (RunState::Ended { .. }, _) => RestartMethod::of(run).condition(),
    }
}

/// Returns the first agent of a run in which every agent is stopped, so that no message wakes one.
fn first_of_stopped_agents(run: &RunView) -> Option<Target> {
    let is_stopped = |agent: &AgentView| matches!(agent.state, AgentState::Stopped { .. });
    let first = run.agents.first().filter(|_| run.agents.iter().all(is_stopped))?;
    Some(Target::agent(first.name.clone(), &run.instance))
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{Limits, api::ResumeRequest};

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
            let why = explain_run(
                &RunView { state, mode, ..samples::run() },
                Vec::new(),
                samples::at(90),
            );
            assert_eq!((why.because, why.wakes_when), (vec![because.to_owned()], wakes.to_owned()));
        }
    }

    #[test]
    fn a_live_run_names_its_hold_its_stopped_agents_and_its_unheard_mentions() {
        let running = RunView { state: RunState::Running, mode: RunMode::Start, ..samples::run() };
        let explain = |run: &RunView| explain_run(run, Vec::new(), samples::at(90));
        let held = explain(&RunView { held: true, ..running.clone() });
        assert_eq!(held.because[0], HELD_TEXT);
        assert_eq!(held.wakes_when, "the hold ends: agent-worker daemon start");
        let unheard = vec![samples::unheard(12, "coder", "reviewer")];
        let because = explain(&RunView { unheard, ..running.clone() }).because;
        assert!(because.contains(&"#12 of coder mentions reviewer, who was not messaged".into()));
        let mut stopped = running;
        stopped.agents[0].state = AgentState::Stopped { why: "auth: 401".into() };
        let message = "a message is sent: agent-worker send @review:pr-1 \"…\"";
        assert_eq!(explain(&stopped).wakes_when, message);
        stopped.agents.truncate(1);
        let resume = "an agent is resumed: agent-worker resume coder@review:pr-1";
        assert_eq!(explain(&stopped).wakes_when, resume);
    }

    #[test]
    fn a_run_at_a_limit_of_the_last_day_says_when_it_continues() {
        let (limit, detail) = (LimitKind::Tokens, "9 of 9".to_owned());
        let (room_at, next_call) = (Some(samples::at(100_000)), None);
        let cause = PauseCause::Limit { limit, detail, room_at, next_call };
        let needs = ResumeRequest { tokens: Some(18), ..Default::default() };
        let run = RunView { state: RunState::Paused { cause }, needs, ..samples::run() };
        let at = clock::format_local_time(samples::at(100_000), samples::at(90));
        let wakes = format!(
            "it is {at}, or its limit is raised: agent-worker resume @review:pr-1 --tokens 18"
        );
        assert_eq!(explain_run(&run, Vec::new(), samples::at(90)).wakes_when, wakes);
    }

    #[test]
    fn a_run_at_a_limit_says_what_to_type() {
        let cause = PauseCause::limit(LimitKind::Wall, "2h".to_owned());
        let needs = ResumeRequest { wall: Some("4h".parse().unwrap()), ..Default::default() };
        let run = RunView { state: RunState::Paused { cause }, needs, ..samples::run() };
        let wakes = "its limit is raised: agent-worker resume @review:pr-1 --wall 4h";
        assert_eq!(explain_run(&run, Vec::new(), samples::at(90)).wakes_when, wakes);
        let limits = Limits { wall: Some("2h".parse().unwrap()), ..run.limits };
        let grace_ends = Some(samples::at(100));
        let run = RunView { limits, wall_used_ms: 7_200_000, grace_ends, ..run };
        let until = clock::format_local_time(samples::at(100), samples::at(90));
        let expected = [
            "wall limit (2h)".to_owned(),
            format!("its live turns may finish until {until}"),
            "2h 0m of 2h wall time used".to_owned(),
        ];
        assert_eq!(explain_run(&run, Vec::new(), samples::at(90)).because, expected);
    }
}
