//! Job of a worker that runs the command of a task, and the result that it writes.
//!
//! Such a worker needs no daemon: the job is one line of JSON on its stdin, and the result is a file.

use std::{borrow::Cow, collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{job::WorkerJob, span::Span};

/// The line on a worker's stdin.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "a process writes or reads one of them")]
pub enum JobLine<'a> {
    /// One attempt of an agent.
    Turn(Cow<'a, WorkerJob>),
    /// The command of a task.
    Command(Cow<'a, CommandJob>),
}

/// The command of a task, from the worker's side.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommandJob {
    /// Private folder of the process (0700).
    pub folder: PathBuf,
    /// Value of `AGENT_WORKER_ATTEMPT` of the command: the id of its run.
    pub mark: String,
    /// Value of `AGENT_WORKER_TASK` of the command.
    pub task: String,
    /// Text for the program.
    pub script: String,
    /// Values that the script reads from files.
    pub values: Vec<CommandValue>,
    /// Program that runs the script.
    pub program: String,
    /// Arguments of the program before the path of the script.
    pub options: Vec<String>,
    /// Working folder of the command.
    pub cwd: PathBuf,
    /// Environment of the command.
    pub env: BTreeMap<String, String>,
    /// Maximum duration of the command.
    pub timeout: Option<Span>,
    /// Grace period between TERM and KILL.
    pub kill_grace: Span,
    /// Maximum size of the kept standard output.
    pub max_stdout: u64,
}

/// A value that a script reads from a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommandValue {
    /// Environment variable that contains the path of the file.
    pub variable: String,
    /// Content of the file.
    pub value: String,
}

/// Content of `result.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum CommandResult {
    /// The command has ended.
    Ended(CommandEnded),
    /// The program could not be started.
    NotStarted {
        /// Explanation for people.
        why: String,
        /// Number of the error of the system.
        errno: Option<i32>,
    },
}

/// End of a command. Its standard output is in the file `stdout`; without the file, it printed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandEnded {
    /// Exit status; absent if a signal ended the command.
    pub status: Option<i32>,
    /// True if the worker ended the command at its timeout.
    pub timed_out: bool,
    /// True if the worker ended the command because of a signal to stop.
    pub stopped: bool,
    /// Duration by a monotonic clock, in milliseconds.
    pub ms: u64,
    /// The last part of the standard error output.
    pub stderr: String,
    /// Living processes that the command left in the background.
    pub left: Vec<LeftProcess>,
}

/// A process that a command left in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftProcess {
    /// Pid of the process.
    pub pid: u32,
    /// Start time in the system's own unit.
    pub start_time: u64,
}
