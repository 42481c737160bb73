//! Events: first on disk, then posted, in order, until they are heard.

use agent_worker_protocol::{Code, LiveEvent, NumberedEvent, Span, WorkerEvent, WorkerOutcome};
use serde_json::json;

use crate::{
    daemon::{Answer, Daemon, Heard},
    process::{Worker, appears, job, run},
};

fn is_finished(event: &WorkerEvent) -> bool {
    matches!(event, WorkerEvent::Finished(_))
}

fn numbers(events: &[NumberedEvent]) -> Vec<i64> {
    events.iter().map(|event| event.no).collect()
}

#[tokio::test]
async fn an_attempt_is_reported_from_started_to_finished_and_the_disk_has_the_same() {
    let daemon = Daemon::willing();
    let rule = json!({"calls": [{"tool": "channel_read"}], "say": "done"});
    let job = job(&daemon, rule);
    let mut worker = Worker::start(&job).await;
    let pid = worker.pid();
    assert_eq!(worker.finished().await.text, "done");
    let journal = worker.journal();
    assert_eq!(daemon.posted(), journal);
    assert_eq!(numbers(&journal), [1, 2, 3, 4]);
    assert_eq!(journal[0].event, WorkerEvent::Started { pid });
    let args = json!({});
    let call = WorkerEvent::ToolCall { id: "call-1".into(), tool: "channel_read".into(), args };
    assert_eq!(journal[1].event, call);
    let result = WorkerEvent::ToolResult {
        id: "call-1".into(),
        tool: "channel_read".into(),
        ok: true,
        summary: "channel_read done".into(),
    };
    assert_eq!(journal[2].event, result);
    let words = daemon.heard().into_iter().any(|heard| match heard {
        Heard::Events(request) => request.live.contains(&LiveEvent::Text { text: "done".into() }),
        Heard::Call { .. } => false,
    });
    assert!(words, "words are shown as they come");
}

#[tokio::test]
async fn the_lock_is_held_with_its_pid_inside_for_as_long_as_the_worker_lives() {
    let daemon = Daemon::willing();
    let job = job(&daemon, json!({"fail": "hang"}));
    let mut worker = Worker::start(&job).await;
    daemon.until(|heard| !heard.is_empty()).await;
    assert_eq!(worker.lock_holder(), Some(worker.pid()));
    worker.signal(rustix::process::Signal::KILL);
    worker.exit().await;
    assert!(!worker.is_locked());
}

#[tokio::test]
async fn no_backend_starts_before_started_is_acknowledged() {
    let mut tries = 0;
    let daemon = Daemon::new(move |_| {
        tries += 1;
        if tries <= 2 { Answer::No(Code::Unavailable) } else { Answer::Yes }
    });
    let proof = daemon.folder.path().join("proof");
    let job = job(&daemon, json!({"run": "echo x > proof"}));
    let mut worker = Worker::start(&job).await;
    daemon.until(|heard| heard.len() >= 2).await;
    assert!(!proof.exists());
    assert_eq!(worker.finished().await.outcome, WorkerOutcome::Ok);
    assert!(proof.exists());
    assert_eq!(numbers(&daemon.posted())[..3], [1, 1, 1]);
}

#[tokio::test]
async fn after_a_lost_reply_the_same_events_are_posted_again_with_the_same_numbers() {
    let mut events = 0;
    let daemon = Daemon::new(move |heard| match heard {
        Heard::Events(_) => {
            events += 1;
            if events <= 2 { Answer::Lost } else { Answer::Yes }
        }
        Heard::Call { .. } => Answer::Yes,
    });
    let job = job(&daemon, json!({"calls": [{"tool": "a"}, {"tool": "b"}]}));
    let mut worker = Worker::start(&job).await;
    worker.finished().await;
    let mut posted = daemon.posted();
    assert_eq!(numbers(&posted)[..3], [1, 1, 1], "it was stored each time and never heard of");
    posted.dedup();
    assert_eq!(posted, worker.journal(), "a repeated number is a repeated event");
}

