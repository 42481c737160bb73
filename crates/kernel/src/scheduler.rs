//! Who runs when. Loops here are dull: they look at the store, ask a pure function, and do what it says.
//!
//! Invariant: first start, wake, retry and crash recovery are one path: look at the store and go on.
//! Invariant: a worker is known by its leash before it is leased, so that a stop never misses one.

mod backstop;
mod index;
mod leash;
mod recover;
mod setup;
pub(crate) mod shutdown;
pub(crate) mod tend;
mod turn;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agent_worker_protocol::{AgentName, AttemptId, RunId, Span, WorkflowId};
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::error::{Error, Result};
use leash::Leash;
pub use recover::Recovered;

/// How much runs at once, and how patient the daemon is.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Workers at once.
    pub workers: usize,
    /// Workers at once in one instance.
    pub workers_per_instance: usize,
    /// How long a worker goes on without a daemon.
    pub orphan_grace: Span,
    /// How long a process has between TERM and KILL.
    pub kill_grace: Span,
    /// How often the store is looked at though nothing woke us.
    pub sweep: Span,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: 8,
            workers_per_instance: 4,
            orphan_grace: Span::from_secs(60),
            kill_grace: Span::from_secs(10),
            sweep: Span::from_secs(5),
        }
    }
}

/// What runs now. The truth about it is in the store; this is how to reach it.
#[derive(Clone)]
pub(crate) struct Scheduler {
    pub(crate) options: Options,
    tracker: TaskTracker,
    /// Nothing more is leased.
    draining: CancellationToken,
    /// The loops end; workers stay.
    closing: CancellationToken,
    slots: Arc<Semaphore>,
    pub(crate) indexer: index::Indexer,
    runs: Arc<Mutex<HashMap<RunId, CancellationToken>>>,
    leashes: Arc<Mutex<HashMap<AttemptId, Arc<Leash>>>>,
    /// Since when the machine has been unable to start workers.
    shortage: Arc<Mutex<Option<Instant>>>,
}

impl Scheduler {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options,
            tracker: TaskTracker::new(),
            draining: CancellationToken::new(),
            closing: CancellationToken::new(),
            slots: Arc::new(Semaphore::new(options.workers)),
            indexer: index::Indexer::default(),
            runs: Arc::default(),
            leashes: Arc::default(),
            shortage: Arc::default(),
        }
    }

    /// Notes whether a worker could be started; answers with how long the machine has been unable to.
    fn note_start(&self, unstarted: Option<&str>) -> Duration {
        let mut since = self.shortage.lock().unwrap_or_else(PoisonError::into_inner);
        if unstarted.is_none() {
            *since = None;
            return Duration::ZERO;
        }
        since.get_or_insert_with(Instant::now).elapsed()
    }

    /// Whether nothing new is started.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Whether a worker is wanted no longer.
    pub(crate) fn is_stopping(&self, attempt: AttemptId) -> bool {
        self.leashes().get(&attempt).is_some_and(|leash| leash.is_pulled())
    }

    /// Carries something out to its end, also when whoever waits for it goes away in the middle.
    pub(crate) async fn carry<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        match self.tracker.spawn(work).await {
            Ok(result) => result,
            Err(_) => Err(Error::Draining),
        }
    }

    /// Starts caring for a run; the token ends that. None if somebody does already.
    fn adopt_run(&self, run: RunId) -> Option<CancellationToken> {
        let mut runs = self.lock_runs();
        if runs.contains_key(&run) {
            return None;
        }
        let token = self.closing.child_token();
        runs.insert(run, token.clone());
        Some(token)
    }

    /// Whether a run is cared for.
    fn has_run(&self, run: RunId) -> bool {
        self.lock_runs().contains_key(&run)
    }

    /// Whether the worker of an attempt is held.
    fn is_held(&self, attempt: AttemptId) -> bool {
        self.leashes().contains_key(&attempt)
    }

    fn leave_run(&self, run: RunId) {
        if let Some(token) = self.lock_runs().remove(&run) {
            token.cancel();
        }
    }

    fn leash(&self, attempt: AttemptId, leash: Leash) -> Arc<Leash> {
        let leash = Arc::new(leash);
        self.leashes().insert(attempt, Arc::clone(&leash));
        leash
    }

    /// How the worker of an agent is held, whichever run it belongs to.
    pub(crate) fn leash_of(&self, workflow: WorkflowId, agent: &AgentName) -> Option<Arc<Leash>> {
        let leashes = self.leashes();
        let mut held = leashes.values();
        held.find(|leash| leash.workflow == workflow && leash.agent == *agent).cloned()
    }

    /// How many workers are held.
    pub(crate) fn held_count(&self) -> usize {
        self.leashes().len()
    }

    fn unleash(&self, attempt: AttemptId) {
        self.leashes().remove(&attempt);
    }

    fn leashes(&self) -> std::sync::MutexGuard<'_, HashMap<AttemptId, Arc<Leash>>> {
        self.leashes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_runs(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, CancellationToken>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
