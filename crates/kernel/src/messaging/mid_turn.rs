//! Messages that must not wait for the end of a turn (`send --now`). A running turn gets them if its backend can pass them
//! on to the model; else they interrupt it, and the next turn has them.

use agent_worker_backends::joins_running_turns;
use agent_worker_protocol::{
    AgentName, RunId, Seq,
    api::{NowOutcome, NowReceipt},
};
use agent_worker_store::{Error as StoreError, RunBlockers};
use tokio::time::sleep;

use crate::{
    error::{Error, Result},
    kernel::{Kernel, RunContext},
    messaging::channel::SendBlockers,
    scheduling::{
        retry_policy::WorkerStopReason,
        turn_messages::{JOIN_TIMEOUT, MessageAnswer},
        worker_handle::WorkerHandle,
    },
};

/// A message for running turns.
#[derive(Clone, Debug)]
pub(crate) struct NowMessage {
    pub(crate) run: RunId,
    pub(crate) seq: Seq,
    /// The sender, as the reason of an interruption.
    pub(crate) by: String,
    /// True if files come with it. A program gets files only at the start of a turn.
    pub(crate) has_files: bool,
}

/// Condition for an interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextTurn {
    /// The next turn starts as soon as this one has ended.
    Starts,
    /// The run is paused or the agent is stopped.
    Waits,
}

impl Kernel {
    /// Passes a message on to the running turns of these agents, or interrupts them. Returns the effect on each. The work
    /// continues if the sender disconnects.
    pub(super) async fn reach_running_turns(
        &self,
        message: &NowMessage,
        agents: Vec<AgentName>,
        blockers: &SendBlockers,
    ) -> Result<Vec<NowReceipt>> {
        let mut tasks = Vec::with_capacity(agents.len());
        for agent in agents {
            let is_blocked = blockers.paused.is_some() || blockers.stopped.contains(&agent);
            let next = if is_blocked { NextTurn::Waits } else { NextTurn::Starts };
            let (kernel, message, name) = (self.clone(), message.clone(), agent.clone());
            let work = async move { kernel.reach_running_turn(&message, &name, next).await };
            tasks.push((agent, self.scheduler.spawn_to_completion(work)));
        }
        let mut receipts = Vec::with_capacity(tasks.len());
        for (agent, task) in tasks {
            let outcome = task.await.map_err(|_| Error::Draining)??;
            receipts.push(NowReceipt { agent, outcome });
        }
        Ok(receipts)
    }

    /// Repeats this for the messages that the previous daemon had stored, after the adoption of a worker.
    pub(crate) async fn reach_adopted_turn(
        &self,
        run_context: &RunContext,
        agent: &AgentName,
    ) -> Result<()> {
        let pending = self.store.inbox_now(run_context.workflow, agent.clone()).await?;
        if pending.is_empty() {
            return Ok(());
        }
        let RunBlockers { state, stopped } = self.store.run_blockers(run_context.run).await?;
        let is_blocked = !state.wakes_agents() || stopped.contains(agent);
        let next = if is_blocked { NextTurn::Waits } else { NextTurn::Starts };
        for message in pending.into_iter().map(|shown| shown.message) {
            let now = NowMessage {
                run: run_context.run,
                seq: message.seq,
                by: message.from.to_string(),
                has_files: !message.attachments.is_empty(),
            };
            self.reach_running_turn(&now, agent, next).await?;
        }
        Ok(())
    }

    async fn reach_running_turn(
        &self,
        message: &NowMessage,
        agent: &AgentName,
        next: NextTurn,
    ) -> Result<NowOutcome> {
        let outcome = self.join_or_interrupt(message, agent, next).await?;
        Ok(match (outcome, next) {
            (NowOutcome::Started, NextTurn::Waits) => NowOutcome::Waiting,
            (outcome, _) => outcome,
        })
    }

    async fn join_or_interrupt(
        &self,
        message: &NowMessage,
        agent: &AgentName,
        next: NextTurn,
    ) -> Result<NowOutcome> {
        let Some((attempt, worker)) = self.scheduler.attempt_of(message.run, agent) else {
            return Ok(NowOutcome::Started);
        };
        let lacks_message = async || match self.store.attempt_get(attempt).await {
            // Otherwise the turn has the message, or is over and the next one has it.
            Ok(row) => Ok(row.ended.is_none()
                && row.finished.is_none()
                && !row.shown.iter().any(|(shown, _)| *shown == message.seq)),
            // The lease of this worker follows, and takes the message.
            Err(StoreError::NotFound(_)) => Ok(false),
            Err(error) => Err(Error::from(error)),
        };
        if !lacks_message().await? {
            return Ok(NowOutcome::Started);
        }
        if !message.has_files && self.can_join(message.run, agent).await? {
            match offer(&worker, message.seq).await {
                Some(outcome) => return Ok(outcome),
                None if !lacks_message().await? => return Ok(NowOutcome::Started),
                None => {}
            }
        }
        match next {
            // An interrupted turn could not start again.
            NextTurn::Waits => Ok(NowOutcome::Waiting),
            NextTurn::Starts => {
                worker.request_stop(WorkerStopReason::Interrupted(message.by.clone()));
                Ok(NowOutcome::Interrupted)
            }
        }
    }

    async fn can_join(&self, run: RunId, agent: &AgentName) -> Result<bool> {
        let run_context = self.run_context(run).await?;
        Ok(joins_running_turns(&run_context.agent(agent)?.backend))
    }
}

/// Offers a message to a worker. Returns the outcome if the program has accepted it or the turn is over; none if the turn
/// does not get it.
async fn offer(worker: &WorkerHandle, seq: Seq) -> Option<NowOutcome> {
    worker.messages.announce();
    tokio::select! {
        answer = worker.messages.wait_answer(seq) => match answer {
            MessageAnswer::Accepted => Some(NowOutcome::Joined),
            MessageAnswer::Refused => None,
        },
        _ = worker.wait_stopped() => Some(NowOutcome::Started),
        () = sleep(JOIN_TIMEOUT) => None,
    }
}
