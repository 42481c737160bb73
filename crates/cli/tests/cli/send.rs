//! Tests of `send` with and without waiting for the answer.

use std::{process::ExitCode, thread};

use agent_worker_cli::Console;
use serde_json::{Value, json};

use crate::{
    fake_daemon::{AfterEvents, CapturedStream, FakeReply, TestHome, until},
    sample_responses::{event, message_event, receipts, runs, send_reply},
};

#[test]
fn send_says_where_it_went_and_who_was_meant() {
    let mut reply = send_reply(&["coder", "reviewer"]);
    reply["unknown"] = json!([{"name": "tseter", "suggestion": "tester"}]);
    let world = TestHome::with_daemon(vec![("POST /messages", FakeReply::Json(reply))]);
    let seen = world.run_command(&[
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
    warning: @tseter is not an agent here; did you mean @tester?
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
    let world = TestHome::with_daemon(vec![
        ("POST /messages", FakeReply::Json(send_reply(&["coder"]))),
        (
            "GET /events",
            FakeReply::Events(
                vec![
                    event(1, "attempt.ended", &Value::Null),
                    message_event(12, "user", &["coder"], "hi"),
                    event(13, "attempt.ended", &Value::Null),
                ],
                AfterEvents::Close,
            ),
        ),
        ("GET /runs", runs(&going_on())),
        ("GET /messages/12/receipts", receipts(&[("coder", "leased")])),
        ("GET /messages/12/receipts", receipts(&[("coder", "acted"), ("bystander", "pending")])),
    ]);
    let seen = world.run_command(&["send", "coder@review", "hi", "--wait"]);
    assert!(seen.exits(0), "{seen:?}");
    assert_eq!((seen.out.as_str(), seen.err.as_str()), ("coder is done\n", "#12 → coder\n"));
    assert_eq!(world.asked("POST /messages")[0].body["alone"], true);
    assert_eq!(world.asked("GET /messages/12/receipts").len(), 2);
}

#[test]
fn send_and_wait_fails_when_a_recipient_never_acts() {
    let world = TestHome::with_daemon(vec![
        ("POST /messages", FakeReply::Json(send_reply(&["coder", "reviewer"]))),
        ("GET /events", FakeReply::Events(Vec::new(), AfterEvents::Close)),
        ("GET /runs", runs(&going_on())),
        ("GET /messages/12/receipts", receipts(&[("coder", "acted"), ("reviewer", "dead")])),
    ]);
    let seen = world.run_command(&["send", "@review", "hi @all", "--wait"]);
    assert!(seen.exits(1), "{seen:?}");
    assert_eq!(seen.out, "coder: coder is done\n");
    assert!(seen.err.contains("#12 for reviewer is dead: 3 failures"), "{seen:?}");
}

/// Creates a home with a message to the coder of a live run; after one event the run is in the state `then`.
fn waiting(told: &str, then: &Value, receipt: &str) -> TestHome {
    TestHome::with_daemon(vec![
        ("POST /messages", FakeReply::Json(send_reply(&["coder"]))),
        ("GET /events", FakeReply::Events(vec![event(1, told, &Value::Null)], AfterEvents::Hang)),
        ("GET /runs", runs(&going_on())),
        ("GET /runs", runs(then)),
        ("GET /messages/12/receipts", receipts(&[("coder", "pending")])),
        ("GET /messages/12/receipts", receipts(&[("coder", receipt)])),
    ])
}

fn going_on() -> Value {
    json!({"state": "running"})
}

fn at_a_limit() -> Value {
    let cause = json!({"cause": "limit", "limit": "turns", "detail": "3 of 3"});
    json!({"state": "paused", "cause": cause, "ended": null})
}

#[test]
fn send_and_wait_notices_a_run_that_pauses_while_it_waits() {
    let send = ["send", "coder@review", "hi", "--wait"];
    let world = waiting("run.paused", &at_a_limit(), "pending");
    let seen = world.run_command(&send);
    assert!(seen.exits(3), "{seen:?}");
    let look = ["GET /runs", "GET /messages/12/receipts"];
    assert!(world.order().ends_with(&look.map(str::to_owned)), "how the run stands is asked first");
    insta::assert_snapshot!(seen.out + &seen.err, @r"
    #12 → coder
    #12 for coder is pending: the run is paused: turn limit (3 of 3)
    hint: resume the run: agent-worker resume @review; or end it: agent-worker stop @review
    ");

    let human = json!({"state": "paused", "cause": {"cause": "human"}, "ended": null});
    assert!(waiting("run.paused", &human, "pending").run_command(&send).exits(4));
    let cut_off = json!({"state": "paused", "cause": {"cause": "interrupted"}, "ended": null});
    assert!(waiting("run.paused", &cut_off, "pending").run_command(&send).exits(5));
}

#[test]
fn send_and_wait_with_json_says_the_word_of_its_exit_code() {
    let world = waiting("run.paused", &at_a_limit(), "pending");
    let seen = world.run_command(&["send", "coder@review", "hi", "--wait", "--json"]);
    assert!(seen.exits(3), "{seen:?}");
    let json = seen.json();
    assert_eq!(
        (&json["outcome"], &json["receipts"][0]["state"]),
        (&json!("limit"), &json!("pending"))
    );
}

#[test]
fn send_and_wait_notices_a_run_that_was_stopped() {
    let stopped = json!({"state": "ended", "outcome": "stopped"});
    let world = waiting("run.ended", &stopped, "dropped");
    let seen = world.run_command(&["send", "coder@review", "hi", "--wait"]);
    assert!(seen.exits(130), "{seen:?}");
    assert!(seen.err.contains("#12 for coder is dropped"), "{seen:?}");
}

#[test]
fn send_and_wait_does_not_wait_for_a_run_that_is_over() {
    let done = json!({"state": "ended", "outcome": "done"});
    let world = waiting("run.ended", &done, "pending");
    let seen = world.run_command(&["send", "coder@review", "hi", "--wait"]);
    assert!(seen.exits(1), "{seen:?}");
}

#[test]
fn send_and_wait_lets_a_turn_finish_that_a_pause_left_running() {
    let mut reply = send_reply(&["coder"]);
    reply["paused"] = json!("turn limit (3 of 3)");
    let world = TestHome::with_daemon(vec![
        ("POST /messages", FakeReply::Json(reply)),
        (
            "GET /events",
            FakeReply::Events(vec![event(1, "attempt.ended", &Value::Null)], AfterEvents::Hang),
        ),
        ("GET /runs", runs(&at_a_limit())),
        ("GET /messages/12/receipts", receipts(&[("coder", "leased")])),
        ("GET /messages/12/receipts", receipts(&[("coder", "acted")])),
    ]);
    let seen = world.run_command(&["send", "coder@review", "hi", "--wait"]);
    assert!(seen.exits(0), "{seen:?}");
    assert_eq!((seen.out.as_str(), seen.err.as_str()), ("coder is done\n", "#12 → coder\n"));
}

#[test]
fn send_and_wait_does_not_start_a_daemon_that_was_stopped() {
    let world = TestHome::with_daemon(vec![
        ("POST /messages", FakeReply::Json(send_reply(&["coder"]))),
        ("GET /events", FakeReply::Events(Vec::new(), AfterEvents::Leave)),
        ("GET /runs", runs(&going_on())),
        ("GET /messages/12/receipts", receipts(&[("coder", "pending")])),
    ]);
    let seen = world.run_command(&["send", "coder@review", "hi", "--wait"]);
    assert!(seen.exits(5), "{seen:?}");
    assert!(seen.err.contains("the daemon was stopped before the run ended"), "{seen:?}");
}

#[test]
fn send_and_wait_without_a_woken_agent_fails_at_once() {
    let world = TestHome::with_daemon(vec![("POST /messages", FakeReply::Json(send_reply(&[])))]);
    let seen = world.run_command(&["send", "@review", "hello", "--wait"]);
    assert!(seen.exits(1), "{seen:?}");
    assert!(seen.err.contains("it wakes no agent"), "{seen:?}");
}

#[test]
fn the_words_of_an_answer_are_there_before_it_is_complete() {
    let attempt = |mut event: Value| {
        event["attempt"] = "01980000-0000-7000-8000-000000000002".into();
        event
    };
    let world = TestHome::with_daemon(vec![
        ("POST /messages", FakeReply::Json(send_reply(&["coder"]))),
        (
            "GET /events",
            FakeReply::Events(
                vec![
                    attempt(event(1, "attempt.starting", &json!({"seqs": [12], "number": 1}))),
                    attempt(event(2, "text", &json!({"text": "coder is"}))),
                ],
                AfterEvents::Hang,
            ),
        ),
        ("GET /runs", runs(&going_on())),
        ("GET /messages/12/receipts", receipts(&[("coder", "leased")])),
        ("GET /messages/12/receipts", receipts(&[("coder", "acted")])),
    ]);
    let out = CapturedStream::default();
    thread::scope(|scope| {
        let asks = scope.spawn(|| {
            let diagnostics = Box::new(CapturedStream::default());
            let mut console = Console::for_dumb_terminal(Box::new(out.clone()), diagnostics);
            world.run_with_console(&["ask", "coder@review", "well?"], &mut console)
        });
        until(|| out.text() == "coder is");
        let told = world.asked("GET /messages/12/receipts").len();
        assert_eq!((told, asks.is_finished()), (1, false), "nobody was told of an answer yet");
        let code = asks.join().unwrap();
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
    });
    assert_eq!(out.text(), "coder is\ncoder is done\n", "the whole of it, on a line of its own");
}
