//! The conclusion of a run: closing lines for people, an envelope for programs. Pure.

use std::{collections::BTreeMap, time::Duration};

use agent_worker_protocol::{
    AgentName, AgentState, InstanceRef, Keyword as _, Receipt, RunId, RunState, Tag, Target, Usage,
    VerdictOutcome, WorkflowName,
    api::{
        AgentFailure, AgentStopped, AgentView, AnswerView, ReportError, RunErrorCode, RunReport,
        RunStopped, RunView, TeamVerdict, UnheardMention,
    },
};
use serde::Serialize;

use crate::{
    error::CliError,
    output::{
        closing_results::{reading_steps, result_lines},
        next_steps::{run_next_steps, wait_step},
        restart_method::RestartMethod,
        state_text,
        styled_line::{StyledLine, Tone},
        text::{self, one_line, pluralize},
        verdict::RunVerdict,
    },
};

/// A run that has ended or is paused, with its report.
#[derive(Debug)]
pub(crate) struct RunConclusion {
    /// The run as the daemon reports it.
    pub(crate) view: RunView,
    report: RunReport,
    /// Next steps for a person.
    steps: Vec<String>,
}

/// The one document that `run --json` prints; `error` is null exactly when `outcome` is `done`.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Envelope {
    /// The report of a run.
    Run(Box<RunReport>),
    /// The same keys for a run that did not start or whose state is unknown.
    Failure(Box<FailedRunReport>),
}

/// The figures of a run that a command followed, up to the loss of its daemon.
#[derive(Clone, Debug)]
pub(crate) struct ObservedRun {
    /// Instance of the run.
    pub(crate) instance: InstanceRef,
    /// Id of the run.
    pub(crate) run: RunId,
    /// Time since the start of the run.
    pub(crate) duration_ms: u64,
    /// Number of turns so far.
    pub(crate) turns: u32,
    /// Number of messages so far.
    pub(crate) messages: u32,
}

/// The report of a command without the final state of a run.
#[derive(Debug, Serialize)]
pub(crate) struct FailedRunReport {
    outcome: RunVerdict,
    workflow: Option<WorkflowName>,
    tag: Option<Tag>,
    run: Option<RunId>,
    duration_ms: u64,
    turns: u32,
    messages: u32,
    usage: Usage,
    dead_letters: [Receipt; 0],
    dropped: [Receipt; 0],
    unheard: [UnheardMention; 0],
    agents: BTreeMap<AgentName, AgentView>,
    answers: BTreeMap<AgentName, AnswerView>,
    error: Option<ReportError>,
}

impl RunConclusion {
    /// Returns the conclusion of a run that has ended or is paused; `None` while the run continues.
    pub(crate) fn from_view(view: RunView) -> Option<Self> {
        let mut report = RunReport::of(&view)?;
        let steps = advice(report.outcome, &view);
        if let Some(error) = &mut report.error {
            error.hint = Some(steps.join("; ")).filter(|steps| !steps.is_empty());
        }
        Some(Self { view, report, steps })
    }

    /// Returns the verdict on the run.
    pub(crate) fn verdict(&self) -> RunVerdict {
        self.report.outcome
    }

    /// Returns the report of the run.
    pub(crate) fn report(&self) -> &RunReport {
        &self.report
    }

    /// Returns the envelope for programs.
    pub(crate) fn envelope(&self) -> Envelope {
        Envelope::Run(Box::new(self.report.clone()))
    }

