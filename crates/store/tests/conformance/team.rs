//! An instance with a live run, and short methods for the actions of a case.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use agent_worker_protocol::{
    AgentName, AttemptEnd, AttemptId, DeliveryState, EffectKey, Event, FailureClass, Hash, Limits,
    MessageKind, Millis, Outcome, Position, Priority, RunId, RunMode, Seq, WorkflowId, hash,
};
use agent_worker_store::{
    Blame, Error, EventQuery, FinishedAttempt, Lease, LeaseOutcome, ListRange, NewAgent,
    NewAttempt, NewMessage, NewRun, Now, Once, Recipient, Retention, RunFacts, RunStep, Settlement,
    Store, StoreTime, Wake, WriteActor, WriteContext,
};
use uuid::Uuid;

use crate::rules::{LEASE_RULE, delivery_rule};

/// The time of the cases. The two clocks are far apart, so that a value of one clock that is compared with the other
/// gives another result.
pub(crate) const NOW: Now =
    Now { store: StoreTime::new(5_000_000_000), wall: Millis::new(1_700_000_000_000) };
pub(crate) const LIMITS: Limits = Limits {
    hops: 50,
    turns: Some(200),
    wall: None,
    wall_grace: Limits::WALL_GRACE,
    spend: agent_worker_protocol::SpendLimits::NONE,
};

/// An instance whose live run is running.
#[derive(Clone)]
pub(crate) struct Team {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) workflow: WorkflowId,
    pub(crate) run: RunId,
}

/// Returns a number that is unique in this process.
pub(crate) fn unique() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

pub(crate) fn run_id() -> RunId {
    RunId::new(Uuid::from_u64_pair(1, unique()))
}

pub(crate) fn attempt() -> NewAttempt {
    let number = unique();
    let id = AttemptId::new(Uuid::from_u64_pair(2, number));
    NewAttempt { id, token: hash(&[&number.to_le_bytes()]) }
}

pub(crate) fn name(text: &str) -> AgentName {
    text.parse().unwrap()
}

pub(crate) fn new_run(agents: &[&str]) -> NewRun {
    let agents = agents
        .iter()
        .map(|agent| NewAgent { name: name(agent), settings: format!("{{\"n\":\"{agent}\"}}") })
        .collect();
    NewRun {
        id: run_id(),
        mode: RunMode::Run,
        limits: LIMITS,
        script: "script".into(),
        agents,
        roles: Vec::new(),
        retention: Retention::Always,
    }
}

/// Makes a message that wakes these agents.
pub(crate) fn text(body: &str, to: &[&str]) -> NewMessage {
    let recipients = to.iter().map(|to| Recipient { agent: name(to), wake: Wake::Batched });
    NewMessage {
        kind: MessageKind::Message,
        body: body.into(),
        data: Vec::new(),
        reply_to: None,
        hops: 0,
        priority: Priority::Normal,
        resource: None,
        recipients: recipients.collect(),
        attachments: Vec::new(),
    }
}

/// Sets the wake mode of a message's recipients.
pub(crate) fn delivered(wake: Wake, mut message: NewMessage) -> NewMessage {
    message.recipients.iter_mut().for_each(|recipient| recipient.wake = wake);
    message
}

pub(crate) fn user() -> WriteContext {
    WriteContext::new(WriteActor::User)
}

pub(crate) fn client(client: &str) -> WriteContext {
    WriteContext::new(WriteActor::Client(client.into()))
}

pub(crate) fn agent(lease: &Lease) -> WriteContext {
    WriteContext::new(WriteActor::Agent(lease.fence.clone()))
}

/// Adds a key to a context; `args` represents the arguments.
pub(crate) fn keyed(by: WriteContext, key: &str, args: &str) -> WriteContext {
    let hash = hash(&[args.as_bytes()]);
    let key =
        EffectKey { key: key.into(), tool: "send".into(), args: hash, summary: args.to_owned() };
    WriteContext { key: Some(key), ..by }
}

/// Makes the settlement of an attempt.
pub(crate) fn ended(end: AttemptEnd, blame: Blame) -> Settlement {
    Settlement {
        end,
        blame,
        answer: None,
        not_before: None,
        stop: None,
        session: agent_worker_store::SessionAfterFailure::Dropped,
        delivery_rule,
        dead_letter_text: |agent, seq, why| format!("{agent} could not do {seq}: {why}"),
    }
}

pub(crate) fn ok() -> Settlement {
    ended(AttemptEnd::Ok, Blame::None)
}

pub(crate) fn answered(answer: &str) -> Settlement {
    Settlement { answer: Some(text(answer, &[]).into()), ..ok() }
}

pub(crate) fn crashed() -> Settlement {
    let end = AttemptEnd::Failed { class: FailureClass::Crash, why: "gone".into() };
    ended(end, Blame::Counted { max: 3 })
}

