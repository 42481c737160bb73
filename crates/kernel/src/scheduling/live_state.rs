//! Live state that is shown and never stored: a model's text, a worker's heartbeat.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_protocol::{AttemptId, Event, WorkflowId, sync};
use tokio::{sync::broadcast, time::Instant};

/// Number of live events that a slow reader may lag before it misses some; stored events are never missed.
const LIVE_EVENT_CAPACITY: usize = 256;

/// Publishes live events to watchers, and records the time of each worker's last report.
#[derive(Clone)]
pub(crate) struct LiveState {
    events: broadcast::Sender<(WorkflowId, Arc<Event>)>,
    last_reports: Arc<Mutex<HashMap<AttemptId, Instant>>>,
    human_waits: Arc<Mutex<HashMap<AttemptId, HumanWait>>>,
    last_store_write: Arc<Mutex<Option<Instant>>>,
}

/// The time that a worker has waited for people.
#[derive(Clone, Copy, Default)]
struct HumanWait {
    total: Duration,
    /// Number of current waits; `since` is the start of the first.
    active: usize,
    since: Option<Instant>,
}

/// A wait of a worker for a person, until dropped.
pub(crate) struct HumanWaitGuard {
    live: LiveState,
    attempt: AttemptId,
}

/// The receiver of one reader.
pub(crate) struct LiveReader(broadcast::Receiver<(WorkflowId, Arc<Event>)>);

impl Default for LiveState {
    fn default() -> Self {
        let events = broadcast::channel(LIVE_EVENT_CAPACITY).0;
        Self {
            events,
            last_reports: Arc::default(),
            human_waits: Arc::default(),
            last_store_write: Arc::default(),
        }
    }
}

impl LiveState {
    pub(crate) fn publish(&self, workflow: WorkflowId, event: Event) {
        // A send without any reader is fine.
        let _ = self.events.send((workflow, Arc::new(event)));
    }

    pub(crate) fn subscribe(&self) -> LiveReader {
        LiveReader(self.events.subscribe())
    }

    /// Records a report of a worker.
    pub(crate) fn record_report(&self, attempt: AttemptId) {
        self.lock_last_reports().insert(attempt, Instant::now());
    }

    /// Returns the time of a worker's last report to this daemon.
    pub(crate) fn last_report(&self, attempt: AttemptId) -> Option<Instant> {
        self.lock_last_reports().get(&attempt).copied()
    }

    /// Starts a wait of a worker for a person: its timeouts do not advance.
    pub(crate) fn begin_human_wait(&self, attempt: AttemptId) -> HumanWaitGuard {
        let mut holds = self.lock_human_waits();
        let hold = holds.entry(attempt).or_default();
        hold.active += 1;
        hold.since.get_or_insert_with(Instant::now);
        drop(holds);
        HumanWaitGuard { live: self.clone(), attempt }
    }

    /// Returns the total time that a worker has waited for people.
    pub(crate) fn human_wait_time(&self, attempt: AttemptId) -> Duration {
        let hold = self.lock_human_waits().get(&attempt).copied().unwrap_or_default();
        hold.total + hold.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Removes the state of a worker that is gone.
    pub(crate) fn forget_attempt(&self, attempt: AttemptId) {
        self.lock_human_waits().remove(&attempt);
        self.lock_last_reports().remove(&attempt);
    }

    /// Records a successful write of the store.
    pub(crate) fn record_store_write(&self) {
        *sync::lock(&self.last_store_write) = Some(Instant::now());
    }

    /// Returns true if the store wrote successfully less than `span` ago.
    pub(crate) fn has_recent_store_write(&self, span: Duration) -> bool {
        let last = *sync::lock(&self.last_store_write);
        last.is_some_and(|last| last.elapsed() < span)
    }

    fn lock_human_waits(&self) -> std::sync::MutexGuard<'_, HashMap<AttemptId, HumanWait>> {
        sync::lock(&self.human_waits)
    }

    fn lock_last_reports(&self) -> std::sync::MutexGuard<'_, HashMap<AttemptId, Instant>> {
        sync::lock(&self.last_reports)
    }
}

impl Drop for HumanWaitGuard {
    fn drop(&mut self) {
        let mut holds = self.live.lock_human_waits();
        if let Some(hold) = holds.get_mut(&self.attempt) {
            hold.active -= 1;
            if hold.active == 0 {
                hold.total += hold.since.take().map_or(Duration::ZERO, |since| since.elapsed());
            }
        }
    }
}

impl LiveReader {
    /// Returns the next live event of `workflow`; waits forever if there is none.
    pub(crate) async fn next(&mut self, workflow: WorkflowId) -> Arc<Event> {
        loop {
            match self.0.recv().await {
                Ok((from, event)) if from == workflow => return event,
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}
