//! The worker's process, started as a daemon starts it and observed from outside.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use agent_worker_host::{ATTEMPT_MARKER, LockFile, end_processes, marked_processes};
use agent_worker_protocol::{
    AttemptId, Backend, Finished, JobLimits, JobLine, MockRule, NumberedEvent, Span, WorkerEvent,
    WorkerJob,
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::inotify::{self, CreateFlags, WatchFlags},
    process::{Pid, Signal, kill_process},
};
use serde_json::Value;
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, Command},
    time::timeout,
};

use crate::stub_daemon::{StubDaemon, TEST_TIMEOUT};

/// Returns a job for a mock agent with one rule, in the daemon's folder.
pub(crate) fn job(daemon: &StubDaemon, rule: Value) -> WorkerJob {
    let rule: MockRule = serde_json::from_value(rule).unwrap();
    let folder = daemon.folder.path().join("attempt");
    std::fs::create_dir(&folder).unwrap();
    WorkerJob {
        attempt: AttemptId::new(uuid::Uuid::now_v7()),
        activation: "coder/7".to_owned(),
        number: 1,
        agent: "coder".parse().unwrap(),
        instance: "review:pr-1".parse().unwrap(),
        socket: daemon.socket(),
        token: "s3cret".to_owned(),
        folder,
        keep: daemon.folder.path().join("keep"),
        cwd: daemon.folder.path().to_owned(),
        env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
        system_prompt: "You are coder.".to_owned(),
        prompt: "What woke you: fix it".to_owned(),
        woken_by: "fix it".to_owned(),
        backend: Backend::Mock { rules: vec![rule] },
        model: None,
        fallback: Vec::new(),
        session: None,
        permissions: agent_worker_protocol::Permissions::default(),
        sandbox: None,
        mock_tools: Vec::new(),
        max_steps: Some(30),
        max_tokens: None,
        output_schema: None,
        effort: None,
        team: Vec::new(),
        history: agent_worker_protocol::HistoryMode::Full,
        limits: JobLimits {
            wall: Span::from_secs(30),
            silence: Span::from_secs(30),
            orphan_grace: Span::from_secs(4),
            kill_grace: Span::from_millis(300),
            spend: agent_worker_protocol::SpendLimits::NONE,
        },
        attachments: Vec::new(),
    }
}

/// A started worker. Dropping it ends all processes that are left of its attempt.
pub(crate) struct WorkerProcess {
    child: Child,
    attempt: String,
    folder: PathBuf,
}

impl WorkerProcess {
    /// Starts a worker as a daemon does: with its own group, its log, and its job on stdin.
    pub(crate) async fn start(job: &WorkerJob) -> Self {
        let log = std::fs::File::create(job.folder.join("worker.log")).unwrap();
        let mut child = Command::new(worker_binary())
            .env_clear()
            .env(ATTEMPT_MARKER, job.attempt.to_string())
            .env("OF_THE_WORKER", "alone")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let line =
            format!("{}\n", serde_json::to_string(&JobLine::Turn(Cow::Borrowed(job))).unwrap());
        // A worker that has already exited reads no job; the test sees its exit.
        let _ = child.stdin.take().unwrap().write_all(line.as_bytes()).await;
        Self { child, attempt: job.attempt.to_string(), folder: job.folder.clone() }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    pub(crate) async fn wait_exit(&mut self) -> ExitStatus {
        let exit = timeout(TEST_TIMEOUT, self.child.wait()).await;
        let Ok(status) = exit else { panic!("it does not exit; {}", self.log()) };
        status.unwrap()
    }

    /// Returns the final event from the journal.
    pub(crate) async fn wait_finished(&mut self) -> Finished {
        let status = self.wait_exit().await;
        let events = self.journal();
        let Some(NumberedEvent { event: WorkerEvent::Finished(finished), .. }) = events.last()
        else {
            panic!("{status} without a last word; {events:#?} {}", self.log())
        };
        assert!(!self.is_locked());
        assert_eq!(
            self.processes(),
            Vec::<u32>::new(),
            "what it started is gone before it says so"
        );
        finished.clone()
    }

    pub(crate) fn journal(&self) -> Vec<NumberedEvent> {
        let text = std::fs::read_to_string(self.folder.join("events.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("worker.log")).unwrap()
    }

    pub(crate) fn is_locked(&self) -> bool {
        LockFile::is_held(&self.folder.join("worker.lock")).unwrap()
    }

    pub(crate) fn lock_holder(&self) -> Option<u32> {
        LockFile::holder(&self.folder.join("worker.lock")).unwrap()
    }

    /// Returns the live processes of the attempt, including the worker.
    pub(crate) fn processes(&self) -> Vec<u32> {
        marked_processes(&self.attempt).iter().map(|process| process.pid).collect()
    }

    /// Ends the processes that a dead worker left behind.
    pub(crate) async fn end_leftovers(&self) -> usize {
        end_processes(|| marked_processes(&self.attempt), Duration::ZERO).await
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // Also after a failed test. Bounded, so that the test does not wait for a process that cannot be killed.
        for _ in 0..100 {
            let left = marked_processes(&self.attempt);
            if left.is_empty() {
                return;
            }
            for process in left {
                drop(process.signal(Signal::KILL));
            }
        }
    }
}

/// Runs a worker to its end and returns its final event.
pub(crate) async fn run_worker(job: &WorkerJob) -> Finished {
    WorkerProcess::start(job).await.wait_finished().await
}

/// Waits until a file has a complete line with these words, and returns the file's text. Inotify triggers each
/// read.
pub(crate) async fn wait_for_line(path: &Path, words: &str) -> String {
    let (path, words) = (path.to_owned(), words.to_owned());
    tokio::task::spawn_blocking(move || wait_for_line_blocking(&path, &words)).await.unwrap()
}

fn wait_for_line_blocking(path: &Path, words: &str) -> String {
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    let news = WatchFlags::CREATE | WatchFlags::MODIFY | WatchFlags::MOVED_TO;
    inotify::add_watch(&watch, path.parent().unwrap(), news).unwrap();
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') && text.contains(words) => return text,
            Ok(_) | Err(_) => {}
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let left = left.try_into().unwrap();
        let told = poll(&mut [PollFd::new(&watch, PollFlags::IN)], Some(&left)).unwrap();
        assert_eq!(told, 1, "`{words}` did not appear in {}", path.display());
        while rustix::io::read(&watch, &mut [0; 4096]).is_ok() {}
    }
}

/// Returns the path of `examples/worker.rs`, which cargo builds with the tests.
fn worker_binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join("examples/worker");
    assert!(program.exists(), "cargo builds it with all targets of this package, not with one");
    program
}
