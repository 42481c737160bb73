//! The trait, each method handed on to the database that has what it is about.

use std::{ops::Range, path::PathBuf};

use agent_worker_protocol::{
    AgentName, ApprovalId, AttemptId, Consent, DocumentPath, Event, EventBody, Hash, InstanceRef,
    Limits, Message, Millis, NumberedEvent, PauseCause, Position, Proposal, ProposalId,
    ProposalState, QuestionId, Receipt, ResourceId, Revision, Role, RunId, Scopes, Seq, WorkflowId,
    api::{FeedbackView, SuggestionView, TokenView},
};
use async_trait::async_trait;

use super::MultiStore;
use crate::{
    damage::DamagedRow,
    error::Result,
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
    sqlite::team_databases,
    store::Store,
    time::{Now, StoreTime},
};

/// Most methods are about something that is in one database: a line each, first where the key says in which, then where
/// they have to be asked. The others are written out after them.
macro_rules! multi_store_methods {
    (
        { $($known:ident($($of:expr)?) $method:ident($($arg:ident: $ty:ty),*) -> $out:ty;)* }
        { $($found:ident($key:expr) $slow:ident($($given:ident: $kind:ty),*) -> $result:ty;)* }
        $($whole:tt)*
    ) => {
        #[async_trait]
        impl Store for MultiStore {
            $(async fn $method(&self, $($arg: $ty),*) -> Result<$out> {
                self.$known($($of)?)?.$method($($arg),*).await
            })*
            $(async fn $slow(&self, $($given: $kind),*) -> Result<$result> {
                self.$found($key).await?.$slow($($given),*).await
            })*
            $($whole)*
        }
    };
}

