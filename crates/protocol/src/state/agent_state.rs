//! The state of an agent, as every interface shows it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    id::{ApprovalId, AttemptId, QuestionId},
    time::Millis,
};

/// Maximum number of workers at once, and the setting that changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum WorkerLimit {
    /// Workers of a run with a workflow file, which may set their number.
    Run {
        /// Maximum number of workers.
        workers: u32,
    },
    /// Workers of an instance without a file.
    Instance {
        /// Maximum number of workers.
        workers: u32,
    },
    /// Workers of all runs of the daemon.
    Daemon {
        /// Maximum number of workers.
        workers: u32,
    },
}

/// Current state of an agent, computed on request and never stored, so that it cannot be stale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum AgentState {
    /// No message waits for the agent, or its run is not running.
    Idle,
    /// Waking messages are pending, and the daemon leases them as soon as a worker slot is free.
    Queued {
        /// Limit at which all workers are busy, if one keeps the agent waiting.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        full: Option<WorkerLimit>,
    },
    /// An attempt of the agent is live.
    Running {
        /// Id of the live attempt.
        attempt: AttemptId,
        /// Start of the attempt.
        since: Millis,
    },
    /// The agent waits after a failure.
    BackingOff {
        /// Time of the next attempt.
        until: Millis,
        /// Explanation of the failure.
        why: String,
    },
    /// The agent waits because its provider asked for it.
    Parked {
        /// Time of the next attempt.
        until: Millis,
        /// Reason that the provider gave.
        why: String,
    },
    /// The agent waits for a person: its attempt needs an approval, or it asked a question and the answer wakes it.
    Waiting {
        /// Open questions of the agent, oldest first.
        questions: Vec<QuestionId>,
        /// Open approval requests of the live attempt, oldest first; empty without a live attempt.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        approvals: Vec<ApprovalId>,
        /// Time since which the oldest of them is open.
        asked: Millis,
    },
    /// The run is paused; the daemon wakes the agent again after a resume.
    Paused {
        /// Reason for the pause.
        why: String,
    },
    /// The run is over, or the agent was stopped, and the daemon is ending its processes.
    Stopping,
    /// The daemon no longer wakes the agent in this run.
    Stopped {
        /// Reason for the stop.
        why: String,
    },
}

impl fmt::Display for WorkerLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (workers, owner, setting) = match self {
            Self::Run { workers } => (workers, "run", "`limits: workers` of its file"),
            Self::Instance { workers } => (workers, "instance", "`daemon --workers-per-instance`"),
            Self::Daemon { workers } => (workers, "daemon", "`daemon --workers`"),
        };
        match workers {
            1 => write!(f, "the only worker of the {owner} is busy; {setting} changes the number"),
            _ => write!(
                f,
                "all {workers} workers of the {owner} are busy; {setting} changes the number"
            ),
        }
    }
}

impl fmt::Display for AgentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("idle"),
            Self::Queued { full: None } => f.write_str("queued"),
            Self::Queued { full: Some(limit) } => write!(f, "queued: {limit}"),
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

/// Formats numbers as `#1, #4`.
fn number_list(ids: &[impl fmt::Display]) -> String {
    ids.iter().map(|id| format!("#{id}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queued_agent_names_the_limit_that_keeps_it_waiting() {
        let words = |full| AgentState::Queued { full }.to_string();
        assert_eq!(words(None), "queued");
        for (limit, expected) in [
            (
                WorkerLimit::Run { workers: 4 },
                "queued: all 4 workers of the run are busy; `limits: workers` of its file changes the number",
            ),
            (
                WorkerLimit::Instance { workers: 1 },
                "queued: the only worker of the instance is busy; `daemon --workers-per-instance` changes the number",
            ),
            (
                WorkerLimit::Daemon { workers: 8 },
                "queued: all 8 workers of the daemon are busy; `daemon --workers` changes the number",
            ),
        ] {
            assert_eq!(words(Some(limit)), expected);
        }
    }
}
