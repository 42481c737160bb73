//! Sample replies of the fake daemon: a run, its events, a receipt.

use serde_json::{Value, json};

use crate::fake_daemon::{AfterEvents, FakeReply, TestHome};

pub(crate) const RUN: &str = "01980000-0000-7000-8000-000000000001";
pub(crate) const GET_RUN: &str = "GET /runs/01980000-0000-7000-8000-000000000001";
pub(crate) const STOP_RUN: &str = "POST /runs/01980000-0000-7000-8000-000000000001/stop";
pub(crate) const FILE: &str = "
params: [{ name: target, required: true }]
agents:
  coder: { backend: mock, mock: [{ say: ok }], env: [GITHUB_TOKEN] }
kickoff: '@coder look at ${{ params.target }}'
";

pub(crate) fn ts(seconds: u32) -> String {
    format!("2020-01-01T00:00:{seconds:02}.000Z")
}

pub(crate) fn event(no: u32, kind: &str, data: &Value) -> Value {
    json!({"pos": no, "ts": ts(no), "instance": "review", "run": RUN, "kind": kind, "agent": "coder", "data": data})
}

pub(crate) fn message_event(no: u32, from: &str, to: &[&str], body: &str) -> Value {
    let message = json!({"seq": no, "run": RUN, "ts": ts(no), "from": from, "kind": "message", "body": body, "hops": 0, "to": to});
    event(no, "message", &message)
}

pub(crate) fn agent(name: &str, project: &str, state: &Value) -> Value {
    let mut agent = json!({
        "name": name, "instance": "review", "project": project, "backend": "mock", "waiting": 1, "turns": 2,
        "messages": 3, "usage": {"input_tokens": 0, "output_tokens": 0}, "started": ts(0),
    });
    agent.as_object_mut().unwrap().extend(state.as_object().unwrap().clone());
    agent
}

pub(crate) fn run_view(state: &Value) -> FakeReply {
    let mut view = json!({
        "run": RUN, "instance": "review", "project": "/repo", "cwd": "/repo", "mode": "run",
        "limits": {"hops": 50, "turns": 200, "wall": null}, "started": ts(0), "state_since": ts(9), "ended": ts(9), "lasted_ms": 9000,
        "turns": 1, "messages": 2, "usage": {"input_tokens": 0, "output_tokens": 0}, "dead_letters": [],
        "dropped": [], "agents": [agent("coder", "/repo", &json!({"state": "idle"}))],
    });
    view.as_object_mut().unwrap().extend(state.as_object().unwrap().clone());
    FakeReply::Json(view)
}

/// Returns the runs of an instance that has one.
pub(crate) fn runs(state: &Value) -> FakeReply {
    match run_view(state) {
        FakeReply::Json(view) => FakeReply::Json(json!({"items": [view], "next": null})),
        FakeReply::Refusal(_) | FakeReply::Events(..) => unreachable!("a view is a document"),
    }
}

pub(crate) fn started() -> FakeReply {
    FakeReply::Json(json!({"run": RUN, "instance": "review", "agents": ["coder"]}))
}

/// Creates a home with a run that has `events` and is then in `state`.
pub(crate) fn running(events: Vec<Value>, state: &Value) -> TestHome {
    let world = TestHome::with_daemon(vec![
        ("POST /runs", started()),
        ("GET /events", FakeReply::Events(events, AfterEvents::Close)),
        (GET_RUN, run_view(state)),
    ]);
    world.file("review.yaml", FILE);
    world
}

pub(crate) fn a_conversation() -> Vec<Value> {
    vec![
        event(1, "run.running", &Value::Null),
        message_event(2, "user", &["coder"], "@coder look at main"),
        message_event(3, "coder", &[], "looks\ngood"),
        event(4, "run.ended", &json!({"state": "ended", "outcome": "done"})),
    ]
}

pub(crate) fn done() -> Value {
    json!({"state": "ended", "outcome": "done"})
}

pub(crate) fn send_reply(woken: &[&str]) -> Value {
    json!({"seq": 12, "instance": "review", "woken": woken, "cc": []})
}

pub(crate) fn receipts(states: &[(&str, &str)]) -> FakeReply {
    let receipt = |(agent, state): &(&str, &str)| {
        let (answer, why) = (format!("{agent} is done"), "3 failures");
        json!({"seq": 12, "agent": agent, "state": state, "failures": 0, "answer": answer, "why": why})
    };
    let receipts: Vec<_> = states.iter().map(receipt).collect();
    FakeReply::Json(json!({"items": receipts, "next": null}))
}
