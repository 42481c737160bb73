//! The seam between deciding to run a process and running it: worker processes in the daemon, a script in tests.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use agent_worker_expressions::{EvaluationError, EvaluationRequest, ExpressionValue};
use agent_worker_protocol::{
    AttemptId, NumberedEvent, RunId, Span, WorkerJob, api::ProcessTracking,
};
use agent_worker_store::TaskKey;
use agent_worker_workflow::PreparedScript;
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::{approvals::notices::NotifyPlan, documents::document_files::RunFiles};

/// Runs everything outside of the daemon's own process.
#[async_trait]
pub trait Runner: Send + Sync {
    /// Stores a run's environment privately until the run ends.
    async fn run_open(&self, run: RunId, env: BTreeMap<String, String>) -> io::Result<()>;
    /// Returns a run's environment.
    async fn run_env(&self, run: RunId) -> io::Result<BTreeMap<String, String>>;
    /// Removes a run's environment and ends processes that its setup left. Returns the number of processes.
    async fn run_close(&self, run: RunId) -> u32;

    /// Skips the grace period of a run's processes, now and later. A runner without one does nothing.
    fn run_skip_grace(&self, _run: RunId) {}
    /// Skips the grace period of one attempt of a run.
    fn attempt_skip_grace(&self, _run: RunId, _attempt: AttemptId) {}

    /// Returns the runs that still have worker logs.
    async fn run_log_list(&self) -> io::Result<Vec<RunId>>;
    /// Deletes the logs of a run's workers.
    async fn run_log_erase(&self, run: RunId) -> io::Result<()>;

    /// Marks a run's files as pending until [`Runner::files_sync`] has completed them. A runner without files does
    /// nothing.
    fn files_mark_pending(&self, _run: RunId) {}
    /// Returns true if the files of a run may be incomplete.
    fn files_pending(&self, _run: RunId) -> bool {
        false
    }
    /// Syncs the files of a run until the run has ended and the files are complete, or until `stop`.
    async fn files_sync(&self, _files: RunFiles, _stop: CancellationToken) {}

    /// Stores the notifications of a run privately, before the run exists. A runner without channels sends none.
    async fn notify_open(&self, _run: RunId, _plan: NotifyPlan) -> io::Result<()> {
        Ok(())
    }
    /// Starts the notifications of a run that now exists, until its end.
    fn notify_start(&self, _run: RunId) {}
    /// Removes the notifications of a run that was not created.
    async fn notify_close(&self, _run: RunId) {}

    /// Returns true if the user stopped the last daemon. A runner without a home is never held.
    fn hold_is_set(&self) -> bool {
        false
    }
    /// Clears the mark of that stop durably.
    async fn hold_clear(&self) -> io::Result<()> {
        Ok(())
    }

    /// Returns the folder of an attempt and the socket for its worker.
    fn attempt_paths(&self, run: RunId, attempt: AttemptId) -> AttemptPaths;
    /// Starts a worker and waits until it has ended with its whole tree. `stop` ends the tree.
    async fn attempt_run(&self, run: RunId, job: WorkerJob, stop: CancellationToken) -> WorkerExit;
    /// Checks whether a worker of an earlier daemon is alive.
    async fn attempt_probe(&self, run: RunId, attempt: AttemptId) -> WorkerLiveness;
    /// Waits for a worker of an earlier daemon, like [`Runner::attempt_run`].
    async fn attempt_adopt(
        &self,
        run: RunId,
        attempt: AttemptId,
        stop: CancellationToken,
    ) -> WorkerExit;
    /// Reads the events that a worker wrote to its file after event `after`.
    async fn attempt_events(
        &self,
        run: RunId,
        attempt: AttemptId,
        after: i64,
    ) -> io::Result<EventTail>;
    /// Reads the output of an attempt's worker, from byte `after` on, at most `most` bytes.
    async fn attempt_log(
        &self,
        run: RunId,
        attempt: AttemptId,
        after: u64,
        most: usize,
    ) -> io::Result<Vec<u8>>;
    /// Returns the path of the output of an attempt's worker, if there is any. A runner without files has none.
    async fn attempt_log_path(&self, _run: RunId, _attempt: AttemptId) -> Option<PathBuf> {
        None
    }
    /// Returns every id that a living process carries or that has a control group: of attempts, and of runs with
    /// processes of their setup.
    async fn process_marks(&self) -> Vec<ProcessMark>;
    /// Ends the remaining processes of an attempt whose worker is gone, or of any other such id.
    async fn attempt_sweep(&self, attempt: AttemptId) -> u32;

    /// Returns the kind of process tracking, if there is any.
    fn process_tracking(&self) -> Option<ProcessTracking> {
        None
    }

