//! Calls of models within the limits of their run: a worker reserves the most that a call can use before it makes the call.
//!
//! Reservations are stored, one for each attempt, and the usage of a call replaces its reservation. Invariant: reported usage,
//! reservations and a permitted call together stay within the limits, also across restarts of the daemon. A call
//! whose usage never arrives counts with all that it could use.

use std::time::Duration;

use agent_worker_protocol::{AttemptId, SpendLimits, SpendReply, SpendRequest};
use agent_worker_store::{ReserveStep, RunSpend, UnreportedCall};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::{
    error::Result,
    kernel::Principal,
    scheduling::{attempts::Attempts, retry_policy::WorkerStopReason, spend_limit::reserve_step},
};

/// Time for which a request waits for other calls before the worker must ask again.
const WAIT_TIMEOUT: Duration = Duration::from_secs(40);

/// Signals that a reservation has ended.
#[derive(Default)]
pub(crate) struct SpendGate {
    ended: Notify,
}

impl SpendGate {
    /// Signals that a reservation has ended.
    pub(crate) fn announce_end(&self) {
        self.ended.notify_waiters();
    }
}

impl Attempts<'_> {
    /// Reserves the most that the next call of a model can use.
    pub async fn reserve_spend(
        self,
        who: &Principal,
        attempt: AttemptId,
        request: SpendRequest,
    ) -> Result<SpendReply> {
        let agent = who.require_own_attempt(attempt)?;
        let run_context = self.0.run_context(agent.run).await?;
        if run_context.limits.spend == SpendLimits::NONE {
            return Ok(SpendReply::Reserved);
        }
        let call = RunSpend {
            cost_micros: request.cost_micros.unwrap_or_default(),
            tokens: request.tokens,
        };
        // The last call of this worker is over, and its usage is stored if it reported any.
        let last = if request.lost { UnreportedCall::MaybePaid } else { UnreportedCall::Unused };
        let store = &self.0.store;
        store.attempt_settle(attempt, last, self.0.now()).await?;
        self.0.scheduler.spend_gate.announce_end();
        if request.tokens == 0 {
            return Ok(SpendReply::Reserved);
        }
        let deadline = Instant::now() + WAIT_TIMEOUT;
        loop {
            let ended = self.0.scheduler.spend_gate.ended.notified();
            tokio::pin!(ended);
            // A reservation that ends after the check wakes this task.
            ended.as_mut().enable();
            match store.attempt_reserve(attempt, call, reserve_step, self.0.now()).await? {
                ReserveStep::Reserve => return Ok(SpendReply::Reserved),
                ReserveStep::Refuse(_) => {
                    if let Some(worker) = self.0.scheduler.worker(attempt) {
                        worker.request_stop(WorkerStopReason::SpendLimit);
                    }
                    return Ok(SpendReply::Refused);
                }
                ReserveStep::Wait => {}
            }
            tokio::select! {
                () = ended => {}
                () = sleep_until(deadline) => return Ok(SpendReply::Wait),
            }
        }
    }
}
