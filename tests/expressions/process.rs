//! The child as a process: what it has, when it starts and when it ends.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use agent_worker_expressions::{EvaluatorHost, ExpressionEvaluator};
use agent_worker_host::close_inherited_files_on_exec;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::process::{Child, Command as TokioCommand};

use crate::{evaluate, evaluator, program, text};

/// Waits until a process has ended or is a zombie.
fn has_ended(pid: u32) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if !stat.contains(") ") || stat.contains(") Z ") {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

#[tokio::test]
async fn the_child_has_no_environment_no_files_and_little_of_everything() {
    // As every process of the program does first.
    close_inherited_files_on_exec();
    let mut evaluator = evaluator();
    assert_eq!(evaluator.child_pid(), None, "an evaluator without an expression has no process");
    evaluate(&mut evaluator, "1", &[]).await.unwrap();
    let pid = evaluator.child_pid().unwrap();
    let of_child = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    assert_eq!(of_child("environ"), "");
    let open: BTreeSet<String> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(open, ["0", "1", "2"].map(str::to_owned).into());
    assert_eq!(fs::read_link(format!("/proc/{pid}/fd/2")).unwrap().to_str(), Some("/dev/null"));
    assert_eq!(fs::read_link(format!("/proc/{pid}/cwd")).unwrap().to_str(), Some("/"));
    let limits = of_child("limits");
    for (name, limit) in [
        ("Max data size", 512 << 20),
        ("Max address space", 1 << 30),
        ("Max open files", 3),
        ("Max file size", 0),
        ("Max core file size", 0),
        ("Max processes", 0),
    ] {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        assert_eq!(line.split_whitespace().next(), Some(limit.to_string().as_str()), "{name}");
    }
    evaluate(&mut evaluator, "2", &[]).await.unwrap();
    assert_eq!(evaluator.child_pid(), Some(pid), "one child serves several expressions");
    drop(evaluator);
    assert!(has_ended(pid));
}

#[tokio::test]
async fn a_child_that_somebody_killed_is_replaced_without_an_error() {
    let mut evaluator = evaluator();
    evaluate(&mut evaluator, "1", &[]).await.unwrap();
    let pid = evaluator.child_pid().unwrap();
    let raw = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(raw, Signal::KILL).unwrap();
    assert!(has_ended(pid));
    assert_eq!(evaluate(&mut evaluator, "x", &[("x", "a")]).await, Ok(text("a")));
    assert_ne!(evaluator.child_pid(), Some(pid));
}

#[tokio::test]
async fn a_child_that_the_machine_does_not_let_run_is_not_blamed_for_it() {
    let mut evaluator = evaluator();
    evaluate(&mut evaluator, "1", &[]).await.unwrap();
    let pid = evaluator.child_pid().unwrap();
    let raw = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(raw, Signal::STOP).unwrap();
    let resume = std::thread::spawn(move || {
        std::thread::park_timeout(Duration::from_millis(600));
        kill_process(raw, Signal::CONT).unwrap();
    });
    assert_eq!(evaluate(&mut evaluator, "x", &[("x", "a")]).await, Ok(text("a")));
    assert_eq!(evaluator.child_pid(), Some(pid));
    resume.join().unwrap();
}

#[tokio::test]
async fn a_request_that_is_dropped_half_way_leaves_no_answer_for_the_next() {
    let mut evaluator = evaluator();
    for n in 0..20 {
        let first = format!("'{n}' + 'x'.repeat(1e6).split('').length");
        let cut = Duration::from_millis(n);
        tokio::time::timeout(cut, evaluate(&mut evaluator, &first, &[])).await.ok();
        let next = evaluate(&mut evaluator, "x", &[("x", "right")]).await;
        assert_eq!(next, Ok(text("right")), "after {cut:?}");
    }
}

#[test]
fn the_child_ends_with_its_input_and_with_a_request_that_it_does_not_understand() {
    for input in ["", "nonsense\n", "{}\n"] {
        let mut child = Command::new(program())
            .arg("evaluate-expressions")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.stdout, b"", "{input:?}");
        assert_eq!(output.status.success(), input.is_empty(), "{input:?}");
    }
}

/// A loop runs in a child whose parent is a shell that is killed: the shell cannot end the child any more.
#[test]
#[cfg(target_os = "linux")]
fn a_child_in_a_loop_dies_with_its_parent() {
    let request = r#"{"source":"'x'.repeat(3e5).indexOf('x'.repeat(1.5e5)+'y')","action":"evaluate","has_failed":false,"memory":16777216,"values":[]}"#;
    let script =
        r#"printf '%s\n' "$1" >"$3"; exec 3<>"$3"; "$2" evaluate-expressions <&3 & echo $!; wait"#;
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let script = script.replacen(
        r#"printf '%s\n' "$1" >"$3"; exec 3<>"$3";"#,
        r#"exec 3<>"$3"; printf '%s\n' "$1" >&3;"#,
        1,
    );
    let mut shell = Command::new("sh")
        .args(["-c", &script, "sh", request])
        .arg(program())
        .arg(&pipe)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid: u32 = line.trim().parse().unwrap();
    let raw = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    // It is in the loop once it has used processor time beyond its start.
    let deadline = Instant::now() + Duration::from_secs(20);
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after = stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        after.split(' ').nth(11).and_then(|ticks| ticks.parse().ok()).unwrap_or(0_u32)
    };
    while ticks() < 8 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert!(test_kill_process(raw).is_ok());
    shell.kill().unwrap();
    shell.wait().unwrap();
    let killed = Instant::now();
    assert!(has_ended(pid));
    assert!(killed.elapsed() < Duration::from_millis(500), "it ended by its own limit only");
}

/// Remembers every child.
#[derive(Default)]
struct RecordingHost {
    started: Mutex<Vec<u32>>,
    released: Mutex<Vec<u32>>,
}

impl EvaluatorHost for RecordingHost {
    fn spawn(&self, command: &mut TokioCommand) -> std::io::Result<Child> {
        let child = command.spawn()?;
        self.started.lock().unwrap().extend(child.id());
        Ok(child)
    }

    fn release(&self, pid: u32) {
        self.released.lock().unwrap().push(pid);
    }
}

#[tokio::test]
async fn a_host_learns_of_every_child_and_of_its_end() {
    let host = Arc::new(RecordingHost::default());
    let mut evaluator = ExpressionEvaluator::new(program(), host.clone());
    for source in ["1", "(() => { for (;;); })()", "2"] {
        evaluate(&mut evaluator, source, &[]).await.ok();
    }
    drop(evaluator);
    let started = host.started.lock().unwrap().clone();
    assert_eq!(started.len(), 2);
    assert_eq!(*host.released.lock().unwrap(), started);
}
