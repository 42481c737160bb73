//! One worker: start or adopt, wait, and end with its whole tree.

use std::{
    borrow::Cow,
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use agent_worker_host::{
    ATTEMPT_MARKER, EXIT_SHORTAGE, LockFile, Process, descendants, end_processes_off_thread,
    is_shortage, marked_processes, run_blocking,
};
use agent_worker_kernel::WorkerExit;
use agent_worker_protocol::{AttemptId, JobLine, WorkerJob};
use rustix::process::Signal;
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, Command},
    sync::oneshot,
};
use tokio_util::sync::CancellationToken;

use super::{ProcessRunner, grace_period::GracePeriod, recorded_tree::RecordedTree};
use crate::home;

/// Additional time for a worker that was asked to stop, on top of its grace period.
pub(super) const STOP_MARGIN: Duration = Duration::from_secs(1);
/// File with the output of a worker, in its attempt's folder.
pub(super) const LOG_FILE: &str = "worker.log";

impl ProcessRunner {
    pub(super) async fn start_worker(
        &self,
        job: &WorkerJob,
        lock: &Path,
        stop: &CancellationToken,
        grace: &GracePeriod,
    ) -> WorkerExit {
        if stop.is_cancelled() {
            return WorkerExit::default();
        }
        let (mut child, pid) = match self.spawn_worker(job).await {
            Ok(spawned) => spawned,
            Err(error) => {
                tracing::error!(attempt = %job.attempt, %error, "a worker could not be started");
                if is_shortage(&error) {
                    return WorkerExit::not_started(error.to_string());
                }
                let status = Some(format!("could not be started: {error}"));
                return WorkerExit { seen_alive: true, status, ..WorkerExit::default() };
            }
        };
        let mut ended = 0;
        let status = tokio::select! {
            status = child.wait() => status,
            () = stop.cancelled() => {
                ended = self.end_worker(job.attempt, Process::of(pid), lock, grace).await;
                child.wait().await
            }
        };
        ended += self.sweep(&job.attempt.to_string(), grace).await;
        self.workers.remove(job.attempt);
        self.children.remove(pid);
        let exhausted =
            matches!(&status, Ok(status) if status.code() == Some(i32::from(EXIT_SHORTAGE)));
        let status = match status {
            Ok(status) => status.to_string(),
            Err(error) => format!("exit status unknown: {error}"),
        };
        let unstarted =
            exhausted.then(|| "not enough memory, disk space or file descriptors".into());
        let departure =
            WorkerExit { seen_alive: true, status: Some(status), ..WorkerExit::default() };
        WorkerExit { processes_ended: ended, start_failure: unstarted, ..departure }
    }

    async fn spawn_worker(&self, job: &WorkerJob) -> io::Result<(Child, u32)> {
        home::create_private_folder(&job.folder)?;
        let line = JobLine::Turn(Cow::Borrowed(job));
        let command = self.worker_command(&job.attempt.to_string(), &job.folder.join(LOG_FILE))?;
        self.spawn_with_job(command, &job.attempt.to_string(), &line, |pid| {
            self.workers.register(job.attempt, Process::of(pid));
        })
        .await
    }

    /// Returns the command of a worker with `mark` that appends its output to `log`.
    pub(super) fn worker_command(&self, mark: &str, log: &Path) -> io::Result<Command> {
        let log = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(log)?;
        let mut command = Command::new(&self.exe);
        command
            .arg("worker")
            .env_clear()
            .env(ATTEMPT_MARKER, mark)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(command)
    }

    /// Starts a worker, registers it, and gives it its job.
    pub(super) async fn spawn_with_job(
        &self,
        mut command: Command,
        mark: &str,
        job: &JobLine<'_>,
        register: impl FnOnce(u32),
    ) -> io::Result<(Child, u32)> {
        let mut line = serde_json::to_vec(job)?;
        line.push(b'\n');
        let (mut child, pid) = self.children.spawn(&mut command)?;
        register(pid);
        // Move before the worker gets its job: all processes that it starts are then in the group.
        self.groups.move_process(mark, pid).await;
        if let Some(mut stdin) = child.stdin.take() {
            // The exit status reports a worker that has already ended.
            let _ = stdin.write_all(&line).await;
        }
        Ok((child, pid))
    }

