//! States of runs, attempts, deliveries, agents and suggestions. A state carries its cause; `match` lists every arm.

mod agent_state;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

pub use agent_state::{AgentState, WorkerLimit};

use crate::time::Millis;

/// Kind of run: `run` ends by itself, `start` stays.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum RunMode {
    /// One-shot run, which ends as soon as no agent has work left.
    #[default]
    Run,
    /// Persistent run, which never ends by itself.
    Start,
}

/// Duty that one agent of a run has for the whole team.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The only agent that writes documents; the others suggest.
    DocumentOwner,
    /// The agent that receives messages without a recipient.
    Coordinator,
    /// The agent that, like the coordinator, sets the verdict of the run.
    Finisher,
}

/// Outcome that a team gives to its own run.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum VerdictOutcome {
    /// The team did its work.
    Done,
    /// The team could not do its work: a run that would be done has failed.
    Failed,
}

/// State of a suggestion.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum SuggestionState {
    /// No answer has been given yet.
    Open,
    /// The suggestion was accepted.
    Accepted,
    /// The suggestion was rejected.
    Rejected,
}

/// State of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RunState {
    /// The setup commands run, and no agent is woken yet.
    Setup,
    /// The agents elect the owner of the documents, before the kickoff.
    Electing,
    /// The daemon wakes the agents of the run.
    Running,
    /// The daemon leases nothing until the run is resumed.
    Paused {
        /// Reason for the pause.
        cause: PauseCause,
    },
    /// The run has ended; this state is final.
    Ended {
        /// Result of the run.
        outcome: Outcome,
    },
}

/// Reason for which a run is paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum PauseCause {
    /// The run reached a limit.
    Limit {
        /// Limit that the run reached.
        limit: LimitKind,
        /// Explanation of the limit and the count, in words.
        detail: String,
        /// Time at which the limit has room again because older use is more than 24 hours ago. The run then continues by
        /// itself. Absent if only a higher limit gives room, and while live turns still count.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        room_at: Option<Millis>,
        /// The most that the refused call of a model can use: millionths of a dollar at the limit `cost`, else tokens.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_call: Option<u64>,
    },
    /// Only a person can continue the work, and no person is present.
    Human,
    /// The run was interrupted too long ago to continue by itself.
    Interrupted,
    /// A person paused the run.
    User,
}

/// Quantity that a limit bounds.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Number of messages in the chain that led to a message.
    Hops,
    /// Number of attempts that ended ok or failed.
    Turns,
    /// Elapsed time of a run.
    Wall,
    /// Cost of the models of a run.
    Cost,
    /// Tokens of the models of a run.
    Tokens,
}

/// Result of a run.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The agents acted on every message.
    Done,
    /// Some work was not done: dead letters, dropped deliveries, a failed setup.
    Failed,
    /// A person stopped the run.
    Stopped,
}

/// State of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum AttemptState {
    /// The attempt is leased, and its worker has not reported yet.
    Starting,
    /// The worker has reported its start.
    Running,
    /// The attempt is over.
    Ended {
        /// Result of the attempt.
        end: AttemptEnd,
    },
}

/// Result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum AttemptEnd {
    /// The attempt succeeded.
    Ok,
    /// The attempt failed.
    Failed {
        /// Class of the failure, which decides the next step.
        class: FailureClass,
        /// Explanation of the failure, for people.
        why: String,
    },
    /// The attempt was cut short without a fault of the agent or the message.
    Interrupted {
        /// Explanation of the interruption.
        why: String,
    },
    /// The run of the attempt was stopped.
    Stopped,
}

/// Class of a failure, derived from exit status and structured output, never from words in a text.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The worker ended without a report.
    Crash,
    /// The attempt exceeded its time limit or its silence limit.
    Timeout,
    /// The conversation no longer fits the model's context.
    ContextOverflow,
    /// The attempt needed a permission that it does not have.
    Permission,
    /// The backend's program is not installed or not executable.
    MissingProgram,
    /// The backend's program is older than the oldest version that the worker can use.
    OutdatedProgram,
    /// The answer does not have the form that the file demands.
    Output,
    /// A retry is unlikely to succeed, and happens anyway.
    Fatal,
    /// The provider asked the client to wait.
    RateLimited,
    /// Overload or a network fault, which is likely to pass.
    Transient,
    /// The provider refused the key.
    Auth,
    /// The account has no credit left.
    Billing,
}

