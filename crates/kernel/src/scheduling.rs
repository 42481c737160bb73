//! Who runs when. Loops here are dull: they look at the store, ask a pure function, and do what it says.
//!
//! Invariant: first start, wake, retry and crash recovery are one path: look at the store and go on.
//! Invariant: a worker is known by its worker before it is leased, so that a stop never misses one.

pub(crate) mod attempts;
pub(crate) mod batch;
pub(crate) mod dead_letter_policy;
pub(crate) mod limits;
pub(crate) mod live_state;
pub(crate) mod prompt;
pub(crate) mod retry_policy;
pub(crate) mod run_step;
pub(crate) mod runner;
pub(crate) mod wall_clock;

mod recovery;
pub(crate) mod run_loop;
mod search_index;
mod setup;
pub(crate) mod shutdown;
mod turn;
mod watchdog;
mod worker_handle;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agent_worker_protocol::{AgentName, AttemptId, RunId, Span, WorkflowId};
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::error::{Error, Result};
pub use recovery::RecoverySummary;
use worker_handle::WorkerHandle;

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
    pub sweep_interval: Span,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: 8,
            workers_per_instance: 4,
            orphan_grace: Span::from_secs(60),
            kill_grace: Span::from_secs(10),
            sweep_interval: Span::from_secs(5),
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
    worker_slots: Arc<Semaphore>,
    pub(crate) indexer: search_index::Indexer,
    adopted_runs: Arc<Mutex<HashMap<RunId, CancellationToken>>>,
    worker_handles: Arc<Mutex<HashMap<AttemptId, Arc<WorkerHandle>>>>,
    /// Since when the machine has been unable to start workers.
    shortage_since: Arc<Mutex<Option<Instant>>>,
}

impl Scheduler {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options,
            tracker: TaskTracker::new(),
            draining: CancellationToken::new(),
            closing: CancellationToken::new(),
            worker_slots: Arc::new(Semaphore::new(options.workers)),
            indexer: search_index::Indexer::default(),
            adopted_runs: Arc::default(),
            worker_handles: Arc::default(),
            shortage_since: Arc::default(),
        }
    }

    /// Notes whether a worker could be started; answers with how long the machine has been unable to.
    fn record_start(&self, unstarted: Option<&str>) -> Duration {
        let mut since = self.shortage_since.lock().unwrap_or_else(PoisonError::into_inner);
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
        self.lock_workers().get(&attempt).is_some_and(|worker| worker.is_stop_requested())
    }

    /// Carries something out to its end, also when whoever waits for it goes away in the middle.
    pub(crate) async fn run_to_completion<T: Send + 'static>(
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
    fn has_worker(&self, attempt: AttemptId) -> bool {
        self.lock_workers().contains_key(&attempt)
    }

    fn release_run(&self, run: RunId) {
        if let Some(token) = self.lock_runs().remove(&run) {
            token.cancel();
        }
    }

    fn register_worker(&self, attempt: AttemptId, worker: WorkerHandle) -> Arc<WorkerHandle> {
        let worker = Arc::new(worker);
        self.lock_workers().insert(attempt, Arc::clone(&worker));
        worker
    }

    /// How the worker of an agent is held, whichever run it belongs to.
    pub(crate) fn worker_of(
        &self,
        workflow: WorkflowId,
        agent: &AgentName,
    ) -> Option<Arc<WorkerHandle>> {
        let workers = self.lock_workers();
        let mut held = workers.values();
        held.find(|worker| worker.workflow == workflow && worker.agent == *agent).cloned()
    }

    /// How many workers are held.
    pub(crate) fn worker_count(&self) -> usize {
        self.lock_workers().len()
    }

    fn unregister_worker(&self, attempt: AttemptId) {
        self.lock_workers().remove(&attempt);
    }

    fn lock_workers(&self) -> std::sync::MutexGuard<'_, HashMap<AttemptId, Arc<WorkerHandle>>> {
        self.worker_handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_runs(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, CancellationToken>> {
        self.adopted_runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
