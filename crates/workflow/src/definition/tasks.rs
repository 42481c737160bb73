//! `tasks:` section: the procedure of a workflow as a tree.
//!
//! A procedure is read in two passes. `read.rs` makes the tree: every text is parsed, and every name in it is the name
//! of something in the file. `names.rs` walks the tree: each task gets its path, and each name must be made by a task
//! that has ended when this one starts.

mod names;
pub(crate) mod order;
mod read;
mod read_action;
mod reads;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use agent_worker_expressions::Expression;
use agent_worker_protocol::{Span, TaskPath};
use serde::{Deserialize, Serialize};

use crate::{
    definition::setup::SetupStep,
    template::{Template, reference::Reference},
};

pub(crate) use read::procedure as read;

/// Procedure of a workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskProcedure {
    /// Tasks in the order of the file.
    pub tasks: Vec<TaskDefinition>,
    /// Tasks that run after all others, whatever became of them (`finally:`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finally: Vec<TaskDefinition>,
    /// Text of the result (`output:`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Template>,
}

/// One task, or a group of tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskDefinition {
    /// Place in the procedure, which no other task has.
    pub path: TaskPath,
    /// Name in `needs` and in expressions (`name:`).
    pub name: Option<String>,
    /// Name of the output (`as:`).
    pub output_name: Option<String>,
    /// Line number in the file, for messages.
    pub line: usize,
    /// Work of the task.
    pub action: TaskAction,
    /// Expression without which the task is skipped (`if:`).
    pub condition: Option<Expression>,
    /// Tasks that run if the condition is false (`else:`).
    pub otherwise: Vec<TaskDefinition>,
    /// Indexes of the tasks of the same list for whose ends this one waits.
    pub after: BTreeSet<usize>,
    /// Repetition over the items of an array (`for_each:`).
    pub for_each: Option<TaskLoop>,
    /// Repetition after a failure (`retry:`).
    pub retry: Option<TaskRetry>,
    /// Maximum time of one attempt.
    pub timeout: Option<Span>,
    /// True if a failure of the task fails nothing else.
    pub continue_on_error: bool,
    /// Values that the texts of the task use, with their places in the file.
    #[serde(skip)]
    pub(crate) uses: Vec<ValueUse>,
}

/// Use of a value in a text of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValueUse {
    pub(crate) reference: Reference,
    /// Byte range in the file.
    pub(crate) at: Range<usize>,
}

/// Work of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskAction {
    /// Command in a shell.
    Shell(ShellTask),
    /// Message to agents, which is done with their answer.
    Send(MessageTask),
    /// Question to a person.
    Ask(AskTask),
    /// Run of another workflow file.
    Workflow(ChildWorkflowTask),
    /// Tasks without an order but `needs`.
    Parallel(ParallelTasks),
    /// Tasks one after the other (`then:`).
    Sequence(Vec<TaskDefinition>),
}

/// Command of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellTask {
    /// Script with its interpreter, folder and variables.
    pub command: SetupStep,
    /// Meaning of the output.
    pub format: TaskFormat,
}

/// Message of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageTask {
    /// Text with references.
    pub text: Template,
    /// Names of the agents.
    pub to: Vec<String>,
    /// End of the task.
    pub until: SendEnd,
    /// Meaning of the answer.
    pub format: TaskFormat,
}

/// End of a task that sends a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendEnd {
    /// The agents have answered the message.
    #[default]
    Answer,
    /// The whole team has no work left.
    Idle,
}

/// Question of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskTask {
    /// Text with references.
    pub question: Template,
    /// Answers to choose from; empty for any text.
    pub options: Vec<String>,
}

/// Run of another workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildWorkflowTask {
    /// Path as it is written.
    pub file: String,
    /// Texts of its parameters, with references.
    pub params: BTreeMap<String, Template>,
}

/// Tasks that run at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParallelTasks {
    /// Maximum number of tasks at once; none: all.
    pub max: Option<u32>,
    /// True if a failure stops the others.
    pub fail_fast: bool,
    /// Tasks in the order of the file.
    pub tasks: Vec<TaskDefinition>,
}

/// Meaning of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskFormat {
    /// Text without the line breaks at its end.
    #[default]
    Text,
    /// JSON document of any type.
    Json,
    /// Array of the lines.
    Lines,
}

/// Repetition of a task over an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskLoop {
    /// Expression that gives the array.
    pub items: Expression,
    /// Maximum number of items at once.
    pub max: u32,
}

/// Repetition of a task after failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRetry {
    /// Number of attempts together.
    pub max_attempts: u32,
    /// Pause before the second attempt.
    pub backoff: Span,
}

impl TaskProcedure {
    /// Returns true if the file has no tasks.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.finally.is_empty()
    }
}

impl TaskDefinition {
    /// Returns the tasks of a group; none for another action.
    pub fn children(&self) -> &[TaskDefinition] {
        match &self.action {
            TaskAction::Parallel(group) => &group.tasks,
            TaskAction::Sequence(list) => list,
            TaskAction::Shell(_)
            | TaskAction::Send(_)
            | TaskAction::Ask(_)
            | TaskAction::Workflow(_) => &[],
        }
    }

    /// Returns true if the task only holds other tasks.
    pub fn is_group(&self) -> bool {
        matches!(self.action, TaskAction::Parallel(_) | TaskAction::Sequence(_))
    }

    /// Returns true if the task may run after a failure: its `if` calls `failure()` or `always()`.
    pub fn handles_failure(&self) -> bool {
        self.condition.as_ref().is_some_and(Expression::handles_failure)
    }

    /// Returns the task and every task in it, also those of `else`, in the order of the file.
    pub fn walk(&self) -> Vec<&TaskDefinition> {
        let inner = self.children().iter().chain(&self.otherwise);
        std::iter::once(self).chain(inner.flat_map(Self::walk)).collect()
    }
}

#[cfg(test)]
mod tests;
