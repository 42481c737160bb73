//! Whatever ends an attempt, its processes end with it.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use agent_worker_host::marked;
use agent_worker_protocol::{Code, FailureClass, Span, WorkerEvent, WorkerOutcome};
use rustix::process::Signal;
use serde_json::json;

use crate::{
    daemon::{Answer, Daemon, Heard},
    process::{Worker, appears, job},
};

/// A child that ignores TERM, and a grandchild in a session of its own that does too.
const STUBBORN: &str = "trap '' TERM
    setsid sh -c 'trap \"\" TERM; echo $$ > inner; while :; do sleep 1; done' &
    while :; do sleep 1; done";

fn stopped() -> WorkerOutcome {
    WorkerOutcome::Interrupted { why: "stopped".to_owned() }
}

fn timeout(why: &str) -> WorkerOutcome {
    let why = why.to_owned();
    WorkerOutcome::Failed { class: FailureClass::Timeout, why, retry_at: None }
}

#[tokio::test]
async fn term_ends_children_that_ignore_it_and_grandchildren_that_left() {
    let attempt = Arc::new(OnceLock::<String>::new());
    let left = Arc::new(OnceLock::new());
    let (of, at_the_end) = (attempt.clone(), left.clone());
    let daemon = Daemon::new(move |heard| {
        if heard.has(|event| matches!(event, WorkerEvent::Finished(_))) {
            at_the_end.set(marked(of.get().unwrap())).unwrap();
        }
        Answer::Yes
    });
    let job = job(&daemon, json!({"run": STUBBORN}));
    attempt.set(job.attempt.to_string()).unwrap();
    let mut worker = Worker::start(&job).await;
    let inner = appears(&daemon.folder.path().join("inner"), "").await;
    assert!(worker.processes().contains(&inner.trim().parse().unwrap()));
    let pid = worker.pid();
    worker.signal(Signal::TERM);
    assert_eq!(worker.finished().await.outcome, stopped());
    let left: Vec<u32> = left.get().unwrap().iter().map(|process| process.pid).collect();
    assert_eq!(left, [pid], "only the worker itself is left when it says its last word");
}

#[tokio::test]
async fn the_daemons_order_to_stop_does_the_same() {
    let folder = Arc::new(OnceLock::<PathBuf>::new());
    let place = folder.clone();
    let daemon = Daemon::new(move |_| {
        let started = place.get().is_some_and(|folder| folder.join("inner").exists());
        if started { Answer::Stop } else { Answer::Yes }
    });
    folder.set(daemon.folder.path().to_owned()).unwrap();
    let job = job(&daemon, json!({"run": STUBBORN}));
    assert_eq!(Worker::start(&job).await.finished().await.outcome, stopped());
    assert!(daemon.heard().last().unwrap().has(|event| matches!(event, WorkerEvent::Finished(_))));
}

#[tokio::test]
async fn an_attempt_that_is_stopped_before_it_began_begins_nothing() {
    let daemon = Daemon::new(|_| Answer::Stop);
    let job = job(&daemon, json!({"sleep": "100ms", "run": "echo x > proof"}));
    assert_eq!(Worker::start(&job).await.finished().await.outcome, stopped());
    assert!(!daemon.folder.path().join("proof").exists());
}

#[tokio::test]
async fn an_attempt_nobody_wants_is_over_without_a_word() {
    for code in [Code::StaleEpoch, Code::NotFound, Code::Unauthorized, Code::Forbidden] {
        let daemon = Daemon::new(move |heard| {
            if heard.has(|event| matches!(event, WorkerEvent::ToolCall { .. })) {
                Answer::No(code)
            } else {
                Answer::Yes
            }
        });
        let job = job(&daemon, json!({"run": STUBBORN}));
        let mut worker = Worker::start(&job).await;
        assert_eq!(worker.exit().await.code(), Some(1));
        assert_eq!(worker.processes(), Vec::<u32>::new());
        assert!(worker.log().contains("Unwanted"), "{}", worker.log());
        assert!(!worker.journal().iter().any(|e| matches!(e.event, WorkerEvent::Finished(_))));
    }
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_is_cut_short() {
    let daemon = Daemon::willing();
    let mut job = job(&daemon, json!({"run": "while :; do echo busy; sleep 0.05; done"}));
    job.limits.wall = Span::from_millis(700);
    job.limits.silence = Span::from_millis(400);
    let outcome = Worker::start(&job).await.finished().await.outcome;
    assert_eq!(outcome, timeout("it took longer than 700ms"));
}

#[tokio::test]
async fn an_attempt_that_is_silent_for_too_long_is_cut_short() {
    for rule in [json!({"run": STUBBORN}), json!({"fail": "hang"}), json!({"sleep": "1h"})] {
        let daemon = Daemon::willing();
        let mut job = job(&daemon, rule);
        job.limits.silence = Span::from_millis(400);
        let outcome = Worker::start(&job).await.finished().await.outcome;
        assert_eq!(outcome, timeout("it was silent for 400ms"));
    }
}

#[tokio::test]
async fn an_orphan_ends_itself_and_says_so_on_disk() {
    let mut daemon = Daemon::willing();
    let mut job = job(&daemon, json!({"run": STUBBORN}));
    job.limits.orphan_grace = Span::from_millis(600);
    let mut worker = Worker::start(&job).await;
    appears(&daemon.folder.path().join("inner"), "").await;
    daemon.go().await;
    let why = "no daemon answered for 600ms".to_owned();
    assert_eq!(worker.finished().await.outcome, WorkerOutcome::Interrupted { why });
}

#[tokio::test]
async fn a_daemon_that_does_not_answer_counts_as_none() {
    let daemon = Daemon::new(|heard| match heard {
        Heard::Events(request) if request.events.iter().any(|event| event.no == 1) => Answer::Yes,
        _ => Answer::Never,
    });
    let mut job = job(&daemon, json!({"fail": "hang"}));
    job.limits.orphan_grace = Span::from_millis(600);
    let why = "no daemon answered for 600ms".to_owned();
    let outcome = Worker::start(&job).await.finished().await.outcome;
    assert_eq!(outcome, WorkerOutcome::Interrupted { why });
}

#[tokio::test]
async fn what_a_finished_agent_left_running_is_ended_too() {
    let daemon = Daemon::willing();
    let rule = json!({"run": "setsid sleep 600 & echo started"});
    let job = job(&daemon, rule);
    let finished = Worker::start(&job).await.finished().await;
    assert_eq!((finished.text.as_str(), finished.outcome), ("started", WorkerOutcome::Ok));
}

#[tokio::test]
async fn a_terminals_signals_are_not_for_the_worker() {
    let daemon = Daemon::willing();
    let rule =
        json!({"run": "echo here > here; while [ ! -e go ]; do sleep 0.02; done; echo done"});
    let job = job(&daemon, rule);
    let mut worker = Worker::start(&job).await;
    appears(&daemon.folder.path().join("here"), "here").await;
    worker.signal(Signal::INT);
    worker.signal(Signal::HUP);
    std::fs::write(daemon.folder.path().join("go"), "").unwrap();
    assert_eq!(worker.finished().await.text, "done");
}
