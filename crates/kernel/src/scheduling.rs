//! The scheduler: starts turns, retries and settles attempts, and ends runs.
//!
//! Each live run has one loop (`run_loop`). The loop waits for a wake, reads the store, asks a pure function for the next
//! step and carries the step out. A turn is its own task (`turn`): it waits for a worker slot, leases an attempt, runs the
//! worker and settles the attempt.
//!
//! # Why a wake carries no input
//!
//! A wake is a signal that an instance has changed. After each COMMIT the store increments a counter for every instance
//! that the batch changed, and `Store::change_wait` returns when the counter is higher than the caller's last value. The
//! wake does not contain the message, the agent or the event. The loop reads those from the store. The reasons are:
//!
//! *One path.* A wake exists only in memory. After a crash there is none, and the next daemon has only the store. The loop
//! must therefore be able to derive all work from the store: for its first iteration, after a restart, when a retry becomes
//! due, and when a deadline passes. A loop that also accepted work from a wake would have a second path, which would run
//! most of the time and differ from the path that runs after a crash. With empty wakes the recovery path is the normal path
//! and every test exercises it.
//!
//! *No lost or duplicate work.* A queue of inputs can lose an entry, deliver it twice, or hold an entry for a message that
//! was dropped in the meantime. Each case would need a rule that reconciles the queue with the store. A wake without input
//! can be lost, repeated or merged with others without harm: the next read of the store finds the same pending deliveries.
//! The loop also reads the store after `Options::sweep_interval`, so that a lost wake delays work by at most that time.
//!
//! *Decisions use current facts.* Time passes between a wake and the start of an attempt: the turn waits for a slot, more
//! messages arrive, a user stops the agent or pauses the run, a limit is reached. `Store::attempt_lease` therefore decides
//! again inside its transaction: whether the run is running, whether the agent is free and due, whether the limits allow a
//! turn, and which pending deliveries the attempt takes. A message carried by the wake would be an older answer to the same
//! question. For the same reason the loop passes only the name of the agent to the turn, and a lease that finds nothing to
//! do returns `LeaseOutcome::NotReady`, which is not an error.
//!
//! *Batching.* An attempt takes the pending deliveries of its agent up to a limit, not one message; only a message that
//! failed before, or whose sender waits for its answer, is taken alone. Many messages that arrive during a turn raise the
//! counter many times and cause few reads and few further turns.
//!
//! *Bounded memory.* The signal is one counter per instance. A slow loop holds no queue, and a sender never waits for a
//! loop.
//!
//! The price is one read of the store per wake. It stays small: wakes that arrive while the loop works are merged, the read
//! uses an index of open deliveries, and the loop skips it while every agent of the run is busy.
//!
//! Other readers of the store use the same signal in the same way: event subscriptions continue after their last position,
//! and a waiting approval reads its row again.
//!
//! Invariant: first start, wake, retry and crash recovery are one path: read the store and carry out the next step.
//! Invariant: the handle of a worker is registered before its attempt is leased, so that a stop never misses a worker.

mod answer_draft;
mod answer_policy;
pub(crate) mod attempts;
pub(crate) mod batch;
mod counted_time;
pub(crate) mod dead_letter_policy;
pub(crate) mod hold;
pub(crate) mod limits;
pub(crate) mod live_state;
mod model_spend;
pub(crate) mod prompt;
pub(crate) mod retry_policy;
pub(crate) mod run_step;
pub(crate) mod runner;
pub(crate) mod wall_clock;
pub(crate) mod wall_limit;

mod recovery;
pub(crate) mod run_loop;
mod search_index;
mod setup;
pub(crate) mod shutdown;
pub(crate) mod spend_limit;
pub(crate) mod step_command;
mod turn;
pub(crate) mod turn_messages;
mod watchdog;
pub(crate) mod worker_handle;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_protocol::{AgentName, AttemptId, RunId, Span, WorkerLimit, WorkflowId, sync};
use tokio::{sync::Semaphore, task::JoinHandle, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    error::{Error, Result},
    kernel::RunContext,
    views::worker_limit::worker_count,
};
pub use recovery::RecoverySummary;
use run_loop::BusyAgents;
use worker_handle::WorkerHandle;

/// Limits of concurrency and timeouts.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Maximum number of workers.
    pub workers: usize,
    /// Maximum number of workers in one instance.
    pub workers_per_instance: usize,
    /// Time for which a worker continues without a daemon.
    pub orphan_grace: Span,
    /// Grace period of a process between TERM and KILL.
    pub kill_grace: Span,
    /// Interval of reading the store without a wake.
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

impl Options {
    /// Returns the maximum number of workers of a run; `of_file` is the number that its file sets.
    pub(crate) fn workers_of_run(&self, of_file: Option<u32>) -> usize {
        of_file.map_or(self.workers_per_instance, |workers| workers as usize)
    }
}

