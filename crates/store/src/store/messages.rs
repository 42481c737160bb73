//! Messages, inboxes and deliveries.

use agent_worker_protocol::{AgentName, Message, Millis, PauseCause, Receipt, Seq, WorkflowId};
use async_trait::async_trait;

use super::store_methods;
use crate::{
    database::Database,
    error::{Error, Result},
    model::{
        Fence, InboxKey, ListRange, MessageQuery, NewMessage, Once, ShownMessage, WriteContext,
    },
    multi_store::MultiStore,
    sql::{deliveries, inbox, messages, search, transaction::Tx},
    time::Now,
};

/// The channel of an instance: messages, the inboxes of its agents and the deliveries in them.
#[async_trait]
pub trait MessageStore: Send + Sync {
    /// Adds a message and a delivery for each recipient; every interface uses this method. With a `pause` the run is
    /// paused in the same transaction, so that no delivery of the message can be leased. The files of the message become
    /// resources in that transaction.
    async fn message_append(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        message: NewMessage,
        pause: Option<PauseCause>,
        now: Now,
    ) -> Result<Once<Seq>>;
    /// Lists messages of the channel, oldest first.
    async fn message_list(&self, workflow: WorkflowId, query: MessageQuery)
    -> Result<Vec<Message>>;
    /// Reads the messages with these numbers, in their order; a number without a message is left out.
    async fn message_get(&self, workflow: WorkflowId, seqs: Vec<Seq>) -> Result<Vec<Message>>;
    /// Reads a message, its replies, their replies and so on, of any run: after `after`, oldest first, at most
    /// `limit`.
    async fn message_thread(
        &self,
        workflow: WorkflowId,
        seq: Seq,
        after: Seq,
        limit: u32,
    ) -> Result<Vec<Message>>;
    /// Returns the position of a time in the channel: the message before the first one with a later `ts`, 0 if there is
    /// none. A binary search: if the wall clock was set back, the channel passes a time more than once, and the
    /// position is one of these places.
    async fn message_position(&self, workflow: WorkflowId, time: Millis) -> Result<Seq>;
    /// Adds messages to the search index in a short step, at most `most` of each instance; returns true if any are
    /// left. A search finds the same messages before and after, only faster.
    async fn message_index(&self, most: u32) -> Result<bool>;
    /// Returns the state of each delivery of a message.
    async fn message_receipts(&self, workflow: WorkflowId, seq: Seq) -> Result<Vec<Receipt>>;
    /// Returns the recipients that acted on a message, each with the message that is its answer.
    async fn message_answers(
        &self,
        workflow: WorkflowId,
        seq: Seq,
    ) -> Result<Vec<(AgentName, Seq)>>;
    /// Reads the pending messages of an agent: waking first, urgent first, then by age. Acks nothing.
    async fn inbox_pending(
        &self,
        workflow: WorkflowId,
        agent: AgentName,
        range: ListRange<InboxKey>,
    ) -> Result<Vec<ShownMessage>>;
    /// Reads the pending messages of an agent that also reach its running turn (`send --now`).
    async fn inbox_now(&self, workflow: WorkflowId, agent: AgentName) -> Result<Vec<ShownMessage>>;
    /// Reads the oldest pending messages of an agent after `after` that do not reach its running turn.
    async fn inbox_after(
        &self,
        workflow: WorkflowId,
        agent: AgentName,
        after: Seq,
    ) -> Result<Vec<ShownMessage>>;
    /// Reads the pending messages for a live attempt, and records that they were shown.
    async fn inbox_show(
        &self,
        fence: Fence,
        range: ListRange<InboxKey>,
    ) -> Result<Vec<ShownMessage>>;
    /// Adds mail that this attempt was shown to its turn: acked if it succeeds, pending again if not. Returns the
    /// added messages.
    async fn inbox_ack(&self, fence: Fence, until: Seq) -> Result<Vec<Seq>>;
    /// Makes a dead letter pending again, with its counts reset and its effects and journal kept.
    async fn delivery_redrive(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        agent: AgentName,
        seq: Seq,
        now: Now,
    ) -> Result<()>;
    /// Drops a pending or dead delivery.
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
        read of_workflow(workflow) message_list(workflow: WorkflowId, query: MessageQuery) -> Vec<Message>
            = move |db| messages::list(db, workflow, &query);
        read of_workflow(workflow) message_get(workflow: WorkflowId, seqs: Vec<Seq>) -> Vec<Message>
            = move |db| messages::get(db, workflow, &seqs);
        read of_workflow(workflow) message_thread(workflow: WorkflowId, seq: Seq, after: Seq, limit: u32) -> Vec<Message>
            = move |db| messages::thread(db, workflow, seq, after, limit);
        read of_workflow(workflow) message_position(workflow: WorkflowId, time: Millis) -> Seq
            = move |db| messages::position(db, workflow, time);
        read of_workflow(workflow) message_receipts(workflow: WorkflowId, seq: Seq) -> Vec<Receipt>
            = move |db| messages::receipts(db, workflow, seq);
        read of_workflow(workflow) message_answers(workflow: WorkflowId, seq: Seq) -> Vec<(AgentName, Seq)>
            = move |db| messages::answers(db, workflow, seq);
        read of_workflow(workflow) inbox_pending(workflow: WorkflowId, agent: AgentName, range: ListRange<InboxKey>) -> Vec<ShownMessage>
            = move |db| inbox::pending(db, workflow, &agent, range);
        read of_workflow(workflow) inbox_now(workflow: WorkflowId, agent: AgentName) -> Vec<ShownMessage>
            = move |db| inbox::pending_now(db, workflow, &agent);
        read of_workflow(workflow) inbox_after(workflow: WorkflowId, agent: AgentName, after: Seq) -> Vec<ShownMessage>
            = move |db| inbox::pending_after(db, workflow, &agent, after);
        write of_workflow(fence.workflow) inbox_show(fence: Fence, range: ListRange<InboxKey>) -> Vec<ShownMessage>
            = move |tx| inbox::show(tx, &fence, range);
        write of_workflow(fence.workflow) inbox_ack(fence: Fence, until: Seq) -> Vec<Seq>
            = move |tx| inbox::ack(tx, &fence, until);
        write of_workflow(workflow) delivery_redrive(by: WriteContext, workflow: WorkflowId, agent: AgentName, seq: Seq, now: Now) -> ()
            = move |tx| deliveries::redrive(tx, &by, workflow, &agent, seq, now);
        write of_workflow(workflow) delivery_drop(by: WriteContext, workflow: WorkflowId, agent: AgentName, seq: Seq, why: String, now: Now) -> ()
            = move |tx| deliveries::drop_delivery(tx, &by, workflow, &agent, seq, &why, now);
    }
    database {}
    multi_store {
        of_workflow(workflow) message_append(by: WriteContext, workflow: WorkflowId, message: NewMessage, pause: Option<PauseCause>, now: Now) -> Once<Seq>;
    }
    impl Database {
        async fn message_append(
            &self,
            by: WriteContext,
            workflow: WorkflowId,
            message: NewMessage,
            pause: Option<PauseCause>,
            now: Now,
        ) -> Result<Once<Seq>> {
            if message.attachments.is_empty() {
                let new = messages::MessageWithFiles::new(workflow, message, None);
                let append = move |tx: &Tx<'_>| {
                    messages::append(tx, &by, workflow, &new, pause.as_ref(), now)
                };
                return self.write(append).await;
            }
            self.store_message_with_files((by, pause), workflow, message, now).await
        }
        async fn message_index(&self, most: u32) -> Result<bool> {
            if self.write(search::merge_index).await? {
                return Ok(true);
            }
            let mut left = false;
            for workflow in self.read(search::unindexed_workflows).await? {
                match self.write(move |tx| search::index_messages(tx, workflow, most)).await {
                    // The instance was removed in the meantime.
                    Err(Error::NotFound(_)) => {}
                    more => left |= more? > 0,
                }
                // After each step: segments that accumulate would be merged at once, in a step that blocks every
                // writer.
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
