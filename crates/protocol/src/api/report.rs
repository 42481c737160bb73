//! Result of a run as one document: the reply of `POST /serve`, with the keys of `run --json`. Pure.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    AgentView, AnswerView, LastFailure, RunErrorCode, RunView, TeamVerdict, UnheardMention,
};
use crate::{
    id::RunId,
    message::{Receipt, Usage},
    name::{AgentName, Tag, WorkflowName},
    problem_details::ProblemDetails,
    state::{AgentState, Outcome, PauseCause, RunState},
};

/// Report of a run that is over or waits. `error` is null exactly if `outcome` is `done`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunReport {
    /// Result of the run, or the reason for which it waits.
    pub outcome: RunVerdict,
    pub workflow: WorkflowName,
    pub tag: Tag,
    pub run: RunId,
    /// Duration of the run until its end or until now.
    pub duration_ms: u64,
    /// Number of attempts that ended ok or failed.
    pub turns: u32,
    /// Number of messages written in the run.
    pub messages: u32,
    /// Usage of the run with its cost.
    pub usage: Usage,
    /// Deliveries whose attempts are used up.
    pub dead_letters: Vec<Receipt>,
    /// Deliveries that were given up.
    pub dropped: Vec<Receipt>,
    /// Mentions in answers whose agent was not messaged: the newest hundred, oldest first.
    #[serde(default)]
    pub unheard: Vec<UnheardMention>,
    /// Part of each agent in the run.
    pub agents: BTreeMap<AgentName, AgentReport>,
    /// Newest answer of each agent.
    #[serde(default)]
    pub answers: BTreeMap<AgentName, AnswerView>,
    /// File of the team's default document, if the document exists and is kept in a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<PathBuf>,
    /// Verdict of the team about the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<TeamVerdict>,
    /// Reason for any outcome other than `done`.
    pub error: Option<ReportError>,
}

/// Part of one agent in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AgentPart")]
pub struct AgentReport {
    /// Number of turns of the agent.
    pub turns: u32,
    /// Number of messages of the agent.
    pub messages: u32,
    /// Usage of the agent with its cost.
    pub usage: Usage,
    /// Current state of the agent.
    #[serde(flatten)]
    pub state: AgentState,
    /// Last failure of the agent in the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
}

/// Reason for which a run is not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportError {
    /// Stable identifier of the reason.
    pub code: String,
    /// Explanation of the reason.
    pub message: String,
    /// Suggestion for the next step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The facts behind the message, where the daemon refused.
    #[serde(
        default,
        deserialize_with = "crate::problem::known_details",
        skip_serializing_if = "Option::is_none"
    )]
    pub details: Option<Box<ProblemDetails>>,
}

/// Result of a run as a word and an exit code; other commands use the first three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Verdict")]
pub enum RunVerdict {
    /// The agents acted on every message.
    Done,
    /// Some messages were not acted upon, or the setup failed.
    Failed,
    /// The file or the request is invalid, or the file wakes no agent.
    Invalid,
    /// The run waits at a limit.
    Limit,
    /// The run waits for a person.
    Human,
    /// The run was interrupted, or a person paused it.
    Interrupted,
    /// A person stopped the run.
    Stopped,
}

impl RunVerdict {
    /// Returns the result of a run; none while it continues.
    pub fn of(view: &RunView) -> Option<Self> {
        let invalid = view.error.as_ref().is_some_and(|error| match error.code {
            RunErrorCode::NobodyWoken | RunErrorCode::BadFile => true,
            RunErrorCode::SetupFailed | RunErrorCode::Verdict | RunErrorCode::TaskFailed => false,
        });
        match &view.state {
            RunState::Setup | RunState::Electing | RunState::Running => None,
            RunState::Paused { cause } => Some(match cause {
                PauseCause::Limit { .. } => Self::Limit,
                PauseCause::Human => Self::Human,
                PauseCause::Interrupted | PauseCause::User => Self::Interrupted,
            }),
            RunState::Ended { outcome } => Some(match outcome {
                Outcome::Done => Self::Done,
                Outcome::Failed if invalid => Self::Invalid,
                Outcome::Failed => Self::Failed,
                Outcome::Stopped => Self::Stopped,
            }),
        }
    }

    /// Returns the word that `--json` prints.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Invalid => "invalid",
            Self::Limit => "limit",
            Self::Human => "human",
            Self::Interrupted => "interrupted",
            Self::Stopped => "stopped",
        }
    }

    /// Returns the exit code of a command.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Invalid => 2,
            Self::Limit => 3,
            Self::Human => 4,
            Self::Interrupted => 5,
            Self::Stopped => 130,
        }
    }
}

