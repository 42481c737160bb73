//! `tasks:` section: the procedure of a workflow, as it is written. Nothing runs it in this version, and a workflow file
//! with this section is refused; [`read_tasks`] is the loader of a later one.
//!
//! Texts and expressions are kept as they are written: they are not parsed here.

pub(crate) mod order;
mod read;
mod read_action;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use agent_worker_protocol::Span;

use crate::{
    diagnostics::diagnostic::Diagnostics,
    error::Error,
    yaml::{self, fields::YamlField},
};

/// Procedure of a workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskProcedure {
    /// Tasks in the order of the file.
    pub tasks: Vec<TaskDefinition>,
    /// Tasks that run after all others, whatever became of them (`finally:`).
    pub finally: Vec<TaskDefinition>,
    /// Text of the result (`output:`).
    pub output: Option<String>,
}

/// One task, or a group of tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskDefinition {
    /// Name in `needs` and in expressions (`name:`).
    pub name: Option<String>,
    /// Name of the output (`as:`).
    pub output_name: Option<String>,
    /// Line number in the file, for messages.
    pub line: usize,
    /// Work of the task.
    pub action: TaskAction,
    /// Expression without which the task is skipped (`if:`).
    pub condition: Option<String>,
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
}

/// Work of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellTask {
    /// Script with references.
    pub script: String,
    /// Interpreter, if it is not bash.
    pub program: Option<String>,
    /// Working folder, if it differs from the run's.
    pub cwd: Option<PathBuf>,
    /// Variables that only this command gets.
    pub env: BTreeMap<String, String>,
    /// Meaning of the output.
    pub format: TaskFormat,
}

/// Message of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageTask {
    /// Text with references.
    pub text: String,
    /// Names of the agents.
    pub to: Vec<String>,
    /// End of the task.
    pub until: SendEnd,
    /// Meaning of the answer.
    pub format: TaskFormat,
}

/// End of a task that sends a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendEnd {
    /// The agents have answered the message.
    #[default]
    Answer,
    /// The whole team has no work left.
    Idle,
}

/// Question of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskTask {
    /// Text with references.
    pub question: String,
    /// Answers to choose from; empty for any text.
    pub options: Vec<String>,
}

/// Run of another workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildWorkflowTask {
    /// Path as it is written.
    pub file: String,
    /// Texts of its parameters, with references.
    pub params: BTreeMap<String, String>,
}

/// Tasks that run at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParallelTasks {
    /// Maximum number of tasks at once; none: all.
    pub max: Option<u32>,
    /// True if a failure stops the others.
    pub fail_fast: bool,
    /// Tasks in the order of the file.
    pub tasks: Vec<TaskDefinition>,
}

/// Meaning of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskLoop {
    /// Expression that gives the array.
    pub items: String,
    /// Maximum number of items at once.
    pub max: u32,
}

/// Repetition of a task after failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRetry {
    /// Number of attempts together.
    pub max_attempts: u32,
    /// Pause before the second attempt.
    pub backoff: Span,
}

/// Reads `tasks`, `finally` and `output` of a text and ignores every other section. `path` is the name in messages.
pub fn read_tasks(text: &str, path: &Path) -> Result<TaskProcedure, Error> {
    let mut diagnostics = Diagnostics::default();
    let root = diagnostics.ok_or_add(yaml::read(text));
    let procedure =
        root.map(|root| read::procedure(&YamlField::root(&root), text, &mut diagnostics));
    match procedure {
        Some(procedure) if diagnostics.is_empty() => Ok(procedure),
        _ => Err(Error::invalid(path, text, diagnostics)),
    }
}
