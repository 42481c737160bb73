//! What is shown while it happens and never stored: a model's words, a worker's heartbeat.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agent_worker_protocol::{AttemptId, Event, WorkflowId};
use tokio::{sync::broadcast, time::Instant};

/// How far a slow reader may fall behind before it misses some; what is stored is never missed.
const BACKLOG: usize = 256;

/// Carries live events to whoever watches, and remembers when each worker was last heard.
#[derive(Clone)]
pub(crate) struct Live {
    events: broadcast::Sender<(WorkflowId, Arc<Event>)>,
    heard: Arc<Mutex<HashMap<AttemptId, Instant>>>,
    holds: Arc<Mutex<HashMap<AttemptId, Hold>>>,
    pulse: Arc<Mutex<Option<Instant>>>,
}

/// How long a worker has waited for a person.
#[derive(Clone, Copy, Default)]
struct Hold {
    before: Duration,
    /// How often it waits now, and since when.
    now: usize,
    since: Option<Instant>,
}

/// A worker that waits for a person, until dropped.
pub(crate) struct Held {
    live: Live,
    attempt: AttemptId,
}

/// One reader's end.
pub(crate) struct LiveReader(broadcast::Receiver<(WorkflowId, Arc<Event>)>);

impl Default for Live {
    fn default() -> Self {
        let events = broadcast::channel(BACKLOG).0;
        Self { events, heard: Arc::default(), holds: Arc::default(), pulse: Arc::default() }
    }
}

impl Live {
    pub(crate) fn show(&self, workflow: WorkflowId, event: Event) {
        // Nobody watching is fine.
        let _ = self.events.send((workflow, Arc::new(event)));
    }

    pub(crate) fn watch(&self) -> LiveReader {
        LiveReader(self.events.subscribe())
    }

    /// A worker said something.
    pub(crate) fn hear(&self, attempt: AttemptId) {
        self.lock().insert(attempt, Instant::now());
    }

    /// When a worker last said something to this daemon.
    pub(crate) fn heard(&self, attempt: AttemptId) -> Option<Instant> {
        self.lock().get(&attempt).copied()
    }

    /// A worker waits for a person: its clocks stand still.
    pub(crate) fn hold(&self, attempt: AttemptId) -> Held {
        let mut holds = self.holds();
        let hold = holds.entry(attempt).or_default();
        hold.now += 1;
        hold.since.get_or_insert_with(Instant::now);
        drop(holds);
        Held { live: self.clone(), attempt }
    }

    /// How long a worker has waited for people in all.
    pub(crate) fn held(&self, attempt: AttemptId) -> Duration {
        let hold = self.holds().get(&attempt).copied().unwrap_or_default();
        hold.before + hold.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// A worker is gone.
    pub(crate) fn forget(&self, attempt: AttemptId) {
        self.holds().remove(&attempt);
        self.lock().remove(&attempt);
    }

    /// The store took a pulse.
    pub(crate) fn feel(&self) {
        *self.pulse.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether the store took a pulse less than `span` ago.
    pub(crate) fn felt_within(&self, span: Duration) -> bool {
        let last = *self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_some_and(|last| last.elapsed() < span)
    }

    fn holds(&self) -> std::sync::MutexGuard<'_, HashMap<AttemptId, Hold>> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<AttemptId, Instant>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut holds = self.live.holds();
        if let Some(hold) = holds.get_mut(&self.attempt) {
            hold.now -= 1;
            if hold.now == 0 {
                hold.before += hold.since.take().map_or(Duration::ZERO, |since| since.elapsed());
            }
        }
    }
}

impl LiveReader {
    /// The next live event of `workflow`; waits for ever when there is none.
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