    /// Returns the lines for people: the outcome and its figures, then the last failure of each agent, then every
    /// undelivered message and every unheard mention, then the results, each answer cut to `columns`, then the next steps.
    pub(crate) fn closing_lines(&self, columns: usize) -> Vec<StyledLine> {
        let view = &self.view;
        let mut summary = vec![
            format!(" {}", text::format_elapsed(Duration::from_millis(self.report.duration_ms))),
            pluralize(view.turns as usize, "turn"),
            pluralize(view.messages as usize, "message"),
        ];
        let undone = [(&view.dead_letters, "dead letter"), (&view.dropped, "dropped message")];
        summary.extend(
            undone
                .iter()
                .filter(|(receipts, _)| !receipts.is_empty())
                .map(|(receipts, noun)| pluralize(receipts.len(), noun)),
        );
        if !view.unheard.is_empty() {
            summary.push(pluralize(view.unheard.len(), "mention") + " unheard");
        }
        summary.extend(state_text::cost_text(&view.usage).map(
            |cost| match view.usage.cost_micros {
                Some(_) => cost,
                None => format!("cost {cost}"),
            },
        ));
        let (tone, words) = self.headline();
        let head = StyledLine::new(tone, words);
        let mut lines = vec![head.with(Tone::Plain, summary.join(" · "))];
        lines.extend(view.verdict.as_ref().map(verdict_line));
        if let Some(error) = &self.report.error
            && !is_verdict(view)
            && (view.error.is_some() || matches!(view.state, RunState::Paused { .. }))
        {
            lines.push(StyledLine::plain(format!("  {}", one_line(&error.message))));
        }
        lines.extend(view.unlisted_failures().map(failure_line));
        lines.extend(view.dead_letters.iter().chain(&view.dropped).map(undelivered_line));
        lines.extend(view.unheard.iter().map(unheard_line));
        if !view.state.is_live() {
            lines.extend(result_lines(view, columns));
        }
        let reading = match self.report.outcome {
            RunVerdict::Done if !view.memory => reading_steps(view),
            _ => Vec::new(),
        };
        let steps = self.steps.iter().chain(&reading);
        lines.extend(steps.map(|step| StyledLine::new(Tone::Dim, format!("hint: {step}"))));
        lines
    }

    fn headline(&self) -> (Tone, &'static str) {
        match self.report.outcome {
            RunVerdict::Done => (Tone::Good, "done in"),
            RunVerdict::Failed => (Tone::Bad, "failed after"),
            RunVerdict::Invalid => (Tone::Bad, "invalid: given up after"),
            RunVerdict::Limit => (Tone::Warn, "paused at a limit after"),
            RunVerdict::Human => (Tone::Warn, "paused for a person after"),
            RunVerdict::Interrupted => (Tone::Warn, "interrupted after"),
            RunVerdict::Stopped => (Tone::Warn, "stopped after"),
        }
    }
}

/// Returns the next steps for a person, if any are left.
fn advice(verdict: RunVerdict, view: &RunView) -> Vec<String> {
    let target = Target::instance(&view.instance);
    match verdict {
        RunVerdict::Done | RunVerdict::Stopped => Vec::new(),
        RunVerdict::Failed
            if view.unrecovered_failures().next().is_none()
                && !view.dead_letters.is_empty()
                && !view.memory =>
        {
            let read = format!("read what happened: agent-worker peek {target}");
            vec![read, RestartMethod::of(view).after_fix()]
        }
        RunVerdict::Failed => run_next_steps(view, &[]),
        RunVerdict::Invalid => vec![RestartMethod::of(view).after_fix()],
        RunVerdict::Human => {
            let mut steps = run_next_steps(view, &[]);
            steps.push(if view.agents.iter().any(is_waiting_for_approval) {
                format!("show the open requests: agent-worker pending --target {target}")
            } else {
                format!("list the open questions: agent-worker answer --target {target}")
            });
            steps.push(format!("end the run: agent-worker stop {target}"));
            steps
        }
        RunVerdict::Limit | RunVerdict::Interrupted => {
            let typed = view.needs.to_command(&target);
            let mut steps: Vec<_> = wait_step(&view.state).into_iter().collect();
            steps.push(format!(
                "continue the run with `{typed}`, or end it with `agent-worker stop {target}`"
            ));
            steps
        }
    }
}

/// Returns true if the team's own verdict made the run fail.
fn is_verdict(view: &RunView) -> bool {
    view.error.as_ref().is_some_and(|error| error.code == RunErrorCode::Verdict)
}

fn verdict_line(verdict: &TeamVerdict) -> StyledLine {
    let tone = match verdict.outcome {
        VerdictOutcome::Done => Tone::Good,
        VerdictOutcome::Failed => Tone::Bad,
    };
    StyledLine::plain(format!("  verdict of {}: ", verdict.by))
        .with(tone, verdict.outcome.word())
        .with(Tone::Plain, format!(": {}", one_line(&verdict.summary)))
}

