//! The trait, each method handed on to its noun's file.

use std::{ops::Range, sync::Arc};

use agent_worker_protocol::{
    AgentName, ApprovalId, AttemptId, Consent, DocumentPath, Event, EventBody, Hash, InstanceRef,
    Limits, Message, Millis, NumberedEvent, PauseCause, Position, Proposal, ProposalId,
    ProposalState, QuestionId, Receipt, ResourceId, Revision, Role, RunId, Scopes, Seq, WorkflowId,
    api::{FeedbackView, SuggestionView, TokenView},
};
use async_trait::async_trait;

use super::{
    Sqlite, agents, approvals,
    attempts::{self, events as reports, finish, lease},
    binding, deliveries,
    documents::{self, RevisionSelector},
    effects, events, feedback, file_imports, file_states, hashed_message, inbox, instances,
    members, messages, proposal_rows, proposals, questions,
    resources::{self, NewResource},
    roles, run_settlement, run_snapshot, runs, search, suggestions, tokens,
};
use crate::{
    damage::DamagedRow,
    error::{Error, Result},
    model::{
        AgentRow, Approval, ApprovalQuery, AttemptRow, BaseNumber, ChangeCursor, Document,
        DocumentConflict, DocumentInfo, DocumentWrite, EventQuery, Fence, FileImport, FileState,
        FileStep, FinishedAttempt, Instance, InstanceQuery, IntegrityReport, LeaseOutcome,
        LeaseRule, MessageQuery, NewAgent, NewApproval, NewAttempt, NewBallot, NewCancellation,
        NewMessage, NewProposal, NewQuestion, NewRun, NewSuggestion, Once, ProposalQuery,
        QuestionQuery, QuestionRow, ReadyAgent, ResourceInfo, ResourcePart, RunBlockers, RunQuery,
        RunRow, RunRule, RunSnapshot, RunStep, Settlement, ShownMessage, StoreFault,
        SuggestionAnswer, TallyRule, TurnRow, WriteContext,
    },
    store::Store,
    time::{Now, StoreTime},
};

/// Most methods are one read or one write of their noun's file: a line each. The others are written out after them.
macro_rules! sqlite_store_methods {
    ({ $($how:ident $method:ident($($arg:ident: $ty:ty),*) -> $out:ty = $does:expr;)* } $($whole:tt)*) => {
        #[async_trait]
        impl Store for Sqlite {
            $(async fn $method(&self, $($arg: $ty),*) -> Result<$out> {
                self.$how($does).await
            })*
            $($whole)*
        }
    };
}

