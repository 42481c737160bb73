//! Tasks of a run.

use agent_worker_protocol::{Millis, ResourceId, Seq, TaskPath, TaskState};
use strum::{EnumString, IntoStaticStr};

use super::NewMessage;

/// Identifies a task of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskKey {
    /// Place of the task in the procedure.
    pub path: TaskPath,
    /// Number of the item of `for_each`, from 1; 0 without one.
    pub item: u32,
}

impl TaskKey {
    /// Returns the key of a task without items.
    pub fn of(path: TaskPath) -> Self {
        Self { path, item: 0 }
    }
}

/// Start of a task. What its expressions gave is kept, and not evaluated again.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// Task that starts.
    pub key: TaskKey,
    /// Value of its `if`, if it has one.
    pub condition: Option<bool>,
    /// Array of its `for_each` as JSON, if it has one.
    pub items: Option<String>,
    /// Message that the task sends. It is written with the first start and never again.
    pub message: Option<NewMessage>,
}

/// New message of a running task whose last one has no answer.
#[derive(Clone, Debug)]
pub struct TaskResend {
    /// Task that sends again.
    pub key: TaskKey,
    /// Last message of the task.
    pub previous: Seq,
    /// Message in its place.
    pub message: NewMessage,
    /// Reason for which no agent needs the last message any more.
    pub why: String,
}

/// End of a task.
#[derive(Clone, Debug)]
pub struct TaskEnd {
    /// Task that ends.
    pub key: TaskKey,
    /// State in which the task ends.
    pub state: TaskState,
    /// Value of its `if`, for a task that has not started.
    pub condition: Option<bool>,
    /// Output of the task.
    pub output: Option<TaskOutput>,
    /// Exit code of its command.
    pub exit_code: Option<i32>,
    /// Reason of a failure.
    pub error: Option<String>,
    /// End of the error output of its command.
    pub stderr: Option<String>,
}

/// Output of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOutput {
    /// Meaning of the content.
    pub format: OutputFormat,
    /// Content, in the row or as a resource.
    pub content: OutputContent,
}

/// Meaning of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum OutputFormat {
    /// Text that is never parsed.
    Text,
    /// JSON without white space between its tokens.
    Json,
}

/// Content of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputContent {
    /// Short content, in the row of the task.
    Inline(String),
    /// Content that is stored as a resource of the instance.
    Resource(ResourceId),
}

/// A task that has started, or that will not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// Task of the row.
    pub key: TaskKey,
    /// State of the task, never [`TaskState::Waiting`].
    pub state: TaskState,
    /// Number of starts.
    pub attempts: u32,
    /// Value of its `if`, if it was evaluated.
    pub condition: Option<bool>,
    /// Array of its `for_each` as JSON, if it was evaluated.
    pub items: Option<String>,
    /// Message that the task sent.
    pub message: Option<Seq>,
    /// Output, if the task has ended with one.
    pub output: Option<TaskOutput>,
    /// Exit code of its command.
    pub exit_code: Option<i32>,
    /// Reason of a failure.
    pub error: Option<String>,
    /// End of the error output of its command.
    pub stderr: Option<String>,
    /// Time of the first start.
    pub started: Option<Millis>,
    /// Time of the end.
    pub ended: Option<Millis>,
}
