//! The mock rules without failures.

use agent_worker_protocol::{Backend, MockRule, WorkerOutcome};
use serde_json::json;

use crate::{
    process::{WorkerProcess, job, run_worker, wait_for_line},
    stub_daemon::StubDaemon,
};

#[tokio::test]
async fn the_first_rule_that_fits_what_woke_the_agent_is_carried_out() {
    let rules: Vec<MockRule> = serde_json::from_value(json!([
        {"on": "review", "say": "one"}, {"on": "fix", "say": "two"}, {"say": "three"},
    ]))
    .unwrap();
    for (woken_by, count, said) in [
        ("please review and fix", 3, "one"),
        ("fix it", 3, "two"),
        ("hello", 3, "three"),
        ("hello", 2, ""),
    ] {
        let daemon = StubDaemon::accepting();
        let mut job = job(&daemon, json!({}));
        job.woken_by = woken_by.to_owned();
        job.backend = Backend::Mock { rules: rules[..count].to_vec() };
        let finished = run_worker(&job).await;
        assert_eq!((finished.text.as_str(), finished.outcome), (said, WorkerOutcome::Ok));
    }
}

#[tokio::test]
async fn a_command_has_the_jobs_environment_and_folder_and_nothing_else() {
    let daemon = StubDaemon::accepting();
    let mut job = job(&daemon, json!({"run": "pwd; exec env"}));
    job.env.insert("GITHUB_TOKEN".into(), "x y".into());
    let text = run_worker(&job).await.text;
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.remove(0), daemon.folder.path().to_str().unwrap());
    // A shell adds these variables by itself.
    lines.retain(|line| {
        !["PWD=", "SHLVL=", "_=", "OLDPWD="].iter().any(|own| line.starts_with(own))
    });
    lines.sort_unstable();
    let attempt = format!("AGENT_WORKER_ATTEMPT={}", job.attempt);
    let activation = "AGENT_WORKER_ACTIVATION=coder/7";
    let home = format!("AGENT_WORKER_HOME={}", job.socket.parent().unwrap().display());
    assert_eq!(lines, [activation, &attempt, &home, "GITHUB_TOKEN=x y", "PATH=/usr/bin:/bin"]);
}

#[tokio::test]
async fn what_a_command_prints_is_in_the_log_as_it_comes() {
    let daemon = StubDaemon::accepting();
    let command = "echo one; echo two >&2; until [ -e seen ]; do sleep 0.01; done; echo three; :";
    let send = json!({"tool": "channel_send", "args": {"message": "hello"}});
    let job = job(&daemon, json!({"calls": [send], "run": command}));
    let mut worker = WorkerProcess::start(&job).await;
    let path = job.folder.join("worker.log");
    wait_for_line(&path, "\none\n").await;
    let so_far = wait_for_line(&path, "\ntwo\n").await;
    assert!(!so_far.contains("three\n"), "{so_far}");
    std::fs::write(daemon.folder.path().join("seen"), "").unwrap();
    assert!(worker.wait_exit().await.success());
    let log = worker.log();
    let lines: Vec<&str> = log.lines().map(|line| line.split(", ").next().unwrap()).collect();
    let called = format!("→ shell: {command}");
    let begin = ["→ channel_send {\"message\":\"hello\"}", "← channel_send: ok", &called];
    assert_eq!(lines[..3], begin);
    assert_eq!(lines[5..], ["three", "← shell: ok"]);
    assert!(!log.contains("s3cret"), "{log}");
}

#[tokio::test]
async fn the_text_of_say_wins_over_the_output_of_a_command() {
    let daemon = StubDaemon::accepting();
    assert_eq!(run_worker(&job(&daemon, json!({"run": "echo a", "say": "b"}))).await.text, "b");
}

#[tokio::test]
async fn a_script_calls_the_mock_tools_of_its_agent_without_the_daemon() {
    let daemon = StubDaemon::accepting();
    let calls = json!([
        {"tool": "deploy", "args": {"to": "test"}}, {"tool": "deploy", "args": {"to": "prod"}},
    ]);
    let mut job = job(&daemon, json!({"calls": calls, "say": "done"}));
    let results = json!([{"when": {"to": "prod"}, "error": "closed"}, {"result": {"ok": true}}]);
    let tool = json!({"name": "deploy", "description": "Deploys.", "results": results});
    job.mock_tools = vec![serde_json::from_value(tool).unwrap()];
    assert_eq!(run_worker(&job).await.text, "done");
    let events = std::fs::read_to_string(job.folder.join("events.jsonl")).unwrap();
    let events = events.lines().map(|line| serde_json::from_str(line).unwrap());
    let events: Vec<serde_json::Value> = events.collect();
    let results: Vec<_> = events.iter().filter(|event| event["kind"] == "tool_result").collect();
    assert_eq!(results.len(), 2, "{events:?}");
    assert!(results[0].to_string().contains(r#"{\"ok\":true}"#), "{results:?}");
    assert!(results[1].to_string().contains("closed"), "{results:?}");
}
