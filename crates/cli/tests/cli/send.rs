//! `send`, with and without waiting for the answer.

use serde_json::{Value, json};

use crate::{
    fake::{Reply, Then, World},
    stories::{event, receipts, said, send_reply},
};

#[test]
fn send_says_where_it_went_and_who_was_meant() {
    let mut reply = send_reply(&["coder", "reviewer"]);
    reply["unknown"] = json!([{"name": "tseter", "suggestion": "tester"}]);
    let world = World::with_daemon(vec![("POST /messages", Reply::Json(reply))]);
    let seen = world.types(&[
        "send",
        "coder@review",
        "ask @tseter",
        "--to",
        "reviewer",
        "--reply-to",
        "7",
    ]);
    assert!(seen.exits(0), "{seen:?}");
    insta::assert_snapshot!(seen.out + &seen.err, @r"
    #12 → coder, reviewer
    warning: @tseter is nobody here; did you mean @tester?
    ");
    let asked = &world.asked("POST /messages")[0];
    let expected = json!({
        "target": "coder@review", "project": world.settings.cwd, "message": "ask @tseter", "to": ["reviewer"],
        "reply_to": 7,
    });
    assert_eq!(asked.body, expected);
    assert!(asked.key.is_some(), "without a key a repeated request is a second message");
}

#[test]
fn send_and_wait_prints_the_answer_alone() {
    let world = World::with_daemon(vec![
        ("POST /messages", Reply::Json(send_reply(&["coder"]))),
        (
            "GET /events",
            Reply::Events(
                vec![
                    event(1, "attempt.ended", &Value::Null),
                    said(12, "user", &["coder"], "hi"),
                    event(13, "attempt.ended", &Value::Null),
                ],
                Then::Close,
            ),
        ),
        ("GET /messages/12/receipts", receipts(&[("coder", "leased")])),
        ("GET /messages/12/receipts", receipts(&[("coder", "acted"), ("bystander", "pending")])),
    ]);
    let seen = world.types(&["send", "coder@review", "hi", "--wait"]);
    assert!(seen.exits(0), "{seen:?}");
    assert_eq!((seen.out.as_str(), seen.err.as_str()), ("coder is done\n", "#12 → coder\n"));
    assert_eq!(world.asked("POST /messages")[0].body["alone"], true);
    assert_eq!(world.asked("GET /messages/12/receipts").len(), 2);
}

#[test]
fn send_and_wait_fails_when_somebody_never_acts() {
    let world = World::with_daemon(vec![
        ("POST /messages", Reply::Json(send_reply(&["coder", "reviewer"]))),
        ("GET /events", Reply::Events(Vec::new(), Then::Close)),
        ("GET /messages/12/receipts", receipts(&[("coder", "acted"), ("reviewer", "dead")])),
    ]);
    let seen = world.types(&["send", "@review", "hi @all", "--wait"]);
    assert!(seen.exits(1), "{seen:?}");
    assert_eq!(seen.out, "coder: coder is done\n");
    assert!(seen.err.contains("#12 for reviewer is dead: 3 failures"), "{seen:?}");
}

#[test]
fn send_and_wait_for_nobody_fails_at_once() {
    let world = World::with_daemon(vec![("POST /messages", Reply::Json(send_reply(&[])))]);
    let seen = world.types(&["send", "@review", "hello", "--wait"]);
    assert!(seen.exits(1), "{seen:?}");
    assert!(seen.err.contains("nobody is woken by it"), "{seen:?}");
}
