//! The trait, each method handed on to its noun's file.

use std::{ops::Range, sync::Arc};

use agent_worker_protocol::{
    AgentName, AttemptId, DocumentPath, Event, EventKind, Hash, InstanceRef, Limits, Message,
    Millis, NumberedEvent, PauseCause, Position, Proposal, ProposalId, ProposalState, QuestionId,
    Receipt, ResourceId, Revision, Role, RunId, Seq, WorkflowId,
    api::{FeedbackView, SuggestionView, TokenView},
};
use async_trait::async_trait;
use serde_json::Value;

use super::{
    Sqlite, agents,
    attempts::{self, events as reports, finish, lease},
    binding, content, deliveries,
    documents::{self, At},
    effects, events, feedback, inbox, instances, members, messages, projections, proposals,
    questions,
    resources::{self, NewResource},
    roles, runs, search, settle, suggestions, tokens,
    writer::Tx,
};
use crate::{
    error::{Error, Result},
    model::{
        AgentRow, AttemptRow, By, Change, Decide, Deciding, Document, DocumentConflict,
        DocumentInfo, DocumentWrite, EventQuery, Fence, FileMemory, FileTake, FinishedAttempt,
        Hindrances, Instance, InstanceQuery, LeaseRule, Leased, MessageQuery, NewAgent, NewAttempt,
        NewBallot, NewMessage, NewProposal, NewQuestion, NewRun, NewSuggestion, Once,
        ProposalQuery, Question, QuestionQuery, ReadyAgent, ResourcePart, RunQuery, RunRow,
        RunStep, Said, Settlement, ShownMessage, SuggestionAnswer, Turn,
    },
    store::Store,
};

#[async_trait]
impl Store for Sqlite {
    // Instances

    async fn instance_open(&self, project: String, instance: InstanceRef) -> Result<WorkflowId> {
        self.write(move |tx| instances::open(tx, &project, &instance)).await
    }
    async fn instance_list(&self, which: InstanceQuery) -> Result<Vec<Instance>> {
        match which {
            InstanceQuery::Named(_) => self.look(move |db| instances::list(db, &which)).await,
            InstanceQuery::All
            | InstanceQuery::Live
            | InstanceQuery::Called(_)
            | InstanceQuery::Tagged(_)
            | InstanceQuery::With(_) => self.read(move |db| instances::list(db, &which)).await,
        }
    }
    async fn instance_verify(&self, workflow: WorkflowId) -> Result<Seq> {
        self.read(move |db| content::verify(db, workflow)).await
    }
    async fn instance_clear(&self, by: By, workflow: WorkflowId, now: Millis) -> Result<Seq> {
        self.write(move |tx| instances::clear(tx, &by, workflow, now)).await
    }
    async fn instance_remove(&self, workflow: WorkflowId) -> Result<()> {
        self.write(move |tx| instances::remove(tx, workflow)).await?;
        self.sweep(workflow).await
    }
    async fn instance_forget(&self, workflow: WorkflowId) -> Result<()> {
        self.write(move |tx| instances::forget(tx, workflow)).await?;
        self.sweep(workflow).await
    }

    // Runs

    async fn run_create(&self, workflow: WorkflowId, new: NewRun, now: Millis) -> Result<()> {
        self.write(move |tx| runs::create(tx, workflow, &new, now)).await
    }
    async fn run_start(&self, run: RunId, kickoff: Option<NewMessage>, now: Millis) -> Result<()> {
        self.write(move |tx| runs::start(tx, run, kickoff.as_ref(), now)).await
    }
    async fn run_settle(&self, run: RunId, decide: Decide, now: Millis) -> Result<RunStep> {
        self.write(move |tx| settle::settle(tx, run, &decide, now)).await
    }
    async fn run_resume(&self, by: By, run: RunId, limits: Limits, now: Millis) -> Result<()> {
        self.write(move |tx| runs::resume(tx, &by, run, &limits, now)).await
    }
    async fn run_get(&self, run: RunId) -> Result<RunRow> {
        self.read(move |db| runs::get(db, run)).await
    }
    async fn run_hindrances(&self, run: RunId) -> Result<Hindrances> {
        self.look(move |db| runs::hindrances(db, run)).await
    }
    async fn run_list(&self, which: RunQuery) -> Result<Vec<RunRow>> {
        self.read(move |db| runs::list(db, which)).await
    }
    async fn run_failures(&self, run: RunId) -> Result<Vec<Receipt>> {
        self.read(move |db| runs::failures(db, run)).await
    }
    async fn run_roles(&self, run: RunId) -> Result<Vec<(Role, AgentName)>> {
        self.read(move |db| roles::list(db, run)).await
    }

