//! The trait, each method handed on to the database that has what it is about.

use std::{ops::Range, path::PathBuf};

use agent_worker_protocol::{
    AgentName, ApprovalId, AttemptId, Consent, DocumentPath, Event, EventKind, Hash, InstanceRef,
    Limits, Message, Millis, NumberedEvent, PauseCause, Position, Proposal, ProposalId,
    ProposalState, QuestionId, Receipt, ResourceId, Revision, Role, RunId, Scopes, Seq, WorkflowId,
    api::{FeedbackView, SuggestionView, TokenView},
};
use async_trait::async_trait;
use serde_json::Value;

use super::Cabinet;
use crate::{
    damage::DamagedRow,
    error::Result,
    model::{
        AgentRow, Approval, ApprovalQuery, AttemptRow, BaseNumber, By, Change, Decide, Deciding,
        Document, DocumentConflict, DocumentInfo, DocumentWrite, EventQuery, Fence, FileState,
        FileStep, FileTake, FinishedAttempt, Hindrances, Instance, InstanceQuery, Integrity,
        LeaseRule, Leased, MessageQuery, NewAgent, NewApproval, NewAttempt, NewBallot, NewCancel,
        NewMessage, NewProposal, NewQuestion, NewRun, NewSuggestion, Once, ProposalQuery, Question,
        QuestionQuery, ReadyAgent, ResourceInfo, ResourcePart, RunQuery, RunRow, RunSnapshot,
        RunStep, Settlement, ShownMessage, StoreFault, SuggestionAnswer, Turn,
    },
    sqlite::drawers,
    store::Store,
    time::{Now, StoreTime},
};

