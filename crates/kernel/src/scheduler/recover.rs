//! What a daemon does before it opens its doors: find the workers of the one before, and go on with every run.

use std::{collections::HashMap, sync::Arc, time::Duration};

use agent_worker_protocol::{AttemptId, PauseCause, RunId, RunMode, RunState};
use agent_worker_store::{
    AgentRow, AttemptRow, Error as StoreError, InstanceQuery, Keep, Now, RunQuery, RunRow, RunStep,
    StoreTime,
};

use super::{leash::Leash, tend::Busy};
use crate::{
    error::Result,
    kernel::{Card, Kernel},
    policy::Ordered,
    runner::{Departure, Mark, Origin, Sighting},
};

/// A `run` that was cut off longer ago than this waits for a person.
const STALE: Duration = Duration::from_mins(10);
/// Keys of users and clients are kept so long.
const KEYS_KEPT: Duration = Duration::from_hours(7 * 24);

/// The logs of a run's workers are kept so long after its end.
const LOGS_KEPT: Duration = Duration::from_hours(7 * 24);

/// How often a takeover that the disk refused is tried again.
const RECOVERY_INTERVAL: Duration = Duration::from_secs(1);

/// What was found of the daemon before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Runs that go on.
    pub runs: usize,
    /// Workers that still live.
    pub adopted: usize,
    /// Attempts that were settled from what their workers left.
    pub settled: usize,
}

impl Kernel {
    /// Takes over from the daemon before, before anybody can ask for anything. After a fault of the disk it is called
    /// again, and skips the attempts and runs that are taken over already.
    pub async fn recover(&self) -> Result<Recovered> {
        let now = self.now();
        let last = self.store.pulse_last().await?;
        // The same value again: it changes nothing, and shows whether the disk takes writes before any worker is touched.
        self.store.pulse(last.unwrap_or(now.store)).await?;
        self.store.effect_expire(now.store.minus(KEYS_KEPT)).await?;
        let mut recovered = Recovered::default();
        let nobody = || Busy::new(self.scheduler.options.workers_per_instance);
        let mut busy: HashMap<RunId, Busy> = HashMap::new();
        for attempt in self.store.attempt_live().await? {
            if self.scheduler.is_held(attempt.id) {
                continue;
            }
            let Some(card) = self.readable(attempt.run).await else { continue };
            match self.runner.attempt_look(card.run, attempt.id).await {
                Sighting::Alive => {
                    let busy = busy.entry(card.run).or_insert_with(nobody);
                    let stopped = self.is_stopped(&attempt).await?;
                    let leash = self.adopt(card, attempt, busy);
                    if stopped {
                        // Somebody stopped the agent, and the daemon before had no time to end its worker.
                        leash.end(Ordered::Stopped);
                    }
                    recovered.adopted += 1;
                }
                Sighting::Gone => {
                    self.runner.attempt_sweep(attempt.id).await;
                    self.conclude_once(&card, attempt.id).await?;
                    recovered.settled += 1;
                }
            }
        }
        self.sweep_ended().await?;
        for run in self.store.run_list(RunQuery::Live).await? {
            if self.scheduler.has_run(run.id) {
                continue;
            }
            let Some(card) = self.readable(run.id).await else { continue };
            self.pause_stale(&run, last, now).await?;
            if run.state == RunState::Setup {
                // It begins again, so what its first try left must not run beside it.
                self.runner.attempt_sweep(AttemptId::new(run.id.get())).await;
            }
            let busy = busy.remove(&run.id).unwrap_or_else(nobody);
            self.begin_run(card, busy);
            recovered.runs += 1;
        }
        self.forget_ended().await?;
        self.erase_old(now.store).await;
        self.store.pulse(now.store).await?;
        self.beat();
        self.index();
        Ok(recovered)
    }

    /// Takes over as soon as the disk takes writes. Until then everything can be read, and nothing runs.
    pub fn recover_later(&self) {
        let kernel = self.clone();
        self.scheduler.tracker.spawn(async move {
            loop {
                tokio::select! {
                    () = kernel.scheduler.closing.cancelled() => return,
                    () = tokio::time::sleep(RECOVERY_INTERVAL) => {}
                }
                match kernel.recover().await {
                    Ok(recovered) => {
                        tracing::info!(?recovered, "the disk takes writes; taken over");
                        return;
                    }
                    Err(error) if error.is_disk_fault() => {}
                    Err(error) => tracing::error!(%error, "taking over failed; trying again"),
                }
            }
        });
    }

