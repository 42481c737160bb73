//! How runs and the daemon stop: nothing more is leased, what lives is ended, and nobody is left.

use crate::runs::Runs;
use crate::views::KernelHealth;
use std::{sync::Arc, time::Duration};

use agent_worker_protocol::{
    AgentName, AttemptId, Permission, RunId, WorkflowId,
    api::{ProcessTracking, RunStopped},
};
use agent_worker_store::{Error as StoreError, RunStep};
use tokio::time::Instant;

use super::worker_handle::WorkerHandle;
use crate::{
    error::{Error, Result},
    kernel::{Kernel, Principal},
    scheduling::{retry_policy::WorkerStopReason, run_step},
};

/// How much longer than its kill grace a worker's end may take to be settled.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Whose workers.
#[derive(Clone, Debug)]
pub(crate) enum WorkerSelector {
    /// Everybody's.
    All,
    /// Those of one run.
    Run(RunId),
    /// Those of one instance, whichever run they belong to.
    Instance(WorkflowId),
    /// Those of one agent, whichever run they belong to.
    Agent(WorkflowId, AgentName),
}

impl Runs<'_> {
    /// Ends a run and every process of it; answers when they are gone. Carried out even if whoever asked goes away.
    pub async fn stop(self, who: &Principal, run: RunId) -> Result<RunStopped> {
        who.require(Permission::Run)?;
        self.0.require_run(who, run).await?;
        let (kernel, who) = (self.0.clone(), who.clone());
        self.0.scheduler.run_to_completion(async move { kernel.end_run(&who, run).await }).await
    }

    /// The same for somebody who does not want to wait: its processes get no time to end by themselves, also those
    /// that are being stopped already.
    pub async fn stop_now(self, who: &Principal, run: RunId) -> Result<RunStopped> {
        who.require(Permission::Run)?;
        self.0.require_run(who, run).await?;
        self.0.runner.run_skip_grace(run);
        self.0.runs().stop(who, run).await
    }
}

impl KernelHealth<'_> {
    /// How the processes of attempts are tracked, if there are any.
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
            // Somebody else is stopping it: wait with them.
            RunStep::Stay | RunStep::Pause(_) | RunStep::Resume
                if !self.matching_workers(&WorkerSelector::Run(run)).is_empty() => {}
            RunStep::Stay | RunStep::Pause(_) | RunStep::Resume => {
                return Err(StoreError::NoRun.into());
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

    /// Leases nothing more, gives the workers `patience`, ends the rest, and waits until everything is quiet.
    pub async fn drain(&self, patience: Duration) {
        self.scheduler.draining.cancel();
        let quiet = async {
            for (_, worker) in self.matching_workers(&WorkerSelector::All) {
                worker.wait_stopped().await;
            }
        };
        // Those who are not done in time are cut short, and that is nobody's fault.
        let _ = tokio::time::timeout(patience, quiet).await;
        self.end_workers(&WorkerSelector::All, WorkerStopReason::Drain).await;
        // What setup commands run or left is ended too. Their run is let go first: a command that we end has not failed,
        // and the next daemon begins an unfinished setup again.
        let runs: Vec<RunId> = self.scheduler.lock_runs().keys().copied().collect();
        for run in runs {
            self.scheduler.release_run(run);
            self.runner.attempt_sweep(AttemptId::new(run.get())).await;
        }
        self.close().await;
    }

    /// The same for somebody who does not want to wait: no process gets any time, also those that are being ended already.
    pub async fn drain_now(&self) {
        self.scheduler.draining.cancel();
        let runs: Vec<RunId> = self.scheduler.lock_runs().keys().copied().collect();
        for run in runs {
            self.runner.run_skip_grace(run);
        }
        self.skip_workers_grace(&WorkerSelector::All);
        self.drain(Duration::ZERO).await;
    }

    /// Lets go of everything; the workers stay and the next daemon finds them.
    pub async fn close(&self) {
        self.scheduler.draining.cancel();
        self.scheduler.closing.cancel();
        self.scheduler.tracker.close();
        self.scheduler.tracker.wait().await;
    }

    /// Whether nothing new is started any more.
    pub fn is_draining(&self) -> bool {
        self.scheduler.is_draining()
    }

    /// Ends workers; answers with whose they were and how many processes had to be ended.
    pub(crate) async fn end_workers(
        &self,
        whose: &WorkerSelector,
        why: WorkerStopReason,
    ) -> (Vec<AgentName>, u32) {
        let held = self.matching_workers(whose);
        for (_, worker) in &held {
            worker.request_stop(why.clone());
        }
        let (mut agents, mut ended) = (Vec::new(), 0);
        // A store that takes nothing, or a daemon that leaves, must not keep us: the next one settles what this one could
        // not.
        let deadline =
            Instant::now() + self.scheduler.options.kill_grace.duration() + SETTLE_TIMEOUT;
        for (agent, worker) in held {
            ended += tokio::time::timeout_at(deadline, worker.wait_stopped()).await.unwrap_or(0);
            agents.push(agent);
        }
        (agents, ended)
    }

    /// Gives workers no more time to end by themselves, also those that are being ended already.
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
    /// Whether the worker on this worker is one of them.
    fn matches(&self, worker: &WorkerHandle) -> bool {
        match self {
            Self::All => true,
            Self::Run(run) => worker.run == *run,
            Self::Instance(workflow) => worker.workflow == *workflow,
            Self::Agent(workflow, agent) => worker.workflow == *workflow && worker.agent == *agent,
        }
    }
}
