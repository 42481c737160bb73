//! The hold after a stop of the daemon by its user: nothing starts before a user or a client gives the agents work.
//!
//! A daemon is held from its start or never. While it is held it answers reads, adopts living workers and writes files;
//! it runs no setup, leases nothing, decides about no run, and no time counts. A request that gives work ends the hold: a
//! message, a run, a resume, an answer, a vote, a suggestion. Requests that only take work away keep it, so that a user
//! can clean up first. After the hold the runs continue, however long it lasted.
//!
//! The mark `held` in the home may also appear while a daemon runs: at the request that stops it. A request that gives
//! work removes the mark whenever it finds it, so the daemon that follows does the work that this one accepted.

use agent_worker_protocol::Permission;
use agent_worker_store::RunClockSwitch;
use tokio::sync::watch;

use crate::{
    error::Result,
    kernel::{Kernel, Principal, RunContext},
    scheduling::runner::Runner,
    views::KernelHealth,
};

/// The state of an agent that would be woken if the daemon were not held.
pub(crate) const HELD: &str = "the daemon was stopped";

/// The state of the hold, and the signal that ends it.
#[derive(Clone)]
pub(crate) struct Hold {
    is_held: watch::Sender<bool>,
    was_held_at_start: bool,
}

impl Hold {
    /// Returns the hold that the last stop left.
    pub(crate) fn of(runner: &dyn Runner) -> Self {
        let was_held_at_start = runner.hold_is_set();
        Self { is_held: watch::Sender::new(was_held_at_start), was_held_at_start }
    }

    /// Returns true if the daemon started held, also if the hold has ended.
    pub(crate) fn was_held_at_start(&self) -> bool {
        self.was_held_at_start
    }

    pub(crate) fn is_held(&self) -> bool {
        *self.is_held.borrow()
    }

    async fn wait_released(&self) {
        // This handle owns the sender, so the channel never closes.
        let _ = self.is_held.subscribe().wait_for(|held| !held).await;
    }
}

impl KernelHealth<'_> {
    /// Returns true if the daemon starts no work, because its user stopped the last one.
    pub fn is_held(self) -> bool {
        self.0.scheduler.hold.is_held()
    }

    /// Ends the hold: the runs continue.
    pub async fn release_hold(self, who: &Principal) -> Result<()> {
        who.require(Permission::Run)?;
        self.0.end_hold(who).await;
        Ok(())
    }
}

impl Kernel {
    /// Ends the hold after a request that gave the agents work. An agent's own requests do not end it: a worker that
    /// outlived the stop is not the user.
    pub(crate) async fn end_hold(&self, who: &Principal) {
        let by_agent = matches!(who, Principal::Agent(_) | Principal::Anonymous);
        // The mark of a stopping daemon is for the next one.
        if by_agent || !(self.scheduler.hold.is_held() || self.runner.hold_is_set()) {
            return;
        }
        if let Err(error) = self.runner.hold_clear().await {
            tracing::error!(%error, "could not clear the mark `held`; the next daemon starts held");
        }
        self.scheduler.hold.is_held.send_replace(false);
    }

    /// Waits until the daemon is not held; then the time of the run counts again.
    pub(super) async fn wait_for_release(&self, run_context: &RunContext) {
        if !self.scheduler.hold.was_held_at_start() {
            return;
        }
        self.scheduler.hold.wait_released().await;
        let (run, now) = (run_context.run, self.now());
        if let Err(error) = self.store.run_clock_switch(run, RunClockSwitch::Start, now).await {
            tracing::error!(%run, %error, "could not start the time of a run");
        }
    }
}
