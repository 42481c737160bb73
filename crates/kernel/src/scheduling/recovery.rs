//! The start of a daemon before it opens its listeners: adopts the workers of the previous daemon and continues
//! every run.

use std::{collections::HashMap, sync::Arc, time::Duration};

use agent_worker_protocol::{AttemptId, RunId, RunState};
use agent_worker_store::{
    AgentRow, AttemptRow, Error as StoreError, InstanceQuery, Retention, RunQuery, RunRow,
    StoreTime,
};

use super::{run_loop::BusyAgents, worker_handle::WorkerHandle};
use crate::{
    error::Result,
    kernel::{Kernel, RunContext},
    scheduling::{
        retry_policy::WorkerStopReason,
        runner::{ProcessMark, ProcessOrigin, WorkerExit, WorkerLiveness},
    },
};

/// Interval of the heartbeat, which bounds the error in the length of an absence.
const HEARTBEAT_INTERVAL: Duration = Duration::from_mins(1);
/// Retention of the idempotency keys of users and clients.
const IDEMPOTENCY_KEY_RETENTION: Duration = Duration::from_hours(7 * 24);

/// Retention of the logs of a run's workers after its end.
const LOG_RETENTION: Duration = Duration::from_hours(7 * 24);

/// Interval between two tries of a takeover that the disk refused.
const RECOVERY_INTERVAL: Duration = Duration::from_secs(1);

/// The result of a recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoverySummary {
    /// Number of runs that continue.
    pub runs: usize,
    /// Number of adopted workers.
    pub adopted: usize,
    /// Number of attempts that were settled from the records of their workers.
    pub settled: usize,
}

impl Kernel {
    /// Takes over from the previous daemon, before any request is served. After a disk fault it is called again,
    /// and skips the attempts and runs that are already taken over.
    pub async fn recover(&self) -> Result<RecoverySummary> {
        let now = self.now();
        let last = self.store.heartbeat_last().await?;
        // Write the same value again: this changes nothing, and shows whether the disk accepts writes before any
        // worker is touched.
        self.store.heartbeat_put(last.unwrap_or(now.store)).await?;
        self.store.effect_expire(now.store.minus(IDEMPOTENCY_KEY_RETENTION)).await?;
        let mut recovered = RecoverySummary::default();
        let mut busy: HashMap<RunId, BusyAgents> = HashMap::new();
        for attempt in self.store.attempt_live().await? {
            if self.scheduler.has_worker(attempt.id) {
                continue;
            }
            let Some(run_context) = self.readable_run_context(attempt.run).await else { continue };
            match self.runner.attempt_probe(run_context.run, attempt.id).await {
                WorkerLiveness::Alive => {
                    let nobody = || self.scheduler.no_busy_agents(&run_context);
                    let busy = busy.entry(run_context.run).or_insert_with(nobody);
                    let stopped = self.is_agent_stopped(&attempt).await?;
                    let worker = self.adopt_worker(run_context, attempt, busy);
                    if stopped {
                        // The agent was stopped, and the previous daemon had no time to end its worker.
                        worker.request_stop(WorkerStopReason::Stopped);
                    }
                    recovered.adopted += 1;
                }
                WorkerLiveness::Gone => {
                    self.runner.attempt_sweep(attempt.id).await;
                    self.settle_attempt_once(&run_context, attempt.id).await?;
                    recovered.settled += 1;
                }
            }
        }
        self.sweep_leftover_processes().await?;
        for run in self.store.run_list(RunQuery::Live).await? {
            if self.scheduler.has_run(run.id) {
                continue;
            }
            let Some(run_context) = self.readable_run_context(run.id).await else { continue };
            self.skip_absence(&run, last, now).await?;
            if run.state == RunState::Setup {
                // The setup starts again, so processes of the first try must not run at the same time.
                self.runner.attempt_sweep(AttemptId::new(run.id.get())).await;
            }
            let nobody = || self.scheduler.no_busy_agents(&run_context);
            let busy = busy.remove(&run.id).unwrap_or_else(nobody);
            self.spawn_run(run_context, busy);
            recovered.runs += 1;
        }
        self.forget_ended_runs().await?;
        self.erase_old_logs(now.store).await;
        self.expire_history(now.store);
        self.store.heartbeat_put(now.store).await?;
        self.spawn_heartbeat();
        self.spawn_indexer();
        Ok(recovered)
    }

