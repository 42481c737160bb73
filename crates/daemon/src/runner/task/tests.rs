//! Commands of tasks as real processes, with real workers, across daemons.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::Command,
};

use agent_worker_host::{descendants, marked_processes};
use agent_worker_kernel::{PreparedScript, Runner as _, ShellOutcome, ValueFile};
use agent_worker_protocol::{AttemptId, RunId, TaskPath};
use agent_worker_store::TaskKey;
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::time::timeout;

use super::*;
use crate::{
    home::DaemonHome,
    runner::{Cgroups, Tracking},
};

const DEADLINE: Duration = Duration::from_mins(1);
const GRACE: Duration = Duration::from_millis(500);
/// Limit on the memory that a worker may need for a long output.
const MAX_GROWTH_KIB: u64 = 16 * 1024;

/// A home whose daemons are `ProcessRunner`s.
struct TestHome {
    folder: TempDir,
    run: RunId,
}

impl TestHome {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        Self { folder, run: RunId::new(uuid::Uuid::now_v7()) }
    }

    /// Returns the runner of another daemon of this home.
    fn daemon(&self) -> ProcessRunner {
        let home = DaemonHome::open(&self.folder.path().join("home")).unwrap();
        let groups = Cgroups::open(&home, Tracking::Tree);
        let test = std::env::current_exe().unwrap();
        let exe = test.parent().unwrap().parent().unwrap().join("examples/worker");
        assert!(exe.exists(), "cargo builds it with all targets of the workspace");
        ProcessRunner { exe, ..ProcessRunner::new(home, GRACE, groups) }
    }

    fn process(&self, attempt: u32) -> TaskProcess {
        let key = TaskKey { path: TaskPath::new("build/steps"), item: 7 };
        TaskProcess { run: self.run, key, attempt }
    }

    fn command(&self, script: &str) -> ShellCommand {
        #[expect(clippy::disallowed_methods, reason = "the test has no configuration")]
        let path = std::env::var_os("PATH").unwrap().into_string().unwrap();
        ShellCommand {
            run: self.run,
            prepared: PreparedScript { script: script.to_owned(), files: Vec::new() },
            program: "bash".to_owned(),
            options: vec!["-u".to_owned()],
            cwd: self.folder.path().to_owned(),
            env: [("PATH".to_owned(), path)].into(),
        }
    }

    /// Creates a named pipe in the working folder of the commands.
    fn pipe(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    /// Returns the only process folder, and the worker in it.
    fn worker(&self, daemon: &ProcessRunner) -> Process {
        holder_of(&daemon.task_folder(&self.process(1)).lock()).unwrap()
    }

    /// Returns every living process of the run.
    fn living(&self) -> Vec<Process> {
        marked_processes(&self.run.to_string())
    }
}

impl Drop for TestHome {
    fn drop(&mut self) {
        for process in self.living() {
            drop(process.signal(Signal::KILL));
        }
    }
}

/// Returns the next line that a command writes to a pipe.
async fn line_of(pipe: PathBuf) -> String {
    let read = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        BufReader::new(fs::File::open(pipe).unwrap()).read_line(&mut line).unwrap();
        line.trim().to_owned()
    });
    timeout(DEADLINE, read).await.unwrap().unwrap()
}

/// Lets a command continue that reads from a pipe.
async fn release(pipe: PathBuf) {
    let write = tokio::task::spawn_blocking(move || fs::write(pipe, "go\n").unwrap());
    timeout(DEADLINE, write).await.unwrap().unwrap();
}

/// Starts a command in a daemon that ends once the command has written a line to `pipe`. Returns the line.
async fn start_and_lose_daemon(home: &TestHome, script: &str, pipe: PathBuf) -> String {
    let daemon = home.daemon();
    let stop = CancellationToken::new();
    let running = daemon.task_run(home.process(1), home.command(script), None, stop);
    tokio::select! {
        end = running => panic!("the command has ended: {end:?}"),
        line = line_of(pipe) => line,
    }
}

async fn adopt(home: &TestHome) -> Option<TaskCommandEnd> {
    let (daemon, stop) = (home.daemon(), CancellationToken::new());
    timeout(DEADLINE, daemon.task_adopt(home.process(1), stop)).await.unwrap()
}

fn process_of(pid: &str) -> Process {
    Process::of(pid.parse().unwrap()).unwrap()
}

