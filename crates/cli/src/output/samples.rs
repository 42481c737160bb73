//! Sample values for tests: a run, its agents, its events. The program does not contain them.

use agent_worker_protocol::{
    AgentName, AgentState, AttemptId, DeliveryState, Event, EventBody, EventKind, FailureClass,
    Limits, Millis, Outcome, Position, Receipt, RunId, RunMode, RunState, Seq, Usage,
    api::{AgentFailure, AgentView, LastFailure, ResumeRequest, RunView, UnheardMention},
};
use serde_json::{Value, json};

pub(crate) const RUN: &str = "01980000-0000-7000-8000-000000000001";

/// Returns the time `seconds` after the start of the sample run.
pub(crate) fn at(seconds: i64) -> Millis {
    Millis::new(1_700_000_000_000 + seconds * 1_000)
}

pub(crate) fn agent_name(name: &str) -> AgentName {
    name.parse().unwrap()
}

pub(crate) fn run_id() -> RunId {
    RUN.parse().unwrap()
}

/// Returns a run of `review:pr-1` that was done after 83 seconds.
pub(crate) fn run() -> RunView {
    RunView {
        run: run_id(),
        instance: "review:pr-1".parse().unwrap(),
        project: "/repo".into(),
        file: Some("/repo/review.yaml".into()),
        cwd: "/repo".into(),
        params: [].into(),
        limits: Limits {
            hops: 50,
            turns: Some(200),
            wall: None,
            wall_grace: Limits::WALL_GRACE,
            spend: agent_worker_protocol::SpendLimits::NONE,
        },
        mode: RunMode::Run,
        state: RunState::Ended { outcome: Outcome::Done },
        state_since: at(83),
        needs: ResumeRequest::default(),
        error: None,
        started: at(0),
        ended: Some(at(83)),
        lasted_ms: 83_000,
        wall_used_ms: 83_000,
        grace_ends: None,
        turns: 4,
        messages: 9,
        usage: Usage::default(),
        dead_letters: Vec::new(),
        dropped: Vec::new(),
        last_failures: Vec::new(),
        unheard: Vec::new(),
        memory: false,
        answers: [].into(),
        document: None,
        documents: Vec::new(),
        verdict: None,
        pending: 0,
        held: false,
        imminent: None,
        hint: None,
        position: Position::default(),
        agents: vec![agent("coder", AgentState::Idle), agent("reviewer", AgentState::Idle)],
    }
}

pub(crate) fn unheard(seq: i64, from: &str, agent: &str) -> UnheardMention {
    let (from, agent) = (agent_name(from), agent_name(agent));
    UnheardMention { seq: Seq::new(seq), from, agent, cause: None }
}

pub(crate) fn agent(who: &str, state: AgentState) -> AgentView {
    AgentView {
        name: agent_name(who),
        instance: "review:pr-1".parse().unwrap(),
        project: "/repo".into(),
        backend: "mock".into(),
        model: None,
        started: at(0),
        state,
        waiting: 0,
        turns: 2,
        messages: 3,
        usage: Usage::default(),
        last_failure: None,
    }
}

/// Returns a failure of `who`, 80 seconds after the start, that is not recovered.
pub(crate) fn failure(who: &str, class: FailureClass) -> AgentFailure {
    let attempt = AttemptId::new(uuid::Uuid::nil());
    let message = "401 bad key".to_owned();
    let failure = LastFailure { class, message, at: at(80), attempt, recovered: false };
    AgentFailure { agent: agent_name(who), failure }
}

pub(crate) fn receipt(seq: i64, who: &str, state: DeliveryState) -> Receipt {
    Receipt {
        seq: Seq::new(seq),
        agent: agent_name(who),
        state,
        failures: 0,
        why: None,
        answer: None,
    }
}

/// Returns an event of `who`, `seconds` after the start.
pub(crate) fn event(seconds: i64, kind: EventKind, who: &str, data: Value) -> Event {
    typed_event(seconds, who, EventBody::Heartbeat).with_data(kind.word(), data)
}

/// Returns an event of `who`, `seconds` after the start, with a typed body.
pub(crate) fn typed_event(seconds: i64, who: &str, body: EventBody) -> Event {
    Event {
        run: Some(run_id()),
        agent: who.parse().ok(),
        ..Event::new(at(seconds), "review:pr-1".parse().unwrap(), body)
    }
}

/// Returns the event of a message from `from` to `to`.
pub(crate) fn message_event(seq: i64, from: &str, to: &[&str], body: &str) -> Event {
    let data = json!({
        "seq": seq, "run": RUN, "ts": at(seq), "from": from, "kind": "message", "body": body,
        "hops": 0, "to": to,
    });
    event(seq, EventKind::Message, from, data)
}
