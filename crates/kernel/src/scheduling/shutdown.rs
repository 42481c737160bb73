//! Stopping of runs and of the daemon: no further leases, every live process ended.

use crate::runs::Runs;
use crate::views::KernelHealth;
use std::{sync::Arc, time::Duration};

use agent_worker_protocol::{
    AgentName, AttemptId, Permission, RunId, WorkflowId,
    api::{ProcessTracking, RunStopped},
};
use agent_worker_store::RunStep;
use tokio::time::Instant;

use super::worker_handle::WorkerHandle;
use crate::{
    error::{Error, Result},
    kernel::{Kernel, Principal},
    scheduling::{retry_policy::WorkerStopReason, run_step},
};

/// Time for settling a worker's end, in addition to its kill grace.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for the remaining tasks when the daemon stops. A task may wait for a thread that the system blocks, such as in
/// the opening of a file; the next daemon settles its work.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Selects workers by their owner.
#[derive(Clone, Debug)]
pub(crate) enum WorkerSelector {
    /// All workers of the daemon.
    All,
    /// Workers of one run.
    Run(RunId),
    /// Workers of one instance, whichever run they belong to.
    Instance(WorkflowId),
    /// Workers of one agent, whichever run they belong to.
    Agent(WorkflowId, AgentName),
}

impl Runs<'_> {
    /// Ends a run and all its processes; returns after they have ended. Completes even if the caller disconnects.
    pub async fn stop(self, who: &Principal, run: RunId) -> Result<RunStopped> {
        who.require(Permission::Run)?;
        self.0.require_run(who, run).await?;
        let (kernel, who) = (self.0.clone(), who.clone());
        self.0.scheduler.run_to_completion(async move { kernel.end_run(&who, run).await }).await
    }

    /// Ends a run immediately: its processes get no grace period, even if they are already being ended.
    pub async fn stop_now(self, who: &Principal, run: RunId) -> Result<RunStopped> {
        who.require(Permission::Run)?;
        self.0.require_run(who, run).await?;
        self.0.runner.run_skip_grace(run);
        self.0.runs().stop(who, run).await
    }
}

impl KernelHealth<'_> {
    /// Returns the kind of process tracking, if there is any.
    pub fn process_tracking(self) -> Option<ProcessTracking> {
        self.0.runner.process_tracking()
    }
}

impl Kernel {
    pub(crate) async fn end_run(&self, who: &Principal, run: RunId) -> Result<RunStopped> {
        let run_context = self.run_context(run).await?;
        if run_context.instance.is_global() {
            return Err(Error::PermanentRun);
        }
        let by = who.display_name();
        let decide = Box::new(move |facts: &_| run_step::stop_step(facts, &by));
        match self.store.run_settle(run, decide, self.now()).await? {
            RunStep::End { .. } => {}
            // Another caller is stopping the run: wait for the same workers.
            RunStep::Stay | RunStep::Pause(_) | RunStep::Resume
                if !self.matching_workers(&WorkerSelector::Run(run)).is_empty() => {}
            RunStep::Stay | RunStep::Pause(_) | RunStep::Resume => {
                return Err(Error::RunEnded(run_context.instance.clone()));
            }
        }
        self.scheduler.release_run(run);
        let (attempts, ended) =
            self.end_workers(&WorkerSelector::Run(run), WorkerStopReason::Stopped).await;
        let processes = ended + self.runner.run_close(run).await;
        let kernel = self.clone();
        let instance = run_context.instance.clone();
        self.scheduler.tracker.spawn(async move { kernel.cleanup_run(&run_context).await });
        Ok(RunStopped { run, instance, attempts, processes })
    }

    /// Stops leasing, gives the workers the `grace` period, ends the rest, and waits until all tasks have ended.
    pub async fn drain(&self, grace: Duration) {
        self.scheduler.draining.cancel();
        let quiet = async {
            for (_, worker) in self.matching_workers(&WorkerSelector::All) {
                worker.wait_stopped().await;
            }
        };
        // Workers that are not done in time are interrupted without blame.
        let _ = tokio::time::timeout(grace, quiet).await;
        self.end_workers(&WorkerSelector::All, WorkerStopReason::Drain).await;
        // Also end running setup commands and their processes. Release the run first: an ended command has not
        // failed, and the next daemon starts an unfinished setup again.
        let runs: Vec<RunId> = self.scheduler.lock_runs().keys().copied().collect();
        let sweep = async {
            for run in runs {
                self.scheduler.release_run(run);
                self.runner.attempt_sweep(AttemptId::new(run.get())).await;
            }
        };
        let limit = self.scheduler.options.kill_grace.duration() + SETTLE_TIMEOUT;
        if tokio::time::timeout(limit, sweep).await.is_err() {
            tracing::error!("the processes of setup commands did not end in time");
        }
        // The time of the stop, from which a held daemon counts no time.
        let heartbeat = self.store.heartbeat_put(self.now().store);
        if !matches!(tokio::time::timeout(SETTLE_TIMEOUT, heartbeat).await, Ok(Ok(()))) {
            tracing::warn!("could not store the time of the stop");
        }
        self.close().await;
    }

