//! Messages that must not wait for the end of a turn: they interrupt it, and the next turn has them.

use agent_worker_protocol::{
    AgentName, RunId, Seq,
    api::{NowOutcome, NowReceipt},
};
use agent_worker_store::Error as StoreError;

use crate::{
    error::Result,
    kernel::{Kernel, Principal},
    messaging::channel::SendBlockers,
    scheduling::retry_policy::WorkerStopReason,
};

impl Kernel {
    /// Interrupts the turns of these agents for a message, and returns the effect on each.
    pub(super) async fn interrupt_turns_for(
        &self,
        who: &Principal,
        (run, seq): (RunId, Seq),
        agents: Vec<AgentName>,
        blockers: &SendBlockers,
    ) -> Result<Vec<NowReceipt>> {
        let mut receipts = Vec::with_capacity(agents.len());
        for agent in agents {
            let is_blocked = blockers.paused.is_some() || blockers.stopped.contains(&agent);
            let outcome = match self.interrupt_turn_for(who, run, &agent, seq).await? {
                NowOutcome::Started if is_blocked => NowOutcome::Waiting,
                other => other,
            };
            receipts.push(NowReceipt { agent, outcome });
        }
        Ok(receipts)
    }

    /// Ends the running turn of an agent that was not shown a message yet.
    async fn interrupt_turn_for(
        &self,
        who: &Principal,
        run: RunId,
        agent: &AgentName,
        seq: Seq,
    ) -> Result<NowOutcome> {
        let Some((attempt, worker)) = self.scheduler.attempt_of(run, agent) else {
            return Ok(NowOutcome::Started);
        };
        match self.store.attempt_get(attempt).await {
            // The turn has the message, or is over and the next one has it.
            Ok(row) if row.ended.is_some() || row.shown.iter().any(|(shown, _)| *shown == seq) => {
                Ok(NowOutcome::Started)
            }
            Ok(_) => {
                worker.request_stop(WorkerStopReason::Interrupted(who.sender()?.to_string()));
                Ok(NowOutcome::Interrupted)
            }
            // The lease of this worker follows, and takes the message.
            Err(StoreError::NotFound(_)) => Ok(NowOutcome::Started),
            Err(error) => Err(error.into()),
        }
    }
}
