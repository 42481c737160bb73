//! Tasks of a procedure: their places and states.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

/// Place of a task in its procedure: names of tasks, or positions from 1 in their lists, such as `reviews/2`. The tasks
/// of `else` are beneath `else`, those of `finally` beneath `finally`; both are no names of tasks. The path is the same
/// whenever the file is the same.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct TaskPath(String);

impl TaskPath {
    /// Creates a path from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true for a setup command, whose output is stored as that of a task: `setup/1`.
    pub fn is_setup(&self) -> bool {
        self.0.starts_with("setup/")
    }

    /// Returns the path of a task in this one.
    #[must_use]
    pub fn join(&self, part: impl fmt::Display) -> Self {
        match self.0.as_str() {
            "" => Self(part.to_string()),
            path => Self(format!("{path}/{part}")),
        }
    }
}

impl fmt::Display for TaskPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// State of a task.
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
    EnumString,
    IntoStaticStr,
    Display,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum TaskState {
    /// The task has not started.
    Waiting,
    /// The task works, or waits for an answer.
    Running,
    /// The task ended well.
    Done,
    /// The task ended badly.
    Failed,
    /// The task did not run, because of its `if` or because a task before it failed.
    Skipped,
    /// The task was ended by a person, a limit or `fail_fast`.
    Stopped,
}

impl TaskState {
    /// Returns true if the state does not change any more.
    pub fn is_final(self) -> bool {
        match self {
            Self::Waiting | Self::Running => false,
            Self::Done | Self::Failed | Self::Skipped | Self::Stopped => true,
        }
    }
}
