//! Processes that do not want to end, and those that are not meant.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use agent_worker_host::{
    ATTEMPT_MARKER, Process, ancestors, descendants, end, environment_value, marked,
};
use tokio::time::Instant;

/// A shell that has said its first line, and so has done everything before it.
fn shell(script: &str, attempt: &str) -> (Child, String) {
    let mut child = Command::new("/bin/sh")
        .args(["-c", script])
        .env(ATTEMPT_MARKER, attempt)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().to_owned())
}

fn pids(processes: &[Process]) -> BTreeSet<u32> {
    processes.iter().map(|process| process.pid).collect()
}

#[tokio::test]
async fn an_attempt_is_found_by_its_marker_wherever_its_processes_went() {
    let script = "setsid sh -c 'echo $$; exec sleep 600' & wait";
    let (mut child, inner) = shell(script, "found-by-marker");
    let found = pids(&marked("found-by-marker"));
    assert!(found.contains(&child.id()) && found.contains(&inner.parse().unwrap()), "{found:?}");
    assert_eq!(marked("found-by"), [], "a marker is compared whole");
    assert_eq!(end(|| marked("found-by-marker"), Duration::from_secs(10)).await, found.len());
    child.wait().unwrap();
    assert_eq!(marked("found-by-marker"), []);
}

#[tokio::test]
async fn what_ignores_term_is_killed_when_its_grace_is_over() {
    let script = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & wait";
    let (mut child, inner) = shell(script, "ignores-term");
    let inner: u32 = inner.parse().unwrap();
    assert!(pids(&descendants(child.id())).contains(&inner));
    assert!(pids(&ancestors(inner)).contains(&std::process::id()));
    let started = Instant::now();
    let grace = Duration::from_millis(300);
    assert!(end(|| marked("ignores-term"), grace).await >= 2);
    assert!(started.elapsed() >= grace, "it was killed before its grace was over");
    assert_eq!(Process::of(inner), None);
    child.wait().unwrap();
}

#[tokio::test]
async fn children_that_appear_while_ending_are_ended_too() {
    let script = "trap 'sh -c \"trap : TERM; sleep 600 & wait; sleep 600\" & exit' TERM; \
                  echo ready; while :; do sleep 0.05; done";
    let (mut child, _) = shell(script, "late-children");
    let ended = end(|| marked("late-children"), Duration::from_millis(500)).await;
    assert!(ended >= 2, "{ended}");
    assert_eq!(marked("late-children"), []);
    child.wait().unwrap();
}

#[tokio::test]
async fn a_willing_process_is_gone_long_before_its_grace_and_a_zombie_counts_as_gone() {
    let (mut child, _) = shell("echo ready; exec sleep 600", "willing");
    let started = Instant::now();
    assert_eq!(end(|| marked("willing"), Duration::from_mins(1)).await, 1);
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(Process::of(child.id()), None, "nobody has waited for it, and still it is gone");
    child.wait().unwrap();
}

#[tokio::test]
async fn a_pid_that_belongs_to_somebody_else_now_is_left_alone() {
    let (mut child, _) = shell("echo ready; exec sleep 600", "reused");
    let real = Process::of(child.id()).unwrap();
    let stale = Process { start_time: real.start_time - 1, ..real };
    assert!(!stale.is_alive());
    stale.signal(rustix::process::Signal::KILL).unwrap();
    assert!(real.is_alive());
    real.signal(rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();
}

#[test]
fn an_environment_is_told_by_whole_names() {
    let (mut child, _) = shell("echo ready; exec sleep 600", "by-name");
    let value = environment_value(child.id(), ATTEMPT_MARKER).unwrap();
    assert_eq!(value.as_deref(), Some("by-name"));
    assert_eq!(environment_value(child.id(), "AGENT_WORKER_ATTEMP").unwrap(), None);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(environment_value(u32::MAX, ATTEMPT_MARKER).is_err());
}
