//! Calls of models within the limits of their run: a worker reserves the most that a call can use before it makes the call.
//!
//! Reservations are stored, one for each attempt, and the usage of a call replaces its reservation. Invariant: reported usage,
//! reservations and a permitted call together stay within the limits, also across restarts of the daemon. A call
//! whose usage never arrives counts with all that it could use.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_protocol::{
    AttemptId, PauseCause, RunId, RunState, SpendLimits, SpendReply, SpendRequest, sync,
};
use agent_worker_store::{RunFacts, RunSpend, RunStep, UnreportedCall};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::{
    error::Result,
    kernel::{Kernel, Principal},
    scheduling::{
        attempts::Attempts,
        limits::{SpendStep, spend_step},
        retry_policy::WorkerStopReason,
    },
};

/// Time for which a request waits for other calls before the worker must ask again.
const WAIT_TIMEOUT: Duration = Duration::from_secs(40);

/// Orders reservations, and signals that one has ended.
#[derive(Default)]
pub(crate) struct SpendGate {
    /// Held from the check of the limits until the reservation.
    turn: tokio::sync::Mutex<()>,
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
        self.0.store.attempt_settle(attempt, last).await?;
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
            match self.0.try_reserve(agent.run, attempt, call).await? {
                SpendStep::Reserve => return Ok(SpendReply::Reserved),
                SpendStep::Refuse(_) => return Ok(SpendReply::Refused),
                SpendStep::Wait => {}
            }
            tokio::select! {
                () = ended => {}
                () = sleep_until(deadline) => return Ok(SpendReply::Wait),
            }
        }
    }
}

impl Kernel {
    /// Reserves a call, or pauses the run at the limit that the call could exceed and ends the attempt.
    async fn try_reserve(
        &self,
        run: RunId,
        attempt: AttemptId,
        call: RunSpend,
    ) -> Result<SpendStep> {
        let gate = self.scheduler.spend_gate.turn.lock().await;
        let decided = Arc::new(Mutex::new(SpendStep::Wait));
        let decision = Arc::clone(&decided);
        let decide = Box::new(move |facts: &RunFacts| {
            let step = spend_step(&facts.limits, facts.spent, facts.reserved, call);
            let pause = match &step {
                SpendStep::Refuse(cause) => refusal_step(&facts.state, cause),
                SpendStep::Reserve | SpendStep::Wait => RunStep::Stay,
            };
            *sync::lock(&decision) = step;
            pause
        });
        self.store.run_settle(run, decide, self.now()).await?;
        let step = sync::lock(&decided).clone();
        match &step {
            SpendStep::Reserve => self.store.attempt_reserve(attempt, call).await?,
            SpendStep::Refuse(_) => {
                if let Some(worker) = self.scheduler.worker(attempt) {
                    worker.request_stop(WorkerStopReason::SpendLimit);
                }
            }
            SpendStep::Wait => {}
        }
        drop(gate);
        Ok(step)
    }
}

/// Pauses a run that works. A pause for another reason stays.
fn refusal_step(state: &RunState, cause: &PauseCause) -> RunStep {
    match state {
        RunState::Running | RunState::Electing => RunStep::Pause(cause.clone()),
        RunState::Setup | RunState::Paused { .. } | RunState::Ended { .. } => RunStep::Stay,
    }
}