    pub(super) async fn adopt_worker(
        &self,
        attempt: AttemptId,
        lock: PathBuf,
        stop: &CancellationToken,
        grace: &GracePeriod,
    ) -> WorkerExit {
        let mut gone = lock_released(lock.clone());
        let mut ended = 0;
        let holder = LockFile::holder(&lock).ok().flatten();
        let worker = holder.filter(|pid| *pid != std::process::id()).and_then(Process::of);
        let tree = self.workers.register(attempt, worker);
        tokio::select! {
            _ = &mut gone => {}
            () = record_tree(worker, &tree) => {}
            () = stop.cancelled() => {
                ended = self.end_worker(attempt, worker, &lock, grace).await;
                let _ = gone.await;
            }
        }
        ended += tree.kill().await;
        ended += self.sweep(&attempt.to_string(), grace).await;
        self.workers.remove(attempt);
        WorkerExit { seen_alive: true, processes_ended: ended, ..WorkerExit::default() }
    }

    /// Asks a worker to end its tree, and kills the rest after the grace period. Returns the initial number of
    /// processes.
    async fn end_worker(
        &self,
        attempt: AttemptId,
        worker: Option<Process>,
        lock: &Path,
        grace: &GracePeriod,
    ) -> u32 {
        let (mark, groups) = (attempt.to_string(), self.groups.clone());
        let own_groups = groups.groups_of(&mark);
        let tree = move || {
            let below = worker.map(|worker| descendants(worker.pid)).unwrap_or_default();
            let mut all = marked_processes(&mark);
            all.extend(worker.filter(|worker| worker.is_alive()));
            all.extend(below);
            all.extend(groups.processes(&mark));
            all.sort_unstable();
            all.dedup();
            all
        };
        let before = run_blocking(tree.clone()).await.unwrap_or_default().len();
        if let Some(worker) = worker
            && let Err(error) = worker.signal(Signal::TERM)
        {
            tracing::error!(%attempt, %error, "could not send SIGTERM to a worker");
        }
        grace.wait_for(lock_released(lock.to_owned()), STOP_MARGIN).await;
        end_processes_off_thread(tree, own_groups, Duration::ZERO).await;
        u32::try_from(before).unwrap_or(u32::MAX)
    }
}

/// Keeps the record of the tree below an adopted worker current. Never returns.
///
/// A control group does not replace the record: a process with the daemon's rights may leave its group.
pub(super) async fn record_tree(worker: Option<Process>, tree: &RecordedTree) {
    if let Some(worker) = worker {
        tree.follow(worker).await;
    }
    std::future::pending::<()>().await;
}

/// Completes when the lock is free. A thread waits, so that nothing polls; the thread ends with the daemon.
pub(super) fn lock_released(lock: PathBuf) -> oneshot::Receiver<()> {
    let (free, freed) = oneshot::channel();
    std::thread::spawn(move || {
        if let Err(error) = LockFile::wait_until_free(&lock) {
            tracing::error!(lock = %lock.display(), %error, "could not wait for a worker's lock");
        }
        let _ = free.send(());
    });
    freed
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        process::Command,
    };

    use agent_worker_protocol::RunId;

    use super::{
        super::{Cgroups, Tracking},
        *,
    };
    use crate::home::DaemonHome;

    #[tokio::test]
    async fn waiting_for_a_worker_of_another_daemon_leaves_its_lock_as_it_was_signed() {
        let folder = tempfile::tempdir().unwrap();
        let home = DaemonHome::open(folder.path()).unwrap();
        let groups = Cgroups::open(&home, Tracking::Tree);
        let processes = ProcessRunner::new(home, Duration::ZERO, groups);
        let lock = folder.path().join("worker.lock");
        let mut worker = Command::new("flock")
            .arg(&lock)
            .args(["sh", "-c", "echo $$ | tee \"$0\"; read line"])
            .arg(&lock)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut signature = String::new();
        BufReader::new(worker.stdout.take().unwrap()).read_line(&mut signature).unwrap();
        let stop = CancellationToken::new();
        let attempt = AttemptId::new(uuid::Uuid::now_v7());
        let grace = processes.grace_period(RunId::new(uuid::Uuid::now_v7()));
        let adopted = processes.adopt_worker(attempt, lock.clone(), &stop, &grace);
        let (departure, ()) = tokio::join!(adopted, async { drop(worker.stdin.take()) });
        assert_eq!(departure, WorkerExit { seen_alive: true, ..WorkerExit::default() });
        assert_eq!(std::fs::read_to_string(&lock).unwrap(), signature);
        // The daemon reaps dead children that it does not know.
        worker.wait().ok();
    }
}