impl RunReport {
    /// Returns the report of a run that has ended or is at rest; none while it continues.
    pub fn of(view: &RunView) -> Option<Self> {
        let outcome = RunVerdict::of(view)?;
        let part = |agent: &AgentView| {
            let state = agent.state.clone();
            let AgentView { turns, messages, usage, .. } = *agent;
            let last_failure = agent.last_failure.clone();
            let part = AgentReport { turns, messages, usage, state, last_failure };
            (agent.name.clone(), part)
        };
        Some(Self {
            outcome,
            workflow: view.instance.name.clone(),
            tag: view.instance.tag.clone(),
            run: view.run,
            duration_ms: view.lasted_ms,
            turns: view.turns,
            messages: view.messages,
            usage: view.usage,
            dead_letters: view.dead_letters.clone(),
            dropped: view.dropped.clone(),
            unheard: view.unheard.clone(),
            agents: view.agents.iter().map(part).collect(),
            answers: view.answers.clone(),
            document: view.document.clone(),
            verdict: view.verdict.clone(),
            error: report_error(outcome, view),
        })
    }
}

fn report_error(outcome: RunVerdict, view: &RunView) -> Option<ReportError> {
    let (code, message) = match (outcome, &view.error) {
        (RunVerdict::Done, _) => return None,
        (_, Some(error)) => {
            let code = serde_json::to_value(error.code).unwrap_or_default();
            (code.as_str().unwrap_or_default().to_owned(), error.message.clone())
        }
        (RunVerdict::Failed | RunVerdict::Invalid, None) => unacted_messages(view),
        (
            RunVerdict::Limit | RunVerdict::Human | RunVerdict::Interrupted | RunVerdict::Stopped,
            None,
        ) => (outcome.word().to_owned(), view.state.to_string()),
    };
    Some(ReportError { code, message, hint: None, details: None })
}

