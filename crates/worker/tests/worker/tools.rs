//! Tool calls: keys, and a daemon that comes and goes.

use agent_worker_protocol::{EffectKey, WorkerEvent, WorkerOutcome};
use serde_json::{Value, json};

use crate::{
    daemon::{Answer, Daemon, Heard},
    process::{Worker, appears, job, run},
};

fn key(args: &Value) -> &str {
    args["idempotency_key"].as_str().unwrap()
}

#[tokio::test]
async fn equal_calls_are_told_apart_by_their_number_and_an_own_key_is_kept() {
    let daemon = Daemon::willing();
    let ping = json!({"tool": "channel_send", "args": {"message": "ping"}});
    let other = json!({"tool": "channel_send", "args": {"message": "pong"}});
    let own = json!({"tool": "channel_send", "args": {"message": "x", "idempotency_key": "mine"}});
    run(&job(&daemon, json!({"calls": [ping, other, ping, own]}))).await;
    let args = |message: &str| json!({"message": message});
    let numbered = |message, n| EffectKey::numbered("channel_send", &args(message), n);
    let calls = daemon.calls();
    let keys: Vec<&str> = calls.iter().map(|(_, args)| key(args)).collect();
    assert_eq!(keys, [&numbered("ping", 1), &numbered("pong", 1), &numbered("ping", 2), "mine"]);
    assert_eq!(calls[0].1["message"], "ping");
}

#[tokio::test]
async fn a_call_says_what_it_is_and_in_whose_name() {
    let daemon = Daemon::willing();
    run(&job(&daemon, json!({"calls": [{"tool": "inbox_check"}]}))).await;
    let heads: Vec<String> = daemon
        .heard()
        .into_iter()
        .filter_map(|heard| match heard {
            Heard::Events(_) => None,
            Heard::Call { head, .. } => Some(head.to_ascii_lowercase()),
        })
        .collect();
    for line in [
        "host: localhost",
        "authorization: bearer s3cret",
        "content-type: application/json",
        "accept: application/json, text/event-stream",
        "mcp-protocol-version: 2026-07-28",
        "mcp-method: tools/call",
        "mcp-name: inbox_check",
    ] {
        assert!(heads[0].contains(line), "{line} in {}", heads[0]);
    }
}

#[tokio::test]
async fn a_call_whose_reply_is_lost_is_made_again_with_the_same_key() {
    let mut calls = 0;
    let daemon = Daemon::new(move |heard| match heard {
        Heard::Events(_) => Answer::Yes,
        Heard::Call { .. } => {
            calls += 1;
            if calls == 1 { Answer::Lost } else { Answer::Yes }
        }
    });
    let rule = json!({"calls": [{"tool": "vote", "args": {"choice": "yes"}}], "say": "voted"});
    let mut worker = Worker::start(&job(&daemon, rule)).await;
    assert_eq!(worker.finished().await.text, "voted");
    let calls = daemon.calls();
    assert_eq!(calls.len(), 2);
    assert_eq!(key(&calls[0].1), key(&calls[1].1));
    let retries = worker.journal();
    let retries = retries.iter().filter(|event| matches!(event.event, WorkerEvent::Retry { .. }));
    assert_eq!(retries.count(), 1);
}

#[tokio::test]
async fn a_call_is_held_while_the_daemon_is_away() {
    let mut daemon = Daemon::new(|heard| match heard {
        Heard::Call { tool, .. } if tool == "first" => Answer::Never,
        Heard::Events(_) | Heard::Call { .. } => Answer::Yes,
    });
    let job = job(&daemon, json!({"calls": [{"tool": "first"}, {"tool": "second"}]}));
    let mut worker = Worker::start(&job).await;
    daemon.until(|heard| heard.iter().any(|heard| matches!(heard, Heard::Call { .. }))).await;
    daemon.go().await;
    let journal = daemon.folder.path().join("attempt/events.jsonl");
    appears(&journal, "retry").await;
    daemon.answer(|_| Answer::Yes);
    daemon.come();
    assert_eq!(worker.finished().await.outcome, WorkerOutcome::Ok);
    let calls = daemon.calls();
    let tools: Vec<&str> = calls.iter().map(|(tool, _)| tool.as_str()).collect();
    assert_eq!(tools, ["first", "first", "second"]);
    assert_eq!(key(&calls[0].1), key(&calls[1].1));
}

#[tokio::test]
async fn a_tool_that_fails_is_told_and_the_script_goes_on() {
    let daemon = Daemon::new(|heard| match heard {
        Heard::Call { tool, .. } if tool == "bad" => Answer::Result(
            json!({"content": [{"type": "text", "text": "no such file"}], "isError": true}),
        ),
        Heard::Call { tool, .. } if tool == "worse" => {
            Answer::No(agent_worker_protocol::Code::Forbidden)
        }
        _ => Answer::Yes,
    });
    let rule = json!({"calls": [{"tool": "bad"}, {"tool": "worse"}, {"tool": "good"}], "say": "x"});
    let mut worker = Worker::start(&job(&daemon, rule)).await;
    assert_eq!(worker.finished().await.outcome, WorkerOutcome::Ok);
    let results: Vec<(bool, String)> = worker
        .journal()
        .into_iter()
        .filter_map(|event| match event.event {
            WorkerEvent::ToolResult { ok, summary, .. } => Some((ok, summary)),
            _ => None,
        })
        .collect();
    let expected = [(false, "no such file"), (false, "worse: scripted"), (true, "good done")];
    assert_eq!(results, expected.map(|(ok, text)| (ok, text.to_owned())));
}

#[tokio::test]
async fn a_long_result_becomes_a_resource_and_its_beginning_stays() {
    let long = |text: &str| json!({"content": [{"type": "text", "text": text}], "isError": false});
    let id = "ab".repeat(32);
    let kept = long(&json!({"id": id, "bytes": 40_000}).to_string());
    let whole = "x".repeat(40_000);
    let given = long(&whole);
    let daemon = Daemon::new(move |heard| match heard {
        Heard::Call { tool, .. } if tool == "resource_create" => Answer::Result(kept.clone()),
        Heard::Call { .. } => Answer::Result(given.clone()),
        Heard::Events(_) => Answer::Yes,
    });
    let rule = json!({"calls": [{"tool": "channel_read"}, {"tool": "resource_read"}]});
    let mut worker = Worker::start(&job(&daemon, rule)).await;
    assert_eq!(worker.finished().await.outcome, WorkerOutcome::Ok);
    let calls = daemon.calls();
    let tools: Vec<&str> = calls.iter().map(|(tool, _)| tool.as_str()).collect();
    assert_eq!(tools, ["channel_read", "resource_create", "resource_read"]);
    assert_eq!(calls[1].1["content"], json!(whole));
    assert!(!key(&calls[1].1).is_empty(), "the same text of a second attempt is the same call");
}