    // Agents

    async fn agent_list(&self, workflow: WorkflowId) -> Result<Vec<AgentRow>> {
        self.read(move |db| agents::list(db, workflow)).await
    }
    async fn agent_add(
        &self,
        by: By,
        run: RunId,
        agent: NewAgent,
        now: Millis,
    ) -> Result<AgentName> {
        self.write(move |tx| members::add(tx, &by, run, &agent, now)).await
    }
    async fn agent_stop(
        &self,
        by: By,
        workflow: WorkflowId,
        agent: AgentName,
        why: String,
        now: Millis,
    ) -> Result<()> {
        self.write(move |tx| members::stop(tx, &by, workflow, &agent, &why, now)).await
    }
    async fn agent_resume(
        &self,
        by: By,
        workflow: WorkflowId,
        agent: AgentName,
        now: Millis,
    ) -> Result<()> {
        self.write(move |tx| members::resume(tx, &by, workflow, &agent, now)).await
    }
    async fn agent_remove(
        &self,
        by: By,
        workflow: WorkflowId,
        agent: AgentName,
        now: Millis,
    ) -> Result<()> {
        self.write(move |tx| members::remove(tx, &by, workflow, &agent, now)).await
    }
    async fn agent_ready(&self, workflow: WorkflowId) -> Result<Vec<ReadyAgent>> {
        self.read(move |db| agents::ready(db, workflow)).await
    }

    // Messages

    async fn message_append(
        &self,
        by: By,
        workflow: WorkflowId,
        message: NewMessage,
        pause: Option<PauseCause>,
        now: Millis,
    ) -> Result<Once<Seq>> {
        self.write(move |tx| messages::append(tx, &by, workflow, &message, pause.as_ref(), now))
            .await
    }
    async fn message_list(
        &self,
        workflow: WorkflowId,
        query: MessageQuery,
    ) -> Result<Vec<Message>> {
        self.read(move |db| messages::list(db, workflow, &query)).await
    }
    async fn message_index(&self, most: u32) -> Result<bool> {
        let mut left = false;
        for workflow in self.read(search::behind).await? {
            match self.write(move |tx| search::index(tx, workflow, most)).await {
                // Removed meanwhile.
                Err(Error::NotFound(_)) => {}
                more => left |= more? > 0,
            }
        }
        Ok(left)
    }
    async fn message_receipts(&self, workflow: WorkflowId, seq: Seq) -> Result<Vec<Receipt>> {
        self.read(move |db| messages::receipts(db, workflow, seq)).await
    }

    // Inboxes

    async fn inbox_pending(
        &self,
        workflow: WorkflowId,
        agent: AgentName,
        limit: u32,
    ) -> Result<Vec<ShownMessage>> {
        self.read(move |db| inbox::pending(db, workflow, &agent, limit)).await
    }
    async fn inbox_show(&self, fence: Fence, limit: u32) -> Result<Vec<ShownMessage>> {
        self.write(move |tx| inbox::show(tx, &fence, limit)).await
    }
    async fn inbox_ack(&self, fence: Fence, until: Seq) -> Result<Vec<Seq>> {
        self.write(move |tx| inbox::ack(tx, &fence, until)).await
    }
    async fn delivery_redrive(
        &self,
        by: By,
        workflow: WorkflowId,
        agent: AgentName,
        seq: Seq,
        now: Millis,
    ) -> Result<()> {
        self.write(move |tx| deliveries::redrive(tx, &by, workflow, &agent, seq, now)).await
    }
    async fn delivery_drop(
        &self,
        by: By,
        workflow: WorkflowId,
        agent: AgentName,
        seq: Seq,
        why: String,
        now: Millis,
    ) -> Result<()> {
        self.write(move |tx| deliveries::give_up(tx, &by, workflow, &agent, seq, &why, now)).await
    }

