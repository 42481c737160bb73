//! The runner behind the doors: it starts no process.

use std::{
    collections::{BTreeMap, HashSet},
    io,
    path::PathBuf,
    sync::Mutex,
};

use agent_worker_kernel::{
    AttemptPlace, Departure, EventTail, Files, Mark, Runner, Shelf, ShellCommand, ShellEnd,
    Sighting,
};
use agent_worker_protocol::{
    AttemptId, Finished, Millis, NumberedEvent, RunId, WorkerEvent, WorkerJob, WorkerOutcome,
};
use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Hurried;

/// Hands over what it is given and waits to be stopped. Only `quick`'s work is done at once, and `fragile` breaks.
pub(super) struct Idle {
    pub(super) jobs: mpsc::UnboundedSender<WorkerJob>,
    pub(super) done: Mutex<HashSet<AttemptId>>,
    pub(super) hurried: Hurried,
    pub(super) files: mpsc::UnboundedSender<Shelf>,
}

#[async_trait]
impl Runner for Idle {
    async fn run_open(&self, _: RunId, _: BTreeMap<String, String>) -> io::Result<()> {
        Ok(())
    }
    async fn run_env(&self, _: RunId) -> io::Result<BTreeMap<String, String>> {
        Ok(BTreeMap::new())
    }
    async fn run_close(&self, _: RunId) -> u32 {
        0
    }
    fn run_hurry(&self, run: RunId) {
        self.hurried.lock().unwrap().push((run, None));
    }
    fn attempt_hurry(&self, run: RunId, attempt: AttemptId) {
        self.hurried.lock().unwrap().push((run, Some(attempt)));
    }
    async fn run_leftovers(&self) -> io::Result<Vec<RunId>> {
        Ok(Vec::new())
    }
    async fn run_erase(&self, _: RunId) -> io::Result<()> {
        Ok(())
    }
    async fn files(&self, files: Files, _: CancellationToken) {
        if let Some(shelf) = files.shelf {
            self.files.send(shelf).ok();
        }
    }
    fn place(&self, _: RunId, _: AttemptId) -> AttemptPlace {
        AttemptPlace { folder: PathBuf::new(), socket: PathBuf::new() }
    }
    async fn attempt(&self, _: RunId, job: WorkerJob, stop: CancellationToken) -> Departure {
        let gone = Departure { seen_alive: true, ..Departure::default() };
        match job.agent.as_str() {
            "quick" => {
                self.done.lock().unwrap().insert(job.attempt);
                gone
            }
            "fragile" => gone,
            _ => {
                self.jobs.send(job).ok();
                stop.cancelled().await;
                Departure::default()
            }
        }
    }
    async fn attempt_look(&self, _: RunId, _: AttemptId) -> Sighting {
        Sighting::Gone
    }
    async fn attempt_adopt(&self, _: RunId, _: AttemptId, _: CancellationToken) -> Departure {
        Departure::default()
    }
    async fn attempt_events(&self, _: RunId, attempt: AttemptId, _: i64) -> io::Result<EventTail> {
        if !self.done.lock().unwrap().contains(&attempt) {
            return Ok(EventTail::default());
        }
        let (outcome, text) = (WorkerOutcome::Ok, "all done".to_owned());
        let finished = Finished { outcome, text };
        let events = [WorkerEvent::Started { pid: 1 }, WorkerEvent::Finished(finished)];
        let numbered = events.into_iter().zip(1..);
        let events = numbered.map(|(event, no)| NumberedEvent { no, ts: Millis::new(0), event });
        Ok(EventTail { events: events.collect(), damaged: None })
    }
    async fn attempt_log(&self, _: RunId, _: AttemptId, _: u64, _: usize) -> io::Result<Vec<u8>> {
        Ok(b"printed\n".to_vec())
    }
    async fn marks(&self) -> Vec<Mark> {
        Vec::new()
    }
    async fn attempt_sweep(&self, _: AttemptId) -> u32 {
        0
    }
    async fn shell(&self, _: ShellCommand, _: CancellationToken) -> io::Result<ShellEnd> {
        Ok(ShellEnd { status: Some(0), ..ShellEnd::default() })
    }
}