multi_store_methods! {
    {
        store_for(workflow) instance_verify(workflow: WorkflowId) -> Seq;
        store_for(workflow) instance_forget(workflow: WorkflowId) -> ();
        store_for(workflow) instance_clear(by: WriteContext, workflow: WorkflowId, now: Now) -> Seq;
        store_for(workflow) run_create(workflow: WorkflowId, new: NewRun, now: Now) -> ();
        store_for(workflow) agent_list(workflow: WorkflowId) -> Vec<AgentRow>;
        store_for(workflow) agent_stop(by: WriteContext, workflow: WorkflowId, agent: AgentName, why: String, now: Now) -> ();
        store_for(workflow) agent_resume(by: WriteContext, workflow: WorkflowId, agent: AgentName, now: Now) -> ();
        store_for(workflow) agent_remove(by: WriteContext, workflow: WorkflowId, agent: AgentName, now: Now) -> ();
        store_for(workflow) agent_ready(workflow: WorkflowId) -> Vec<ReadyAgent>;
        store_for(workflow) message_append(by: WriteContext, workflow: WorkflowId, message: NewMessage, pause: Option<PauseCause>, now: Now)
            -> Once<Seq>;
        store_for(workflow) message_list(workflow: WorkflowId, query: MessageQuery) -> Vec<Message>;
        store_for(workflow) message_thread(workflow: WorkflowId, seq: Seq, after: Seq, limit: u32) -> Vec<Message>;
        store_for(workflow) message_receipts(workflow: WorkflowId, seq: Seq) -> Vec<Receipt>;
        store_for(workflow) inbox_pending(workflow: WorkflowId, agent: AgentName, limit: u32) -> Vec<ShownMessage>;
        store_for(fence.workflow) inbox_show(fence: Fence, limit: u32) -> Vec<ShownMessage>;
        store_for(fence.workflow) inbox_ack(fence: Fence, until: Seq) -> Vec<Seq>;
        store_for(workflow) delivery_redrive(by: WriteContext, workflow: WorkflowId, agent: AgentName, seq: Seq, now: Now) -> ();
        store_for(workflow) delivery_drop(by: WriteContext, workflow: WorkflowId, agent: AgentName, seq: Seq, why: String, now: Now)
            -> ();
        store_for(workflow) attempt_lease(workflow: WorkflowId, agent: AgentName, new: NewAttempt, rule: LeaseRule, now: Now)
            -> LeaseOutcome;
        store_for(workflow) attempt_list(workflow: WorkflowId, agent: AgentName, limit: u32) -> Vec<AttemptRow>;
        store_for(fence.workflow) attempt_finish(fence: Fence, settlement: Settlement, now: Now) -> FinishedAttempt;
        store_for(workflow) proposal_create(by: WriteContext, workflow: WorkflowId, new: NewProposal, now: Now) -> Once<ProposalId>;
        store_for(workflow) ballot_cast(by: WriteContext, workflow: WorkflowId, ballot: NewBallot, deciding: TallyRule, now: Now)
            -> Once<ProposalState>;
        store_for(workflow) proposal_cancel(by: WriteContext, workflow: WorkflowId, cancel: NewCancellation, now: Now)
            -> Once<ProposalState>;
        store_for(workflow) proposal_settle(workflow: WorkflowId, deciding: TallyRule, now: Now) -> Vec<ProposalId>;
        store_for(workflow) proposal_get(workflow: WorkflowId, proposal: ProposalId, now: Now) -> Option<Proposal>;
        store_for(workflow) proposal_list(workflow: WorkflowId, which: ProposalQuery, now: Now) -> Vec<Proposal>;
        store_for(workflow) proposal_ended(workflow: WorkflowId) -> u64;
        store_for(workflow) proposal_due(workflow: WorkflowId) -> Option<StoreTime>;
        store_for(workflow) question_ask(by: WriteContext, workflow: WorkflowId, new: NewQuestion, now: Now) -> Once<QuestionId>;
        store_for(workflow) question_answer(by: WriteContext, workflow: WorkflowId, question: QuestionId, answer: String, now: Now)
            -> Once<Seq>;
        store_for(workflow) question_list(workflow: WorkflowId, which: QuestionQuery) -> Vec<QuestionRow>;
        store_for(fence.workflow) approval_ask(fence: Fence, new: NewApproval, now: Now) -> Approval;
        store_for(workflow) approval_answer(by: WriteContext, workflow: WorkflowId, approval: ApprovalId, consent: Consent, reason: Option<String>, now: Now)
            -> Once<()>;
        store_for(workflow) approval_list(workflow: WorkflowId, which: ApprovalQuery) -> Vec<Approval>;
        store_for(write.workflow) document_put(by: WriteContext, write: DocumentWrite, now: Now) -> Once<Revision>;
        store_for(workflow) document_get(workflow: WorkflowId, path: DocumentPath, at: Option<Revision>) -> Option<Document>;
        store_for(workflow) document_list(workflow: WorkflowId) -> Vec<DocumentInfo>;
        store_for(workflow) document_history(workflow: WorkflowId, path: DocumentPath, limit: u32) -> Vec<DocumentInfo>;
        store_for(fence.workflow) document_show(fence: Fence, path: DocumentPath) -> Option<Document>;
        store_for(suggestion.workflow) suggestion_put(by: WriteContext, suggestion: NewSuggestion, now: Now) -> Once<Seq>;
        store_for(answer.workflow) suggestion_answer(by: WriteContext, answer: SuggestionAnswer, now: Now) -> Once<Option<Revision>>;
        store_for(workflow) suggestion_list(workflow: WorkflowId, limit: u32) -> Vec<SuggestionView>;
        store_for(workflow) suggestion_get(workflow: WorkflowId, suggestion: Seq) -> Option<SuggestionView>;
        store_for(workflow) file_get(workflow: WorkflowId, path: DocumentPath) -> FileState;
        store_for(workflow) file_base(workflow: WorkflowId, path: DocumentPath, base: BaseNumber) -> Option<String>;
        store_for(workflow) file_step(workflow: WorkflowId, path: DocumentPath, step: FileStep) -> FileState;
        store_for(take.workflow) file_take(take: FileImport, now: Now) -> FileState;
        store_for(workflow) conflict_list(workflow: WorkflowId) -> Vec<DocumentConflict>;
        store_for(workflow) conflict_close(workflow: WorkflowId, path: DocumentPath) -> ();
        store_for(workflow) resource_put(by: WriteContext, workflow: WorkflowId, kind: String, content: Vec<u8>, now: Millis)
            -> ResourceId;
        store_for(workflow) resource_get(workflow: WorkflowId, id: ResourceId, range: Range<u64>) -> ResourcePart;
        store_for(workflow) resource_list(workflow: WorkflowId, limit: u32) -> Vec<ResourceInfo>;
        store_for(query.workflow) event_list(query: EventQuery) -> Vec<Event>;
        store_for(workflow) event_last(workflow: WorkflowId) -> Position;
        home_store() token_put(name: String, hash: Hash, scopes: Scopes, now: Millis) -> ();
        home_store() token_find(hash: Hash) -> Option<TokenView>;
        home_store() token_list() -> Vec<TokenView>;
        home_store() token_remove(name: String) -> ();
        home_store() feedback_put(said: FeedbackView) -> ();
        store_for(workflow) feedback_submit(by: WriteContext, workflow: WorkflowId, said: FeedbackView, now: Now)
            -> Once<FeedbackView>;
        home_store() heartbeat_last() -> Option<StoreTime>;
    }
    {
        store_for_run(run) run_start(run: RunId, kickoff: Option<NewMessage>, now: Now) -> ();
        store_for_run(run) run_settle(run: RunId, decide: RunRule, now: Now) -> RunStep;
        store_for_run(run) run_resume(by: WriteContext, run: RunId, limits: Limits, now: Now) -> ();
        store_for_run(run) run_get(run: RunId) -> RunRow;
        store_for_run(run) run_snapshot(run: RunId) -> RunSnapshot;
        store_for_run(run) run_blockers(run: RunId) -> RunBlockers;
        store_for_run(run) run_failures(run: RunId) -> Vec<Receipt>;
        store_for_run(run) run_roles(run: RunId) -> Vec<(Role, AgentName)>;
        store_for_run(run) agent_add(by: WriteContext, run: RunId, agent: NewAgent, now: Now) -> AgentName;
        store_for_attempt(attempt) attempt_get(attempt: AttemptId) -> AttemptRow;
        store_for_run(run) turn_list(run: RunId, limit: u32) -> Vec<TurnRow>;
        store_for_attempt(attempt) attempt_events(attempt: AttemptId, events: Vec<NumberedEvent>, now: Now) -> i64;
        store_for_run(run) run_elect(run: RunId, election: NewProposal, kickoff: Option<NewMessage>, now: Now) -> ();
        store_for_run(run) run_gates(run: RunId) -> Vec<String>;
        store_for_run(run) event_append(run: RunId, body: EventBody, cause: Option<String>, now: Now) -> ();
    }

    async fn instance_open(&self, project: String, instance: InstanceRef) -> Result<WorkflowId> {
        let _alone = self.0.open_lock.lock().await;
        self.refuse_other_database(&project, &instance, None).await?;
        self.0.home.instance_open(project, instance).await
    }
    async fn instance_open_in(
        &self,
        database: PathBuf,
        project: String,
        instance: InstanceRef,
    ) -> Result<WorkflowId> {
        let _alone = self.0.open_lock.lock().await;
        self.refuse_other_database(&project, &instance, Some(&database)).await?;
        let store = match self.find_open(&database) {
            Some(store) => store,
            None => self.open_database(database).await?,
        };
        store.instance_open(project, instance).await
    }
    async fn instance_list(&self, which: InstanceQuery) -> Result<Vec<Instance>> {
        let mut all = Vec::new();
        for store in self.all_stores() {
            all.extend(store.instance_list(which.clone()).await?);
        }
        Ok(all)
    }
    async fn instance_remove(&self, workflow: WorkflowId) -> Result<()> {
        let _alone = self.0.open_lock.lock().await;
        self.store_for(workflow)?.instance_remove(workflow).await?;
        self.remove_if_empty(workflow.get() >> team_databases::DATABASE_NUMBER_SHIFT).await
    }
    async fn run_list(&self, which: RunQuery) -> Result<Vec<RunRow>> {
        let most = match which {
            RunQuery::OfInstance(workflow, _) => return self.store_for(workflow)?.run_list(which).await,
            RunQuery::Newest(most) => usize::try_from(most).unwrap_or(usize::MAX),
            RunQuery::Live => usize::MAX,
        };
        let mut all = Vec::new();
        for store in self.all_stores() {
            all.extend(store.run_list(which).await?);
        }
        // Each has its own in this order already.
        all.sort_by_key(|run: &RunRow| std::cmp::Reverse(run.started));
        all.truncate(most);
        Ok(all)
    }
    async fn message_index(&self, most: u32) -> Result<bool> {
        let mut left = false;
        for store in self.all_stores() {
            left |= store.message_index(most).await?;
        }
        Ok(left)
    }
    async fn attempt_by_token(&self, token: Hash) -> Result<Option<AttemptRow>> {
        for store in self.all_stores() {
            if let Some(attempt) = store.attempt_by_token(token).await? {
                return Ok(Some(attempt));
            }
        }
        Ok(None)
    }
    async fn attempt_live(&self) -> Result<Vec<AttemptRow>> {
        let mut all = Vec::new();
        for store in self.all_stores() {
            all.extend(store.attempt_live().await?);
        }
        Ok(all)
    }
    async fn feedback_list(&self, limit: u32) -> Result<Vec<FeedbackView>> {
        let mut all = Vec::new();
        for store in self.all_stores() {
            all.extend(store.feedback_list(limit).await?);
        }
        all.sort_by_key(|said: &FeedbackView| std::cmp::Reverse(said.ts));
        all.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(all)
    }
    async fn integrity_check(&self) -> Result<IntegrityReport> {
        let mut all = IntegrityReport::default();
        for store in self.all_stores() {
            let one = store.integrity_check().await?;
            all.rows += one.rows;
            all.unhashed += one.unhashed;
            all.problems.extend(one.problems);
            all.damaged.extend(one.damaged);
        }
        let unavailable = self.0.unavailable.lock().await;
        let is_shut = |(path, why): (&PathBuf, &String)| format!("{} is not open: {why}", path.display());
        all.problems.extend(unavailable.iter().map(is_shut));
        Ok(all)
    }
    async fn damage_list(&self) -> Result<Vec<DamagedRow>> {
        let mut all = Vec::new();
        for store in self.all_stores() {
            all.extend(store.damage_list().await?);
        }
        Ok(all)
    }
    async fn fault_list(&self) -> Result<Vec<StoreFault>> {
        let mut all = self.0.home.fault_list().await?;
        let opened = self.open_databases().into_iter();
        all.extend(opened.filter_map(|database| database.store.fault(Some(database.path))));
        let unavailable = self.0.unavailable.lock().await;
        let unavailable = unavailable.iter().map(|(path, why)| StoreFault {
            database: Some(path.clone()),
            why: format!("it is not open: {why}"),
            copy: None,
        });
        all.extend(unavailable);
        Ok(all)
    }
    /// Writes to the daemon's own database. The files of the teams are only checked, unless the last write failed.
    async fn heartbeat_put(&self, now: StoreTime) -> Result<()> {
        let written = self.0.home.heartbeat_put(now).await;
        for database in self.open_databases() {
            let checked = match database.store.fault(None) {
                Some(_) => database.store.heartbeat_put(now).await,
                None => database.store.check_files().await,
            };
            if let Err(error) = checked {
                tracing::debug!(database = %database.path.display(), %error, "refuses writes");
            }
        }
        written
    }
    async fn effect_expire(&self, before: StoreTime) -> Result<u32> {
        let mut expired = 0;
        for store in self.all_stores() {
            expired += store.effect_expire(before).await?;
        }
        Ok(expired)
    }
    // A store has one clock: that of the home's database, which all others share.
    fn now(&self) -> Now {
        self.0.home.now()
    }
    fn now_saved(&self) -> Option<Now> {
        self.0.home.now_saved()
    }
    async fn change_wait(&self, workflow: WorkflowId, seen: ChangeCursor) -> ChangeCursor {
        match self.store_for(workflow) {
            Ok(store) => store.change_wait(workflow, seen).await,
            // What is gone changes no more; whoever waits finds that out by asking.
            Err(_) => self.0.home.change_wait(workflow, seen).await,
        }
    }
}