/// Most methods are about something that is in one database: a line each, first where the key says in which, then where
/// they have to be asked. The others are written out after them.
macro_rules! cabinet {
    (
        { $($known:ident($($of:expr)?) $method:ident($($arg:ident: $ty:ty),*) -> $out:ty;)* }
        { $($found:ident($key:expr) $slow:ident($($given:ident: $kind:ty),*) -> $result:ty;)* }
        $($whole:tt)*
    ) => {
        #[async_trait]
        impl Store for Cabinet {
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

cabinet! {
    {
        of(workflow) instance_verify(workflow: WorkflowId) -> Seq;
        of(workflow) instance_forget(workflow: WorkflowId) -> ();
        of(workflow) instance_clear(by: By, workflow: WorkflowId, now: Now) -> Seq;
        of(workflow) run_create(workflow: WorkflowId, new: NewRun, now: Now) -> ();
        of(workflow) agent_list(workflow: WorkflowId) -> Vec<AgentRow>;
        of(workflow) agent_stop(by: By, workflow: WorkflowId, agent: AgentName, why: String, now: Now) -> ();
        of(workflow) agent_resume(by: By, workflow: WorkflowId, agent: AgentName, now: Now) -> ();
        of(workflow) agent_remove(by: By, workflow: WorkflowId, agent: AgentName, now: Now) -> ();
        of(workflow) agent_ready(workflow: WorkflowId) -> Vec<ReadyAgent>;
        of(workflow) message_append(by: By, workflow: WorkflowId, message: NewMessage, pause: Option<PauseCause>, now: Now)
            -> Once<Seq>;
        of(workflow) message_list(workflow: WorkflowId, query: MessageQuery) -> Vec<Message>;
        of(workflow) message_thread(workflow: WorkflowId, seq: Seq, after: Seq, limit: u32) -> Vec<Message>;
        of(workflow) message_receipts(workflow: WorkflowId, seq: Seq) -> Vec<Receipt>;
        of(workflow) inbox_pending(workflow: WorkflowId, agent: AgentName, limit: u32) -> Vec<ShownMessage>;
        of(fence.workflow) inbox_show(fence: Fence, limit: u32) -> Vec<ShownMessage>;
        of(fence.workflow) inbox_ack(fence: Fence, until: Seq) -> Vec<Seq>;
        of(workflow) delivery_redrive(by: By, workflow: WorkflowId, agent: AgentName, seq: Seq, now: Now) -> ();
        of(workflow) delivery_drop(by: By, workflow: WorkflowId, agent: AgentName, seq: Seq, why: String, now: Now)
            -> ();
        of(workflow) attempt_lease(workflow: WorkflowId, agent: AgentName, new: NewAttempt, rule: LeaseRule, now: Now)
            -> Leased;
        of(workflow) attempt_list(workflow: WorkflowId, agent: AgentName, limit: u32) -> Vec<AttemptRow>;
        of(fence.workflow) attempt_finish(fence: Fence, settlement: Settlement, now: Now) -> FinishedAttempt;
        of(workflow) proposal_create(by: By, workflow: WorkflowId, new: NewProposal, now: Now) -> Once<ProposalId>;
        of(workflow) ballot_cast(by: By, workflow: WorkflowId, ballot: NewBallot, deciding: Deciding, now: Now)
            -> Once<ProposalState>;
        of(workflow) proposal_cancel(by: By, workflow: WorkflowId, cancel: NewCancel, now: Now)
            -> Once<ProposalState>;
        of(workflow) proposal_settle(workflow: WorkflowId, deciding: Deciding, now: Now) -> Vec<ProposalId>;
        of(workflow) proposal_get(workflow: WorkflowId, proposal: ProposalId, now: Now) -> Option<Proposal>;
        of(workflow) proposal_list(workflow: WorkflowId, which: ProposalQuery, now: Now) -> Vec<Proposal>;
        of(workflow) proposal_ended(workflow: WorkflowId) -> u64;
        of(workflow) proposal_due(workflow: WorkflowId) -> Option<StoreTime>;
        of(workflow) question_ask(by: By, workflow: WorkflowId, new: NewQuestion, now: Now) -> Once<QuestionId>;
        of(workflow) question_answer(by: By, workflow: WorkflowId, question: QuestionId, answer: String, now: Now)
            -> Once<Seq>;
        of(workflow) question_list(workflow: WorkflowId, which: QuestionQuery) -> Vec<Question>;
        of(fence.workflow) approval_ask(fence: Fence, new: NewApproval, now: Now) -> Approval;
        of(workflow) approval_answer(by: By, workflow: WorkflowId, approval: ApprovalId, consent: Consent, reason: Option<String>, now: Now)
            -> Once<()>;
        of(workflow) approval_list(workflow: WorkflowId, which: ApprovalQuery) -> Vec<Approval>;
        of(write.workflow) document_put(by: By, write: DocumentWrite, now: Now) -> Once<Revision>;
        of(workflow) document_get(workflow: WorkflowId, path: DocumentPath, at: Option<Revision>) -> Option<Document>;
        of(workflow) document_list(workflow: WorkflowId) -> Vec<DocumentInfo>;
        of(workflow) document_history(workflow: WorkflowId, path: DocumentPath, limit: u32) -> Vec<DocumentInfo>;
        of(fence.workflow) document_show(fence: Fence, path: DocumentPath) -> Option<Document>;
        of(suggestion.workflow) suggestion_put(by: By, suggestion: NewSuggestion, now: Now) -> Once<Seq>;
        of(answer.workflow) suggestion_answer(by: By, answer: SuggestionAnswer, now: Now) -> Once<Option<Revision>>;
        of(workflow) suggestion_list(workflow: WorkflowId, limit: u32) -> Vec<SuggestionView>;
        of(workflow) suggestion_get(workflow: WorkflowId, suggestion: Seq) -> Option<SuggestionView>;
        of(workflow) file_get(workflow: WorkflowId, path: DocumentPath) -> FileState;
        of(workflow) file_base(workflow: WorkflowId, path: DocumentPath, base: BaseNumber) -> Option<String>;
        of(workflow) file_step(workflow: WorkflowId, path: DocumentPath, step: FileStep) -> FileState;
        of(take.workflow) file_take(take: FileTake, now: Now) -> FileState;
        of(workflow) conflict_list(workflow: WorkflowId) -> Vec<DocumentConflict>;
        of(workflow) conflict_close(workflow: WorkflowId, path: DocumentPath) -> ();
        of(workflow) resource_put(by: By, workflow: WorkflowId, kind: String, content: Vec<u8>, now: Millis)
            -> ResourceId;
        of(workflow) resource_get(workflow: WorkflowId, id: ResourceId, range: Range<u64>) -> ResourcePart;
        of(workflow) resource_list(workflow: WorkflowId, limit: u32) -> Vec<ResourceInfo>;
        of(query.workflow) event_list(query: EventQuery) -> Vec<Event>;
        of(workflow) event_last(workflow: WorkflowId) -> Position;
        home() token_put(name: String, hash: Hash, scopes: Scopes, now: Millis) -> ();
        home() token_find(hash: Hash) -> Option<TokenView>;
        home() token_list() -> Vec<TokenView>;
        home() token_remove(name: String) -> ();
        home() feedback_put(said: FeedbackView) -> ();
        of(workflow) feedback_submit(by: By, workflow: WorkflowId, said: FeedbackView, now: Now)
            -> Once<FeedbackView>;
        home() pulse_last() -> Option<StoreTime>;
    }
    {
        of_run(run) run_start(run: RunId, kickoff: Option<NewMessage>, now: Now) -> ();
        of_run(run) run_settle(run: RunId, decide: Decide, now: Now) -> RunStep;
        of_run(run) run_resume(by: By, run: RunId, limits: Limits, now: Now) -> ();
        of_run(run) run_get(run: RunId) -> RunRow;
        of_run(run) run_snapshot(run: RunId) -> RunSnapshot;
        of_run(run) run_hindrances(run: RunId) -> Hindrances;
        of_run(run) run_failures(run: RunId) -> Vec<Receipt>;
        of_run(run) run_roles(run: RunId) -> Vec<(Role, AgentName)>;
        of_run(run) agent_add(by: By, run: RunId, agent: NewAgent, now: Now) -> AgentName;
        of_attempt(attempt) attempt_get(attempt: AttemptId) -> AttemptRow;
        of_run(run) turn_list(run: RunId, limit: u32) -> Vec<Turn>;
        of_attempt(attempt) attempt_events(attempt: AttemptId, events: Vec<NumberedEvent>, now: Now) -> i64;
        of_run(run) run_elect(run: RunId, election: NewProposal, kickoff: Option<NewMessage>, now: Now) -> ();
        of_run(run) run_gates(run: RunId) -> Vec<String>;
        of_run(run) event_append(run: RunId, kind: EventKind, cause: Option<String>, data: Value, now: Now) -> ();
    }

    async fn instance_open(&self, project: String, instance: InstanceRef) -> Result<WorkflowId> {
        let _alone = self.0.changing.lock().await;
        self.refuse_elsewhere(&project, &instance, None).await?;
        self.0.home.instance_open(project, instance).await
    }
    async fn instance_open_in(
        &self,
        database: PathBuf,
        project: String,
        instance: InstanceRef,
    ) -> Result<WorkflowId> {
        let _alone = self.0.changing.lock().await;
        self.refuse_elsewhere(&project, &instance, Some(&database)).await?;
        let store = match self.open_already(&database) {
            Some(store) => store,
            None => self.pull_out(database).await?,
        };
        store.instance_open(project, instance).await
    }
    async fn instance_list(&self, which: InstanceQuery) -> Result<Vec<Instance>> {
        let mut all = Vec::new();
        for store in self.all() {
            all.extend(store.instance_list(which.clone()).await?);
        }
        Ok(all)
    }
    async fn instance_remove(&self, workflow: WorkflowId) -> Result<()> {
        let _alone = self.0.changing.lock().await;
        self.of(workflow)?.instance_remove(workflow).await?;
        self.put_away_if_empty(workflow.get() >> drawers::SHIFT).await
    }
    async fn run_list(&self, which: RunQuery) -> Result<Vec<RunRow>> {
        let most = match which {
            RunQuery::Of(workflow, _) => return self.of(workflow)?.run_list(which).await,
            RunQuery::Newest(most) => usize::try_from(most).unwrap_or(usize::MAX),
            RunQuery::Live => usize::MAX,
        };
        let mut all = Vec::new();
        for store in self.all() {
            all.extend(store.run_list(which).await?);
        }
        // Each has its own in this order already.
        all.sort_by_key(|run: &RunRow| std::cmp::Reverse(run.started));
        all.truncate(most);
        Ok(all)
    }
    async fn message_index(&self, most: u32) -> Result<bool> {
        let mut left = false;
        for store in self.all() {
            left |= store.message_index(most).await?;
        }
        Ok(left)
    }
    async fn attempt_by_token(&self, token: Hash) -> Result<Option<AttemptRow>> {
        for store in self.all() {
            if let Some(attempt) = store.attempt_by_token(token).await? {
                return Ok(Some(attempt));
            }
        }
        Ok(None)
    }
    async fn attempt_live(&self) -> Result<Vec<AttemptRow>> {
        let mut all = Vec::new();
        for store in self.all() {
            all.extend(store.attempt_live().await?);
        }
        Ok(all)
    }
    async fn feedback_list(&self, limit: u32) -> Result<Vec<FeedbackView>> {
        let mut all = Vec::new();
        for store in self.all() {
            all.extend(store.feedback_list(limit).await?);
        }
        all.sort_by_key(|said: &FeedbackView| std::cmp::Reverse(said.ts));
        all.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(all)
    }
    async fn integrity(&self) -> Result<Integrity> {
        let mut all = Integrity::default();
        for store in self.all() {
            let one = store.integrity().await?;
            all.rows += one.rows;
            all.unhashed += one.unhashed;
            all.problems.extend(one.problems);
            all.damaged.extend(one.damaged);
        }
        let shut = self.0.shut.lock().await;
        let is_shut = |(path, why): (&PathBuf, &String)| format!("{} is not open: {why}", path.display());
        all.problems.extend(shut.iter().map(is_shut));
        Ok(all)
    }
    async fn damage(&self) -> Result<Vec<DamagedRow>> {
        let mut all = Vec::new();
        for store in self.all() {
            all.extend(store.damage().await?);
        }
        Ok(all)
    }
    async fn fault_list(&self) -> Result<Vec<StoreFault>> {
        let mut all = self.0.home.fault_list().await?;
        let opened = self.opened().into_iter();
        all.extend(opened.filter_map(|drawer| drawer.store.fault(Some(drawer.path))));
        let shut = self.0.shut.lock().await;
        let shut = shut.iter().map(|(path, why)| StoreFault {
            database: Some(path.clone()),
            why: format!("it is not open: {why}"),
            copy: None,
        });
        all.extend(shut);
        Ok(all)
    }
    /// Writes to the daemon's own database. The files of the teams are only checked, unless the last write failed.
    async fn pulse(&self, now: StoreTime) -> Result<()> {
        let written = self.0.home.pulse(now).await;
        for drawer in self.opened() {
            let checked = match drawer.store.fault(None) {
                Some(_) => drawer.store.pulse(now).await,
                None => drawer.store.check_files().await,
            };
            if let Err(error) = checked {
                tracing::debug!(database = %drawer.path.display(), %error, "refuses writes");
            }
        }
        written
    }
    async fn effect_expire(&self, before: StoreTime) -> Result<u32> {
        let mut expired = 0;
        for store in self.all() {
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
    async fn change_wait(&self, workflow: WorkflowId, seen: Change) -> Change {
        match self.of(workflow) {
            Ok(store) => store.change_wait(workflow, seen).await,
            // What is gone changes no more; whoever waits finds that out by asking.
            Err(_) => self.0.home.change_wait(workflow, seen).await,
        }
    }
}