    /// Settles an attempt whose worker is gone. A fault of the disk is returned: the start does not wait for its end.
    async fn conclude_once(&self, card: &Card, attempt: AttemptId) -> Result<()> {
        match self.settle(card, attempt, &Departure::default(), None).await {
            Err(error) if error.is_disk_fault() => Err(error),
            Err(_) => {
                self.conclude(card, attempt, &Departure::default(), None).await;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Waits for a worker of the daemon before, as if it were our own.
    fn adopt(&self, card: Arc<Card>, attempt: AttemptRow, busy: &Busy) -> Arc<Leash> {
        let kernel = self.clone();
        let place = busy.enter(&attempt.fence.agent);
        // It lives, room or not: where the caps were lowered meanwhile, it has no slot and keeps nobody out.
        let slots = [&busy.slots, &self.scheduler.slots];
        let slots = slots.map(|slots| Arc::clone(slots).try_acquire_owned().ok());
        let leash = Leash::new(&card, attempt.fence.agent.clone());
        let leash = self.scheduler.leash(attempt.id, leash);
        let held = Arc::clone(&leash);
        self.scheduler.tracker.spawn(async move {
            let closing = kernel.scheduler.closing.clone();
            tokio::select! {
                () = closing.cancelled() => {}
                () = kernel.attend(&card, &attempt, &held) => {}
            }
            drop(slots);
            drop(place);
        });
        leash
    }

    async fn is_stopped(&self, attempt: &AttemptRow) -> Result<bool> {
        let agents = self.store.agent_list(attempt.fence.workflow).await?;
        let its = |agent: &&AgentRow| agent.name == attempt.fence.agent;
        Ok(agents.iter().find(its).is_some_and(|agent| agent.stopped.is_some()))
    }

    async fn attend(&self, card: &Card, attempt: &AttemptRow, leash: &Leash) {
        let pull = leash.pull.clone();
        let running = self.runner.attempt_adopt(card.run, attempt.id, pull);
        let departure = match card.agent(&attempt.fence.agent) {
            Ok(settings) => self.guard(attempt.id, settings, leash, running).await,
            Err(_) => running.await,
        };
        self.conclude(card, attempt.id, &departure, leash.why()).await;
        self.scheduler.unleash(attempt.id);
        self.live.forget(attempt.id);
        leash.let_go(departure.ended);
    }

    async fn pause_stale(&self, run: &RunRow, last: Option<StoreTime>, now: Now) -> Result<()> {
        let cut_off = last.is_some_and(|last| now.store.since(last) > STALE);
        if run.mode == RunMode::Run && run.state.wakes() && cut_off {
            let decide = Box::new(|_: &_| RunStep::Pause(PauseCause::Interrupted));
            self.store.run_settle(run.id, decide, now).await?;
        }
        Ok(())
    }

    /// Ends what a daemon that was cut off while stopping something left behind.
    async fn sweep_ended(&self) -> Result<()> {
        for mark in self.runner.marks().await {
            let Mark { id, origin } = mark;
            let over = match self.store.attempt_get(id).await {
                Ok(attempt) => attempt.ended.is_some(),
                Err(StoreError::NotFound(_)) => {
                    match self.store.run_get(RunId::new(id.get())).await {
                        Ok(run) => !run.state.is_live(),
                        // Deleted from this store, or another daemon's.
                        Err(StoreError::NotFound(_)) => origin == Origin::ThisHome,
                        Err(StoreError::Damaged(_)) => false,
                        Err(error) => return Err(error.into()),
                    }
                }
                // A damaged row proves nothing, and must not keep the daemon from starting.
                Err(StoreError::Damaged(_)) => false,
                Err(error) => return Err(error.into()),
            };
            if over {
                self.runner.attempt_sweep(id).await;
            }
        }
        Ok(())
    }

    /// The card of a run, unless another version wrote what this one cannot read: that must not keep the others waiting.
    async fn readable(&self, run: RunId) -> Option<Arc<Card>> {
        let card = self.card(run).await;
        card.inspect_err(
            |error| tracing::error!(%run, %error, "a run cannot be read and is left alone"),
        )
        .ok()
    }

    /// Puts away what runs that are over left: their environment at once, their workers' logs when they are old.
    async fn erase_old(&self, now: StoreTime) {
        let leftovers = self.runner.run_leftovers().await.unwrap_or_else(|error| {
            tracing::error!(%error, "the folder of runs cannot be read");
            Vec::new()
        });
        for run in leftovers {
            let row = match self.store.run_get(run).await {
                Ok(row) if row.state.is_live() => continue,
                Ok(row) => Some(row),
                Err(StoreError::NotFound(_)) => None,
                Err(_) => continue,
            };
            // A daemon that was cut off may not have written all of its files.
            if let Some(row) = &row
                && self.runner.files_left(run)
            {
                self.go_on_with_files(row).await;
            }
            // Nor have put the environment away.
            if self.runner.run_env(run).await.is_ok() {
                self.runner.run_close(run).await;
            }
            let ended = row.and_then(|row| row.store_ended);
            let recent = ended.is_some_and(|ended| now.since(ended) <= LOGS_KEPT);
            if !recent && let Err(error) = self.runner.run_erase(run).await {
                tracing::error!(%run, %error, "old logs could not be deleted");
            }
        }
    }

    /// Lets files catch up with a run that is over. A later run of the instance does that with its own.
    async fn go_on_with_files(&self, run: &RunRow) {
        let newest = self.newest_run(run.workflow).await;
        if newest.is_ok_and(|newest| newest == Some(run.id))
            && let Some(card) = self.readable(run.id).await
        {
            self.begin_files(&card);
        }
    }

    async fn forget_ended(&self) -> Result<()> {
        for instance in self.store.instance_list(InstanceQuery::All).await? {
            let (None, Some(last)) = (instance.live, instance.last) else { continue };
            match self.store.run_get(last).await {
                Ok(run) if run.keep == Keep::WhileLive => {
                    self.store.instance_forget(instance.id).await?;
                }
                // The damage is reported where the row is read; the daemon starts without it.
                Ok(_) | Err(StoreError::Damaged(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Notes now and then that we live, for the next start.
    fn beat(&self) {
        let kernel = self.clone();
        self.scheduler.tracker.spawn(async move {
            loop {
                tokio::select! {
                    () = kernel.scheduler.closing.cancelled() => return,
                    () = tokio::time::sleep(STALE / 10) => {}
                }
                let now = kernel.now();
                if let Err(error) = kernel.report_clock_jump(now).await {
                    tracing::error!(%error, "reporting a clock jump failed");
                }
                if let Err(error) = kernel.store.pulse(now.store).await {
                    tracing::error!(%error, "the store takes no pulse");
                }
            }
        });
    }
}
