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
    pulse: Arc<Mutex<Option<Instant>>>,
}

/// One reader's end.
pub(crate) struct LiveReader(broadcast::Receiver<(WorkflowId, Arc<Event>)>);

impl Default for Live {
    fn default() -> Self {
        Self { events: broadcast::channel(BACKLOG).0, heard: Arc::default(), pulse: Arc::default() }
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

    /// A worker is gone.
    pub(crate) fn forget(&self, attempt: AttemptId) {
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

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<AttemptId, Instant>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
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
