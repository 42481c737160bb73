//! Events: first on disk, then posted, in order, until they are acknowledged.

use agent_worker_protocol::{
    Code, HistoryMode, HistoryText, LiveEvent, NumberedEvent, Span, TextState, WorkerEvent,
    WorkerOutcome,
};
use serde_json::json;

use crate::{
    process::{WorkerProcess, job, run_worker, wait_for_line},
    stub_daemon::{ReceivedRequest, ScriptedReply, StubDaemon},
};

fn is_finished(event: &WorkerEvent) -> bool {
    matches!(event, WorkerEvent::Finished(_))
}

fn numbers(events: &[NumberedEvent]) -> Vec<i64> {
    events.iter().map(|event| event.no).collect()
}

#[tokio::test]
async fn an_attempt_is_reported_from_started_to_finished_and_the_disk_has_the_same() {
    let daemon = StubDaemon::accepting();
    let rule = json!({"calls": [{"tool": "channel_read"}], "say": "done"});
    let job = job(&daemon, rule);
    let mut worker = WorkerProcess::start(&job).await;
    let pid = worker.pid();
    assert_eq!(worker.wait_finished().await.text, "done");
    let journal = worker.journal();
    assert_eq!(daemon.posted_events(), journal);
    assert_eq!(numbers(&journal), [1, 2, 3, 4, 5, 6]);
    assert_eq!(journal[0].event, WorkerEvent::Started { pid, sandbox: None });
    let text = |text: &str| HistoryText::of(text.into(), HistoryMode::Full);
    let (system, prompt) = (text(&job.system_prompt), text(&job.prompt));
    let prompts = WorkerEvent::Prompt { mode: HistoryMode::Full, system, prompt };
    assert_eq!(journal[1].event, prompts);
    // The event has the whole text of a short one.
    let whole = |bytes| Some(HistoryText::omitted(bytes, TextState::Whole));
    let call = WorkerEvent::ToolCall {
        id: "call-1".into(),
        tool: "channel_read".into(),
        args: json!({}),
        whole: whole(2),
    };
    assert_eq!(journal[2].event, call);
    let result = WorkerEvent::ToolResult {
        id: "call-1".into(),
        tool: "channel_read".into(),
        ok: true,
        summary: "channel_read done".into(),
        whole: whole(17),
    };
    assert_eq!(journal[3].event, result);
    assert_eq!(journal[4].event, WorkerEvent::Words(text("done")));
    let words = daemon.requests().into_iter().any(|heard| match heard {
        ReceivedRequest::Events(request) => {
            request.live.contains(&LiveEvent::Text { text: "done".into() })
        }
        ReceivedRequest::Call { .. } => false,
    });
    assert!(words, "words are shown as they come");
}

#[tokio::test]
async fn the_lock_is_held_with_its_pid_inside_for_as_long_as_the_worker_lives() {
    let daemon = StubDaemon::accepting();
    let job = job(&daemon, json!({"fail": "hang"}));
    let mut worker = WorkerProcess::start(&job).await;
    daemon.wait_until(|heard| !heard.is_empty()).await;
    assert_eq!(worker.lock_holder(), Some(worker.pid()));
    worker.signal(rustix::process::Signal::KILL);
    worker.wait_exit().await;
    assert!(!worker.is_locked());
}

#[tokio::test]
async fn no_backend_starts_before_started_is_acknowledged() {
    let mut tries = 0;
    let daemon = StubDaemon::new(move |_| {
        tries += 1;
        if tries <= 2 { ScriptedReply::Refuse(Code::Unavailable) } else { ScriptedReply::Accept }
    });
    let proof = daemon.folder.path().join("proof");
    let job = job(&daemon, json!({"run": "echo x > proof"}));
    let mut worker = WorkerProcess::start(&job).await;
    daemon.wait_until(|heard| heard.len() >= 2).await;
    assert!(!proof.exists());
    assert_eq!(worker.wait_finished().await.outcome, WorkerOutcome::Ok);
    assert!(proof.exists());
    assert_eq!(numbers(&daemon.posted_events())[..3], [1, 1, 1]);
}

#[tokio::test]
async fn after_a_lost_reply_the_same_events_are_posted_again_with_the_same_numbers() {
    let mut events = 0;
    let daemon = StubDaemon::new(move |heard| match heard {
        ReceivedRequest::Events(_) => {
            events += 1;
            if events <= 2 { ScriptedReply::LoseReply } else { ScriptedReply::Accept }
        }
        ReceivedRequest::Call { .. } => ScriptedReply::Accept,
    });
    let job = job(&daemon, json!({"calls": [{"tool": "a"}, {"tool": "b"}]}));
    let mut worker = WorkerProcess::start(&job).await;
    worker.wait_finished().await;
    let mut posted = daemon.posted_events();
    assert_eq!(numbers(&posted)[..3], [1, 1, 1], "it was stored each time and never heard of");
    posted.dedup();
    assert_eq!(posted, worker.journal(), "a repeated number is a repeated event");
}

