//! The seam between deciding that something runs and running it: worker processes in the daemon, a script in tests.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use agent_worker_protocol::{AttemptId, NumberedEvent, RunId, WorkerJob, api::ProcessTracking};
use agent_worker_workflow::PreparedScript;
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::documents::document_files::RunFiles;

/// What runs outside the daemon's own process.
#[async_trait]
pub trait Runner: Send + Sync {
    /// Keeps a run's environment where only we can read it, until the run is over.
    async fn run_open(&self, run: RunId, env: BTreeMap<String, String>) -> io::Result<()>;
    /// Reads a run's environment back.
    async fn run_env(&self, run: RunId) -> io::Result<BTreeMap<String, String>>;
    /// Forgets a run's environment and ends what its setup left behind. Answers with how many processes that were.
    async fn run_close(&self, run: RunId) -> u32;

    /// Gives no more time to whatever of a run is being ended, or will be. Who gives none anyway has nothing to do.
    fn run_skip_grace(&self, _run: RunId) {}
    /// The same for one attempt of a run.
    fn attempt_skip_grace(&self, _run: RunId, _attempt: AttemptId) {}

    /// The runs whose workers' logs are still kept.
    async fn run_log_list(&self) -> io::Result<Vec<RunId>>;
    /// Deletes the logs of a run's workers.
    async fn run_log_erase(&self, run: RunId) -> io::Result<()>;

    /// Notes that files follow a run, until [`Runner::files`] has seen them through. Who has no files has nothing to do.
    fn files_mark_pending(&self, _run: RunId) {}
    /// Whether files that followed a run may have been left behind.
    fn files_pending(&self, _run: RunId) -> bool {
        false
    }
    /// Keeps what of a run is kept as files until the run is over and they have followed, or `stop`.
    async fn files_sync(&self, _files: RunFiles, _stop: CancellationToken) {}

    /// Where an attempt's folder is and what its worker talks to.
    fn attempt_paths(&self, run: RunId, attempt: AttemptId) -> AttemptPaths;
    /// Starts a worker and waits until it is gone with its whole tree. `stop` ends the tree.
    async fn attempt_run(&self, run: RunId, job: WorkerJob, stop: CancellationToken) -> WorkerExit;
    /// Looks for a worker an earlier daemon started.
    async fn attempt_probe(&self, run: RunId, attempt: AttemptId) -> WorkerLiveness;
    /// Waits for a worker an earlier daemon started, as [`Runner::attempt`] does.
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
    /// Reads what an attempt's worker printed, from byte `after` on, at most `most` bytes.
    async fn attempt_log(
        &self,
        run: RunId,
        attempt: AttemptId,
        after: u64,
        most: usize,
    ) -> io::Result<Vec<u8>>;
    /// Every id that a living process carries or has a control group: of attempts, and of runs whose setup left something.
    async fn process_marks(&self) -> Vec<ProcessMark>;
    /// Ends whatever is left of an attempt whose worker is gone, or carries any other such id.
    async fn attempt_sweep(&self, attempt: AttemptId) -> u32;

    /// How it tracks the processes of attempts, if there are any.
    fn process_tracking(&self) -> Option<ProcessTracking> {
        None
    }

    /// Whether an error means that the machine has run out of something, so that a later try may succeed.
    fn is_shortage(&self, _error: &io::Error) -> bool {
        false
    }

    /// Where a link leads; none if it is no link. Who has no files has no links.
    fn link_target(&self, _path: &Path) -> Option<PathBuf> {
        None
    }

    /// Runs a shell command of a run to its end.
    async fn shell_run(
        &self,
        command: ShellCommand,
        stop: CancellationToken,
    ) -> io::Result<ShellOutcome>;
}

/// The end of a worker's event file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventTail {
    /// The events that can be trusted, without a gap.
    pub events: Vec<NumberedEvent>,
    /// Where the file is damaged, for people. Events after that place are not trusted.
    pub damaged: Option<String>,
}

/// An id that a living process carries, or that has a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessMark {
    /// Of an attempt, or of a run.
    pub id: AttemptId,
    /// Whose it is.
    pub origin: ProcessOrigin,
}

/// Whose a mark is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessOrigin {
    /// This home's, whatever its store remembers of it.
    ThisHome,
    /// Perhaps another home's.
    Unknown,
}

/// Where an attempt lives.
#[derive(Clone, Debug)]
pub struct AttemptPaths {
    /// A folder of its own.
    pub folder: PathBuf,
    /// The daemon's socket.
    pub socket: PathBuf,
}

/// Whether a worker is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerLiveness {
    /// It holds its lock.
    Alive,
    /// Nobody does.
    Gone,
}

/// How a worker left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerExit {
    /// Whether it was seen to live: else nobody knows whether it ever began.
    pub seen_alive: bool,
    /// How its process ended, for people.
    pub status: Option<String>,
    /// How many processes had to be ended.
    pub processes_ended: u32,
    /// Why it was never started, where the machine had no process, memory, descriptor or disk space left.
    pub start_failure: Option<String>,
    /// Whether the daemon was suspended while it waited for it.
    pub daemon_suspended: bool,
}

impl WorkerExit {
    /// A worker the machine could not start.
    pub fn not_started(why: String) -> Self {
        Self { start_failure: Some(why), ..Self::default() }
    }
}

/// One shell command of a run.
#[derive(Clone, Debug)]
pub struct ShellCommand {
    /// Whose.
    pub run: RunId,
    /// The script and the values it reads.
    pub prepared: PreparedScript,
    /// The program that runs it.
    pub program: String,
    /// What the program is told before the script's path.
    pub options: Vec<String>,
    /// Where.
    pub cwd: PathBuf,
    /// With what environment.
    pub env: BTreeMap<String, String>,
}

/// How a shell command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellOutcome {
    /// Its exit status; absent when a signal ended it.
    pub status: Option<i32>,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// The last part of what it complained about.
    pub stderr: String,
}