    /// Takes over as soon as the disk accepts writes. Until then all data can be read, and nothing runs.
    pub fn recover_in_background(&self) {
        let kernel = self.clone();
        self.scheduler.tracker.spawn(async move {
            loop {
                tokio::select! {
                    () = kernel.scheduler.closing.cancelled() => return,
                    () = tokio::time::sleep(RECOVERY_INTERVAL) => {}
                }
                match kernel.recover().await {
                    Ok(recovered) => {
                        tracing::info!(?recovered, "the disk accepts writes; recovery is complete");
                        return;
                    }
                    Err(error) if error.is_disk_fault() => {}
                    Err(error) => tracing::error!(%error, "recovery failed; retrying"),
                }
            }
        });
    }

    /// Settles an attempt whose worker is gone. Returns a disk fault: the start does not wait for the fault to end.
    async fn settle_attempt_once(
        &self,
        run_context: &RunContext,
        attempt: AttemptId,
    ) -> Result<()> {
        match self.try_settle_attempt(run_context, attempt, &WorkerExit::default(), None).await {
            Err(error) if error.is_disk_fault() => Err(error),
            Err(_) => {
                self.settle_attempt(run_context, attempt, &WorkerExit::default(), None).await;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Adopts a worker of the previous daemon, and waits for it like for an own one.
    fn adopt_worker(
        &self,
        run_context: Arc<RunContext>,
        attempt: AttemptRow,
        busy: &BusyAgents,
    ) -> Arc<WorkerHandle> {
        let kernel = self.clone();
        let place = busy.try_enter(&attempt.fence.agent);
        // The worker is alive in any case: if the limits were lowered meanwhile, it has no slot and blocks no other
        // worker.
        let slots = [&busy.slots, &self.scheduler.worker_slots];
        let slots = slots.map(|slots| Arc::clone(slots).try_acquire_owned().ok());
        let worker = WorkerHandle::new(&run_context, attempt.fence.agent.clone());
        let worker = self.scheduler.register_worker(attempt.id, worker);
        let held = Arc::clone(&worker);
        self.spawn_reach_of_adopted(&run_context, &attempt);
        self.scheduler.tracker.spawn(async move {
            let closing = kernel.scheduler.closing.clone();
            tokio::select! {
                () = closing.cancelled() => {}
                () = kernel.wait_for_adopted(&run_context, &attempt, &held) => {}
            }
            drop(slots);
            drop(place);
        });
        worker
    }

    /// Reaches the turn of an adopted worker with the messages that must not wait for its end.
    fn spawn_reach_of_adopted(&self, run_context: &Arc<RunContext>, attempt: &AttemptRow) {
        let (kernel, run_context) = (self.clone(), Arc::clone(run_context));
        let agent = attempt.fence.agent.clone();
        self.scheduler.tracker.spawn(async move {
            if let Err(error) = kernel.reach_adopted_turn(&run_context, &agent).await {
                tracing::error!(%agent, run = %run_context.run, %error, "cannot reach a running turn");
            }
        });
    }

    async fn is_agent_stopped(&self, attempt: &AttemptRow) -> Result<bool> {
        let agents = self.store.agent_list(attempt.fence.workflow).await?;
        let its = |agent: &&AgentRow| agent.name == attempt.fence.agent;
        Ok(agents.iter().find(its).is_some_and(|agent| agent.stopped.is_some()))
    }

    async fn wait_for_adopted(
        &self,
        run_context: &RunContext,
        attempt: &AttemptRow,
        worker: &WorkerHandle,
    ) {
        let stop = worker.stop.clone();
        let running = self.runner.attempt_adopt(run_context.run, attempt.id, stop);
        let exit = match run_context.agent(&attempt.fence.agent) {
            Ok(settings) => self.watch_worker(attempt.id, settings, worker, running).await,
            Err(_) => running.await,
        };
        self.settle_attempt(run_context, attempt.id, &exit, worker.stop_reason()).await;
        self.scheduler.unregister_worker(attempt.id);
        self.live_state.forget_attempt(attempt.id);
        worker.mark_stopped(exit.processes_ended);
    }

    /// Ends processes that an interrupted daemon did not end.
    async fn sweep_leftover_processes(&self) -> Result<()> {
        for mark in self.runner.process_marks().await {
            let ProcessMark { id, origin } = mark;
            let over = match self.store.attempt_get(id).await {
                Ok(attempt) => attempt.ended.is_some(),
                Err(StoreError::NotFound(_)) => {
                    match self.store.run_get(RunId::new(id.get())).await {
                        Ok(run) => !run.state.is_live(),
                        // Deleted from this store, or a mark of another daemon.
                        Err(StoreError::NotFound(_)) => origin == ProcessOrigin::ThisHome,
                        Err(StoreError::Damaged(_)) => false,
                        Err(error) => return Err(error.into()),
                    }
                }
                // A damaged row proves nothing, and must not prevent the daemon from starting.
                Err(StoreError::Damaged(_)) => false,
                Err(error) => return Err(error.into()),
            };
            if over {
                self.runner.attempt_sweep(id).await;
            }
        }
        Ok(())
    }

    /// Returns the context of a run, or none if another version wrote data that this one cannot read, which must
    /// not delay the others.
    async fn readable_run_context(&self, run: RunId) -> Option<Arc<RunContext>> {
        let run_context = self.run_context(run).await;
        run_context
            .inspect_err(|error| tracing::error!(%run, %error, "cannot read a run; skipping it"))
            .ok()
    }

    /// Removes leftovers of ended runs: their environment at once, their workers' logs after the retention.
    async fn erase_old_logs(&self, now: StoreTime) {
        let leftovers = self.runner.run_log_list().await.unwrap_or_else(|error| {
            tracing::error!(%error, "cannot read the folder of runs");
            Vec::new()
        });
        for run in leftovers {
            let row = match self.store.run_get(run).await {
                Ok(row) if row.state.is_live() => continue,
                Ok(row) => Some(row),
                Err(StoreError::NotFound(_)) => None,
                Err(_) => continue,
            };
            // An interrupted daemon may not have written all of its files.
            if let Some(row) = &row
                && self.runner.files_pending(run)
            {
                self.resume_file_sync(row).await;
            }
            // It may not have removed the environment either.
            if self.runner.run_env(run).await.is_ok() {
                self.runner.run_close(run).await;
            }
            let ended = row.and_then(|row| row.store_ended);
            let recent = ended.is_some_and(|ended| now.since(ended) <= LOG_RETENTION);
            if !recent && let Err(error) = self.runner.run_log_erase(run).await {
                tracing::error!(%run, %error, "could not delete old logs");
            }
        }
    }

    /// Deletes the history of old turns in the background, step by step.
    fn expire_history(&self, now: StoreTime) {
        let (kernel, before) = (self.clone(), now.minus(LOG_RETENTION));
        self.scheduler.tracker.spawn(async move {
            let expire = async {
                while kernel.store.history_expire(before).await? > 0 {}
                Ok::<(), StoreError>(())
            };
            let expired = kernel.scheduler.closing.run_until_cancelled(expire).await;
            if let Some(Err(error)) = expired {
                tracing::error!(%error, "could not delete the history of old turns");
            }
        });
    }

    /// Syncs the files of an ended run, unless a later run of the instance does so.
    async fn resume_file_sync(&self, run: &RunRow) {
        let newest = self.newest_run(run.workflow).await;
        if newest.is_ok_and(|newest| newest == Some(run.id))
            && let Some(run_context) = self.readable_run_context(run.id).await
        {
            self.spawn_file_sync(&run_context);
        }
    }

    async fn forget_ended_runs(&self) -> Result<()> {
        for instance in self.store.instance_list(InstanceQuery::All).await? {
            let (None, Some(last)) = (instance.live, instance.last) else { continue };
            match self.store.run_get(last).await {
                Ok(run) if run.retention == Retention::WhileLive => {
                    self.store.instance_forget(instance.id).await?;
                }
                // The damage is reported at the read of the row; the daemon starts without it.
                Ok(_) | Err(StoreError::Damaged(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Writes a heartbeat regularly, for the next start.
    fn spawn_heartbeat(&self) {
        let kernel = self.clone();
        self.scheduler.tracker.spawn(async move {
            loop {
                tokio::select! {
                    () = kernel.scheduler.closing.cancelled() => return,
                    () = tokio::time::sleep(HEARTBEAT_INTERVAL) => {}
                }
                let now = kernel.now();
                if let Err(error) = kernel.report_clock_jump(now).await {
                    tracing::error!(%error, "reporting a clock jump failed");
                }
                if let Err(error) = kernel.store.heartbeat_put(now.store).await {
                    tracing::error!(%error, "could not store the heartbeat");
                }
            }
        });
    }
}
