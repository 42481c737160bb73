//! Tool calls: idempotency keys, and a daemon that stops and restarts.

use agent_worker_protocol::{EffectKey, WorkerEvent, WorkerOutcome};
use serde_json::{Value, json};

use crate::{
    process::{WorkerProcess, job, run_worker, wait_for_line},
    stub_daemon::{ReceivedRequest, ScriptedReply, StubDaemon},
};

fn idempotency_key(args: &Value) -> &str {
    args["idempotency_key"].as_str().unwrap()
}

#[tokio::test]
async fn equal_calls_are_distinguished_by_their_number_and_an_explicit_key_is_kept() {
    let daemon = StubDaemon::accepting();
    let ping = json!({"tool": "channel_send", "args": {"message": "ping"}});
    let other = json!({"tool": "channel_send", "args": {"message": "pong"}});
    let own = json!({"tool": "channel_send", "args": {"message": "x", "idempotency_key": "mine"}});
    run_worker(&job(&daemon, json!({"calls": [ping, other, ping, own]}))).await;
    let args = |message: &str| json!({"message": message});
    let numbered = |message, n| EffectKey::nth_call_key("channel_send", &args(message), n);
    let calls = daemon.tool_calls();
    let keys: Vec<&str> = calls.iter().map(|(_, args)| idempotency_key(args)).collect();
    assert_eq!(keys, [&numbered("ping", 1), &numbered("pong", 1), &numbered("ping", 2), "mine"]);
    assert_eq!(calls[0].1["message"], "ping");
}

#[tokio::test]
async fn a_call_says_what_it_is_and_in_whose_name() {
    let daemon = StubDaemon::accepting();
    run_worker(&job(&daemon, json!({"calls": [{"tool": "inbox_check"}]}))).await;
    let heads: Vec<String> = daemon
        .requests()
        .into_iter()
        .filter_map(|heard| match heard {
            ReceivedRequest::Events(_) => None,
            ReceivedRequest::Call { head, .. } => Some(head.to_ascii_lowercase()),
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
    let daemon = StubDaemon::new(move |heard| match heard {
        ReceivedRequest::Events(_) => ScriptedReply::Accept,
        ReceivedRequest::Call { .. } => {
            calls += 1;
            if calls == 1 { ScriptedReply::LoseReply } else { ScriptedReply::Accept }
        }
    });
    let rule = json!({"calls": [{"tool": "vote", "args": {"choice": "yes"}}], "say": "voted"});
    let mut worker = WorkerProcess::start(&job(&daemon, rule)).await;
    assert_eq!(worker.wait_finished().await.text, "voted");
    let calls = daemon.tool_calls();
    assert_eq!(calls.len(), 2);
    assert_eq!(idempotency_key(&calls[0].1), idempotency_key(&calls[1].1));
    let retries = worker.journal();
    let retries = retries.iter().filter(|event| matches!(event.event, WorkerEvent::Retry { .. }));
    assert_eq!(retries.count(), 1);
}

#[tokio::test]
async fn a_call_is_held_while_the_daemon_is_away() {
    let mut daemon = StubDaemon::new(|heard| match heard {
        ReceivedRequest::Call { tool, .. } if tool == "first" => ScriptedReply::Hang,
        ReceivedRequest::Events(_) | ReceivedRequest::Call { .. } => ScriptedReply::Accept,
    });
    let job = job(&daemon, json!({"calls": [{"tool": "first"}, {"tool": "second"}]}));
    let mut worker = WorkerProcess::start(&job).await;
    daemon
        .wait_until(|heard| heard.iter().any(|heard| matches!(heard, ReceivedRequest::Call { .. })))
        .await;
    daemon.kill().await;
    let journal = daemon.folder.path().join("attempt/events.jsonl");
    wait_for_line(&journal, "retry").await;
    daemon.set_script(|_| ScriptedReply::Accept);
    daemon.start();
    assert_eq!(worker.wait_finished().await.outcome, WorkerOutcome::Ok);
    let calls = daemon.tool_calls();
    let tools: Vec<&str> = calls.iter().map(|(tool, _)| tool.as_str()).collect();
    assert_eq!(tools, ["first", "first", "second"]);
    assert_eq!(idempotency_key(&calls[0].1), idempotency_key(&calls[1].1));
}

#[tokio::test]
async fn a_failed_tool_call_is_reported_and_the_script_continues() {
    let daemon = StubDaemon::new(|heard| match heard {
        ReceivedRequest::Call { tool, .. } if tool == "bad" => ScriptedReply::Result(
            json!({"content": [{"type": "text", "text": "no such file"}], "isError": true}),
        ),
        ReceivedRequest::Call { tool, .. } if tool == "worse" => {
            ScriptedReply::Refuse(agent_worker_protocol::Code::Forbidden)
        }
        _ => ScriptedReply::Accept,
    });
    let rule = json!({"calls": [{"tool": "bad"}, {"tool": "worse"}, {"tool": "good"}], "say": "x"});
    let mut worker = WorkerProcess::start(&job(&daemon, rule)).await;
    assert_eq!(worker.wait_finished().await.outcome, WorkerOutcome::Ok);
    let results: Vec<(bool, String)> = worker
        .journal()
        .into_iter()
        .filter_map(|event| match event.event {
            WorkerEvent::ToolResult { ok, summary, .. } => Some((ok, summary)),
            _ => None,
        })
        .collect();
    let expected = [(false, "no such file"), (false, "scripted"), (true, "good done")];
    assert_eq!(results, expected.map(|(ok, text)| (ok, text.to_owned())));
}

#[tokio::test]
async fn a_long_result_becomes_a_resource_and_its_beginning_stays() {
    let long = |text: &str| json!({"content": [{"type": "text", "text": text}], "isError": false});
    let id = "ab".repeat(32);
    let kept = long(&json!({"id": id, "bytes": 40_000}).to_string());
    let whole = "x".repeat(40_000);
    let given = long(&whole);
    let daemon = StubDaemon::new(move |heard| match heard {
        ReceivedRequest::Call { tool, .. } if tool == "resource_create" => {
            ScriptedReply::Result(kept.clone())
        }
        ReceivedRequest::Call { .. } => ScriptedReply::Result(given.clone()),
        ReceivedRequest::Events(_) => ScriptedReply::Accept,
    });
    let rule = json!({"calls": [{"tool": "channel_read"}, {"tool": "resource_read"}]});
    let mut worker = WorkerProcess::start(&job(&daemon, rule)).await;
    assert_eq!(worker.wait_finished().await.outcome, WorkerOutcome::Ok);
    let calls = daemon.tool_calls();
    let tools: Vec<&str> = calls.iter().map(|(tool, _)| tool.as_str()).collect();
    assert_eq!(tools, ["channel_read", "resource_create", "resource_read"]);
    assert_eq!(calls[1].1["content"], json!(whole));
    assert!(
        !idempotency_key(&calls[1].1).is_empty(),
        "the same text of a second attempt is the same call"
    );
}
