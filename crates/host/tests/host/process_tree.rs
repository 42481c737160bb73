//! Processes that resist termination, and processes that must survive it.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, Command, Stdio},
    time::Duration,
};

use agent_worker_host::{
    ATTEMPT_MARKER, Process, descendants, end_processes, environment_value, marked_processes,
    process_chain,
};
use rustix::process::Signal;
use tokio::time::{Instant, timeout};

/// Shell with all processes that it started; they end when this value is dropped.
struct MarkedShell {
    child: Child,
    attempt: &'static str,
    /// First line of output: the script has completed everything before it.
    line: String,
}

impl MarkedShell {
    fn start(attempt: &'static str, script: &str) -> Self {
        let mut child = Command::new("/bin/sh")
            .args(["-c", script])
            .env(ATTEMPT_MARKER, attempt)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, attempt, line: line.trim().to_owned() }
    }

    /// Returns the pid that the script printed.
    fn inner_pid(&self) -> u32 {
        self.line.parse().unwrap()
    }

    /// Ends all processes of the shell and returns their number.
    async fn end_all(&self, grace: Duration) -> usize {
        let ended = end_processes(|| marked_processes(self.attempt), grace);
        timeout(grace + Duration::from_secs(10), ended).await.unwrap()
    }
}

impl Drop for MarkedShell {
    fn drop(&mut self) {
        for process in marked_processes(self.attempt) {
            drop(process.signal(Signal::KILL));
        }
        drop(self.child.wait());
    }
}

fn pids(processes: &[Process]) -> BTreeSet<u32> {
    processes.iter().map(|process| process.pid).collect()
}

#[tokio::test]
async fn an_attempt_is_found_by_its_marker_wherever_its_processes_went() {
    let script = "setsid sh -c 'echo $$; exec sleep 600' & wait";
    let shell = MarkedShell::start("found-by-marker", script);
    let found = pids(&marked_processes("found-by-marker"));
    assert!(found.contains(&shell.child.id()) && found.contains(&shell.inner_pid()), "{found:?}");
    assert_eq!(marked_processes("found-by"), [], "a marker is compared whole");
    assert_eq!(shell.end_all(Duration::from_secs(10)).await, found.len());
    assert_eq!(marked_processes("found-by-marker"), []);
}

#[tokio::test]
async fn what_ignores_term_is_killed_when_its_grace_is_over() {
    let script = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & wait";
    let shell = MarkedShell::start("ignores-term", script);
    assert!(pids(&descendants(shell.child.id())).contains(&shell.inner_pid()));
    assert!(pids(&process_chain(shell.inner_pid()).unwrap()).contains(&std::process::id()));
    let started = Instant::now();
    let grace = Duration::from_millis(300);
    assert!(shell.end_all(grace).await >= 2);
    assert!(started.elapsed() >= grace, "it was killed before its grace was over");
    assert_eq!(Process::of(shell.inner_pid()), None);
}

/// Returns the number of times that this thread has gone to sleep.
fn voluntary_switches() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap();
    line.split_ascii_whitespace().last().unwrap().parse().unwrap()
}

#[tokio::test]
async fn waiting_for_a_process_that_ignores_term_does_not_poll() {
    let shell = MarkedShell::start("stubborn", "trap '' TERM; echo $$; while :; do sleep 9; done");
    let before = voluntary_switches();
    assert!(shell.end_all(Duration::from_secs(1)).await >= 1);
    let asked = voluntary_switches() - before;
    // The function scans ten times in a second, with growing pauses; each scan may wait for the disk's cache.
    assert!(asked < 60, "{asked} times");
}

#[tokio::test]
async fn children_that_appear_while_ending_are_ended_too() {
    let script = "trap 'sh -c \"trap : TERM; sleep 600 & wait; sleep 600\" & exit' TERM; \
                  echo ready; while :; do sleep 0.05; done";
    let shell = MarkedShell::start("late-children", script);
    let ended = shell.end_all(Duration::from_millis(500)).await;
    assert!(ended >= 2, "{ended}");
    assert_eq!(marked_processes("late-children"), []);
}

#[tokio::test]
async fn a_willing_process_is_gone_long_before_its_grace_and_a_zombie_counts_as_gone() {
    let shell = MarkedShell::start("willing", "echo ready; exec sleep 600");
    let started = Instant::now();
    assert_eq!(shell.end_all(Duration::from_mins(1)).await, 1);
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(Process::of(shell.child.id()), None, "nobody has waited for it; it is gone");
}

#[test]
fn a_pid_that_another_process_has_now_is_left_alone() {
    let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let real = Process::of(cat.id()).unwrap();
    let stale = Process { start_time: real.start_time - 1, ..real };
    assert!(!stale.is_alive());
    stale.signal(Signal::KILL).unwrap();
    // A process that was hit never answers.
    let mut stdin = cat.stdin.take().unwrap();
    let _ = stdin.write_all(b"still here\n");
    drop(stdin);
    let mut said = String::new();
    cat.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    cat.wait().unwrap();
    assert_eq!(said, "still here\n");
}

#[test]
fn an_environment_variable_is_found_by_its_whole_name() {
    // The shell executes no other program: a process during exec has no environment to show.
    let shell = MarkedShell::start("by-name", "echo ready; kill -STOP $$");
    let value = environment_value(shell.child.id(), ATTEMPT_MARKER).unwrap();
    assert_eq!(value.as_deref(), Some("by-name"));
    assert_eq!(environment_value(shell.child.id(), "AGENT_WORKER_ATTEMP").unwrap(), None);
    assert!(environment_value(u32::MAX, ATTEMPT_MARKER).is_err());
}
