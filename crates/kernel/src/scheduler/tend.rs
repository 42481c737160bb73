//! One loop per live run: look who has mail and may run, start their turns, and notice when the run is over.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agent_worker_protocol::{AgentName, RunId};
use agent_worker_store::{Change, Keep, Now, RunStep, StoreTime};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    error::Result,
    idle::{self, Person},
    kernel::{Card, Kernel},
};

/// How long the rows of a `provider: memory` run stay after its end, for those who watch it end.
const FAREWELL: Duration = Duration::from_secs(10);

/// The agents of one run that have a turn, or wait for a free slot.
#[derive(Clone)]
pub(crate) struct Busy {
    names: Arc<Mutex<HashSet<AgentName>>>,
    left: Arc<Notify>,
    /// One for each worker the run may have at once.
    pub(super) slots: Arc<Semaphore>,
}

impl Busy {
    /// Nobody yet, in a run that may have so many workers at once.
    pub(crate) fn new(workers: usize) -> Self {
        let slots = Arc::new(Semaphore::new(workers));
        Self { names: Arc::default(), left: Arc::default(), slots }
    }

    /// Takes an agent's place; none if it is taken.
    pub(super) fn enter(&self, agent: &AgentName) -> Option<Place> {
        let entered = self.lock().insert(agent.clone());
        entered.then(|| Place { busy: self.clone(), agent: agent.clone() })
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Whether all of these are among them.
    fn has_all(&self, team: &[AgentName]) -> bool {
        let names = self.lock();
        team.iter().all(|agent| names.contains(agent))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<AgentName>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An agent's place among the busy, given back when dropped.
pub(super) struct Place {
    busy: Busy,
    agent: AgentName,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.busy.lock().remove(&self.agent);
        self.busy.left.notify_one();
    }
}

/// What a look found.
enum Looked {
    /// Look again at a change, or at this instant.
    Until(Instant),
    /// The run is over.
    Over,
}

impl Kernel {
    /// Cares for a run until it is over, the daemon closes, or `stop`.
    pub(super) async fn tend(&self, card: &Arc<Card>, busy: Busy, stop: CancellationToken) {
        let mut seen = Change::default();
        let mut next = Instant::now();
        let mut people = self.attendance.hear();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                change = self.store.change_wait(card.workflow, seen) => seen = change,
                () = busy.left.notified() => {}
                // The sender is the kernel's own, and lives as long.
                _ = people.changed() => {}
                () = tokio::time::sleep_until(next) => {}
            }
            match self.look(card.run, &busy).await {
                Ok(Looked::Until(instant)) => next = instant,
                Ok(Looked::Over) => break,
                Err(error) => {
                    tracing::error!(run = %card.run, %error, "looking at a run failed; trying again");
                    next = Instant::now() + self.scheduler.options.sweep.duration();
                }
            }
        }
        self.farewell(card).await;
    }

    async fn look(&self, run: RunId, busy: &Busy) -> Result<Looked> {
        let card = &self.card(run).await?;
        let now = self.now();
        self.report_clock_jump(now).await?;
        let mut next = now.store.plus(self.scheduler.options.sweep.duration());
        if self.scheduler.is_draining() {
            return Ok(Looked::Until(instant(now, next)));
        }
        // A proposal that is overdue after that is damaged and stays open: the sweep is soon enough for it.
        if let Some(due) = self.settle_proposals(card, now).await?.filter(|due| *due > now.store) {
            next = next.min(due);
        }
        // While everybody works, nobody can be woken, however much is said.
        let all_work = busy.has_all(&card.team);
        let ready =
            if all_work { Vec::new() } else { self.store.agent_ready(card.workflow).await? };
        for ready in ready {
            match ready.not_before {
                Some(at) if at > now.store => next = next.min(at),
                Some(_) | None => {
                    if let Some(place) = busy.enter(&ready.name) {
                        self.begin_turn(card, ready.name, Arc::clone(&busy.slots), place);
                    }
                }
            }
        }
        let due = match card.limits.wall {
            Some(wall) => card.started.plus(wall.duration()),
            None => StoreTime::NEVER,
        };
        // While somebody works or is about to, the run cannot be over; only its time can be up, or all wait for a person.
        if !busy.is_empty() && now.store < due && !self.asking.is_there(card.run) {
            return Ok(Looked::Until(instant(now, next.min(due))));
        }
        let is_there = self.attendance.is_there(card.run);
        let person = if is_there { Person::There } else { Person::Away };
        let decide = Box::new(move |facts: &_| idle::settle(facts, person, now));
        match self.store.run_settle(card.run, decide, now).await? {
            RunStep::End { .. } => Ok(Looked::Over),
            RunStep::Stay | RunStep::Pause(_) | RunStep::Resume => {
                let next = if due > now.store { next.min(due) } else { next };
                Ok(Looked::Until(instant(now, next)))
            }
        }
    }

    /// Puts away what a run that is over leaves behind.
    pub(super) async fn farewell(&self, card: &Arc<Card>) {
        self.scheduler.leave_run(card.run);
        self.runner.run_close(card.run).await;
        self.card_drop(card.run);
        match self.store.run_get(card.run).await.map(|row| row.keep) {
            Ok(Keep::WhileLive) => {
                tokio::select! {
                    () = tokio::time::sleep(FAREWELL) => {}
                    () = self.scheduler.closing.cancelled() => {}
                }
                self.forget(card).await;
            }
            Ok(Keep::Always) => {}
            Err(error) => tracing::error!(run = %card.run, %error, "reading an ended run failed"),
        }
    }

    async fn forget(&self, card: &Card) {
        match self.store.instance_forget(card.workflow).await {
            // The next run of the instance has begun and forgets it at its own end.
            Ok(()) | Err(agent_worker_store::Error::RunLive(_)) => {}
            Err(error) => tracing::error!(run = %card.run, %error, "forgetting a run failed"),
        }
    }
}

/// The instant of tokio's clock at which the store's will read `at`.
fn instant(now: Now, at: StoreTime) -> Instant {
    Instant::now() + at.since(now.store)
}
