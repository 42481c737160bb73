//! What runs outside: worker processes and setup commands, found again after a restart and ended as whole trees.
//!
//! Invariant: a worker is alive while its lock is held, whoever started it.

mod shell;
mod strays;
mod worker;

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use agent_worker_host::{LockFile, end, marked, marks};
use agent_worker_kernel::{AttemptPlace, Departure, Runner, ShellCommand, ShellEnd, Sighting};
use agent_worker_protocol::{AttemptId, NumberedEvent, RunId, WorkerJob};
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::home::{self, Home};
use strays::Strays;

/// Runs things as processes of this machine.
#[derive(Clone)]
pub(crate) struct Processes {
    home: Home,
    /// Our own binary, by a name that survives its replacement on disk.
    exe: PathBuf,
    kill_grace: Duration,
    strays: Strays,
}

impl Processes {
    pub(crate) fn new(home: Home, kill_grace: Duration) -> Self {
        Self { home, exe: "/proc/self/exe".into(), kill_grace, strays: Strays::default() }
    }

    fn env_file(&self, run: RunId) -> PathBuf {
        self.home.run(run).join("env.json")
    }

    fn worker_lock(&self, run: RunId, attempt: AttemptId) -> PathBuf {
        self.home.attempt(run, attempt).join("worker.lock")
    }

    /// Ends everything that carries `mark` or is a guest of its run, and whatever the dead left to us.
    async fn sweep(&self, mark: &str) -> u32 {
        let theirs = || {
            let mut all = marked(mark);
            all.extend(self.strays.guests_of(mark));
            all.sort_unstable();
            all.dedup();
            all
        };
        let ended = end(theirs, self.kill_grace).await;
        self.strays.end(self.kill_grace).await;
        u32::try_from(ended).unwrap_or(u32::MAX)
    }
}

#[async_trait]
impl Runner for Processes {
    async fn run_open(&self, run: RunId, env: BTreeMap<String, String>) -> io::Result<()> {
        home::folder(&self.home.run(run))?;
        write_private(&self.env_file(run), &serde_json::to_vec(&env)?)
    }

    async fn run_env(&self, run: RunId) -> io::Result<BTreeMap<String, String>> {
        Ok(serde_json::from_slice(&tokio::fs::read(self.env_file(run)).await?)?)
    }

    async fn run_close(&self, run: RunId) -> u32 {
        let ended = self.sweep(&run.to_string()).await;
        match std::fs::remove_file(self.env_file(run)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::error!(%run, %error, "a run's environment could not be removed"),
        }
        ended
    }

    async fn run_leftovers(&self) -> io::Result<Vec<RunId>> {
        let entries = std::fs::read_dir(self.home.runs())?.flatten();
        Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
    }

    async fn run_erase(&self, run: RunId) -> io::Result<()> {
        tokio::fs::remove_dir_all(self.home.run(run)).await
    }

    fn place(&self, run: RunId, attempt: AttemptId) -> AttemptPlace {
        AttemptPlace { folder: self.home.attempt(run, attempt), socket: self.home.socket() }
    }

    async fn attempt(&self, run: RunId, job: WorkerJob, stop: CancellationToken) -> Departure {
        let lock = self.worker_lock(run, job.attempt);
        self.start_worker(&job, &lock, &stop).await
    }

    async fn attempt_look(&self, run: RunId, attempt: AttemptId) -> Sighting {
        match LockFile::is_held(&self.worker_lock(run, attempt)) {
            Ok(true) => Sighting::Alive,
            Ok(false) => Sighting::Gone,
            Err(error) => {
                tracing::error!(%attempt, %error, "a worker's lock could not be looked at");
                Sighting::Gone
            }
        }
    }

    async fn attempt_adopt(
        &self,
        run: RunId,
        attempt: AttemptId,
        stop: CancellationToken,
    ) -> Departure {
        self.adopt_worker(attempt, self.worker_lock(run, attempt), &stop).await
    }

    async fn attempt_events(
        &self,
        run: RunId,
        attempt: AttemptId,
        after: i64,
    ) -> io::Result<Vec<NumberedEvent>> {
        let path = self.home.attempt(run, attempt).join("events.jsonl");
        match tokio::fs::read(&path).await {
            Ok(text) => Ok(events_after(&text, after)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    async fn marks(&self) -> Vec<AttemptId> {
        marks().iter().filter_map(|mark| mark.parse().ok()).collect()
    }

    async fn attempt_sweep(&self, attempt: AttemptId) -> u32 {
        self.sweep(&attempt.to_string()).await
    }

    async fn shell(&self, command: ShellCommand, stop: CancellationToken) -> io::Result<ShellEnd> {
        self.run_shell(command, &stop).await
    }
}

/// Reads the events that follow `after` without a gap. A line that is torn, or was never an event, is none: the file is
/// written by a process that may be killed at any byte, and lies where an agent can reach it.
fn events_after(text: &[u8], after: i64) -> Vec<NumberedEvent> {
    let lines = text.split(|byte| *byte == b'\n');
    let mut events: Vec<NumberedEvent> = Vec::new();
    for event in lines.filter_map(|line| serde_json::from_slice::<NumberedEvent>(line).ok()) {
        let last = events.last().map_or(after, |event| event.no);
        if event.no == last + 1 {
            events.push(event);
        }
    }
    events
}

/// Writes a file only we can read, whole or not at all, and onto the disk.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    match path.parent() {
        Some(folder) => std::fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_torn_or_missing_is_no_event() {
        let event = |no| {
            format!(r#"{{"no":{no},"ts":"2026-01-01T00:00:00.000Z","kind":"retry","why":"x"}}"#)
        };
        let torn =
            [format!("{}\n{}\n{}", event(1), event(2), &event(3)[..20]).as_bytes(), &[0xe4, 0xb8]]
                .concat();
        let numbers = |text: &[u8], after| -> Vec<i64> {
            events_after(text, after).iter().map(|event| event.no).collect()
        };
        assert_eq!(numbers(&torn, 0), [1, 2]);
        assert_eq!(numbers(&torn, 1), [2]);
        let noise = format!("{}\nnoise\n{}\n{}\n", event(1), event(2), event(4));
        assert_eq!(numbers(noise.as_bytes(), 0), [1, 2], "a gap ends it");
    }
}