/// Tasks and worker handles of this daemon. The store is the source of truth; this is the way to reach them.
#[derive(Clone)]
pub(crate) struct Scheduler {
    pub(crate) options: Options,
    pub(crate) tracker: TaskTracker,
    /// Stops leasing further attempts.
    draining: CancellationToken,
    /// Ends the loops; workers continue.
    pub(crate) closing: CancellationToken,
    pub(crate) hold: hold::Hold,
    worker_slots: Arc<Semaphore>,
    pub(crate) indexer: search_index::Indexer,
    adopted_runs: Arc<Mutex<HashMap<RunId, CancellationToken>>>,
    worker_handles: Arc<Mutex<HashMap<AttemptId, Arc<WorkerHandle>>>>,
    /// Time since which the machine has been unable to start workers.
    shortage_since: Arc<Mutex<Option<Instant>>>,
    pub(crate) spend_gate: Arc<model_spend::SpendGate>,
}

impl Scheduler {
    pub(crate) fn new(options: Options, hold: hold::Hold) -> Self {
        Self {
            options,
            tracker: TaskTracker::new(),
            draining: CancellationToken::new(),
            closing: CancellationToken::new(),
            hold,
            worker_slots: Arc::new(Semaphore::new(options.workers)),
            indexer: search_index::Indexer::default(),
            adopted_runs: Arc::default(),
            worker_handles: Arc::default(),
            shortage_since: Arc::default(),
            spend_gate: Arc::default(),
        }
    }

    /// Returns the limit of the daemon if all of its workers are busy.
    pub(crate) fn full_daemon(&self) -> Option<WorkerLimit> {
        let workers = self.options.workers;
        let is_full = self.lock_workers().len() >= workers;
        is_full.then(|| WorkerLimit::Daemon { workers: worker_count(workers) })
    }

    /// Returns the empty set of busy agents of a run.
    pub(crate) fn no_busy_agents(&self, run_context: &RunContext) -> BusyAgents {
        BusyAgents::new(self.options.workers_of_run(run_context.script.workflow.limits.workers))
    }

    /// Records whether a worker could be started; returns the time for which the machine has been unable to.
    fn record_start(&self, unstarted: Option<&str>) -> Duration {
        let mut since = sync::lock(&self.shortage_since);
        if unstarted.is_none() {
            *since = None;
            return Duration::ZERO;
        }
        since.get_or_insert_with(Instant::now).elapsed()
    }

    /// Returns true if no new work starts.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Returns true if the stop of a worker was requested.
    pub(crate) fn is_stopping(&self, attempt: AttemptId) -> bool {
        self.lock_workers().get(&attempt).is_some_and(|worker| worker.is_stop_requested())
    }

    /// Runs a future to its end in its own task, even if the caller stops waiting.
    pub(crate) async fn run_to_completion<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        match self.spawn_to_completion(work).await {
            Ok(result) => result,
            Err(_) => Err(Error::Draining),
        }
    }

    /// Starts such a task.
    pub(crate) fn spawn_to_completion<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> JoinHandle<Result<T>> {
        self.tracker.spawn(work)
    }

    /// Registers a run and returns the token that ends its loop. None if the run is already registered.
    fn adopt_run(&self, run: RunId) -> Option<CancellationToken> {
        let mut runs = self.lock_runs();
        if runs.contains_key(&run) {
            return None;
        }
        let token = self.closing.child_token();
        runs.insert(run, token.clone());
        Some(token)
    }

    /// Returns true if a run is registered.
    fn has_run(&self, run: RunId) -> bool {
        self.lock_runs().contains_key(&run)
    }

    /// Returns true if the worker of an attempt is registered.
    fn has_worker(&self, attempt: AttemptId) -> bool {
        self.lock_workers().contains_key(&attempt)
    }

    /// Returns true if a worker of a run is registered.
    fn has_worker_in(&self, run: RunId) -> bool {
        self.lock_workers().values().any(|worker| worker.run == run)
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

    /// Returns the handle of an agent's worker, whichever run the agent is in.
    pub(crate) fn worker_of(
        &self,
        workflow: WorkflowId,
        agent: &AgentName,
    ) -> Option<Arc<WorkerHandle>> {
        let workers = self.lock_workers();
        let mut held = workers.values();
        held.find(|worker| worker.workflow == workflow && worker.agent == *agent).cloned()
    }

    /// Returns the handle of the worker of an attempt.
    pub(crate) fn worker(&self, attempt: AttemptId) -> Option<Arc<WorkerHandle>> {
        self.lock_workers().get(&attempt).cloned()
    }

    /// Returns the attempt of an agent in a run, with the handle of its worker.
    pub(crate) fn attempt_of(
        &self,
        run: RunId,
        agent: &AgentName,
    ) -> Option<(AttemptId, Arc<WorkerHandle>)> {
        let workers = self.lock_workers();
        let mut held = workers.iter();
        let own = held.find(|(_, worker)| worker.run == run && worker.agent == *agent);
        own.map(|(attempt, worker)| (*attempt, Arc::clone(worker)))
    }

    /// Returns the number of registered workers.
    pub(crate) fn worker_count(&self) -> usize {
        self.lock_workers().len()
    }

    fn unregister_worker(&self, attempt: AttemptId) {
        self.lock_workers().remove(&attempt);
        self.spend_gate.announce_end();
    }

    fn lock_workers(&self) -> std::sync::MutexGuard<'_, HashMap<AttemptId, Arc<WorkerHandle>>> {
        sync::lock(&self.worker_handles)
    }

    fn lock_runs(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, CancellationToken>> {
        sync::lock(&self.adopted_runs)
    }
}