sqlite_store_methods! {
    {
        // Instances
        write instance_open(project: String, instance: InstanceRef) -> WorkflowId
            = move |tx| instances::open(tx, &project, &instance);
        read instance_verify(workflow: WorkflowId) -> Seq = move |db| hashed_message::verify(db, workflow);
        write instance_clear(by: WriteContext, workflow: WorkflowId, now: Now) -> Seq
            = move |tx| instances::clear_channel(tx, &by, workflow, now);

        // Runs
        write run_create(workflow: WorkflowId, new: NewRun, now: Now) -> ()
            = move |tx| runs::create(tx, workflow, &new, now);
        write run_start(run: RunId, kickoff: Option<NewMessage>, now: Now) -> ()
            = move |tx| runs::start(tx, run, kickoff.as_ref(), now);
        write run_settle(run: RunId, decide: RunRule, now: Now) -> RunStep
            = move |tx| run_settlement::settle_run(tx, run, &decide, now);
        write run_resume(by: WriteContext, run: RunId, limits: Limits, now: Now) -> ()
            = move |tx| runs::resume(tx, &by, run, &limits, now);
        read run_get(run: RunId) -> RunRow = move |db| runs::get(db, run);
        read run_snapshot(run: RunId) -> RunSnapshot = move |db| run_snapshot::get(db, run);
        read run_list(which: RunQuery) -> Vec<RunRow> = move |db| runs::list(db, which);
        read run_failures(run: RunId) -> Vec<Receipt> = move |db| runs::failures(db, run);
        read run_roles(run: RunId) -> Vec<(Role, AgentName)> = move |db| roles::list(db, run);

        // Agents
        read agent_list(workflow: WorkflowId) -> Vec<AgentRow>
            = move |db| agents::list(db, workflow);
        write agent_add(by: WriteContext, run: RunId, agent: NewAgent, now: Now) -> AgentName
            = move |tx| members::add(tx, &by, run, &agent, now);
        write agent_stop(by: WriteContext, workflow: WorkflowId, agent: AgentName, why: String,
            now: Now) -> ()
            = move |tx| members::stop(tx, &by, workflow, &agent, &why, now);
        write agent_resume(by: WriteContext, workflow: WorkflowId, agent: AgentName, now: Now) -> ()
            = move |tx| members::resume(tx, &by, workflow, &agent, now);
        write agent_remove(by: WriteContext, workflow: WorkflowId, agent: AgentName, now: Now) -> ()
            = move |tx| members::remove(tx, &by, workflow, &agent, now);
        read agent_ready(workflow: WorkflowId) -> Vec<ReadyAgent>
            = move |db| agents::ready(db, workflow);

        // Messages
        write message_append(by: WriteContext, workflow: WorkflowId, message: NewMessage,
            pause: Option<PauseCause>, now: Now) -> Once<Seq>
            = move |tx| messages::append(tx, &by, workflow, &message, pause.as_ref(), now);
        read message_list(workflow: WorkflowId, query: MessageQuery) -> Vec<Message>
            = move |db| messages::list(db, workflow, &query);
        read message_thread(workflow: WorkflowId, seq: Seq, after: Seq, limit: u32) -> Vec<Message>
            = move |db| messages::thread(db, workflow, seq, after, limit);
        read message_receipts(workflow: WorkflowId, seq: Seq) -> Vec<Receipt>
            = move |db| messages::receipts(db, workflow, seq);

        // Inboxes
        read inbox_pending(workflow: WorkflowId, agent: AgentName,
            limit: u32) -> Vec<ShownMessage>
            = move |db| inbox::pending(db, workflow, &agent, limit);
        write inbox_show(fence: Fence, limit: u32) -> Vec<ShownMessage>
            = move |tx| inbox::show(tx, &fence, limit);
        write inbox_ack(fence: Fence, until: Seq) -> Vec<Seq>
            = move |tx| inbox::ack(tx, &fence, until);
        write delivery_redrive(by: WriteContext, workflow: WorkflowId, agent: AgentName, seq: Seq,
            now: Now) -> ()
            = move |tx| deliveries::redrive(tx, &by, workflow, &agent, seq, now);
        write delivery_drop(by: WriteContext, workflow: WorkflowId, agent: AgentName, seq: Seq,
            why: String, now: Now) -> ()
            = move |tx| deliveries::drop_delivery(tx, &by, workflow, &agent, seq, &why, now);

        // Attempts
        write attempt_lease(workflow: WorkflowId, agent: AgentName, new: NewAttempt,
            rule: LeaseRule, now: Now) -> LeaseOutcome
            = move |tx| lease::lease_attempt(tx, workflow, &agent, &new, rule, now);
        read_inline attempt_by_token(token: Hash) -> Option<AttemptRow>
            = move |db| attempts::by_token(db, &token);
        read_inline attempt_get(attempt: AttemptId) -> AttemptRow = move |db| attempts::get(db, attempt);
        read attempt_list(workflow: WorkflowId, agent: AgentName, limit: u32) -> Vec<AttemptRow>
            = move |db| attempts::list(db, workflow, &agent, limit);
        read turn_list(run: RunId, limit: u32) -> Vec<TurnRow>
            = move |db| attempts::turns(db, run, limit);
        read attempt_live() -> Vec<AttemptRow> = attempts::list_live;
        write attempt_events(attempt: AttemptId, events: Vec<NumberedEvent>, now: Now) -> i64
            = move |tx| reports::store_events(tx, attempt, &events, now);
        write attempt_finish(fence: Fence, settlement: Settlement,
            now: Now) -> FinishedAttempt
            = move |tx| finish::finish_attempt(tx, &fence, &settlement, now);

        // Proposals and questions
        write run_elect(run: RunId, election: NewProposal, kickoff: Option<NewMessage>,
            now: Now) -> ()
            = move |tx| runs::start_election(tx, run, &election, kickoff.clone(), now);
        write proposal_create(by: WriteContext, workflow: WorkflowId, new: NewProposal,
            now: Now) -> Once<ProposalId>
            = move |tx| proposals::create(tx, &by, workflow, &new, now);
        write ballot_cast(by: WriteContext, workflow: WorkflowId, ballot: NewBallot, deciding: TallyRule,
            now: Now) -> Once<ProposalState>
            = move |tx| proposals::cast_ballot(tx, &by, workflow, &ballot, &deciding, now);
        write proposal_settle(workflow: WorkflowId, deciding: TallyRule,
            now: Now) -> Vec<ProposalId>
            = move |tx| proposals::settle_due_proposals(tx, workflow, &deciding, now);
        read proposal_get(workflow: WorkflowId, proposal: ProposalId, now: Now) -> Option<Proposal>
            = move |db| proposal_rows::get(db, workflow, proposal, now);
        read proposal_list(workflow: WorkflowId, which: ProposalQuery, now: Now) -> Vec<Proposal>
            = move |db| proposal_rows::list(db, workflow, which, now);
        read proposal_ended(workflow: WorkflowId) -> u64
            = move |db| proposal_rows::count_ended(db, workflow);
        read run_gates(run: RunId) -> Vec<String> = move |db| binding::list_open_gates(db, run);
        write question_ask(by: WriteContext, workflow: WorkflowId, new: NewQuestion,
            now: Now) -> Once<QuestionId>
            = move |tx| questions::ask_question(tx, &by, workflow, &new, now);
        write question_answer(by: WriteContext, workflow: WorkflowId, question: QuestionId,
            answer: String, now: Now) -> Once<Seq>
            = move |tx| questions::answer_question(tx, &by, workflow, question, &answer, now);
        write approval_ask(fence: Fence, new: NewApproval, now: Now) -> Approval
            = move |tx| approvals::request_approval(tx, &fence, &new, now);
        write approval_answer(by: WriteContext, workflow: WorkflowId, approval: ApprovalId,
            consent: Consent, reason: Option<String>, now: Now) -> Once<()>
            = move |tx| approvals::answer_approval(tx, &by, workflow, approval, (consent, reason.as_deref()), now);
        read approval_list(workflow: WorkflowId, which: ApprovalQuery) -> Vec<Approval>
            = move |db| approvals::list(db, workflow, which);
        read question_list(workflow: WorkflowId, which: QuestionQuery) -> Vec<QuestionRow>
            = move |db| questions::list(db, workflow, which);

        // Documents and resources
        write document_put(by: WriteContext, write: DocumentWrite, now: Now) -> Once<Revision>
            = move |tx| documents::put_document(tx, &by, &write, now);
        read document_list(workflow: WorkflowId) -> Vec<DocumentInfo>
            = move |db| documents::list(db, workflow);
        read document_history(workflow: WorkflowId, path: DocumentPath,
            limit: u32) -> Vec<DocumentInfo>
            = move |db| documents::history(db, workflow, &path, limit);
        write document_show(fence: Fence, path: DocumentPath) -> Option<Document>
            = move |tx| documents::show(tx, &fence, &path);
        write suggestion_put(by: WriteContext, suggestion: NewSuggestion, now: Now) -> Once<Seq>
            = move |tx| suggestions::put_suggestion(tx, &by, &suggestion, now);
        write suggestion_answer(by: WriteContext, answer: SuggestionAnswer,
            now: Now) -> Once<Option<Revision>>
            = move |tx| suggestions::answer_suggestion(tx, &by, &answer, now);
        read suggestion_list(workflow: WorkflowId, limit: u32) -> Vec<SuggestionView>
            = move |db| suggestions::list(db, workflow, limit);
        read suggestion_get(workflow: WorkflowId, suggestion: Seq) -> Option<SuggestionView>
            = move |db| suggestions::get(db, workflow, suggestion);
        read file_get(workflow: WorkflowId, path: DocumentPath) -> FileState
            = move |db| file_states::get(db, workflow, &path);
        read file_base(workflow: WorkflowId, path: DocumentPath, base: BaseNumber) -> Option<String>
            = move |db| file_states::base_text(db, workflow, &path, base);
        write file_step(workflow: WorkflowId, path: DocumentPath, step: FileStep) -> FileState
            = move |tx| file_states::apply_step(tx, workflow, &path, &step);
        write file_take(take: FileImport, now: Now) -> FileState
            = move |tx| file_imports::import_file(tx, &take, now);
        read conflict_list(workflow: WorkflowId) -> Vec<DocumentConflict>
            = move |db| file_imports::list_conflicts(db, workflow);
        write conflict_close(workflow: WorkflowId, path: DocumentPath) -> ()
            = move |tx| file_imports::close_conflict(tx, workflow, &path);
        read resource_list(workflow: WorkflowId, limit: u32) -> Vec<ResourceInfo>
            = move |db| resources::list(db, workflow, limit);

        // Events
        write event_append(run: RunId, body: EventBody, cause: Option<String>, now: Now) -> ()
            = move |tx| events::append(tx, run, body, cause, now);
        read event_list(query: EventQuery) -> Vec<Event> = move |db| events::list(db, &query);
        read event_last(workflow: WorkflowId) -> Position = move |db| events::last_position(db, workflow);

        // Clients
        write token_put(name: String, hash: Hash, scopes: Scopes, now: Millis) -> ()
            = move |tx| tokens::put_token(tx, &name, &hash, &scopes, now);
        read token_list() -> Vec<TokenView> = tokens::list;
        write token_remove(name: String) -> () = move |tx| tokens::remove(tx, &name);

        // Feedback
        write feedback_put(said: FeedbackView) -> () = move |tx| feedback::put_feedback(tx, &said);
        write feedback_submit(by: WriteContext, workflow: WorkflowId,
            said: FeedbackView, now: Now) -> Once<FeedbackView>
            = move |tx| feedback::submit(tx, &by, workflow, &said, now);
        read feedback_list(limit: u32) -> Vec<FeedbackView> = move |db| feedback::list(db, limit);

        // The store itself
        write heartbeat_put(now: StoreTime) -> () = move |tx| tokens::put_heartbeat(tx, now);
        read heartbeat_last() -> Option<StoreTime> = tokens::last_heartbeat;
        write effect_expire(before: StoreTime) -> u32 = move |tx| effects::expire(tx, before);
    }

    async fn instance_list(&self, which: InstanceQuery) -> Result<Vec<Instance>> {
        match which {
            InstanceQuery::Named(ref name) => {
                let load = || {
                    let which = which.clone();
                    self.read_inline(move |db| instances::list(db, &which))
                };
                self.changes.instances.get_or_load(name, load).await
            }
            InstanceQuery::All
            | InstanceQuery::Live
            | InstanceQuery::OfWorkflow(_)
            | InstanceQuery::Tagged(_)
            | InstanceQuery::WithAgent(_) => self.read(move |db| instances::list(db, &which)).await,
        }
    }
    async fn instance_remove(&self, workflow: WorkflowId) -> Result<()> {
        self.write(move |tx| instances::remove(tx, workflow)).await?;
        self.damage.remove_workflow(workflow);
        self.sweep_resources(workflow).await
    }
    async fn instance_forget(&self, workflow: WorkflowId) -> Result<()> {
        self.write(move |tx| instances::delete_unretained_runs(tx, workflow)).await?;
        self.damage.remove_workflow(workflow);
        self.sweep_resources(workflow).await
    }
    async fn run_blockers(&self, run: RunId) -> Result<RunBlockers> {
        let load = || self.read_inline(move |db| runs::run_blockers(db, run));
        self.changes.run_blockers.get_or_load(&run, load).await
    }
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
    async fn proposal_due(&self, workflow: WorkflowId) -> Result<Option<StoreTime>> {
        let load = || self.read_inline(move |db| proposal_rows::next_due(db, workflow));
        self.changes.proposals_due.get_or_load(&workflow, load).await
    }
    async fn proposal_cancel(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        cancel: NewCancellation,
        now: Now,
    ) -> Result<Once<ProposalState>> {
        self.write(move |tx| proposals::cancel(tx, &by, workflow, &cancel, now)).await
    }
    async fn document_get(
        &self,
        workflow: WorkflowId,
        path: DocumentPath,
        at: Option<Revision>,
    ) -> Result<Option<Document>> {
        let at = at.map_or(RevisionSelector::Newest, RevisionSelector::Revision);
        self.read(move |db| documents::get(db, workflow, &path, at)).await
    }
    async fn resource_put(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        kind: String,
        content: Vec<u8>,
        now: Millis,
    ) -> Result<ResourceId> {
        // Its hash takes a while when it is large.
        let hash = move || NewResource::new(workflow, kind, content);
        let new = tokio::task::spawn_blocking(hash).await.map_err(|_| Error::Closed)?;
        self.store_resource(Arc::new(new), by, now).await
    }
    async fn resource_get(
        &self,
        workflow: WorkflowId,
        id: ResourceId,
        range: Range<u64>,
    ) -> Result<ResourcePart> {
        let files = self.resource_files();
        self.read(move |db| resources::get(db, workflow, id, &range, files.as_ref())).await
    }
    async fn token_find(&self, hash: Hash) -> Result<Option<TokenView>> {
        let load = || self.read_inline(move |db| tokens::find(db, &hash));
        self.changes.tokens.get_or_load(&hash, load).await
    }
    fn now(&self) -> Now {
        self.clock.now()
    }
    fn now_saved(&self) -> Option<Now> {
        self.clock.saved()
    }
    async fn fault_list(&self) -> Result<Vec<StoreFault>> {
        // The files may have been taken away since the last write; the fault that this finds is in the answer.
        drop(self.check_files().await);
        Ok(self.fault(None).into_iter().collect())
    }
    async fn integrity_check(&self) -> Result<IntegrityReport> {
        self.check_integrity().await
    }
    async fn damage_list(&self) -> Result<Vec<DamagedRow>> {
        Ok(self.damage.list())
    }
    async fn change_wait(&self, workflow: WorkflowId, seen: ChangeCursor) -> ChangeCursor {
        self.changes.wait(workflow, seen).await
    }
}
