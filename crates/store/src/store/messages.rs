//! Messages, inboxes and deliveries.

use agent_worker_protocol::{AgentName, Message, PauseCause, Receipt, Seq, WorkflowId};
use async_trait::async_trait;

use super::store_methods;
use crate::{
    database::Database,
    error::{Error, Result},
    model::{Fence, MessageQuery, NewMessage, Once, ShownMessage, WriteContext},
    multi_store::MultiStore,
    sql::{deliveries, inbox, messages, search},
    time::Now,
};

/// The channel of an instance: messages, the inboxes of its agents and the deliveries in them.
#[async_trait]
pub trait MessageStore: Send + Sync {
    /// Adds a message and a delivery for each recipient: the one way in, for both doors.
    /// With a `pause` the run is paused in the same step, so that nothing of it can be leased.
    async fn message_append(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        message: NewMessage,
        pause: Option<PauseCause>,
        now: Now,
    ) -> Result<Once<Seq>>;
    /// Reads the channel, oldest first.
    async fn message_list(&self, workflow: WorkflowId, query: MessageQuery)
    -> Result<Vec<Message>>;
    /// Reads a message and everything that replies to it, and to that, whichever run it was said in: after `after`, oldest
    /// first, at most so many.
    async fn message_thread(
        &self,
        workflow: WorkflowId,
        seq: Seq,
        after: Seq,
        limit: u32,
    ) -> Result<Vec<Message>>;
    /// Takes a short step to prepare what was said to be searched, at most so many messages of each instance; answers
    /// whether any is left to take. A search finds the same before and after, only faster.
    async fn message_index(&self, most: u32) -> Result<bool>;
    /// Tells where each delivery of a message stands.
    async fn message_receipts(&self, workflow: WorkflowId, seq: Seq) -> Result<Vec<Receipt>>;
    /// Reads what waits for an agent: waking first, urgent first, then by age. Acks nothing.
    async fn inbox_pending(
        &self,
        workflow: WorkflowId,
        agent: AgentName,
        limit: u32,
    ) -> Result<Vec<ShownMessage>>;
    /// The same for a live attempt, remembering what it was shown.
    async fn inbox_show(&self, fence: Fence, limit: u32) -> Result<Vec<ShownMessage>>;
    /// Lets mail this attempt was shown join it: acked if it succeeds, pending again if not. Answers with what joined.
    async fn inbox_ack(&self, fence: Fence, until: Seq) -> Result<Vec<Seq>>;
    /// Makes a dead letter pending again, its counts anew, its effects and journal kept.
    async fn delivery_redrive(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        agent: AgentName,
        seq: Seq,
        now: Now,
    ) -> Result<()>;
    /// Gives up a pending or dead delivery.
    async fn delivery_drop(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        agent: AgentName,
        seq: Seq,
        why: String,
        now: Now,
    ) -> Result<()>;
}

store_methods! {
    impl MessageStore;
    both {
        write of_workflow(workflow) message_append(by: WriteContext, workflow: WorkflowId, message: NewMessage, pause: Option<PauseCause>, now: Now) -> Once<Seq>
            = move |tx| messages::append(tx, &by, workflow, &message, pause.as_ref(), now);
        read of_workflow(workflow) message_list(workflow: WorkflowId, query: MessageQuery) -> Vec<Message>
            = move |db| messages::list(db, workflow, &query);
        read of_workflow(workflow) message_thread(workflow: WorkflowId, seq: Seq, after: Seq, limit: u32) -> Vec<Message>
            = move |db| messages::thread(db, workflow, seq, after, limit);
        read of_workflow(workflow) message_receipts(workflow: WorkflowId, seq: Seq) -> Vec<Receipt>
            = move |db| messages::receipts(db, workflow, seq);
        read of_workflow(workflow) inbox_pending(workflow: WorkflowId, agent: AgentName, limit: u32) -> Vec<ShownMessage>
            = move |db| inbox::pending(db, workflow, &agent, limit);
        write of_workflow(fence.workflow) inbox_show(fence: Fence, limit: u32) -> Vec<ShownMessage>
            = move |tx| inbox::show(tx, &fence, limit);
        write of_workflow(fence.workflow) inbox_ack(fence: Fence, until: Seq) -> Vec<Seq>
            = move |tx| inbox::ack(tx, &fence, until);
        write of_workflow(workflow) delivery_redrive(by: WriteContext, workflow: WorkflowId, agent: AgentName, seq: Seq, now: Now) -> ()
            = move |tx| deliveries::redrive(tx, &by, workflow, &agent, seq, now);
        write of_workflow(workflow) delivery_drop(by: WriteContext, workflow: WorkflowId, agent: AgentName, seq: Seq, why: String, now: Now) -> ()
            = move |tx| deliveries::drop_delivery(tx, &by, workflow, &agent, seq, &why, now);
    }
    database {}
    multi_store {}
    impl Database {
        async fn message_index(&self, most: u32) -> Result<bool> {
            if self.write(search::merge_index).await? {
                return Ok(true);
            }
            let mut left = false;
            for workflow in self.read(search::unindexed_workflows).await? {
                match self.write(move |tx| search::index_messages(tx, workflow, most)).await {
                    // Removed meanwhile.
                    Err(Error::NotFound(_)) => {}
                    more => left |= more? > 0,
                }
                // After each: pieces that pile up would be merged at once, in a step that holds up everybody.
                left |= self.write(search::merge_index).await?;
            }
            Ok(left)
        }
    }
    impl MultiStore {
        async fn message_index(&self, most: u32) -> Result<bool> {
            let mut left = false;
            for store in self.all_stores() {
                left |= store.message_index(most).await?;
            }
            Ok(left)
        }
    }
}