#[tokio::test]
async fn events_during_an_absence_of_the_daemon_are_reported_when_it_is_back() {
    let mut daemon = StubDaemon::accepting();
    let mut job = job(&daemon, json!({"run": "echo here > here; cat go", "say": "done"}));
    job.limits.orphan_grace = Span::from_secs(20);
    let fifo = daemon.folder.path().join("go");
    std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    let mut worker = WorkerProcess::start(&job).await;
    wait_for_line(&daemon.folder.path().join("here"), "here").await;
    daemon.kill().await;
    std::fs::write(&fifo, "go").unwrap();
    let journal = daemon.folder.path().join("attempt/events.jsonl");
    wait_for_line(&journal, "finished").await;
    assert!(worker.is_locked(), "it waits for somebody to tell");
    daemon.start();
    assert_eq!(worker.wait_finished().await.text, "done");
    let mut posted = daemon.posted_events();
    posted.dedup_by_key(|event| event.no);
    assert_eq!(posted, worker.journal());
}

#[tokio::test]
async fn the_last_word_is_on_disk_when_no_daemon_comes_back() {
    let mut daemon = StubDaemon::accepting();
    let mut job = job(&daemon, json!({"run": "echo here > here; cat go", "say": "done"}));
    job.limits.orphan_grace = Span::from_millis(800);
    let fifo = daemon.folder.path().join("go");
    std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    let mut worker = WorkerProcess::start(&job).await;
    wait_for_line(&daemon.folder.path().join("here"), "here").await;
    daemon.kill().await;
    std::fs::write(&fifo, "go").unwrap();
    let finished = worker.wait_finished().await;
    assert_eq!((finished.text.as_str(), finished.outcome), ("done", WorkerOutcome::Ok));
    assert!(!daemon.requests().iter().any(|heard| heard.has_event(is_finished)));
}

#[tokio::test]
async fn a_post_has_at_most_fifty_events_and_the_last_word_does_not_wait_for_the_rest() {
    let mut calls = 0;
    let daemon = StubDaemon::new(move |heard| match heard {
        ReceivedRequest::Call { .. } => {
            calls += 1;
            ScriptedReply::Accept
        }
        // After `started` the daemon refuses all posts until every event is there.
        ReceivedRequest::Events(request) if request.events.len() > 1 && calls < 100 => {
            ScriptedReply::Refuse(Code::Unavailable)
        }
        ReceivedRequest::Events(_) => ScriptedReply::Accept,
    });
    let calls: Vec<_> = (0..100).map(|n| json!({"tool": "vote", "args": {"n": n}})).collect();
    let mut worker = WorkerProcess::start(&job(&daemon, json!({"calls": calls}))).await;
    worker.wait_finished().await;
    let mut posted = daemon.posted_events();
    posted.sort_by_key(|event| event.no);
    posted.dedup();
    assert_eq!(posted, worker.journal());
    assert_eq!(posted.len(), 203);
    let sizes = daemon.requests().into_iter().map(|heard| match heard {
        ReceivedRequest::Events(request) => request.events.len(),
        ReceivedRequest::Call { .. } => 0,
    });
    assert_eq!(sizes.max(), Some(50));
}

#[tokio::test]
async fn a_quiet_worker_says_that_it_is_there() {
    let daemon = StubDaemon::accepting();
    let mut job = job(&daemon, json!({"fail": "hang"}));
    job.limits.orphan_grace = Span::from_millis(1_200);
    let mut worker = WorkerProcess::start(&job).await;
    let heartbeats = |heard: &ReceivedRequest| match heard {
        ReceivedRequest::Events(request) => request.live.contains(&LiveEvent::Heartbeat),
        ReceivedRequest::Call { .. } => false,
    };
    // More heartbeats than fit into the grace period: the attempt is not orphaned while a daemon answers.
    daemon.wait_until(|heard| heard.iter().filter(|heard| heartbeats(heard)).count() >= 6).await;
    worker.signal(rustix::process::Signal::TERM);
    worker.wait_finished().await;
}

#[tokio::test]
async fn a_worker_without_a_usable_job_says_why_and_fails() {
    let daemon = StubDaemon::accepting();
    let mut job = job(&daemon, json!({}));
    std::fs::write(job.folder.join("events.jsonl"), "").unwrap();
    let mut worker = WorkerProcess::start(&job).await;
    assert_eq!(worker.wait_exit().await.code(), Some(1));
    assert!(worker.log().contains("create events.jsonl"), "{}", worker.log());
    std::fs::remove_file(job.folder.join("events.jsonl")).unwrap();
    job.socket = "/nowhere/daemon.sock".into();
    job.limits.orphan_grace = Span::from_millis(500);
    let outcome = run_worker(&job).await.outcome;
    let why = "no daemon answered for 500ms".to_owned();
    assert_eq!(outcome, WorkerOutcome::Interrupted { why });
}
