//! Tests that the processes of an attempt end with it, for every kind of end.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use agent_worker_host::marked_processes;
use agent_worker_protocol::{Code, FailureClass, Span, WorkerEvent, WorkerOutcome};
use rustix::process::Signal;
use serde_json::json;

use crate::{
    process::{WorkerProcess, job, wait_for_line},
    stub_daemon::{ReceivedRequest, ScriptedReply, StubDaemon},
};

/// A child that ignores TERM, and a grandchild in its own session that does so too.
const IGNORE_TERM_SCRIPT: &str = "trap '' TERM
    setsid sh -c 'trap \"\" TERM; echo $$ > inner; while :; do sleep 1; done' &
    while :; do sleep 1; done";

fn stopped_outcome() -> WorkerOutcome {
    WorkerOutcome::Interrupted { why: "stopped".to_owned() }
}

fn timeout_outcome(why: &str) -> WorkerOutcome {
    let why = why.to_owned();
    WorkerOutcome::Failed { class: FailureClass::Timeout, why, retry_at: None }
}

#[tokio::test]
async fn term_ends_children_that_ignore_it_and_grandchildren_that_left() {
    let attempt = Arc::new(OnceLock::<String>::new());
    let left = Arc::new(OnceLock::new());
    let (of, at_the_end) = (attempt.clone(), left.clone());
    let daemon = StubDaemon::new(move |heard| {
        if heard.has_event(|event| matches!(event, WorkerEvent::Finished(_))) {
            at_the_end.set(marked_processes(of.get().unwrap())).unwrap();
        }
        ScriptedReply::Accept
    });
    let job = job(&daemon, json!({"run": IGNORE_TERM_SCRIPT}));
    attempt.set(job.attempt.to_string()).unwrap();
    let mut worker = WorkerProcess::start(&job).await;
    let inner = wait_for_line(&daemon.folder.path().join("inner"), "").await;
    assert!(worker.processes().contains(&inner.trim().parse().unwrap()));
    let pid = worker.pid();
    worker.signal(Signal::TERM);
    assert_eq!(worker.wait_finished().await.outcome, stopped_outcome());
    let left: Vec<u32> = left.get().unwrap().iter().map(|process| process.pid).collect();
    assert_eq!(left, [pid], "only the worker itself is left when it says its last word");
}

#[tokio::test]
async fn the_daemons_order_to_stop_does_the_same() {
    let folder = Arc::new(OnceLock::<PathBuf>::new());
    let place = folder.clone();
    let daemon = StubDaemon::new(move |_| {
        let started = place.get().is_some_and(|folder| folder.join("inner").exists());
        if started { ScriptedReply::Stop } else { ScriptedReply::Accept }
    });
    folder.set(daemon.folder.path().to_owned()).unwrap();
    let job = job(&daemon, json!({"run": IGNORE_TERM_SCRIPT}));
    assert_eq!(WorkerProcess::start(&job).await.wait_finished().await.outcome, stopped_outcome());
    assert!(
        daemon
            .requests()
            .last()
            .unwrap()
            .has_event(|event| matches!(event, WorkerEvent::Finished(_)))
    );
}

#[tokio::test]
async fn an_attempt_that_is_stopped_before_it_began_begins_nothing() {
    let daemon = StubDaemon::new(|_| ScriptedReply::Stop);
    let job = job(&daemon, json!({"sleep": "100ms", "run": "echo x > proof"}));
    assert_eq!(WorkerProcess::start(&job).await.wait_finished().await.outcome, stopped_outcome());
    assert!(!daemon.folder.path().join("proof").exists());
}