#[tokio::test]
async fn a_command_returns_its_exact_output_and_leaves_no_value() {
    let home = TestHome::new();
    let mut command = home.command(
        "printf '\\000\\377%s\\n' \"$(cat \"$AW_0\")\"; printf '%s' \"$AGENT_WORKER_TASK\" >&2; exit 3",
    );
    command.prepared.files =
        vec![ValueFile { variable: "AW_0".to_owned(), value: "s3cret".to_owned() }];
    let (daemon, stop) = (home.daemon(), CancellationToken::new());
    let end = daemon.task_run(home.process(1), command, None, stop).await.unwrap().unwrap();
    let outcome = ShellOutcome {
        status: Some(3),
        stdout: b"\x00\xffs3cret\n".to_vec(),
        stderr: format!("{}/build/steps/7", home.run),
    };
    assert_eq!(end, TaskCommandEnd { outcome, ms: end.ms, ..TaskCommandEnd::default() });
    let folder = daemon.task_folder(&home.process(1));
    let files = fs::read_dir(folder.path()).unwrap();
    let mut files: Vec<_> = files.map(|it| it.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["result.json", "stdout", "worker.lock"]);
    assert_eq!(adopt(&home).await, Some(end), "a daemon that died before the COMMIT finds it");
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_an_error_with_its_reason() {
    let home = TestHome::new();
    let daemon = home.daemon();
    let run = |attempt, command| {
        daemon.task_run(home.process(attempt), command, None, CancellationToken::new())
    };
    let missing = ShellCommand { program: "no-such-program".to_owned(), ..home.command("") };
    let error = run(1, missing).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
    let nowhere = ShellCommand { cwd: "/no/such".into(), ..home.command("") };
    let error = run(2, nowhere).await.unwrap_err();
    assert_eq!(error.to_string(), "the folder `/no/such` does not exist");
    assert_eq!(adopt(&home).await, None);
}

#[tokio::test]
async fn a_killed_worker_has_no_result_and_leaves_no_process() {
    let home = TestHome::new();
    let up = home.pipe("up");
    let (daemon, stop) = (home.daemon(), CancellationToken::new());
    let script = "setsid sh -c 'echo $$ > up; sleep 600' & sleep 601";
    let running = daemon.task_run(home.process(1), home.command(script), None, stop);
    let kill = async {
        line_of(up).await;
        home.worker(&daemon).signal(Signal::KILL).unwrap();
    };
    let (end, ()) = tokio::join!(running, kill);
    assert_eq!(end.unwrap(), None);
    assert_eq!(home.living(), []);
    assert_eq!(adopt(&home).await, None);
}

#[tokio::test]
async fn a_command_continues_without_its_daemon_and_the_next_one_gets_its_end() {
    let home = TestHome::new();
    let (up, go) = (home.pipe("up"), home.pipe("go"));
    let script = "echo $$ > up; read -r line < go; echo over";
    start_and_lose_daemon(&home, script, up).await;
    let (end, ()) = tokio::join!(adopt(&home), release(go));
    assert_eq!(end.unwrap().outcome.stdout, b"over\n");
}

#[tokio::test]
async fn a_worker_that_is_killed_while_no_daemon_runs_leaves_no_process() {
    let home = TestHome::new();
    let up = home.pipe("up");
    let script = "setsid sh -c 'echo $$ > up; sleep 600' & sleep 601";
    start_and_lose_daemon(&home, script, up).await;
    let worker = home.worker(&home.daemon());
    worker.signal(Signal::KILL).unwrap();
    assert_eq!(adopt(&home).await, None);
    assert_eq!(home.living(), []);
}

#[tokio::test]
async fn a_worker_that_locks_after_it_was_given_up_runs_nothing() {
    let home = TestHome::new();
    let daemon = home.daemon();
    let running = daemon.running_task(&home.process(1), RecordedTree::default());
    fs::create_dir_all(running.folder.path()).unwrap();
    assert_eq!(adopt(&home).await, None);
    let job = daemon.command_job(&running, home.command("echo x > proof"), None);
    let log = home.folder.path().join("log");
    let worker = daemon.worker_command(&running.mark, &log).unwrap();
    let line = JobLine::Command(Cow::Owned(job));
    let (mut child, _) = daemon.spawn_with_job(worker, &running.mark, &line, |_| {}).await.unwrap();
    assert!(child.wait().await.unwrap().success(), "{}", fs::read_to_string(log).unwrap());
    assert!(!home.folder.path().join("proof").exists());
    assert!(!running.folder.result().exists());
}

#[tokio::test]
async fn a_timeout_ends_a_grandchild_that_left_its_session_and_its_environment() {
    let home = TestHome::new();
    let up = home.pipe("up");
    let script = "env -i \"$(command -v setsid)\" sh -c 'trap \"\" TERM; echo $$ > up; while :; do sleep 1; done' & wait";
    let (daemon, stop) = (home.daemon(), CancellationToken::new());
    let limit = Some(Span::from_secs(3));
    let running = daemon.task_run(home.process(1), home.command(script), limit, stop);
    let (end, grandchild) = tokio::join!(running, async { process_of(&line_of(up).await) });
    let end = end.unwrap().unwrap();
    assert!(end.timed_out && !end.stopped && end.outcome.status.is_none(), "{end:?}");
    assert!(!grandchild.is_alive());
    assert_eq!(home.living(), []);
}

#[tokio::test]
async fn a_stop_ends_a_command_of_this_daemon_and_of_an_earlier_one() {
    for adopted in [false, true] {
        let home = TestHome::new();
        let up = home.pipe("up");
        let script = "trap '' TERM; env -i \"$(command -v setsid)\" sh -c 'echo $$ > up; sleep 600' & while :; do sleep 1; done";
        let stop = CancellationToken::new();
        let (end, grandchild) = if adopted {
            let line = start_and_lose_daemon(&home, script, up).await;
            let grandchild = process_of(&line);
            stop.cancel();
            let daemon = home.daemon();
            (daemon.task_adopt(home.process(1), stop).await, grandchild)
        } else {
            let daemon = home.daemon();
            let running =
                daemon.task_run(home.process(1), home.command(script), None, stop.clone());
            let halt = async {
                let grandchild = process_of(&line_of(up).await);
                stop.cancel();
                grandchild
            };
            let (end, grandchild) = tokio::join!(running, halt);
            (end.unwrap(), grandchild)
        };
        let end = end.unwrap();
        assert!(end.stopped && !end.timed_out && end.ms > 0, "{adopted}: {end:?}");
        assert!(!grandchild.is_alive(), "{adopted}");
        assert_eq!(home.living(), [], "{adopted}");
    }
}

#[tokio::test]
async fn a_background_process_stays_until_the_run_ends_also_in_another_daemon() {
    let home = TestHome::new();
    let script = "env -i \"$(command -v setsid)\" sleep 600 > /dev/null 2>&1 & echo $!";
    let (daemon, stop) = (home.daemon(), CancellationToken::new());
    let end = daemon.task_run(home.process(1), home.command(script), None, stop).await;
    let stdout = String::from_utf8(end.unwrap().unwrap().outcome.stdout).unwrap();
    let left = process_of(stdout.trim());
    daemon.children.end_untracked(&daemon.grace_period(home.run)).await;
    assert!(left.is_alive(), "the run still lives");
    let next = home.daemon();
    let run = AttemptId::new(home.run.get());
    next.record_left_processes().await.unwrap();
    assert_eq!(next.workers().recorded_attempts(&[left]), [run], "it is never the user");
    assert_eq!(next.run_close(home.run).await, 1);
    assert!(!left.is_alive());
    assert!(!daemon.home.tasks(home.run).exists());
}

#[tokio::test]
async fn a_daemon_that_ends_the_processes_of_a_run_leaves_no_false_result() {
    let home = TestHome::new();
    let up = home.pipe("up");
    start_and_lose_daemon(&home, "echo $$ > up; sleep 600", up).await;
    let ended = home.daemon().attempt_sweep(AttemptId::new(home.run.get())).await;
    assert!(ended >= 2, "{ended}: the worker and the command");
    assert!(adopt(&home).await.unwrap().stopped);
}

#[tokio::test]
async fn a_long_output_without_a_newline_needs_no_memory_in_the_worker() {
    let home = TestHome::new();
    let (up, go) = (home.pipe("up"), home.pipe("go"));
    let script = "echo up > up; head -c 268435456 /dev/zero; echo up > up; read -r line < go";
    let (daemon, stop) = (home.daemon(), CancellationToken::new());
    let running = daemon.task_run(home.process(1), home.command(script), None, stop);
    let measure = async {
        line_of(up.clone()).await;
        let worker = home.worker(&daemon);
        let before = peak_kib(worker.pid);
        line_of(up).await;
        let after = peak_kib(worker.pid);
        assert_eq!(descendants(worker.pid).len(), 1, "the command still runs");
        release(go).await;
        after - before
    };
    let (end, growth) = tokio::join!(running, measure);
    assert_eq!(end.unwrap().unwrap().outcome.stdout.len(), MAX_OUTPUT_BYTES);
    assert!(growth < MAX_GROWTH_KIB, "{growth} KiB");
}

/// Returns the highest resident memory of a process so far.
fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}
