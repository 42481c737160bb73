//! How runs and the daemon stop: nothing more is leased, what lives is ended, and nobody is left.

use std::{sync::Arc, time::Duration};

use agent_worker_protocol::{AgentName, AttemptId, RunId, api::RunStopped};
use agent_worker_store::{Error as StoreError, RunStep};
use tokio::time::Instant;

use super::leash::Leash;
use crate::{
    error::Result,
    idle,
    kernel::{Kernel, Principal},
    policy::Ordered,
};

/// How much longer than its kill grace a worker's end may take to be settled.
const PATIENCE: Duration = Duration::from_secs(5);

impl Kernel {
    /// Ends a run and every process of it; answers when they are gone. Carried out even if whoever asked goes away.
    pub async fn run_stop(&self, who: &Principal, run: RunId) -> Result<RunStopped> {
        who.require_user("only the user stops a run")?;
        let kernel = self.clone();
        self.scheduler.carry(async move { kernel.end_run(run).await }).await
    }

    async fn end_run(&self, run: RunId) -> Result<RunStopped> {
        let card = self.card(run).await?;
        let decide = Box::new(|facts: &_| idle::stop(facts, "the user"));
        match self.store.run_settle(run, decide, self.clock.now()).await? {
            RunStep::End { .. } => {}
            // Somebody else is stopping it: wait with them.
            RunStep::Stay | RunStep::Pause(_) | RunStep::Resume
                if !self.held(Some(run)).is_empty() => {}
            RunStep::Stay | RunStep::Pause(_) | RunStep::Resume => {
                return Err(StoreError::NoRun.into());
            }
        }
        self.scheduler.leave_run(run);
        let (attempts, ended) = self.end_workers(Some(run), Ordered::RunOver).await;
        let processes = ended + self.runner.run_close(run).await;
        let kernel = self.clone();
        let instance = card.instance.clone();
        self.scheduler.tracker.spawn(async move { kernel.farewell(&card).await });
        Ok(RunStopped { run, instance, attempts, processes })
    }

    /// Leases nothing more, gives the workers `patience`, ends the rest, and waits until everything is quiet.
    pub async fn drain(&self, patience: Duration) {
        self.scheduler.draining.cancel();
        let quiet = async {
            for (_, leash) in self.held(None) {
                leash.gone().await;
            }
        };
        // Those who are not done in time are cut short, and that is nobody's fault.
        let _ = tokio::time::timeout(patience, quiet).await;
        self.end_workers(None, Ordered::Drain).await;
        // What setup commands run or left is ended too; the next daemon begins an unfinished setup again.
        let runs: Vec<RunId> = self.scheduler.lock_runs().keys().copied().collect();
        for run in runs {
            self.runner.attempt_sweep(AttemptId::new(run.get())).await;
        }
        self.close().await;
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

    /// Ends the workers of a run, or all; answers with whose they were and how many processes had to be ended.
    async fn end_workers(&self, run: Option<RunId>, why: Ordered) -> (Vec<AgentName>, u32) {
        let held = self.held(run);
        for (_, leash) in &held {
            leash.end(why.clone());
        }
        let (mut agents, mut ended) = (Vec::new(), 0);
        // A store that takes nothing must not keep us: the next daemon settles what this one could not.
        let deadline = Instant::now() + self.scheduler.options.kill_grace.duration() + PATIENCE;
        for (agent, leash) in held {
            ended += tokio::time::timeout_at(deadline, leash.gone()).await.unwrap_or(0);
            agents.push(agent);
        }
        (agents, ended)
    }

    fn held(&self, run: Option<RunId>) -> Vec<(AgentName, Arc<Leash>)> {
        let leashes = self.scheduler.leashes();
        let wanted = leashes.values().filter(|leash| run.is_none_or(|run| run == leash.run));
        wanted.map(|leash| (leash.agent.clone(), Arc::clone(leash))).collect()
    }
}