#[tokio::test]
async fn an_attempt_that_the_daemon_refuses_ends_without_a_report() {
    for code in [Code::StaleEpoch, Code::NotFound, Code::Unauthorized, Code::Forbidden] {
        let daemon = StubDaemon::new(move |heard| {
            if heard.has_event(|event| matches!(event, WorkerEvent::ToolCall { .. })) {
                ScriptedReply::Refuse(code)
            } else {
                ScriptedReply::Accept
            }
        });
        let job = job(&daemon, json!({"run": IGNORE_TERM_SCRIPT}));
        let mut worker = WorkerProcess::start(&job).await;
        assert_eq!(worker.wait_exit().await.code(), Some(1));
        assert_eq!(worker.processes(), Vec::<u32>::new());
        assert!(worker.log().contains("Rejected"), "{}", worker.log());
        assert!(!worker.journal().iter().any(|e| matches!(e.event, WorkerEvent::Finished(_))));
    }
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_is_cut_short() {
    let daemon = StubDaemon::accepting();
    let mut job = job(&daemon, json!({"run": "while :; do echo busy; sleep 0.05; done"}));
    job.limits.wall = Span::from_millis(700);
    job.limits.silence = Span::from_millis(400);
    let outcome = WorkerProcess::start(&job).await.wait_finished().await.outcome;
    assert_eq!(outcome, timeout_outcome("the turn took longer than 700ms"));
}

#[tokio::test]
async fn an_attempt_that_is_silent_for_too_long_is_cut_short() {
    for rule in [json!({"fail": "hang"}), json!({"sleep": "1h"})] {
        let daemon = StubDaemon::accepting();
        let mut job = job(&daemon, rule);
        job.limits.silence = Span::from_millis(400);
        let outcome = WorkerProcess::start(&job).await.wait_finished().await.outcome;
        assert_eq!(outcome, timeout_outcome("there was no activity for 400ms"));
    }
}

#[tokio::test]
async fn a_tool_that_is_silent_is_bounded_by_the_time_of_the_turn_alone() {
    let daemon = StubDaemon::accepting();
    let mut job = job(&daemon, json!({"run": IGNORE_TERM_SCRIPT}));
    job.limits.silence = Span::from_millis(200);
    job.limits.wall = Span::from_millis(1_500);
    let outcome = WorkerProcess::start(&job).await.wait_finished().await.outcome;
    assert_eq!(outcome, timeout_outcome("the turn took longer than 1500ms"));
}

#[tokio::test]
async fn a_worker_without_a_daemon_ends_itself_and_records_it_on_disk() {
    let mut daemon = StubDaemon::accepting();
    let mut job = job(&daemon, json!({"run": IGNORE_TERM_SCRIPT}));
    job.limits.orphan_grace = Span::from_millis(600);
    let mut worker = WorkerProcess::start(&job).await;
    wait_for_line(&daemon.folder.path().join("inner"), "").await;
    daemon.kill().await;
    let why = "no daemon answered for 600ms".to_owned();
    assert_eq!(worker.wait_finished().await.outcome, WorkerOutcome::Interrupted { why });
}

#[tokio::test]
async fn a_daemon_that_does_not_answer_counts_as_none() {
    let daemon = StubDaemon::new(|heard| match heard {
        ReceivedRequest::Events(request) if request.events.iter().any(|event| event.no == 1) => {
            ScriptedReply::Accept
        }
        _ => ScriptedReply::Hang,
    });
    let mut job = job(&daemon, json!({"fail": "hang"}));
    job.limits.orphan_grace = Span::from_millis(600);
    let why = "no daemon answered for 600ms".to_owned();
    let outcome = WorkerProcess::start(&job).await.wait_finished().await.outcome;
    assert_eq!(outcome, WorkerOutcome::Interrupted { why });
}

#[tokio::test]
async fn what_a_finished_agent_left_running_is_ended_too() {
    let daemon = StubDaemon::accepting();
    let rule = json!({"run": "setsid sleep 600 & echo started"});
    let job = job(&daemon, rule);
    let finished = WorkerProcess::start(&job).await.wait_finished().await;
    assert_eq!((finished.text.as_str(), finished.outcome), ("started", WorkerOutcome::Ok));
}

#[tokio::test]
async fn a_terminals_signals_are_not_for_the_worker() {
    let daemon = StubDaemon::accepting();
    let rule =
        json!({"run": "echo here > here; while [ ! -e go ]; do sleep 0.02; done; echo done"});
    let job = job(&daemon, rule);
    let mut worker = WorkerProcess::start(&job).await;
    wait_for_line(&daemon.folder.path().join("here"), "here").await;
    worker.signal(Signal::INT);
    worker.signal(Signal::HUP);
    std::fs::write(daemon.folder.path().join("go"), "").unwrap();
    assert_eq!(worker.wait_finished().await.text, "done");
}