    // Attempts

    async fn attempt_lease(
        &self,
        workflow: WorkflowId,
        agent: AgentName,
        new: NewAttempt,
        rule: LeaseRule,
        now: Millis,
    ) -> Result<Leased> {
        self.write(move |tx| lease::lease(tx, workflow, &agent, &new, rule, now)).await
    }
    async fn attempt_by_token(&self, token: Hash) -> Result<Option<AttemptRow>> {
        self.look(move |db| attempts::by_token(db, &token)).await
    }
    async fn attempt_get(&self, attempt: AttemptId) -> Result<AttemptRow> {
        self.look(move |db| attempts::get(db, attempt)).await
    }
    async fn attempt_list(
        &self,
        workflow: WorkflowId,
        agent: AgentName,
        limit: u32,
    ) -> Result<Vec<AttemptRow>> {
        self.read(move |db| attempts::list(db, workflow, &agent, limit)).await
    }
    async fn turn_list(&self, run: RunId, limit: u32) -> Result<Vec<Turn>> {
        self.read(move |db| attempts::turns(db, run, limit)).await
    }
    async fn attempt_live(&self) -> Result<Vec<AttemptRow>> {
        self.read(attempts::live).await
    }
    async fn attempt_events(
        &self,
        attempt: AttemptId,
        events: Vec<NumberedEvent>,
        now: Millis,
    ) -> Result<i64> {
        self.write(move |tx| reports::store(tx, attempt, &events, now)).await
    }
    async fn attempt_finish(
        &self,
        fence: Fence,
        settlement: Settlement,
        now: Millis,
    ) -> Result<FinishedAttempt> {
        self.write(move |tx| finish::finish(tx, &fence, &settlement, now)).await
    }

    // Proposals and questions