fn is_waiting_for_approval(agent: &AgentView) -> bool {
    matches!(&agent.state, AgentState::Waiting { approvals, .. } if !approvals.is_empty())
}

impl Envelope {
    /// Builds the envelope for a run that did not start or whose final state is unknown.
    pub(crate) fn from_error(error: &CliError) -> Self {
        let seen = error.observed_run();
        Self::Failure(Box::new(FailedRunReport {
            outcome: error.verdict(),
            workflow: seen.map(|seen| seen.instance.name.clone()),
            tag: seen.map(|seen| seen.instance.tag.clone()),
            run: seen.map(|seen| seen.run),
            duration_ms: seen.map_or(0, |seen| seen.duration_ms),
            turns: seen.map_or(0, |seen| seen.turns),
            messages: seen.map_or(0, |seen| seen.messages),
            usage: Usage::default(),
            dead_letters: [],
            dropped: [],
            unheard: [],
            agents: BTreeMap::new(),
            answers: BTreeMap::new(),
            error: Some(error.to_report_error()),
        }))
    }
}

/// Describes the attempts that stopping a run ended.
pub(crate) fn run_stopped_line(stopped: &RunStopped) -> StyledLine {
    let who = stopped.attempts.iter().map(AgentName::as_str).collect::<Vec<_>>().join(", ");
    let ended = match stopped.attempts.as_slice() {
        [] => "no agent was working".to_owned(),
        _ => format!("ended {who} ({})", process_count_text(stopped.processes)),
    };
    let target = Target::instance(&stopped.instance);
    StyledLine::new(Tone::Strong, format!("stopped {target}"))
        .with(Tone::Plain, format!(": {ended}"))
}

/// Describes the processes that stopping an agent ended.
pub(crate) fn agent_stopped_line(stopped: &AgentStopped) -> StyledLine {
    let who = Target::agent(stopped.agent.clone(), &stopped.instance);
    let ended = match stopped.processes {
        0 => "no process was running".to_owned(),
        number => format!("ended {}", process_count_text(number)),
    };
    StyledLine::new(Tone::Strong, format!("stopped {who}")).with(Tone::Plain, format!(": {ended}"))
}

fn process_count_text(number: u32) -> String {
    if number == 1 { "1 process".to_owned() } else { format!("{number} processes") }
}

fn failure_line(failed: &AgentFailure) -> StyledLine {
    let AgentFailure { agent, failure } = failed;
    StyledLine::plain(format!("  {agent} "))
        .with(Tone::Bad, format!("failed ({})", failure.class))
        .with(Tone::Plain, format!(": {}", one_line(&failure.message)))
}

fn undelivered_line(receipt: &Receipt) -> StyledLine {
    let why = receipt.why.as_deref().unwrap_or("no reason given");
    let after = match receipt.failures {
        0 => String::new(),
        failures => format!(" after {}", pluralize(failures as usize, "failure")),
    };
    StyledLine::plain(format!("  #{} for {} is ", receipt.seq, receipt.agent))
        .with(Tone::Bad, receipt.state.word())
        .with(Tone::Plain, format!("{after}: {}", one_line(why)))
}

