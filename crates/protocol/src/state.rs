//! The states of everything that has one. A state carries its cause; `match` lists every arm.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    id::{ApprovalId, AttemptId, QuestionId},
    time::Millis,
    words::words,
};

/// How a run was asked for: `run` ends by itself, `start` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunMode {
    /// One shot: ends when nobody has anything left to do.
    #[default]
    Run,
    /// Persistent: never ends by itself.
    Start,
}

/// What one agent of a run is for all of them.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The only agent that writes documents; the others suggest.
    DocumentOwner,
    /// Who gets messages that name nobody.
    Coordinator,
}

/// How a suggestion stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SuggestionState {
    /// Nobody has answered it.
    Open,
    /// It was agreed to.
    Accepted,
    /// It was refused.
    Rejected,
}

/// Where a run stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RunState {
    /// Its setup commands run; nobody is woken yet.
    Setup,
    /// Its agents elect who owns the documents, before the kickoff.
    Electing,
    /// Its agents are woken.
    Running,
    /// Nothing is leased until somebody resumes it.
    Paused {
        /// What stopped it.
        cause: PauseCause,
    },
    /// It is over and stays so.
    Ended {
        /// How.
        outcome: Outcome,
    },
}

/// Why a run waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum PauseCause {
    /// A limit was reached.
    Limit {
        /// Which.
        limit: LimitKind,
        /// What led there, in words.
        detail: String,
    },
    /// Only people can go on, and none is there.
    Human,
    /// It was cut off too long ago to go on by itself.
    Interrupted,
    /// A person paused it.
    User,
}

/// What is counted, and stops work when it is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// How many messages led to a message.
    Hops,
    /// Attempts that ended ok or failed.
    Turns,
    /// How long a run lasts.
    Wall,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Everything for everybody was acted upon.
    Done,
    /// Something was not: dead letters, dropped mail, a setup that failed.
    Failed,
    /// A person stopped it.
    Stopped,
}

/// Where an attempt stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum AttemptState {
    /// Leased; its worker has not reported yet.
    Starting,
    /// Its worker has reported.
    Running,
    /// It is over.
    Ended {
        /// How.
        end: AttemptEnd,
    },
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum AttemptEnd {
    /// It did its work.
    Ok,
    /// It did not.
    Failed {
        /// What kind of failure decides what happens next.
        class: FailureClass,
        /// What happened, for people.
        why: String,
    },
    /// It was cut short and that is nobody's fault.
    Interrupted {
        /// What happened.
        why: String,
    },
    /// Its run was stopped.
    Stopped,
}

/// What kind of failure it was. It comes from exit status and structured output, never from words in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The worker is gone without a word.
    Crash,
    /// It took, or was silent for, too long.
    Timeout,
    /// The conversation no longer fits the model.
    ContextOverflow,
    /// It needed what it may not have.
    Permission,
    /// Trying again as it is will not help, but it is tried.
    Fatal,
    /// The provider asked to wait.
    RateLimited,
    /// Overload, network: likely to pass.
    Transient,
    /// The key is refused.
    Auth,
    /// The account is empty.
    Billing,
}

/// Where one message for one recipient stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// Waits.
    Pending,
    /// Is being shown to a live attempt.
    Leased,
    /// Its attempts are used up.
    Dead,
    /// A successful attempt was shown it.
    Acted,
    /// Given up, with a reason.
    Dropped,
}

/// What an agent is doing: derived when asked, never stored, so it cannot be stale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum AgentState {
    /// Nothing waits for it, or its run is not running.
    Idle,
    /// Mail waits and will be leased as soon as there is room.
    Queued,
    /// An attempt of it lives.
    Running {
        /// Which.
        attempt: AttemptId,
        /// Since when.
        since: Millis,
    },
    /// Waits after a failure.
    BackingOff {
        /// When it is tried again.
        until: Millis,
        /// What failed.
        why: String,
    },
    /// Waits because its provider said so.
    Parked {
        /// When it is tried again.
        until: Millis,
        /// What the provider said.
        why: String,
    },
    /// It waits for a person: an attempt of it for approval, or it asked something, and the answer wakes it.
    Waiting {
        /// What it asked, oldest first.
        questions: Vec<QuestionId>,
        /// What its attempt wants to do, oldest first; none if no attempt lives.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        approvals: Vec<ApprovalId>,
        /// Since when the first of it is open.
        asked: Millis,
    },
    /// Its run is paused; it is woken again when that is resumed.
    Paused {
        /// What paused it.
        why: String,
    },
    /// Its run is over, or it was stopped, and its processes are being ended.
    Stopping,
    /// Is not woken any more in this run.
    Stopped {
        /// What stopped it.
        why: String,
    },
}