#[tokio::test]
async fn what_happened_while_the_daemon_was_away_is_told_when_it_is_back() {
    let mut daemon = Daemon::willing();
    let mut job = job(&daemon, json!({"run": "echo here > here; cat go", "say": "done"}));
    job.limits.orphan_grace = Span::from_secs(20);
    let fifo = daemon.folder.path().join("go");
    std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    let mut worker = Worker::start(&job).await;
    appears(&daemon.folder.path().join("here"), "here").await;
    daemon.go().await;
    std::fs::write(&fifo, "go").unwrap();
    let journal = daemon.folder.path().join("attempt/events.jsonl");
    appears(&journal, "finished").await;
    assert!(worker.is_locked(), "it waits for somebody to tell");
    daemon.come();
    assert_eq!(worker.finished().await.text, "done");
    let mut posted = daemon.posted();
    posted.dedup_by_key(|event| event.no);
    assert_eq!(posted, worker.journal());
}

#[tokio::test]
async fn the_last_word_is_on_disk_when_no_daemon_comes_back() {
    let mut daemon = Daemon::willing();
    let mut job = job(&daemon, json!({"run": "echo here > here; cat go", "say": "done"}));
    job.limits.orphan_grace = Span::from_millis(800);
    let fifo = daemon.folder.path().join("go");
    std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    let mut worker = Worker::start(&job).await;
    appears(&daemon.folder.path().join("here"), "here").await;
    daemon.go().await;
    std::fs::write(&fifo, "go").unwrap();
    let finished = worker.finished().await;
    assert_eq!((finished.text.as_str(), finished.outcome), ("done", WorkerOutcome::Ok));
    assert!(!daemon.heard().iter().any(|heard| heard.has(is_finished)));
}

#[tokio::test]
async fn a_post_has_at_most_fifty_events_and_the_last_word_does_not_wait_for_the_rest() {
    let mut calls = 0;
    let daemon = Daemon::new(move |heard| match heard {
        Heard::Call { .. } => {
            calls += 1;
            Answer::Yes
        }
        // After `started` nothing is taken until everything is there.
        Heard::Events(request) if request.events.len() > 1 && calls < 100 => {
            Answer::No(Code::Unavailable)
        }
        Heard::Events(_) => Answer::Yes,
    });
    let calls: Vec<_> = (0..100).map(|n| json!({"tool": "vote", "args": {"n": n}})).collect();
    let mut worker = Worker::start(&job(&daemon, json!({"calls": calls}))).await;
    worker.finished().await;
    let mut posted = daemon.posted();
    posted.sort_by_key(|event| event.no);
    posted.dedup();
    assert_eq!(posted, worker.journal());
    assert_eq!(posted.len(), 202);
    let sizes = daemon.heard().into_iter().map(|heard| match heard {
        Heard::Events(request) => request.events.len(),
        Heard::Call { .. } => 0,
    });
    assert_eq!(sizes.max(), Some(50));
}

#[tokio::test]
async fn a_quiet_worker_says_that_it_is_there() {
    let daemon = Daemon::willing();
    let mut job = job(&daemon, json!({"fail": "hang"}));
    job.limits.orphan_grace = Span::from_millis(1_200);
    let mut worker = Worker::start(&job).await;
    let heartbeats = |heard: &Heard| match heard {
        Heard::Events(request) => request.live.contains(&LiveEvent::Heartbeat),
        Heard::Call { .. } => false,
    };
    // More of them than its grace has room for: it is not orphaned as long as somebody answers.
    daemon.until(|heard| heard.iter().filter(|heard| heartbeats(heard)).count() >= 6).await;
    worker.signal(rustix::process::Signal::TERM);
    worker.finished().await;
}

#[tokio::test]
async fn a_worker_without_a_usable_job_says_why_and_fails() {
    let daemon = Daemon::willing();
    let mut job = job(&daemon, json!({}));
    std::fs::write(job.folder.join("events.jsonl"), "").unwrap();
    let mut worker = Worker::start(&job).await;
    assert_eq!(worker.exit().await.code(), Some(1));
    assert!(worker.log().contains("begin events.jsonl"), "{}", worker.log());
    std::fs::remove_file(job.folder.join("events.jsonl")).unwrap();
    job.socket = "/nowhere/daemon.sock".into();
    job.limits.orphan_grace = Span::from_millis(500);
    let outcome = run(&job).await.outcome;
    let why = "no daemon answered for 500ms".to_owned();
    assert_eq!(outcome, WorkerOutcome::Interrupted { why });
}
