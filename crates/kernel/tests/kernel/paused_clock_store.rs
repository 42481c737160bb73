//! The real store, which holds the paused clock during each call.
//!
//! Tokio's paused clock jumps to the next timer whenever the runtime is idle, and a runtime that waits for the
//! store's writer thread appears idle. Here every call holds the clock until its answer, so that time passes
//! exactly when no task has work.

use std::{
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use agent_worker_protocol::{
    AgentName, ApprovalId, AttemptId, DocumentPath, Event, EventBody, GrantId, Hash, InstanceRef,
    Limits, Message, Millis, NumberedEvent, PauseCause, Position, Proposal, ProposalId,
    ProposalState, QuestionId, Receipt, ResourceId, Revision, Role, RunId, Scopes, Seq, WorkflowId,
    api::{FeedbackView, SuggestionView, TeamVerdict, TokenView},
};
use agent_worker_store::{
    AdminStore, AgentRow, Approval, ApprovalDecision, ApprovalQuery, AttemptKey, AttemptRow,
    AttemptStore, BaseNumber, ChangeCursor, DamagedRow, Database, DecisionStore, Document,
    DocumentConflict, DocumentInfo, DocumentStore, DocumentWrite, Error, EventQuery, FeedbackKey,
    FeedbackRow, Fence, FileImport, FileState, FileStep, FinishedAttempt, GrantQuery, HistoryKey,
    HistoryPart, InboxKey, Instance, InstanceQuery, IntegrityReport, LeaseOutcome, LeaseRule,
    LimitUse, ListRange, MessageQuery, MessageStore, NewAgent, NewApproval, NewAttempt, NewBallot,
    NewCancellation, NewMessage, NewProposal, NewQuestion, NewRun, NewSuggestion, NewTask,
    NewVerdict, Now, Once, PermissionGrant, ProposalQuery, QuestionQuery, QuestionRow, ReadyAgent,
    ReserveRule, ReserveStep, ResourceInfo, ResourceKey, ResourcePart, RunBlockers, RunClockSwitch,
    RunQuery, RunRow, RunRule, RunSnapshot, RunSpend, RunStep, RunStore, Settlement, ShownMessage,
    StoreFault, StoreTime, SuggestionAnswer, TallyRule, TaskEnd, TaskResend, TaskRow, TaskStore,
    TurnRow, UnreportedCall, WriteContext,
};
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

/// Maximum real time of an answer; after it the clock advances and the test fails by its own deadline.
const MAX_REAL_WAIT: Duration = Duration::from_secs(30);

/// The methods that a full disk refuses.
const WRITE_METHODS: &[&str] = &[
    "instance_open",
    "instance_forget",
    "instance_clear",
    "instance_remove",
    "run_create",
    "run_start",
    "run_settle",
    "run_resume",
    "verdict_set",
    "agent_add",
    "agent_stop",
    "agent_resume",
    "agent_mock_set",
    "agent_remove",
    "message_append",
    "task_start",
    "task_resend",
    "task_finish",
    "task_setup",
    "message_index",
    "inbox_show",
    "inbox_ack",
    "delivery_redrive",
    "delivery_drop",
    "attempt_lease",
    "attempt_events",
    "attempt_reserve",
    "attempt_settle",
    "attempt_finish",
    "history_expire",
    "document_put",
    "document_show",
    "suggestion_put",
    "suggestion_answer",
    "file_step",
    "file_take",
    "conflict_close",
    "resource_put",
    "run_elect",
    "proposal_create",
    "ballot_cast",
    "proposal_cancel",
    "proposal_settle",
    "question_ask",
    "question_answer",
    "approval_ask",
    "approval_answer",
    "grant_revoke",
    "event_append",
    "token_put",
    "token_remove",
    "feedback_put",
    "feedback_submit",
    "heartbeat_put",
    "effect_expire",
];

/// A store that holds the clock during its calls.
pub(crate) struct PausedClockStore {
    inner: Database,
    withheld: Mutex<Option<(&'static str, WithheldAnswer)>>,
    faults: Mutex<Vec<(&'static str, InjectedFault)>>,
    full: AtomicBool,
}

/// The result of a call with an injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InjectedFault {
    /// The call is applied, and its outcome is reported as unknown.
    UnknownApplied,
    /// The call is not applied, and its outcome is reported as unknown.
    UnknownNotApplied,
    /// The database file fails.
    Broken,
    /// The disk is full.
    Full,
}

/// A withheld answer: a point at which a test intervenes.
#[derive(Clone, Default)]
pub(crate) struct WithheldAnswer {
    reached: CancellationToken,
    go: CancellationToken,
}

impl PausedClockStore {
    pub(crate) fn new(inner: Database) -> Self {
        let (withheld, faults, full) = (Mutex::default(), Mutex::default(), AtomicBool::default());
        Self { inner, withheld, faults, full }
    }

    /// Injects a fault into the next call of `method`.
    pub(crate) fn inject_fault(&self, method: &'static str, fault: InjectedFault) {
        self.faults.lock().unwrap().push((method, fault));
    }

    /// Returns true if all injected faults have occurred.
    pub(crate) fn has_injected_all(&self) -> bool {
        self.faults.lock().unwrap().is_empty()
    }

    /// Makes every write fail with a full disk from now on.
    pub(crate) fn fill_disk(&self) {
        self.full.store(true, Ordering::Relaxed);
    }

    /// Closes the store while it is in use.
    pub(crate) async fn close(&self) {
        let held = hold();
        self.inner.clone().close().await;
        drop(held);
    }

    fn fault(&self, method: &str) -> Option<InjectedFault> {
        let mut faults = self.faults.lock().unwrap();
        if let Some(next) = faults.iter().position(|(spoilt, _)| *spoilt == method) {
            return Some(faults.remove(next).1);
        }
        let full = self.full.load(Ordering::Relaxed) && WRITE_METHODS.contains(&method);
        full.then_some(InjectedFault::Full)
    }

    /// Withholds the next answer of `method`: the data is stale when the caller gets it.
    pub(crate) fn withhold_answer(&self, method: &'static str) -> WithheldAnswer {
        let staged = WithheldAnswer::default();
        *self.withheld.lock().unwrap() = Some((method, staged.clone()));
        staged
    }

    async fn answered(&self, method: &str) {
        let staged = self.withheld.lock().unwrap().take_if(|(wanted, _)| *wanted == method);
        if let Some((_, staged)) = staged {
            staged.reached.cancel();
            staged.go.cancelled().await;
        }
    }
}

impl WithheldAnswer {
    /// Waits until the answer exists and is withheld.
    pub(crate) async fn reached(&self) {
        self.reached.cancelled().await;
    }

    /// Releases the answer to its caller.
    pub(crate) fn release(self) {
        self.go.cancel();
    }
}

/// Holds the clock while it lives: tokio's clock does not advance while a blocking task runs.
struct ClockHold {
    _until: mpsc::Sender<()>,
}

fn hold() -> ClockHold {
    let (until, dropped) = mpsc::channel();
    tokio::task::spawn_blocking(move || dropped.recv_timeout(MAX_REAL_WAIT));
    ClockHold { _until: until }
}

macro_rules! patient {
    ($(impl $trait:ident { $(fn $method:ident($($arg:ident: $ty:ty),*) -> $out:ty;)* $(also { $($whole:tt)* })? })*) => {$(
        #[async_trait]
        impl $trait for PausedClockStore {
            $(async fn $method(&self, $($arg: $ty),*) -> Result<$out, Error> {
                let held = hold();
                let answer = match self.fault(stringify!($method)) {
                    None => self.inner.$method($($arg),*).await,
                    Some(InjectedFault::UnknownApplied) => self.inner.$method($($arg),*).await.and(Err(Error::OutcomeUnknown("the disk refused the commit".into()))),
                    Some(InjectedFault::UnknownNotApplied) => Err(Error::OutcomeUnknown("the disk refused the commit".into())),
                    Some(InjectedFault::Broken) => Err(Error::Database("the file fails".into())),
                    Some(InjectedFault::Full) => Err(Error::DiskFull),
                };
                drop(held);
                self.answered(stringify!($method)).await;
                answer
            })*
            $($($whole)*)?
        }
    )*};
}
patient! {
    impl RunStore {
        fn instance_open(project: String, instance: InstanceRef) -> WorkflowId;
        fn instance_list(which: InstanceQuery) -> Vec<Instance>;
        fn instance_verify(workflow: WorkflowId) -> Seq;
        fn instance_forget(workflow: WorkflowId) -> ();
        fn instance_clear(by: WriteContext, workflow: WorkflowId, now: Now) -> Seq;
        fn instance_remove(workflow: WorkflowId) -> ();
        fn run_create(workflow: WorkflowId, new: NewRun, now: Now) -> ();
        fn run_start(run: RunId, kickoff: Option<NewMessage>, now: Now) -> ();
        fn run_settle(run: RunId, decide: RunRule, now: Now) -> RunStep;
        fn run_clock_switch(run: RunId, switch: RunClockSwitch, now: Now) -> ();
        fn run_resume(by: WriteContext, run: RunId, limits: Limits, now: Now) -> ();
        fn run_get(run: RunId) -> RunRow;
        fn run_snapshot(run: RunId) -> RunSnapshot;
        fn run_limit_use(run: RunId, now: Now) -> LimitUse;
        fn run_blockers(run: RunId) -> RunBlockers;
        fn run_list(which: RunQuery) -> Vec<RunRow>;
        fn run_failures(run: RunId) -> Vec<Receipt>;
        fn verdict_set(by: WriteContext, workflow: WorkflowId, new: NewVerdict, now: Now) -> Once<TeamVerdict>;
        fn run_roles(run: RunId) -> Vec<(Role, AgentName)>;
        fn agent_list(workflow: WorkflowId) -> Vec<AgentRow>;
        fn agent_add(by: WriteContext, run: RunId, agent: NewAgent, now: Now) -> AgentName;
        fn agent_stop(by: WriteContext, workflow: WorkflowId, agent: AgentName, why: String, now: Now) -> ();
        fn agent_resume(by: WriteContext, workflow: WorkflowId, agent: AgentName, now: Now) -> ();
        fn agent_mock_set(by: WriteContext, workflow: WorkflowId, agent: NewAgent, now: Now) -> ();
        fn agent_remove(by: WriteContext, workflow: WorkflowId, agent: AgentName, now: Now) -> ();
        fn agent_ready(workflow: WorkflowId) -> Vec<ReadyAgent>;
        fn event_append(run: RunId, body: EventBody, cause: Option<String>, now: Now) -> ();
        fn event_list(query: EventQuery) -> Vec<Event>;
        fn event_last(workflow: WorkflowId) -> Position;
    }
    impl MessageStore {
        fn message_append(by: WriteContext, workflow: WorkflowId, message: NewMessage, pause: Option<PauseCause>, now: Now) -> Once<Seq>;
        fn message_list(workflow: WorkflowId, query: MessageQuery) -> Vec<Message>;
        fn message_index(most: u32) -> bool;
        fn message_get(workflow: WorkflowId, seqs: Vec<Seq>) -> Vec<Message>;
        fn message_thread(workflow: WorkflowId, seq: Seq, after: Seq, limit: u32) -> Vec<Message>;
        fn message_position(workflow: WorkflowId, time: Millis) -> Seq;
        fn message_receipts(workflow: WorkflowId, seq: Seq) -> Vec<Receipt>;
        fn message_answers(workflow: WorkflowId, seq: Seq) -> Vec<(AgentName, Seq)>;
        fn inbox_pending(workflow: WorkflowId, agent: AgentName, range: ListRange<InboxKey>) -> Vec<ShownMessage>;
        fn inbox_now(workflow: WorkflowId, agent: AgentName) -> Vec<ShownMessage>;
        fn inbox_after(workflow: WorkflowId, agent: AgentName, after: Seq) -> Vec<ShownMessage>;
        fn inbox_show(fence: Fence, range: ListRange<InboxKey>) -> Vec<ShownMessage>;
        fn inbox_ack(fence: Fence, until: Seq) -> Vec<Seq>;
        fn delivery_redrive(by: WriteContext, workflow: WorkflowId, agent: AgentName, seq: Seq, now: Now) -> ();
        fn delivery_drop(by: WriteContext, workflow: WorkflowId, agent: AgentName, seq: Seq, why: String, now: Now) -> ();
    }
    impl AttemptStore {
        fn attempt_lease(workflow: WorkflowId, agent: AgentName, new: NewAttempt, rule: LeaseRule, now: Now) -> LeaseOutcome;
        fn attempt_by_token(token: Hash) -> Option<AttemptRow>;
        fn attempt_get(attempt: AttemptId) -> AttemptRow;
        fn attempt_list(workflow: WorkflowId, agent: AgentName, limit: u32) -> Vec<AttemptRow>;
        fn turn_list(run: RunId, limit: u32) -> Vec<TurnRow>;
        fn attempt_live() -> Vec<AttemptRow>;
        fn attempt_events(attempt: AttemptId, events: Vec<NumberedEvent>, now: Now) -> i64;
        fn attempt_reserve(attempt: AttemptId, call: RunSpend, rule: ReserveRule, now: Now) -> ReserveStep;
        fn attempt_settle(attempt: AttemptId, call: UnreportedCall, now: Now) -> ();
        fn attempt_page(workflow: WorkflowId, agent: Option<AgentName>, range: ListRange<AttemptKey>) -> Vec<AttemptRow>;
        fn attempt_find(prefix: String, limit: u32) -> Vec<AttemptId>;
        fn history_list(attempt: AttemptId, range: ListRange<HistoryKey>) -> HistoryPart;
        fn history_expire(before: StoreTime) -> u32;
        fn attempt_finish(fence: Fence, settlement: Settlement, now: Now) -> FinishedAttempt;
    }
    impl TaskStore {
        fn task_start(run: RunId, new: NewTask, now: Now) -> TaskRow;
        fn task_resend(run: RunId, resend: TaskResend, now: Now) -> TaskRow;
        fn task_finish(run: RunId, end: TaskEnd, now: Now) -> TaskRow;
        fn task_setup(run: RunId, ends: Vec<TaskEnd>, now: Now) -> ();
        fn task_list(run: RunId) -> Vec<TaskRow>;
    }
    impl DecisionStore {
        fn run_elect(run: RunId, election: NewProposal, kickoff: Option<NewMessage>, now: Now) -> ();
        fn proposal_create(by: WriteContext, workflow: WorkflowId, new: NewProposal, now: Now) -> Once<ProposalId>;
        fn ballot_cast(by: WriteContext, workflow: WorkflowId, ballot: NewBallot, deciding: TallyRule, now: Now) -> Once<ProposalState>;
        fn proposal_cancel(by: WriteContext, workflow: WorkflowId, cancel: NewCancellation, now: Now) -> Once<ProposalState>;
        fn proposal_settle(workflow: WorkflowId, deciding: TallyRule, now: Now) -> Vec<ProposalId>;
        fn proposal_get(workflow: WorkflowId, proposal: ProposalId, now: Now) -> Option<Proposal>;
        fn proposal_list(workflow: WorkflowId, which: ProposalQuery, now: Now) -> Vec<Proposal>;
        fn proposal_ended(workflow: WorkflowId) -> u64;
        fn proposal_due(workflow: WorkflowId) -> Option<StoreTime>;
        fn run_gates(run: RunId) -> Vec<String>;
        fn question_ask(by: WriteContext, workflow: WorkflowId, new: NewQuestion, now: Now) -> Once<QuestionId>;
        fn question_answer(by: WriteContext, workflow: WorkflowId, question: QuestionId, answer: String, now: Now) -> Once<Seq>;
        fn question_list(workflow: WorkflowId, which: QuestionQuery) -> Vec<QuestionRow>;
        fn approval_ask(fence: Fence, new: NewApproval, now: Now) -> Approval;
        fn approval_answer(by: WriteContext, workflow: WorkflowId, approval: ApprovalId, decision: ApprovalDecision, reason: Option<String>, now: Now) -> Once<()>;
        fn approval_list(workflow: WorkflowId, which: ApprovalQuery) -> Vec<Approval>;
        fn grant_list(workflow: WorkflowId, which: GrantQuery) -> Vec<PermissionGrant>;
        fn grant_revoke(by: WriteContext, workflow: WorkflowId, grant: GrantId, now: Now) -> Once<()>;
    }
    impl DocumentStore {
        fn document_put(by: WriteContext, write: DocumentWrite, now: Now) -> Once<Revision>;
        fn document_get(workflow: WorkflowId, path: DocumentPath, at: Option<Revision>) -> Option<Document>;
        fn document_list(workflow: WorkflowId, range: ListRange<DocumentPath>) -> Vec<DocumentInfo>;
        fn document_written(workflow: WorkflowId, run: RunId) -> Vec<DocumentInfo>;
        fn document_history(workflow: WorkflowId, path: DocumentPath, range: ListRange<Revision>) -> Vec<DocumentInfo>;
        fn document_show(fence: Fence, path: DocumentPath) -> Option<Document>;
        fn suggestion_put(by: WriteContext, suggestion: NewSuggestion, now: Now) -> Once<Seq>;
        fn suggestion_answer(by: WriteContext, answer: SuggestionAnswer, now: Now) -> Once<Option<Revision>>;
        fn suggestion_list(workflow: WorkflowId, range: ListRange<Seq>) -> Vec<SuggestionView>;
        fn suggestion_get(workflow: WorkflowId, suggestion: Seq) -> Option<SuggestionView>;
        fn file_get(workflow: WorkflowId, path: DocumentPath) -> FileState;
        fn file_base(workflow: WorkflowId, path: DocumentPath, base: BaseNumber) -> Option<String>;
        fn file_step(workflow: WorkflowId, path: DocumentPath, step: FileStep) -> FileState;
        fn file_take(take: FileImport, now: Now) -> FileState;
        fn conflict_list(workflow: WorkflowId) -> Vec<DocumentConflict>;
        fn conflict_close(workflow: WorkflowId, path: DocumentPath) -> ();
        fn resource_put(by: WriteContext, workflow: WorkflowId, kind: String, content: Vec<u8>, now: Millis) -> ResourceId;
        fn resource_get(workflow: WorkflowId, id: ResourceId, range: Range<u64>) -> ResourcePart;
        fn resource_list(workflow: WorkflowId, range: ListRange<ResourceKey>) -> Vec<ResourceInfo>;
    }
    impl AdminStore {
        fn token_put(name: String, hash: Hash, scopes: Scopes, now: Millis) -> ();
        fn token_find(hash: Hash) -> Option<TokenView>;
        fn token_hash(name: String) -> Option<Hash>;
        fn token_list() -> Vec<TokenView>;
        fn token_remove(name: String) -> ();
        fn feedback_put(said: FeedbackView) -> ();
        fn feedback_submit(by: WriteContext, workflow: WorkflowId, said: FeedbackView, now: Now) -> Once<FeedbackView>;
        fn feedback_list(range: ListRange<FeedbackKey>) -> Vec<FeedbackRow>;
        fn integrity_check() -> IntegrityReport;
        fn damage_list() -> Vec<DamagedRow>;
        fn fault_list() -> Vec<StoreFault>;
        fn heartbeat_put(now: StoreTime) -> ();
        fn heartbeat_last() -> Option<StoreTime>;
        fn effect_is_known(by: WriteContext, workflow: WorkflowId) -> bool;
        fn effect_expire(before: StoreTime) -> u32;
        also {
            fn now(&self) -> Now {
                self.inner.now()
            }
            fn now_saved(&self) -> Option<Now> {
                self.inner.now_saved()
            }
            async fn change_wait(&self, workflow: WorkflowId, seen: ChangeCursor) -> ChangeCursor {
                self.inner.change_wait(workflow, seen).await
            }
        }
    }
}