impl RunState {
    /// Whether its agents are woken.
    pub fn wakes_agents(&self) -> bool {
        match self {
            Self::Electing | Self::Running => true,
            Self::Setup | Self::Paused { .. } | Self::Ended { .. } => false,
        }
    }

    /// Whether the run holds its instance: no second one may start.
    pub fn is_live(&self) -> bool {
        match self {
            Self::Setup | Self::Electing | Self::Running | Self::Paused { .. } => true,
            Self::Ended { .. } => false,
        }
    }
}

impl FailureClass {
    /// Whether it counts against the deliveries it hit.
    pub fn is_counted(self) -> bool {
        match self {
            Self::Crash
            | Self::Timeout
            | Self::ContextOverflow
            | Self::Permission
            | Self::Fatal => true,
            Self::RateLimited | Self::Transient | Self::Auth | Self::Billing => false,
        }
    }
}

impl LimitKind {
    /// What it is a limit of, one of them.
    const fn noun(self) -> &'static str {
        match self {
            Self::Hops => "hop",
            Self::Turns => "turn",
            Self::Wall => "wall",
        }
    }
}

words! {
    RunMode { Run => "run", Start => "start" }
    Role { DocumentOwner => "document_owner", Coordinator => "coordinator" }
    SuggestionState { Open => "open", Accepted => "accepted", Rejected => "rejected" }
    LimitKind { Hops => "hops", Turns => "turns", Wall => "wall" }
    Outcome { Done => "done", Failed => "failed", Stopped => "stopped" }
    DeliveryState {
        Pending => "pending", Leased => "leased", Dead => "dead", Acted => "acted", Dropped => "dropped",
    }
    FailureClass {
        Crash => "crash", Timeout => "timeout", ContextOverflow => "context_overflow",
        Permission => "permission", Fatal => "fatal", RateLimited => "rate_limited",
        Transient => "transient", Auth => "auth", Billing => "billing",
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup => f.write_str("setting up"),
            Self::Electing => f.write_str("electing"),
            Self::Running => f.write_str("running"),
            Self::Paused { cause } => write!(f, "paused: {cause}"),
            Self::Ended { outcome } => outcome.fmt(f),
        }
    }
}

impl fmt::Display for PauseCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit { limit, detail } => write!(f, "{} limit ({detail})", limit.noun()),
            Self::Human => f.write_str("waiting for a person"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::User => f.write_str("by the user"),
        }
    }
}

impl fmt::Display for AttemptEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("ok"),
            Self::Failed { class, why } => write!(f, "failed ({class}): {why}"),
            Self::Interrupted { why } => write!(f, "interrupted: {why}"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

impl fmt::Display for AgentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("idle"),
            Self::Queued => f.write_str("queued"),
            Self::Running { .. } => f.write_str("running"),
            Self::BackingOff { until, why } => {
                write!(f, "retrying at {until}: {why}")
            }
            Self::Parked { until, why } => write!(f, "rate-limited until {until}: {why}"),
            Self::Waiting { questions, approvals, .. } if approvals.is_empty() => {
                write!(f, "waiting for an answer ({})", number_list(questions))
            }
            Self::Waiting { approvals, .. } => {
                write!(f, "waiting for approval ({})", number_list(approvals))
            }
            Self::Paused { why } => write!(f, "paused: {why}"),
            Self::Stopping => f.write_str("stopping"),
            Self::Stopped { why } => write!(f, "stopped: {why}"),
        }
    }
}

/// `#1, #4`
fn number_list(ids: &[impl fmt::Display]) -> String {
    ids.iter().map(|id| format!("#{id}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_reads_back_as_the_state_it_came_from() {
        for state in [
            DeliveryState::Pending,
            DeliveryState::Leased,
            DeliveryState::Dead,
            DeliveryState::Acted,
            DeliveryState::Dropped,
        ] {
            assert_eq!(DeliveryState::from_word(state.word()), Some(state));
        }
        assert_eq!(Outcome::from_word("green"), None);
    }

    #[test]
    fn a_state_on_the_wire_is_one_flat_object() {
        let cause = PauseCause::Limit { limit: LimitKind::Hops, detail: "51 of 50".into() };
        let wire = serde_json::to_value(RunState::Paused { cause }).unwrap();
        let expected = serde_json::json!({
            "state": "paused", "cause": {"cause": "limit", "limit": "hops", "detail": "51 of 50"}
        });
        assert_eq!(wire, expected);
    }
}
