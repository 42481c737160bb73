//! The real store, holding the paused clock still while it is asked something.
//!
//! Tokio's paused clock jumps to the next timer whenever the runtime is idle, and a runtime that waits for the
//! store's writer thread looks idle. Here every question holds the clock until it is answered, so that time passes
//! when, and only when, nobody has anything to do.

use std::{
    ops::Range,
    sync::{Mutex, mpsc},
    time::Duration,
};

use agent_worker_protocol::{
    AgentName, AttemptId, DocumentPath, Event, EventKind, Hash, InstanceRef, Message, Millis,
    NumberedEvent, PauseCause, Position, Receipt, ResourceId, Revision, RunId, Seq, WorkflowId,
    api::TokenView,
};
use agent_worker_store::{
    AgentRow, AttemptRow, By, Change, Decide, Document, DocumentInfo, DocumentWrite, Error,
    EventQuery, Fence, FinishedAttempt, Instance, LeaseRule, Leased, MessageQuery, NewAttempt,
    NewMessage, NewRun, Once, ReadyAgent, ResourcePart, RunQuery, RunRow, RunStep, Settlement,
    ShownMessage, Sqlite, Store,
};
use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// How long, by a real clock, an answer may take before time goes on without it and the test fails by its own deadline.
const STUCK: Duration = Duration::from_secs(30);

/// A store on whose answers the clock waits.
pub(crate) struct Patient {
    inner: Sqlite,
    staged: Mutex<Option<(&'static str, Staged)>>,
}

/// A point in somebody else's work where a test steps in.
#[derive(Clone, Default)]
pub(crate) struct Staged {
    reached: CancellationToken,
    go: CancellationToken,
}

impl Patient {
    pub(crate) fn new(inner: Sqlite) -> Self {
        Self { inner, staged: Mutex::default() }
    }

    /// Withholds the next answer of `method`: what was read is old by the time the caller has it.
    pub(crate) fn withhold(&self, method: &'static str) -> Staged {
        let staged = Staged::default();
        *self.staged.lock().unwrap() = Some((method, staged.clone()));
        staged
    }

    async fn answered(&self, method: &str) {
        let staged = self.staged.lock().unwrap().take_if(|(wanted, _)| *wanted == method);
        if let Some((_, staged)) = staged {
            staged.reached.cancel();
            staged.go.cancelled().await;
        }
    }
}

impl Staged {
    /// Waits until the answer is there and withheld.
    pub(crate) async fn reached(&self) {
        self.reached.cancelled().await;
    }

    /// Gives the answer to whoever waits for it.
    pub(crate) fn release(self) {
        self.go.cancel();
    }
}

/// Keeps the clock still while it lives: tokio's stands still as long as a blocking task runs.
struct Hold {
    _until: mpsc::Sender<()>,
}

fn hold() -> Hold {
    let (until, dropped) = mpsc::channel();
    tokio::task::spawn_blocking(move || dropped.recv_timeout(STUCK));
    Hold { _until: until }
}

macro_rules! patient {
    ($(fn $method:ident($($arg:ident: $ty:ty),*) -> $out:ty;)*) => {
        #[async_trait]
        impl Store for Patient {
            $(async fn $method(&self, $($arg: $ty),*) -> Result<$out, Error> {
                let held = hold();
                let answer = self.inner.$method($($arg),*).await;
                drop(held);
                self.answered(stringify!($method)).await;
                answer
            })*
            async fn change_wait(&self, workflow: WorkflowId, seen: Change) -> Change {
                self.inner.change_wait(workflow, seen).await
            }
        }
    };
}
patient! {
    fn instance_open(project: String, instance: InstanceRef) -> WorkflowId;
    fn instance_list() -> Vec<Instance>;
    fn instance_verify(workflow: WorkflowId) -> Seq;
    fn instance_forget(workflow: WorkflowId) -> ();
    fn run_create(workflow: WorkflowId, new: NewRun, now: Millis) -> ();
    fn run_start(run: RunId, kickoff: Option<NewMessage>, now: Millis) -> ();
    fn run_settle(run: RunId, decide: Decide, now: Millis) -> RunStep;
    fn run_get(run: RunId) -> RunRow;
    fn run_list(which: RunQuery) -> Vec<RunRow>;
    fn run_failures(run: RunId) -> Vec<Receipt>;
    fn agent_list(workflow: WorkflowId) -> Vec<AgentRow>;
    fn agent_ready(workflow: WorkflowId) -> Vec<ReadyAgent>;
    fn message_append(by: By, workflow: WorkflowId, message: NewMessage, pause: Option<PauseCause>, now: Millis) -> Once<Seq>;
    fn message_list(workflow: WorkflowId, query: MessageQuery) -> Vec<Message>;
    fn message_receipts(workflow: WorkflowId, seq: Seq) -> Vec<Receipt>;
    fn inbox_pending(workflow: WorkflowId, agent: AgentName, limit: u32) -> Vec<ShownMessage>;
    fn inbox_show(fence: Fence, limit: u32) -> Vec<ShownMessage>;
    fn inbox_ack(fence: Fence, until: Seq) -> Vec<Seq>;
    fn delivery_redrive(by: By, workflow: WorkflowId, agent: AgentName, seq: Seq, now: Millis) -> ();
    fn delivery_drop(by: By, workflow: WorkflowId, agent: AgentName, seq: Seq, why: String, now: Millis) -> ();
    fn attempt_lease(workflow: WorkflowId, agent: AgentName, new: NewAttempt, rule: LeaseRule, now: Millis) -> Leased;
    fn attempt_by_token(token: Hash) -> Option<AttemptRow>;
    fn attempt_get(attempt: AttemptId) -> AttemptRow;
    fn attempt_live() -> Vec<AttemptRow>;
    fn attempt_events(attempt: AttemptId, events: Vec<NumberedEvent>, now: Millis) -> i64;
    fn attempt_finish(fence: Fence, settlement: Settlement, now: Millis) -> FinishedAttempt;
    fn document_put(by: By, write: DocumentWrite, now: Millis) -> Once<Revision>;
    fn document_get(workflow: WorkflowId, path: DocumentPath, at: Option<Revision>) -> Option<Document>;
    fn document_list(workflow: WorkflowId) -> Vec<DocumentInfo>;
    fn resource_put(by: By, workflow: WorkflowId, kind: String, content: Vec<u8>, now: Millis) -> ResourceId;
    fn resource_get(workflow: WorkflowId, id: ResourceId, range: Range<u64>) -> ResourcePart;
    fn event_append(run: RunId, kind: EventKind, cause: Option<String>, data: Value, now: Millis) -> ();
    fn event_list(query: EventQuery) -> Vec<Event>;
    fn event_last(workflow: WorkflowId) -> Position;
    fn token_put(name: String, hash: Hash, now: Millis) -> ();
    fn token_find(hash: Hash) -> Option<String>;
    fn token_list() -> Vec<TokenView>;
    fn token_remove(name: String) -> ();
    fn pulse(now: Millis) -> ();
    fn pulse_last() -> Option<Millis>;
    fn effect_expire(before: Millis) -> u32;
}