    /// Drains immediately: no process gets a grace period, even if it is already being ended.
    pub async fn drain_now(&self) {
        self.scheduler.draining.cancel();
        let runs: Vec<RunId> = self.scheduler.lock_runs().keys().copied().collect();
        for run in runs {
            self.runner.run_skip_grace(run);
        }
        self.skip_workers_grace(&WorkerSelector::All);
        self.drain(Duration::ZERO).await;
    }

    /// Stops all loops; the workers continue and the next daemon adopts them.
    pub async fn close(&self) {
        self.scheduler.draining.cancel();
        self.scheduler.closing.cancel();
        self.scheduler.tracker.close();
        if tokio::time::timeout(CLOSE_TIMEOUT, self.scheduler.tracker.wait()).await.is_err() {
            tracing::error!("some tasks did not end in time; a thread may be blocked");
        }
    }

    /// Returns true if no new work starts.
    pub fn is_draining(&self) -> bool {
        self.scheduler.is_draining()
    }

    /// Ends workers; returns their agents and the number of processes that had to be ended.
    pub(crate) async fn end_workers(
        &self,
        whose: &WorkerSelector,
        why: WorkerStopReason,
    ) -> (Vec<AgentName>, u32) {
        let held = self.request_stops(whose, &why);
        let (mut agents, mut ended) = (Vec::new(), 0);
        // A failing store or a stopping daemon must not block this: the next daemon settles the remaining attempts.
        let deadline =
            Instant::now() + self.scheduler.options.kill_grace.duration() + SETTLE_TIMEOUT;
        for (agent, worker) in held {
            ended += tokio::time::timeout_at(deadline, worker.wait_stopped()).await.unwrap_or(0);
            agents.push(agent);
        }
        (agents, ended)
    }

    /// Waits until a worker whose stop was requested is gone, up to a limit; returns the number of processes that had to
    /// be ended.
    pub(crate) async fn wait_worker_stopped(&self, worker: &WorkerHandle) -> u32 {
        let limit = self.scheduler.options.kill_grace.duration() + SETTLE_TIMEOUT;
        tokio::time::timeout(limit, worker.wait_stopped()).await.unwrap_or(0)
    }

    /// Requests the stop of workers without waiting; returns them.
    pub(super) fn request_stops(
        &self,
        whose: &WorkerSelector,
        why: &WorkerStopReason,
    ) -> Vec<(AgentName, Arc<WorkerHandle>)> {
        let held = self.matching_workers(whose);
        for (_, worker) in &held {
            worker.request_stop(why.clone());
        }
        held
    }

    /// Skips the grace period of workers, even if they are already being ended.
    pub(crate) fn skip_workers_grace(&self, whose: &WorkerSelector) {
        let workers = self.scheduler.lock_workers();
        for (attempt, worker) in workers.iter().filter(|(_, worker)| whose.matches(worker)) {
            self.runner.attempt_skip_grace(worker.run, *attempt);
        }
    }

    fn matching_workers(&self, whose: &WorkerSelector) -> Vec<(AgentName, Arc<WorkerHandle>)> {
        let workers = self.scheduler.lock_workers();
        let wanted = workers.values().filter(|worker| whose.matches(worker));
        wanted.map(|worker| (worker.agent.clone(), Arc::clone(worker))).collect()
    }
}

impl WorkerSelector {
    /// Returns true if a worker is selected.
    fn matches(&self, worker: &WorkerHandle) -> bool {
        match self {
            Self::All => true,
            Self::Run(run) => worker.run == *run,
            Self::Instance(workflow) => worker.workflow == *workflow,
            Self::Agent(workflow, agent) => worker.workflow == *workflow && worker.agent == *agent,
        }
    }
}