    /// Returns true if an error means that the machine is short of a resource, so that a later try may succeed.
    fn is_shortage(&self, _error: &io::Error) -> bool {
        false
    }

    /// Returns the target of a link; none if the path is no link. A runner without files has no links.
    fn link_target(&self, _path: &Path) -> Option<PathBuf> {
        None
    }

    /// Evaluates an expression of a run outside of this process.
    async fn expression_evaluate(
        &self,
        run: RunId,
        request: EvaluationRequest<'_>,
    ) -> Result<ExpressionValue, EvaluationError>;

    /// Runs a shell command of a run to its end.
    async fn shell_run(
        &self,
        command: ShellCommand,
        stop: CancellationToken,
    ) -> io::Result<ShellOutcome>;

    /// Runs the command of a task in a worker process, which continues if this daemon ends, and waits for its end.
    /// `stop` ends the command with its processes. An error: it was not started. `None`: the worker died without a
    /// result.
    ///
    /// The result can be read by [`Runner::task_adopt`] until [`Runner::run_close`] of the run.
    async fn task_run(
        &self,
        process: TaskProcess,
        command: ShellCommand,
        timeout: Option<Span>,
        stop: CancellationToken,
    ) -> io::Result<Option<TaskCommandEnd>>;
    /// Waits for the command that an earlier daemon started. `None`: it has no result and will never have one; nothing
    /// of it runs any more.
    async fn task_adopt(
        &self,
        process: TaskProcess,
        stop: CancellationToken,
    ) -> Option<TaskCommandEnd>;
}

/// Process of a task: one start of its command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TaskProcess {
    /// Run of the task.
    pub run: RunId,
    /// The task.
    pub key: TaskKey,
    /// Number of the start, from 1.
    pub attempt: u32,
}

/// End of the command of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskCommandEnd {
    /// Result of the command.
    pub outcome: ShellOutcome,
    /// True if the command was ended at its timeout.
    pub timed_out: bool,
    /// True if the command was ended by a stop, or by a daemon that was stopped with its workers. The outcome is then no
    /// result of the command.
    pub stopped: bool,
    /// Duration of the command, in milliseconds.
    pub ms: u64,
}

/// The end of a worker's event file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventTail {
    /// The trusted events, without a gap.
    pub events: Vec<NumberedEvent>,
    /// Location of damage in the file, for people. Later events are not trusted.
    pub damaged: Option<String>,
}

/// An id that a living process carries, or that has a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessMark {
    /// The id of an attempt or of a run.
    pub id: AttemptId,
    /// The home that the mark belongs to.
    pub origin: ProcessOrigin,
}

/// The origin of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessOrigin {
    /// This home, even if its store does not know the id.
    ThisHome,
    /// Possibly another home.
    Unknown,
}

/// The paths of an attempt.
#[derive(Clone, Debug)]
pub struct AttemptPaths {
    /// Private folder of the attempt.
    pub folder: PathBuf,
    /// Socket of the daemon.
    pub socket: PathBuf,
}

/// The liveness of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerLiveness {
    /// The worker holds its lock.
    Alive,
    /// The lock is free.
    Gone,
}

/// The exit of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerExit {
    /// True if the worker was observed alive; otherwise it may never have started.
    pub seen_alive: bool,
    /// Exit status of its process, for people.
    pub status: Option<String>,
    /// Number of processes that had to be ended.
    pub processes_ended: u32,
    /// The reason why the worker was not started, if the machine was short of processes, memory, descriptors or
    /// disk space.
    pub start_failure: Option<String>,
    /// True if the daemon was suspended while it waited for the worker.
    pub daemon_suspended: bool,
}

impl WorkerExit {
    /// Returns the exit of a worker that the machine could not start.
    pub fn not_started(why: String) -> Self {
        Self { start_failure: Some(why), ..Self::default() }
    }
}

/// One shell command of a run.
#[derive(Clone, Debug)]
pub struct ShellCommand {
    /// Run of the command.
    pub run: RunId,
    /// The script and the values it reads.
    pub prepared: PreparedScript,
    /// Program that runs the script.
    pub program: String,
    /// Arguments of the program before the script's path.
    pub options: Vec<String>,
    /// Working folder of the command.
    pub cwd: PathBuf,
    /// Environment of the command.
    pub env: BTreeMap<String, String>,
}

/// The result of a shell command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellOutcome {
    /// Exit status; absent if a signal ended the command.
    pub status: Option<i32>,
    /// Standard output of the command.
    pub stdout: Vec<u8>,
    /// The last part of the standard error output.
    pub stderr: String,
}