/// State of one message for one recipient.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// Waits for an attempt of the recipient.
    Pending,
    /// Is shown to a live attempt.
    Leased,
    /// Has used up its attempts.
    Dead,
    /// Was shown to a successful attempt.
    Acted,
    /// Was given up, with a reason.
    Dropped,
}

impl FailureClass {
    /// Returns true if the failure counts against the deliveries that it affected.
    pub fn is_counted(self) -> bool {
        match self {
            Self::Crash
            | Self::Timeout
            | Self::ContextOverflow
            | Self::Permission
            | Self::Output
            | Self::Fatal => true,
            Self::RateLimited
            | Self::Transient
            | Self::Auth
            | Self::Billing
            | Self::MissingProgram
            | Self::OutdatedProgram => false,
        }
    }

    /// Returns true if no retry helps before a person has acted: the agent is stopped, and its mail waits.
    pub fn stops_agent(self) -> bool {
        match self {
            Self::Auth | Self::Billing | Self::MissingProgram | Self::OutdatedProgram => true,
            Self::Crash
            | Self::Timeout
            | Self::ContextOverflow
            | Self::Permission
            | Self::Output
            | Self::Fatal
            | Self::RateLimited
            | Self::Transient => false,
        }
    }
}

impl LimitKind {
    /// Returns the singular noun for the limit's quantity.
    const fn noun(self) -> &'static str {
        match self {
            Self::Hops => "hop",
            Self::Turns => "turn",
            Self::Wall => "wall",
            Self::Cost => "cost",
            Self::Tokens => "token",
        }
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

impl PauseCause {
    /// Returns the cause at a limit that only a person gives room.
    pub fn limit(limit: LimitKind, detail: String) -> Self {
        Self::Limit { limit, detail, room_at: None, next_call: None }
    }

    /// Returns the time at which the run continues by itself, if the cause names one.
    pub fn room_at(&self) -> Option<Millis> {
        match self {
            Self::Limit { room_at, .. } => *room_at,
            Self::Human | Self::Interrupted | Self::User => None,
        }
    }
}

impl fmt::Display for PauseCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit { limit, detail, room_at, next_call: _ } => {
                write!(f, "{} limit ({detail})", limit.noun())?;
                room_at.iter().try_for_each(|at| write!(f, ", room again at {at}"))
            }
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
            // The explanation names the person who ended the turn.
            Self::Interrupted { why } if why.starts_with("by ") => write!(f, "interrupted {why}"),
            Self::Interrupted { why } => write!(f, "interrupted: {why}"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Keyword as _;

    #[test]
    fn a_word_reads_back_as_the_state_it_came_from() {
        for state in [
            DeliveryState::Pending,
            DeliveryState::Leased,
            DeliveryState::Dead,
            DeliveryState::Acted,
            DeliveryState::Dropped,
        ] {
            assert_eq!(state.word().parse(), Ok(state));
        }
        assert!("green".parse::<Outcome>().is_err());
    }

    #[test]
    fn a_state_on_the_wire_is_one_flat_object() {
        let cause = PauseCause::limit(LimitKind::Hops, "51 of 50".to_owned());
        let wire = serde_json::to_value(RunState::Paused { cause }).unwrap();
        let expected = serde_json::json!({
            "state": "paused", "cause": {"cause": "limit", "limit": "hops", "detail": "51 of 50"}
        });
        assert_eq!(wire, expected);
    }

    #[test]
    fn a_limit_with_a_time_of_room_says_it_in_words_and_on_the_wire() {
        let (limit, detail) = (LimitKind::Cost, "$20 spent".to_owned());
        let room_at = Some(Millis::new(86_400_000));
        let cause = PauseCause::Limit { limit, detail, room_at, next_call: Some(7) };
        let text = "cost limit ($20 spent), room again at 1970-01-02T00:00:00.000Z";
        assert_eq!(cause.to_string(), text);
        let wire = serde_json::to_value(&cause).unwrap();
        let expected = serde_json::json!({
            "cause": "limit", "limit": "cost", "detail": "$20 spent", "room_at": "1970-01-02T00:00:00.000Z",
            "next_call": 7
        });
        assert_eq!(wire, expected);
        assert_eq!(serde_json::from_value::<PauseCause>(wire).unwrap(), cause);
    }
}