    async fn run_elect(
        &self,
        run: RunId,
        election: NewProposal,
        kickoff: Option<NewMessage>,
        now: Millis,
    ) -> Result<()> {
        self.write(move |tx| runs::elect(tx, run, &election, kickoff.clone(), now)).await
    }
    async fn proposal_create(
        &self,
        by: By,
        workflow: WorkflowId,
        new: NewProposal,
        now: Millis,
    ) -> Result<Once<ProposalId>> {
        self.write(move |tx| proposals::create(tx, &by, workflow, &new, now)).await
    }
    async fn ballot_cast(
        &self,
        by: By,
        workflow: WorkflowId,
        ballot: NewBallot,
        deciding: Deciding,
        now: Millis,
    ) -> Result<Once<ProposalState>> {
        self.write(move |tx| proposals::cast(tx, &by, workflow, &ballot, &deciding, now)).await
    }
    async fn proposal_cancel(
        &self,
        by: By,
        workflow: WorkflowId,
        proposal: ProposalId,
        why: Option<String>,
        said: Said,
        now: Millis,
    ) -> Result<Once<ProposalState>> {
        let cancel = move |tx: &Tx<'_>| {
            proposals::cancel(tx, &by, workflow, proposal, why.as_deref(), &said, now)
        };
        self.write(cancel).await
    }
    async fn proposal_settle(
        &self,
        workflow: WorkflowId,
        deciding: Deciding,
        now: Millis,
    ) -> Result<Vec<ProposalId>> {
        self.write(move |tx| proposals::settle(tx, workflow, &deciding, now)).await
    }
    async fn proposal_get(
        &self,
        workflow: WorkflowId,
        proposal: ProposalId,
    ) -> Result<Option<Proposal>> {
        self.read(move |db| proposals::get(db, workflow, proposal)).await
    }
    async fn proposal_list(
        &self,
        workflow: WorkflowId,
        which: ProposalQuery,
    ) -> Result<Vec<Proposal>> {
        self.read(move |db| proposals::list(db, workflow, which)).await
    }
    async fn proposal_due(&self, workflow: WorkflowId) -> Result<Option<Millis>> {
        self.read(move |db| proposals::due(db, workflow)).await
    }
    async fn run_gates(&self, run: RunId) -> Result<Vec<String>> {
        self.read(move |db| binding::gates(db, run)).await
    }
    async fn question_ask(
        &self,
        by: By,
        workflow: WorkflowId,
        new: NewQuestion,
        now: Millis,
    ) -> Result<Once<QuestionId>> {
        self.write(move |tx| questions::ask(tx, &by, workflow, &new, now)).await
    }
    async fn question_answer(
        &self,
        by: By,
        workflow: WorkflowId,
        question: QuestionId,
        answer: String,
        now: Millis,
    ) -> Result<Once<Seq>> {
        self.write(move |tx| questions::answer(tx, &by, workflow, question, &answer, now)).await
    }
    async fn question_list(
        &self,
        workflow: WorkflowId,
        which: QuestionQuery,
    ) -> Result<Vec<Question>> {
        self.read(move |db| questions::list(db, workflow, which)).await
    }

    // Documents and resources

    async fn document_put(
        &self,
        by: By,
        write: DocumentWrite,
        now: Millis,
    ) -> Result<Once<Revision>> {
        self.write(move |tx| documents::put(tx, &by, &write, now)).await
    }
    async fn document_get(
        &self,
        workflow: WorkflowId,
        path: DocumentPath,
        at: Option<Revision>,
    ) -> Result<Option<Document>> {
        let at = at.map_or(At::Newest, At::Revision);
        self.read(move |db| documents::get(db, workflow, &path, at)).await
    }
    async fn document_list(&self, workflow: WorkflowId) -> Result<Vec<DocumentInfo>> {
        self.read(move |db| documents::list(db, workflow)).await
    }
    async fn document_history(
        &self,
        workflow: WorkflowId,
        path: DocumentPath,
        limit: u32,
    ) -> Result<Vec<DocumentInfo>> {
        self.read(move |db| documents::history(db, workflow, &path, limit)).await
    }
    async fn document_show(&self, fence: Fence, path: DocumentPath) -> Result<Option<Document>> {
        self.write(move |tx| documents::show(tx, &fence, &path)).await
    }
    async fn suggestion_put(
        &self,
        by: By,
        suggestion: NewSuggestion,
        now: Millis,
    ) -> Result<Once<Seq>> {
        self.write(move |tx| suggestions::put(tx, &by, &suggestion, now)).await
    }
    async fn suggestion_answer(
        &self,
        by: By,
        answer: SuggestionAnswer,
        now: Millis,
    ) -> Result<Once<Option<Revision>>> {
        self.write(move |tx| suggestions::answer(tx, &by, &answer, now)).await
    }
    async fn suggestion_list(
        &self,
        workflow: WorkflowId,
        limit: u32,
    ) -> Result<Vec<SuggestionView>> {
        self.read(move |db| suggestions::list(db, workflow, limit)).await
    }
    async fn suggestion_get(
        &self,
        workflow: WorkflowId,
        suggestion: Seq,
    ) -> Result<Option<SuggestionView>> {
        self.read(move |db| suggestions::get(db, workflow, suggestion)).await
    }
    async fn file_list(&self, workflow: WorkflowId) -> Result<Vec<FileMemory>> {
        self.read(move |db| projections::list(db, workflow)).await
    }
    async fn file_put(
        &self,
        workflow: WorkflowId,
        path: DocumentPath,
        revision: Revision,
        since: Millis,
        now: Millis,
    ) -> Result<()> {
        self.write(move |tx| projections::put(tx, workflow, &path, revision, since, now)).await
    }
    async fn file_take(&self, take: FileTake, now: Millis) -> Result<Option<Revision>> {
        self.write(move |tx| projections::take(tx, &take, now)).await
    }
    async fn conflict_list(&self, workflow: WorkflowId) -> Result<Vec<DocumentConflict>> {
        self.read(move |db| projections::conflicts(db, workflow)).await
    }
    async fn conflict_close(&self, workflow: WorkflowId, path: DocumentPath) -> Result<()> {
        self.write(move |tx| projections::conflict_close(tx, workflow, &path)).await
    }
    async fn resource_put(
        &self,
        by: By,
        workflow: WorkflowId,
        kind: String,
        content: Vec<u8>,
        now: Millis,
    ) -> Result<ResourceId> {
        // Its hash takes a while when it is large.
        let hash = move || NewResource::new(workflow, kind, content);
        let new = tokio::task::spawn_blocking(hash).await.map_err(|_| Error::Closed)?;
        self.keep(Arc::new(new), by, now).await
    }
    async fn resource_get(
        &self,
        workflow: WorkflowId,
        id: ResourceId,
        range: Range<u64>,
    ) -> Result<ResourcePart> {
        let files = self.files();
        self.read(move |db| resources::get(db, workflow, id, &range, files.as_ref())).await
    }

    // Events

    async fn event_append(
        &self,
        run: RunId,
        kind: EventKind,
        cause: Option<String>,
        data: Value,
        now: Millis,
    ) -> Result<()> {
        self.write(move |tx| events::append(tx, run, kind, cause, data, now)).await
    }
    async fn event_list(&self, query: EventQuery) -> Result<Vec<Event>> {
        self.read(move |db| events::list(db, &query)).await
    }
    async fn event_last(&self, workflow: WorkflowId) -> Result<Position> {
        self.read(move |db| events::last(db, workflow)).await
    }
    async fn change_wait(&self, workflow: WorkflowId, seen: Change) -> Change {
        self.changes.wait(workflow, seen).await
    }

    // Clients

    async fn token_put(&self, name: String, hash: Hash, now: Millis) -> Result<()> {
        self.write(move |tx| tokens::put(tx, &name, &hash, now)).await
    }
    async fn token_find(&self, hash: Hash) -> Result<Option<String>> {
        self.look(move |db| tokens::find(db, &hash)).await
    }
    async fn token_list(&self) -> Result<Vec<TokenView>> {
        self.read(tokens::list).await
    }
    async fn token_remove(&self, name: String) -> Result<()> {
        self.write(move |tx| tokens::remove(tx, &name)).await
    }

    // Feedback

    async fn feedback_put(&self, said: FeedbackView) -> Result<()> {
        self.write(move |tx| feedback::put(tx, &said)).await
    }
    async fn feedback_submit(
        &self,
        by: By,
        workflow: WorkflowId,
        said: FeedbackView,
    ) -> Result<Once<FeedbackView>> {
        self.write(move |tx| feedback::submit(tx, &by, workflow, &said)).await
    }
    async fn feedback_list(&self, limit: u32) -> Result<Vec<FeedbackView>> {
        self.read(move |db| feedback::list(db, limit)).await
    }

    // The store itself

    async fn integrity(&self) -> Result<Vec<String>> {
        self.read(tokens::integrity).await
    }
    async fn pulse(&self, now: Millis) -> Result<()> {
        self.write(move |tx| tokens::pulse(tx, now)).await
    }
    async fn pulse_last(&self) -> Result<Option<Millis>> {
        self.read(tokens::pulse_last).await
    }
    async fn effect_expire(&self, before: Millis) -> Result<u32> {
        self.write(move |tx| effects::expire(tx, before)).await
    }
}
