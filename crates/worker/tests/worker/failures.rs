//! Scripted failures that really happen in the worker process.

use std::os::unix::process::ExitStatusExt as _;

use agent_worker_protocol::{FailureClass, WorkerEvent, WorkerOutcome};
use serde_json::json;

use crate::{
    process::{WorkerProcess, job, run_worker},
    stub_daemon::StubDaemon,
};

fn failed_outcome(class: FailureClass, why: &str) -> WorkerOutcome {
    WorkerOutcome::Failed { class, why: why.to_owned(), retry_at: None }
}

fn is_finished(worker: &WorkerProcess) -> bool {
    worker.journal().iter().any(|event| matches!(event.event, WorkerEvent::Finished(_)))
}

#[tokio::test]
async fn a_crash_is_a_killed_worker_whose_children_are_still_found() {
    let daemon = StubDaemon::accepting();
    let job = job(&daemon, json!({"run": "sleep 600 & echo", "fail": "crash"}));
    let mut worker = WorkerProcess::start(&job).await;
    assert_eq!(worker.wait_exit().await.signal(), Some(9));
    assert!(!is_finished(&worker) && !worker.is_locked());
    assert_eq!(worker.end_leftovers().await, 1);
}

#[tokio::test]
async fn an_exit_is_wordless() {
    let daemon = StubDaemon::accepting();
    let job = job(&daemon, json!({"fail": {"exit": 7}}));
    let mut worker = WorkerProcess::start(&job).await;
    assert_eq!(worker.wait_exit().await.code(), Some(7));
    assert!(!is_finished(&worker));
}

#[tokio::test]
async fn a_failure_has_its_class() {
    for (fail, class) in [("transient", FailureClass::Transient), ("fatal", FailureClass::Fatal)] {
        let daemon = StubDaemon::accepting();
        let outcome =
            run_worker(&job(&daemon, json!({"fail": fail, "say": "never"}))).await.outcome;
        assert_eq!(outcome, failed_outcome(class, "scripted"));
    }
    let daemon = StubDaemon::accepting();
    let outcome = run_worker(&job(&daemon, json!({"fail": "rate_limited"}))).await.outcome;
    let WorkerOutcome::Failed { class: FailureClass::RateLimited, retry_at: Some(_), .. } = outcome
    else {
        panic!("{outcome:?}")
    };
}

#[tokio::test]
async fn only_the_first_attempts_fail_when_the_script_says_how_many() {
    for (number, fails) in [(1, true), (2, true), (3, false)] {
        let daemon = StubDaemon::accepting();
        let mut job = job(&daemon, json!({"fail": "fatal", "times": 2, "say": "done"}));
        job.number = number;
        assert_eq!(run_worker(&job).await.outcome != WorkerOutcome::Ok, fails, "attempt {number}");
    }
}

#[tokio::test]
async fn a_command_that_fails_fails_the_attempt_with_its_last_words() {
    let daemon = StubDaemon::accepting();
    let mut job = job(&daemon, json!({"run": "echo out; echo broken >&2; exit 3"}));
    let expected = "`echo out; echo broken >&2; exit 3`: exit status 3: broken";
    let mut worker = WorkerProcess::start(&job).await;
    assert_eq!(worker.wait_finished().await.outcome, failed_outcome(FailureClass::Fatal, expected));
    let shown = worker.journal().into_iter().any(|event| match event.event {
        WorkerEvent::ToolResult { tool, ok, summary, .. } => {
            (tool.as_str(), ok, summary.as_str()) == ("shell", false, "exit status 3: broken")
        }
        _ => false,
    });
    assert!(shown);
    job.cwd = "/nowhere".into();
    std::fs::remove_file(job.folder.join("events.jsonl")).unwrap();
    let WorkerOutcome::Failed { why, .. } = run_worker(&job).await.outcome else { panic!() };
    assert!(why.contains("could not run a shell in /nowhere"), "{why}");
}

#[tokio::test]
async fn a_model_that_never_stops_calling_tools_is_stopped() {
    let daemon = StubDaemon::accepting();
    let mut job = job(&daemon, json!({"calls": [{"tool": "a"}], "say": "never"}));
    job.max_steps = Some(1);
    let why = "the model still called tools after 1 step (max_steps)";
    assert_eq!(run_worker(&job).await.outcome, failed_outcome(FailureClass::Fatal, why));
}