/// Returns the error code and message for messages that were not acted upon.
fn unacted_messages(view: &RunView) -> (String, String) {
    let (code, receipts) = match view.dead_letters.as_slice() {
        [] => ("dropped", view.dropped.as_slice()),
        dead => ("dead_letters", dead),
    };
    let failures = view.unlisted_failures().map(|failed| format!("; {failed}"));
    let failures: String = failures.collect();
    let Some(first) = receipts.first() else {
        return ("failed".to_owned(), format!("the run failed{failures}"));
    };
    let why = first.why.as_deref().unwrap_or("no reason given");
    let messages = if receipts.len() == 1 { "message" } else { "messages" };
    let message = format!(
        "{} {messages} not acted upon, first #{} for {}: {why}{failures}",
        receipts.len(),
        first.seq,
        first.agent
    );
    (code.to_owned(), message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn report(state: Value, more: Value) -> Option<Value> {
        let mut view = json!({
            "run": "01890a5d-ac96-774b-bcce-b302099a8057", "instance": "review:pr-1", "project": "/p", "cwd": "/p",
            "limits": {"hops": 50}, "mode": "run", "started": "2026-01-01T00:00:00.000Z", "lasted_ms": 5000,
            "state_since": "2026-01-01T00:00:00.000Z",
            "turns": 4, "messages": 9, "usage": {"input_tokens": 0, "output_tokens": 0},
            "dead_letters": [], "dropped": [], "agents": [],
        });
        for part in [state, more] {
            view.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
        }
        let view: RunView = serde_json::from_value(view).unwrap();
        let report = RunReport::of(&view);
        report.map(|report| serde_json::to_value(report).unwrap())
    }

    #[test]
    fn what_a_run_came_to_is_one_word_and_a_reason_unless_it_is_done() {
        let ended = |outcome| json!({"state": "ended", "outcome": outcome});
        let paused = |cause| json!({"state": "paused", "cause": cause});
        let error = |code| json!({"error": {"code": code, "message": "as it was"}});
        let limit = json!({"cause": "limit", "limit": "hops", "detail": "51 of 50"});
        let nothing = || json!({});
        for (state, more, expected) in [
            (json!({"state": "setup"}), nothing(), None),
            (json!({"state": "electing"}), nothing(), None),
            (json!({"state": "running"}), nothing(), None),
            (ended("done"), nothing(), Some(("done", 0, None))),
            (ended("failed"), nothing(), Some(("failed", 1, Some("failed")))),
            (ended("failed"), error("setup_failed"), Some(("failed", 1, Some("setup_failed")))),
            (ended("failed"), error("verdict"), Some(("failed", 1, Some("verdict")))),
            (ended("failed"), error("nobody_woken"), Some(("invalid", 2, Some("nobody_woken")))),
            (ended("failed"), error("bad_file"), Some(("invalid", 2, Some("bad_file")))),
            (paused(limit), nothing(), Some(("limit", 3, Some("limit")))),
            (paused(json!({"cause": "human"})), nothing(), Some(("human", 4, Some("human")))),
            (
                paused(json!({"cause": "user"})),
                nothing(),
                Some(("interrupted", 5, Some("interrupted"))),
            ),
            (
                paused(json!({"cause": "interrupted"})),
                nothing(),
                Some(("interrupted", 5, Some("interrupted"))),
            ),
            (ended("stopped"), nothing(), Some(("stopped", 130, Some("stopped")))),
        ] {
            let report = report(state.clone(), more);
            let got = report.as_ref().map(|report| {
                let verdict: RunVerdict =
                    serde_json::from_value(report["outcome"].clone()).unwrap();
                assert_eq!(report["outcome"], verdict.word());
                (verdict.word(), verdict.exit_code(), report["error"]["code"].as_str())
            });
            assert_eq!(got, expected, "{state}");
        }
    }

    #[test]
    fn what_was_not_done_is_the_reason() {
        let receipt = |state, why: &str| json!({"seq": 7, "agent": "coder", "state": state, "failures": 3, "why": why});
        let failed = || json!({"state": "ended", "outcome": "failed"});
        let two = json!({"dropped": [receipt("dropped", "x"), receipt("dropped", "y")]});
        let expected = json!({"code": "dropped", "message": "2 messages not acted upon, first #7 for coder: x"});
        assert_eq!(report(failed(), two).unwrap()["error"], expected);
        let both = json!({
            "dead_letters": [receipt("dead", "it crashed")], "dropped": [receipt("dropped", "x")]
        });
        let expected = json!({
            "code": "dead_letters", "message": "1 message not acted upon, first #7 for coder: it crashed"
        });
        assert_eq!(report(failed(), both).unwrap()["error"], expected);
    }

    #[test]
    fn the_failure_that_stopped_an_agent_is_part_of_the_reason_unless_it_recovered() {
        let failure = |recovered| {
            json!({
                "class": "auth", "message": "401 bad key", "at": "2026-01-01T00:00:00.000Z",
                "attempt": "01890a5d-ac96-774b-bcce-b302099a8057", "recovered": recovered,
            })
        };
        let of = |who: &str, failure: Value| {
            let mut failure = failure;
            failure["agent"] = who.into();
            failure
        };
        let failed = || json!({"state": "ended", "outcome": "failed"});
        let receipt = |state, why: &str| json!({"seq": 7, "agent": "coder", "state": state, "failures": 3, "why": why});
        let left = "1 message for a stopped agent";
        for (more, expected) in [
            (
                json!({
                    "dropped": [receipt("dropped", left)],
                    "last_failures": [of("coder", failure(false)), of("lead", failure(true))],
                }),
                "1 message not acted upon, first #7 for coder: 1 message for a stopped agent; \
                 coder failed (auth): 401 bad key",
            ),
            (
                json!({"dropped": [receipt("dropped", left)], "last_failures": [of("coder", failure(true))]}),
                "1 message not acted upon, first #7 for coder: 1 message for a stopped agent",
            ),
            // The dead letter already gives the reason.
            (
                json!({
                    "dead_letters": [receipt("dead", "failed (auth): 401 bad key")],
                    "last_failures": [of("coder", failure(false))],
                }),
                "1 message not acted upon, first #7 for coder: failed (auth): 401 bad key",
            ),
        ] {
            assert_eq!(report(failed(), more).unwrap()["error"]["message"], expected);
        }
        let agent = json!({
            "name": "coder", "instance": "review:pr-1", "project": "/p", "backend": "claude", "state": "stopped",
            "why": "auth: 401 bad key", "waiting": 1, "turns": 1, "messages": 0, "started": "2026-01-01T00:00:00.000Z",
            "usage": {"input_tokens": 0, "output_tokens": 0}, "last_failure": failure(false),
        });
        let report = report(failed(), json!({"agents": [agent]})).unwrap();
        assert_eq!(report["agents"]["coder"]["last_failure"], failure(false));
    }

    #[test]
    fn a_run_lasted_as_long_as_the_daemon_says_whatever_its_instants_are() {
        for state in [
            json!({"state": "ended", "outcome": "done", "ended": "2026-01-01T00:00:02.000Z"}),
            json!({"state": "paused", "cause": {"cause": "user"}}),
        ] {
            assert_eq!(report(state, json!({})).unwrap()["duration_ms"], 5000);
        }
    }
}
