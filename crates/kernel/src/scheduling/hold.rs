//! The hold after a stop of the daemon by its user: nothing starts before someone gives the agents work.
//!
//! A daemon is held from its start or never. While it is held it answers reads, adopts living workers and writes files;
//! it runs no setup, leases nothing and settles no run. A request that gives work ends the hold: a message, a run, a
//! resume, an answer, a vote. Requests that only take work away keep it, so that a user can clean up first.

use agent_worker_protocol::Permission;
use agent_worker_store::{Now, RunClockSwitch, StoreTime};
use tokio::sync::watch;

use crate::{
    error::Result,
    kernel::{Kernel, Principal, RunContext},
    scheduling::runner::Runner,
    views::KernelHealth,
};

/// The state of an agent that would be woken if the daemon were not held.
pub(crate) const HELD: &str = "the daemon was stopped";

/// Whether the daemon is held, and the signal that ends the hold.
#[derive(Clone)]
pub(crate) struct Hold {
    is_held: watch::Sender<bool>,
}

impl Hold {
    /// Returns the hold that the last stop left.
    pub(crate) fn of(runner: &dyn Runner) -> Self {
        Self { is_held: watch::Sender::new(runner.hold_is_set()) }
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
        // While the daemon stops, the mark is for the next one.
        if by_agent || !(self.scheduler.hold.is_held() || self.is_draining()) {
            return;
        }
        if let Err(error) = self.runner.hold_clear().await {
            tracing::error!(%error, "could not clear the mark `held`; the next daemon starts held");
        }
        self.scheduler.hold.is_held.send_replace(false);
    }

    /// Waits until the daemon is not held; then the time of the run counts again.
    pub(super) async fn wait_for_release(&self, run_context: &RunContext) {
        if !self.scheduler.hold.is_held() {
            return;
        }
        self.scheduler.hold.wait_released().await;
        self.switch_clock(run_context, RunClockSwitch::Start, self.now()).await;
    }

    /// Stops the time of a run that a held daemon took over: the time since `last`, when the last daemon was alive, does not
    /// count.
    pub(super) async fn stop_clock_if_held(
        &self,
        run_context: &RunContext,
        last: Option<StoreTime>,
    ) {
        if self.scheduler.hold.is_held() {
            let now = self.now();
            let stopped = Now { store: last.unwrap_or(now.store), ..now };
            self.switch_clock(run_context, RunClockSwitch::Stop, stopped).await;
        }
    }

    async fn switch_clock(&self, run_context: &RunContext, switch: RunClockSwitch, now: Now) {
        if let Err(error) = self.store.run_clock_switch(run_context.run, switch, now).await {
            tracing::error!(run = %run_context.run, %error, "could not switch the clock of a run");
        }
    }
}
