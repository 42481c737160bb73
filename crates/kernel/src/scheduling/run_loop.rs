//! One loop per live run: look who has mail and may run, start their turns, and notice when the run is over.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_protocol::{AgentName, RunId, sync};
use agent_worker_store::{ChangeCursor, Now, Retention, RunStep, StoreTime};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    error::Result,
    kernel::{Kernel, RunContext},
    scheduling::run_step::{self, HumanPresence},
};

/// How long the rows of a `provider: memory` run stay after its end, for those who watch it end.
const MEMORY_RUN_RETENTION: Duration = Duration::from_secs(10);

/// The agents of one run that have a turn, or wait for a free slot.
#[derive(Clone)]
pub(crate) struct BusyAgents {
    names: Arc<Mutex<HashSet<AgentName>>>,
    freed: Arc<Notify>,
    /// One for each worker the run may have at once.
    pub(super) slots: Arc<Semaphore>,
}

impl BusyAgents {
    /// Nobody yet, in a run that may have so many workers at once.
    pub(crate) fn new(workers: usize) -> Self {
        let slots = Arc::new(Semaphore::new(workers));
        Self { names: Arc::default(), freed: Arc::default(), slots }
    }

    /// Takes an agent's place; none if it is taken.
    pub(super) fn try_enter(&self, agent: &AgentName) -> Option<BusyGuard> {
        let entered = self.lock_names().insert(agent.clone());
        entered.then(|| BusyGuard { busy: self.clone(), agent: agent.clone() })
    }

    fn is_empty(&self) -> bool {
        self.lock_names().is_empty()
    }

    /// Whether all of these are among them.
    fn contains_all(&self, team: &[AgentName]) -> bool {
        let names = self.lock_names();
        team.iter().all(|agent| names.contains(agent))
    }

    fn lock_names(&self) -> std::sync::MutexGuard<'_, HashSet<AgentName>> {
        sync::lock(&self.names)
    }
}

/// An agent's place among the busy, given back when dropped.
pub(super) struct BusyGuard {
    busy: BusyAgents,
    agent: AgentName,
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.busy.lock_names().remove(&self.agent);
        self.busy.freed.notify_one();
    }
}

/// What a look found.
enum PollOutcome {
    /// Look again at a change, or at this instant.
    PollAgainAt(Instant),
    /// The run is over.
    RunEnded,
}

impl Kernel {
    /// Cares for a run until it is over, the daemon closes, or `stop`.
    pub(super) async fn reconcile_run(
        &self,
        run_context: &Arc<RunContext>,
        busy: BusyAgents,
        stop: CancellationToken,
    ) {
        let mut seen = ChangeCursor::default();
        let mut next = Instant::now();
        let mut people = self.viewers.subscribe();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                change = self.store.change_wait(run_context.workflow, seen) => seen = change,
                () = busy.freed.notified() => {}
                // The sender is the kernel's own, and lives as long.
                _ = people.changed() => {}
                () = tokio::time::sleep_until(next) => {}
            }
            match self.poll_run_once(run_context.run, &busy).await {
                Ok(PollOutcome::PollAgainAt(instant)) => next = instant,
                Ok(PollOutcome::RunEnded) => break,
                Err(error) => {
                    tracing::error!(run = %run_context.run, %error, "looking at a run failed; trying again");
                    next = Instant::now() + self.scheduler.options.sweep_interval.duration();
                }
            }
        }
        self.cleanup_run(run_context).await;
    }

    async fn poll_run_once(&self, run: RunId, busy: &BusyAgents) -> Result<PollOutcome> {
        let run_context = &self.run_context(run).await?;
        let now = self.now();
        self.report_clock_jump(now).await?;
        let mut next = now.store.plus(self.scheduler.options.sweep_interval.duration());
        if self.scheduler.is_draining() {
            return Ok(PollOutcome::PollAgainAt(tokio_instant(now, next)));
        }
        // A proposal that is overdue after that is damaged and stays open: the sweep is soon enough for it.
        if let Some(due) =
            self.settle_proposals(run_context, now).await?.filter(|due| *due > now.store)
        {
            next = next.min(due);
        }
        // While everybody works, nobody can be woken, however much is said.
        let all_work = busy.contains_all(&run_context.team);
        let ready = if all_work {
            Vec::new()
        } else {
            self.store.agent_ready(run_context.workflow).await?
        };
        for ready in ready {
            match ready.not_before {
                Some(at) if at > now.store => next = next.min(at),
                Some(_) | None => {
                    if let Some(place) = busy.try_enter(&ready.name) {
                        self.spawn_turn(run_context, ready.name, Arc::clone(&busy.slots), place);
                    }
                }
            }
        }
        let due = match run_context.limits.wall {
            Some(wall) => run_context.started.plus(wall.duration()),
            None => StoreTime::NEVER,
        };
        // While somebody works or is about to, the run cannot be over; only its time can be up, or all wait for a person.
        if !busy.is_empty() && now.store < due && !self.approval_waits.is_present(run_context.run) {
            return Ok(PollOutcome::PollAgainAt(tokio_instant(now, next.min(due))));
        }
        let is_there = self.viewers.is_present(run_context.run);
        let person = if is_there { HumanPresence::Present } else { HumanPresence::Absent };
        let decide = Box::new(move |facts: &_| run_step::decide_run_step(facts, person, now));
        match self.store.run_settle(run_context.run, decide, now).await? {
            RunStep::End { .. } => Ok(PollOutcome::RunEnded),
            RunStep::Stay | RunStep::Pause(_) | RunStep::Resume => {
                let next = if due > now.store { next.min(due) } else { next };
                Ok(PollOutcome::PollAgainAt(tokio_instant(now, next)))
            }
        }
    }

    /// Puts away what a run that is over leaves behind.
    pub(super) async fn cleanup_run(&self, run_context: &Arc<RunContext>) {
        self.scheduler.release_run(run_context.run);
        self.runner.run_close(run_context.run).await;
        self.run_context_evict(run_context.run);
        match self.store.run_get(run_context.run).await.map(|row| row.retention) {
            Ok(Retention::WhileLive) => {
                tokio::select! {
                    () = tokio::time::sleep(MEMORY_RUN_RETENTION) => {}
                    () = self.scheduler.closing.cancelled() => {}
                }
                self.forget_instance(run_context).await;
            }
            Ok(Retention::Always) => {}
            Err(error) => {
                tracing::error!(run = %run_context.run, %error, "reading an ended run failed");
            }
        }
    }

    async fn forget_instance(&self, run_context: &RunContext) {
        match self.store.instance_forget(run_context.workflow).await {
            // The next run of the instance has begun and forgets it at its own end.
            Ok(()) | Err(agent_worker_store::Error::RunLive(_)) => {}
            Err(error) => {
                tracing::error!(run = %run_context.run, %error, "forgetting a run failed");
            }
        }
    }
}

/// The instant of tokio's clock at which the store's will read `at`.
fn tokio_instant(now: Now, at: StoreTime) -> Instant {
    Instant::now() + at.since(now.store)
}