fn unheard_line(mention: &UnheardMention) -> StyledLine {
    StyledLine::plain(format!("  {}", state_text::unheard_text(mention)))
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{
        DeliveryState, FailureClass, LimitKind, Outcome, PauseCause,
        api::{ResumeRequest, RunError},
    };

    use super::*;
    use crate::output::{samples, styled_line::Colour};

    fn report(view: RunView) -> RunConclusion {
        RunConclusion::from_view(view).unwrap()
    }

    fn shown(view: RunView) -> String {
        report(view).closing_lines(79).iter().map(|line| line.paint(Colour::Off) + "\n").collect()
    }

    fn failed() -> RunView {
        RunView { state: RunState::Ended { outcome: Outcome::Failed }, ..samples::run() }
    }

    #[test]
    fn a_run_that_is_done_closes_with_its_figures_and_the_next_command() {
        insta::assert_snapshot!(shown(samples::run()), @r"
        done in 1m 23s · 4 turns · 9 messages
        hint: read the whole channel: agent-worker peek @review:pr-1
        ");
    }

    #[test]
    fn the_cost_of_a_run_is_reported_as_precisely_as_it_is_known() {
        for (cost_micros, cost_reckoned, expected) in [
            (Some(120_000), false, "done in 1m 23s · 4 turns · 9 messages · $0.12"),
            (Some(120_000), true, "done in 1m 23s · 4 turns · 9 messages · ~$0.12"),
            (None, false, "done in 1m 23s · 4 turns · 9 messages · cost unknown"),
        ] {
            let usage = Usage { input_tokens: 1, output_tokens: 1, cost_micros, cost_reckoned };
            let lines = shown(RunView { usage, ..samples::run() });
            assert_eq!(lines.lines().next(), Some(expected));
        }
    }

    #[test]
    fn dead_letters_are_listed_with_what_to_do() {
        let dead = Receipt {
            failures: 3,
            why: Some("failed (crash): the worker is\ngone".into()),
            ..samples::receipt(7, "coder", DeliveryState::Dead)
        };
        let dropped = Receipt {
            why: Some("the run ended".into()),
            ..samples::receipt(8, "reviewer", DeliveryState::Dropped)
        };
        let view = RunView { dead_letters: vec![dead], dropped: vec![dropped], ..failed() };
        insta::assert_snapshot!(shown(view), @r"
        failed after 1m 23s · 4 turns · 9 messages · 1 dead letter · 1 dropped message
          #7 for coder is dead after 3 failures: failed (crash): the worker is gone
          #8 for reviewer is dropped: the run ended
        hint: read what happened: agent-worker peek @review:pr-1
        hint: fix the cause and restart: agent-worker restart @review:pr-1
        ");
    }

    #[test]
    fn the_failure_that_stopped_an_agent_is_listed_with_the_next_step() {
        let dropped = Receipt {
            why: Some("1 message for a stopped agent".into()),
            ..samples::receipt(8, "coder", DeliveryState::Dropped)
        };
        let refused = samples::failure("coder", FailureClass::Auth);
        let mut view = RunView { dropped: vec![dropped], last_failures: vec![refused], ..failed() };
        view.agents[0].backend = "claude".into();
        let envelope = serde_json::to_value(report(view.clone()).envelope()).unwrap();
        let step = "set ANTHROPIC_API_KEY to a valid key or log in to `claude`, then: agent-worker restart @review:pr-1";
        assert_eq!(envelope["error"]["hint"], step);
        insta::assert_snapshot!(shown(view), @r"
        failed after 1m 23s · 4 turns · 9 messages · 1 dropped message
          coder failed (auth): 401 bad key
          #8 for coder is dropped: 1 message for a stopped agent
        hint: set ANTHROPIC_API_KEY to a valid key or log in to `claude`, then: agent-worker restart @review:pr-1
        ");
    }

    #[test]
    fn unheard_mentions_are_listed_although_the_run_is_done() {
        let cause = Some("a gate is closed".to_owned());
        let withheld = UnheardMention { cause, ..samples::unheard(14, "coder", "lead") };
        let unheard = vec![samples::unheard(12, "coder", "reviewer"), withheld];
        insta::assert_snapshot!(shown(RunView { unheard, ..samples::run() }), @r"
        done in 1m 23s · 4 turns · 9 messages · 2 mentions unheard
          #12 of coder mentions reviewer, who was not messaged
          #14 of coder mentions lead, who was not messaged: a gate is closed
        hint: read the whole channel: agent-worker peek @review:pr-1
        ");
    }

    #[test]
    fn a_run_that_is_forgotten_is_not_to_be_read_or_restarted() {
        let dead = samples::receipt(7, "coder", DeliveryState::Dead);
        let view = RunView { dead_letters: vec![dead], memory: true, ..failed() };
        insta::assert_snapshot!(shown(view), @r"
        failed after 1m 23s · 4 turns · 9 messages · 1 dead letter
          #7 for coder is dead: no reason given
        hint: fix the cause and run the same command again
        ");
    }

    #[test]
    fn a_run_that_waits_says_why_and_how_to_end_it() {
        let cause = PauseCause::limit(LimitKind::Hops, "51 of 50".to_owned());
        let (state, needs) =
            (RunState::Paused { cause }, ResumeRequest { hops: Some(100), ..Default::default() });
        let view = RunView { state, needs, ended: None, lasted_ms: 90_000, ..samples::run() };
        insta::assert_snapshot!(shown(view), @r"
        paused at a limit after 1m 30s · 4 turns · 9 messages
          paused: hop limit (51 of 50)
        hint: continue the run with `agent-worker resume @review:pr-1 --hops 100`, or end it with `agent-worker stop @review:pr-1`
        ");
    }

    #[test]
    fn a_setup_that_failed_is_the_reason() {
        let message = "`gh pr diff` exited with 1".to_owned();
        let error = Some(RunError { code: RunErrorCode::SetupFailed, message });
        insta::assert_snapshot!(shown(RunView { error, ..failed() }), @r"
        failed after 1m 23s · 4 turns · 9 messages
          `gh pr diff` exited with 1
        hint: fix the cause and restart: agent-worker restart @review:pr-1
        ");
    }

    #[test]
    fn the_verdict_of_the_team_is_shown_once() {
        let verdict = |outcome, summary: &str| {
            Some(TeamVerdict { outcome, summary: summary.into(), by: samples::agent_name("coder") })
        };
        let done = verdict(VerdictOutcome::Done, "all tests\npass");
        insta::assert_snapshot!(shown(RunView { verdict: done, ..samples::run() }), @r"
        done in 1m 23s · 4 turns · 9 messages
          verdict of coder: done: all tests pass
        hint: read the whole channel: agent-worker peek @review:pr-1
        ");
        let verdict = verdict(VerdictOutcome::Failed, "two tests fail");
        let error =
            Some(RunError { code: RunErrorCode::Verdict, message: "two tests fail".into() });
        insta::assert_snapshot!(shown(RunView { verdict, error, ..failed() }), @r"
        failed after 1m 23s · 4 turns · 9 messages
          verdict of coder: failed: two tests fail
        hint: fix the cause and restart: agent-worker restart @review:pr-1
        ");
    }

    #[test]
    fn a_run_that_woke_no_agent_has_the_word_of_its_exit_code() {
        let message = "the kickoff mentions no agent, so none is woken".to_owned();
        let error = Some(RunError { code: RunErrorCode::NobodyWoken, message });
        let view = RunView { error, turns: 0, messages: 0, lasted_ms: 0, ..failed() };
        assert_eq!(
            serde_json::to_value(report(view.clone()).envelope()).unwrap()["outcome"],
            "invalid"
        );
        insta::assert_snapshot!(shown(view), @r"
        invalid: given up after 0ms · 0 turns · 0 messages
          the kickoff mentions no agent, so none is woken
        hint: fix the cause and restart: agent-worker restart @review:pr-1
        ");
    }

    #[test]
    fn the_envelope_of_a_done_run_has_every_field_and_no_error() {
        let envelope = serde_json::to_value(report(samples::run()).envelope()).unwrap();
        let unused = serde_json::json!({"input_tokens": 0, "output_tokens": 0});
        let part = serde_json::json!({"turns": 2, "messages": 3, "usage": unused, "state": "idle"});
        let expected = serde_json::json!({
            "outcome": "done", "workflow": "review", "tag": "pr-1", "run": samples::RUN,
            "duration_ms": 83_000, "turns": 4, "messages": 9, "usage": unused, "dead_letters": [], "dropped": [],
            "unheard": [], "answers": {},
            "agents": {"coder": part, "reviewer": part}, "error": null,
        });
        assert_eq!(envelope, expected);
    }

    #[test]
    fn the_envelope_of_anything_else_says_why() {
        let dropped = samples::receipt(8, "coder", DeliveryState::Dropped);
        for (view, code) in [
            (failed(), "failed"),
            (RunView { dropped: vec![dropped], ..failed() }, "dropped"),
            (
                RunView {
                    dead_letters: vec![samples::receipt(1, "coder", DeliveryState::Dead)],
                    ..failed()
                },
                "dead_letters",
            ),
            (
                RunView { state: RunState::Ended { outcome: Outcome::Stopped }, ..samples::run() },
                "stopped",
            ),
            (
                RunView { state: RunState::Paused { cause: PauseCause::Human }, ..samples::run() },
                "human",
            ),
        ] {
            assert_eq!(report(view).report.error.unwrap().code, code);
        }
    }
}