pub(crate) fn cut_short(blame: Blame) -> Settlement {
    ended(AttemptEnd::Interrupted { why: "cut".into() }, blame)
}

/// Ends a run as soon as no work is left.
pub(crate) fn end_when_idle(facts: &RunFacts) -> RunStep {
    if facts.waking == 0 && facts.attempts == 0 { end(Outcome::Done) } else { RunStep::Stay }
}

pub(crate) fn end(outcome: Outcome) -> RunStep {
    RunStep::End { outcome, why: "the run ended".into(), error: None }
}

pub(crate) fn seqs(numbers: &[i64]) -> Vec<Seq> {
    numbers.iter().copied().map(Seq::new).collect()
}

impl Team {
    /// Makes a new instance with a running run of these agents.
    pub(crate) async fn new(store: &Arc<dyn Store>, agents: &[&str]) -> Self {
        let instance = format!("w:t{}", unique()).parse().unwrap();
        let workflow = store.instance_open("/p".into(), instance).await.unwrap();
        let mut team = Self { store: Arc::clone(store), workflow, run: run_id() };
        team.start(new_run(agents)).await;
        team
    }

    /// Creates `new` as the live run and starts it.
    pub(crate) async fn start(&mut self, new: NewRun) {
        self.run = new.id;
        self.store.run_create(self.workflow, new, NOW).await.unwrap();
        self.store.run_start(self.run, None, NOW).await.unwrap();
    }

    pub(crate) async fn append(
        &self,
        by: WriteContext,
        message: NewMessage,
    ) -> Result<Once<Seq>, Error> {
        self.store.message_append(by, self.workflow, message, None, NOW).await
    }

    /// Sends a message as the user.
    pub(crate) async fn post(&self, message: NewMessage) -> Seq {
        self.append(user(), message).await.unwrap().value()
    }

    pub(crate) async fn say(&self, body: &str, to: &[&str]) -> Seq {
        self.post(text(body, to)).await
    }

    pub(crate) async fn try_lease(&self, who: &str) -> Option<Lease> {
        self.lease_at(who, NOW).await
    }

    pub(crate) async fn lease_at(&self, who: &str, now: Now) -> Option<Lease> {
        let store = &self.store;
        match store.attempt_lease(self.workflow, name(who), attempt(), LEASE_RULE, now).await {
            Ok(LeaseOutcome::Attempt(lease)) => Some(*lease),
            Ok(LeaseOutcome::NotReady) => None,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn lease(&self, who: &str) -> Lease {
        self.try_lease(who).await.unwrap()
    }

    pub(crate) async fn finish(&self, lease: &Lease, how: Settlement) -> FinishedAttempt {
        self.store.attempt_finish(lease.fence.clone(), how, NOW).await.unwrap()
    }

    pub(crate) async fn state(&self, seq: Seq, who: &str) -> DeliveryState {
        let receipts = self.store.message_receipts(self.workflow, seq).await.unwrap();
        receipts.into_iter().find(|receipt| receipt.agent == name(who)).unwrap().state
    }

    /// Returns the facts that a decision gets.
    pub(crate) async fn facts(&self) -> RunFacts {
        self.facts_at(NOW).await
    }

    pub(crate) async fn facts_at(&self, now: Now) -> RunFacts {
        let (tell, told) = std::sync::mpsc::channel();
        let look = move |facts: &RunFacts| {
            tell.send(facts.clone()).unwrap();
            RunStep::Stay
        };
        self.store.run_settle(self.run, Box::new(look), now).await.unwrap();
        told.recv().unwrap()
    }

    pub(crate) async fn settle(&self, step: RunStep) -> RunStep {
        self.store.run_settle(self.run, Box::new(move |_| step.clone()), NOW).await.unwrap()
    }

    pub(crate) async fn events(&self) -> Vec<Event> {
        let after = Position::new(0);
        let query = EventQuery { workflow: self.workflow, run: None, after, limit: 10_000 };
        self.store.event_list(query).await.unwrap()
    }

    /// Returns the kinds of all events, in order.
    pub(crate) async fn kinds(&self) -> Vec<&'static str> {
        self.events().await.iter().map(|event| event.kind().unwrap().word()).collect()
    }

    /// Returns the pending deliveries of an agent, in the order of its inbox.
    pub(crate) async fn inbox(&self, who: &str) -> Vec<Seq> {
        let mail = self
            .store
            .inbox_pending(self.workflow, name(who), ListRange::first(1_000))
            .await
            .unwrap();
        mail.iter().map(|shown| shown.message.seq).collect()
    }
}

/// Returns the messages that a lease was shown.
pub(crate) fn shown(lease: &Lease) -> Vec<Seq> {
    lease.messages.iter().map(|shown| shown.message.seq).collect()
}

pub(crate) fn token(number: u8) -> Hash {
    [number; 32]
}
