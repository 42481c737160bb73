//! One worker: started or adopted, waited for, and ended with its whole tree.

use std::{
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use agent_worker_host::{
    ATTEMPT_MARKER, EXIT_SHORTAGE, LockFile, Process, descendants, end_aside, is_shortage, marked,
    walk,
};
use agent_worker_kernel::Departure;
use agent_worker_protocol::{AttemptId, WorkerJob};
use rustix::process::Signal;
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, Command},
    sync::oneshot,
};
use tokio_util::sync::CancellationToken;

use super::{Processes, hurry::Patience};
use crate::home;

/// How much longer than its own grace a worker that is told to stop may take.
const MARGIN: Duration = Duration::from_secs(1);
/// What a worker prints, in its attempt's folder.
pub(super) const LOG: &str = "worker.log";

impl Processes {
    pub(super) async fn start_worker(
        &self,
        job: &WorkerJob,
        lock: &Path,
        stop: &CancellationToken,
        patience: &Patience,
    ) -> Departure {
        if stop.is_cancelled() {
            return Departure::default();
        }
        let (mut child, pid) = match self.spawn(job).await {
            Ok(spawned) => spawned,
            Err(error) => {
                tracing::error!(attempt = %job.attempt, %error, "a worker could not be started");
                if is_shortage(&error) {
                    return Departure::unstarted(error.to_string());
                }
                let status = Some(format!("it could not be started: {error}"));
                return Departure { seen_alive: true, status, ..Departure::default() };
            }
        };
        let mut ended = 0;
        let status = tokio::select! {
            status = child.wait() => status,
            () = stop.cancelled() => {
                ended = self.end_worker(job.attempt, Process::of(pid), lock, patience).await;
                child.wait().await
            }
        };
        ended += self.sweep(&job.attempt.to_string(), patience).await;
        self.strays.forget(pid);
        let exhausted =
            matches!(&status, Ok(status) if status.code() == Some(i32::from(EXIT_SHORTAGE)));
        let status = match status {
            Ok(status) => status.to_string(),
            Err(error) => format!("its status is not known: {error}"),
        };
        let unstarted = exhausted.then(|| "it found too little memory, disk or descriptors".into());
        let departure =
            Departure { seen_alive: true, status: Some(status), ..Departure::default() };
        Departure { ended, unstarted, ..departure }
    }

    async fn spawn(&self, job: &WorkerJob) -> io::Result<(Child, u32)> {
        home::folder(&job.folder)?;
        let log = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(job.folder.join(LOG))?;
        let mut command = Command::new(&self.exe);
        command
            .arg("worker")
            .env_clear()
            .env(ATTEMPT_MARKER, job.attempt.to_string())
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log);
        let (mut child, pid) = self.strays.spawn(&mut command)?;
        // Before it has its job: all it starts is born into the group.
        self.groups.enter(&job.attempt.to_string(), pid).await;
        let mut line = serde_json::to_vec(job)?;
        line.push(b'\n');
        if let Some(mut stdin) = child.stdin.take() {
            // A worker that is gone already shows in its status.
            let _ = stdin.write_all(&line).await;
        }
        Ok((child, pid))
    }

    pub(super) async fn adopt_worker(
        &self,
        attempt: AttemptId,
        lock: PathBuf,
        stop: &CancellationToken,
        patience: &Patience,
    ) -> Departure {
        let mut gone = released(lock.clone());
        let mut ended = 0;
        tokio::select! {
            _ = &mut gone => {}
            () = stop.cancelled() => {
                let holder = LockFile::holder(&lock).ok().flatten();
                let worker = holder.filter(|pid| *pid != std::process::id()).and_then(Process::of);
                ended = self.end_worker(attempt, worker, &lock, patience).await;
                let _ = gone.await;
            }
        }
        ended += self.sweep(&attempt.to_string(), patience).await;
        Departure { seen_alive: true, ended, ..Departure::default() }
    }

    /// Asks a worker to end its tree, and ends what is left when its time is up. Answers with how many there were.
    async fn end_worker(
        &self,
        attempt: AttemptId,
        worker: Option<Process>,
        lock: &Path,
        patience: &Patience,
    ) -> u32 {
        let (mark, groups) = (attempt.to_string(), self.groups.clone());
        let own_groups = groups.of(&mark);
        let tree = move || {
            let below = worker.map(|worker| descendants(worker.pid)).unwrap_or_default();
            let mut all = marked(&mark);
            all.extend(worker.filter(|worker| worker.is_alive()));
            all.extend(below);
            all.extend(groups.processes(&mark));
            all.sort_unstable();
            all.dedup();
            all
        };
        let before = walk(tree.clone()).await.unwrap_or_default().len();
        if let Some(worker) = worker
            && let Err(error) = worker.signal(Signal::TERM)
        {
            tracing::error!(%attempt, %error, "a worker could not be told to stop");
        }
        patience.wait(released(lock.to_owned()), MARGIN).await;
        end_aside(tree, own_groups, Duration::ZERO).await;
        u32::try_from(before).unwrap_or(u32::MAX)
    }
}

/// Completes when nobody holds the lock. A thread waits for it, so that nothing is polled; the daemon's end ends it.
fn released(lock: PathBuf) -> oneshot::Receiver<()> {
    let (free, freed) = oneshot::channel();
    std::thread::spawn(move || {
        if let Err(error) = LockFile::wait_until_free(&lock) {
            tracing::error!(lock = %lock.display(), %error, "a worker's lock could not be waited for");
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
        super::{Groups, Tracking},
        *,
    };
    use crate::home::Home;

    #[tokio::test]
    async fn waiting_for_a_worker_of_another_daemon_leaves_its_lock_as_it_was_signed() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(folder.path()).unwrap();
        let groups = Groups::open(&home, Tracking::Tree);
        let processes = Processes::new(home, Duration::ZERO, groups);
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
        let patience = processes.patience(RunId::new(uuid::Uuid::now_v7()));
        let adopted = processes.adopt_worker(attempt, lock.clone(), &stop, &patience);
        let (departure, ()) = tokio::join!(adopted, async { drop(worker.stdin.take()) });
        assert_eq!(departure, Departure { seen_alive: true, ..Departure::default() });
        assert_eq!(std::fs::read_to_string(&lock).unwrap(), signature);
        // The daemon waits for dead children it does not know.
        worker.wait().ok();
    }
}
