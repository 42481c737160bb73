//! External processes: workers, of attempts and of tasks, and setup commands, found again after a restart and ended as whole trees.
//!
//! Invariant: a worker is alive while its lock is held, whichever daemon started it.

mod cgroups;
mod child_registry;
mod evaluators;
mod grace_period;
mod notify_command;
mod recorded_tree;
mod shell;
mod task;
mod task_folders;
mod worker;
mod worker_processes;

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Seek as _},
    path::{Path, PathBuf},
    time::Duration,
};

use agent_worker_expressions::{EvaluationError, EvaluationRequest, ExpressionValue};
use agent_worker_host::{
    Durability, LockFile, attempt_marks, is_shortage, marked_processes, own_program, run_blocking,
    write_atomically,
};
use agent_worker_kernel::{
    AttemptPaths, EventTail, NotifyPlan, ProcessMark, ProcessOrigin, RunFiles, Runner,
    ShellCommand, ShellOutcome, TaskCommandEnd, TaskProcess, WorkerExit, WorkerLiveness,
};
use agent_worker_protocol::{
    AttemptId, BadEventLine, NumberedEvent, RunId, Span, WorkerJob, api::ProcessTracking,
};
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::{
    files::{self, FolderWatcher, SyncOutcome},
    home::{self, DaemonHome},
    notify::{NotifyFolder, NotifyQueue},
};
pub(crate) use cgroups::Cgroups;
pub use cgroups::Tracking;
use child_registry::ChildRegistry;
use evaluators::Evaluators;
use grace_period::{GraceOverride, GracePeriod};
pub(crate) use notify_command::{NotifyCommand, NotifyCommandEnd};
pub(crate) use worker_processes::{WorkerEvidence, WorkerProcesses};

/// Runs workers and setup commands as processes of this machine.
#[derive(Clone)]
pub(crate) struct ProcessRunner {
    home: DaemonHome,
    /// Path of our own binary that survives its replacement on disk.
    exe: PathBuf,
    kill_grace: Duration,
    grace_override: GraceOverride,
    children: ChildRegistry,
    groups: Cgroups,
    workers: WorkerProcesses,
    evaluators: Evaluators,
    folder_watcher: FolderWatcher,
    notify_folder: NotifyFolder,
    notify_queue: NotifyQueue,
}

impl ProcessRunner {
    pub(crate) fn new(home: DaemonHome, kill_grace: Duration, groups: Cgroups) -> Self {
        let (grace_override, children) = (GraceOverride::default(), ChildRegistry::default());
        let folder_watcher = FolderWatcher::default();
        let notify_folder = NotifyFolder::of_home(home.root());
        Self {
            home,
            exe: own_program(),
            kill_grace,
            grace_override,
            children,
            groups,
            workers: WorkerProcesses::default(),
            evaluators: Evaluators::default(),
            folder_watcher,
            notify_folder,
            notify_queue: NotifyQueue::default(),
        }
    }

    /// Returns the register of the workers, for the identification of callers.
    pub(crate) fn workers(&self) -> WorkerProcesses {
        self.workers.clone()
    }

    /// Returns the folder of the notifications.
    pub(crate) fn notify_folder(&self) -> NotifyFolder {
        self.notify_folder.clone()
    }

    /// Returns the runs whose notifications must start.
    pub(crate) fn notify_queue(&self) -> NotifyQueue {
        self.notify_queue.clone()
    }

    fn env_file(&self, run: RunId) -> PathBuf {
        self.home.run(run).join("env.json")
    }

    /// Returns the path of the marker that exists while files may be behind their run.
    fn files_marker(&self, run: RunId) -> PathBuf {
        self.home.run(run).join("files.due")
    }

    fn worker_lock(&self, run: RunId, attempt: AttemptId) -> PathBuf {
        self.home.attempt(run, attempt).join("worker.lock")
    }

    /// Returns the grace period for the processes of a run.
    fn grace_period(&self, run: RunId) -> GracePeriod {
        self.grace_override.grace_period(run, self.kill_grace)
    }

    /// Ends all processes that carry `mark`, are in its control group or were kept for its run, and the orphans
    /// that the daemon inherited. Returns the number of processes of `mark`.
    async fn sweep(&self, mark: &str, grace: &GracePeriod) -> u32 {
        let tasks = self.end_task_workers(mark, grace).await;
        let (children, groups, of) = (self.children.clone(), self.groups.clone(), mark.to_owned());
        let theirs = move || {
            let mut all = marked_processes(&of);
            all.extend(children.kept_of(&of));
            all.extend(groups.processes(&of));
            all.extend(tasks.left.iter().filter(|left| left.is_alive()));
            all.sort_unstable();
            all.dedup();
            all
        };
        let ended = tasks.ended + grace.end_processes(theirs, self.groups.groups_of(mark)).await;
        self.children.end_untracked(grace).await;
        self.groups.remove(mark).await;
        u32::try_from(ended).unwrap_or(u32::MAX)
    }
}

#[async_trait]
impl Runner for ProcessRunner {
    async fn run_open(&self, run: RunId, env: BTreeMap<String, String>) -> io::Result<()> {
        home::create_private_folder(&self.home.run(run))?;
        write_atomically(&self.env_file(run), &serde_json::to_vec(&env)?, Durability::Machine)
    }

    async fn run_env(&self, run: RunId) -> io::Result<BTreeMap<String, String>> {
        Ok(serde_json::from_slice(&tokio::fs::read(self.env_file(run)).await?)?)
    }

    async fn run_close(&self, run: RunId) -> u32 {
        self.evaluators.close(run);
        let ended = self.sweep(&run.to_string(), &self.grace_period(run)).await;
        self.grace_override.forget_run(run);
        self.workers.remove_tasks(run);
        // Not earlier: a daemon that dies between the end of a command and the COMMIT of its result leaves the result to the
        // next one.
        self.remove_task_folders(run).await;
        match std::fs::remove_file(self.env_file(run)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::error!(%run, %error, "could not remove the environment file of a run");
            }
        }
        ended
    }

    fn run_skip_grace(&self, run: RunId) {
        self.grace_override.skip_run(run);
    }

    fn attempt_skip_grace(&self, run: RunId, attempt: AttemptId) {
        self.grace_override.skip_attempt(run, attempt);
    }

    async fn run_log_list(&self) -> io::Result<Vec<RunId>> {
        let entries = std::fs::read_dir(self.home.runs())?.flatten();
        Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
    }

    async fn run_log_erase(&self, run: RunId) -> io::Result<()> {
        tokio::fs::remove_dir_all(self.home.run(run)).await
    }

    async fn notify_open(&self, run: RunId, plan: NotifyPlan) -> io::Result<()> {
        self.notify_folder.create(run, plan)
    }

    fn notify_start(&self, run: RunId) {
        self.notify_queue.push(run);
    }

    async fn notify_close(&self, run: RunId) {
        self.notify_folder.remove(run);
    }

    fn hold_is_set(&self) -> bool {
        self.home.hold_mark().is_set()
    }

    async fn hold_clear(&self) -> io::Result<()> {
        let mark = self.home.hold_mark();
        run_blocking(move || mark.clear()).await.unwrap_or(Err(io::ErrorKind::Interrupted.into()))
    }

    fn files_mark_pending(&self, run: RunId) {
        if let Err(error) = std::fs::write(self.files_marker(run), "") {
            tracing::error!(%run, %error, "could not mark the files of a run as pending");
        }
    }

    fn files_pending(&self, run: RunId) -> bool {
        self.files_marker(run).exists()
    }

    async fn files_sync(&self, files: RunFiles, stop: CancellationToken) {
        let mark = self.files_marker(files.run);
        match files::sync_files(files, self.folder_watcher.clone(), stop).await {
            SyncOutcome::Incomplete => {}
            // If the run was deleted meanwhile, the marker is already gone.
            SyncOutcome::Complete => _ = std::fs::remove_file(mark),
        }
    }

    fn attempt_paths(&self, run: RunId, attempt: AttemptId) -> AttemptPaths {
        AttemptPaths { folder: self.home.attempt(run, attempt), socket: self.home.socket() }
    }

    async fn attempt_run(&self, run: RunId, job: WorkerJob, stop: CancellationToken) -> WorkerExit {
        let lock = self.worker_lock(run, job.attempt);
        let grace = self.grace_period(run).for_attempt(job.attempt);
        let departure = self.start_worker(&job, &lock, &stop, &grace).await;
        self.grace_override.forget_attempt(run, job.attempt);
        departure
    }

    async fn attempt_probe(&self, run: RunId, attempt: AttemptId) -> WorkerLiveness {
        match LockFile::is_held(&self.worker_lock(run, attempt)) {
            Ok(true) => WorkerLiveness::Alive,
            Ok(false) => WorkerLiveness::Gone,
            Err(error) => {
                tracing::error!(%attempt, %error, "could not check a worker's lock");
                WorkerLiveness::Gone
            }
        }
    }

    async fn attempt_adopt(
        &self,
        run: RunId,
        attempt: AttemptId,
        stop: CancellationToken,
    ) -> WorkerExit {
        let lock = self.worker_lock(run, attempt);
        let grace = self.grace_period(run).for_attempt(attempt);
        let departure = self.adopt_worker(attempt, lock, &stop, &grace).await;
        self.grace_override.forget_attempt(run, attempt);
        departure
    }

    async fn attempt_events(
        &self,
        run: RunId,
        attempt: AttemptId,
        after: i64,
    ) -> io::Result<EventTail> {
        let path = self.home.attempt(run, attempt).join("events.jsonl");
        match tokio::fs::read(&path).await {
            Ok(text) => Ok(events_after(&text, after)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(EventTail::default()),
            Err(error) => Err(error),
        }
    }

    async fn attempt_log(
        &self,
        run: RunId,
        attempt: AttemptId,
        after: u64,
        most: usize,
    ) -> io::Result<Vec<u8>> {
        let path = self.attempt_paths(run, attempt).folder.join(worker::LOG_FILE);
        let read = move || match std::fs::File::open(path) {
            Ok(mut file) => {
                file.seek(io::SeekFrom::Start(after))?;
                let mut bytes = Vec::new();
                file.take(most as u64).read_to_end(&mut bytes)?;
                Ok(bytes)
            }
            // The worker has not printed anything, or its log was deleted with its run's.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
    }

    async fn attempt_log_path(&self, run: RunId, attempt: AttemptId) -> Option<PathBuf> {
        let path = self.attempt_paths(run, attempt).folder.join(worker::LOG_FILE);
        tokio::fs::try_exists(&path).await.unwrap_or(false).then_some(path)
    }

    async fn process_marks(&self) -> Vec<ProcessMark> {
        let groups = self.groups.clone();
        let found = run_blocking(move || (attempt_marks(), groups.marks())).await;
        let (carried, grouped) = found.unwrap_or_default();
        let carried = carried.iter().map(|mark| (mark, ProcessOrigin::Unknown));
        let all = carried.chain(grouped.iter().map(|mark| (mark, ProcessOrigin::ThisHome)));
        all.filter_map(|(mark, origin)| Some(ProcessMark { id: mark.parse().ok()?, origin }))
            .collect()
    }

    async fn attempt_sweep(&self, attempt: AttemptId) -> u32 {
        // If the mark is that of a run, its grace period may have been cut short.
        let grace = self.grace_period(RunId::new(attempt.get()));
        self.sweep(&attempt.to_string(), &grace).await
    }

    fn process_tracking(&self) -> Option<ProcessTracking> {
        Some(self.groups.tracking())
    }

    fn is_shortage(&self, error: &io::Error) -> bool {
        is_shortage(error)
    }

    fn link_target(&self, path: &Path) -> Option<PathBuf> {
        std::fs::read_link(path).ok()
    }

    async fn expression_evaluate(
        &self,
        run: RunId,
        request: EvaluationRequest<'_>,
    ) -> Result<ExpressionValue, EvaluationError> {
        let starter = (self.exe.clone(), self.children.clone());
        self.evaluators.evaluate(run, request, starter).await
    }

    async fn shell_run(
        &self,
        command: ShellCommand,
        stop: CancellationToken,
    ) -> io::Result<ShellOutcome> {
        self.run_shell(command, &stop).await
    }

    async fn task_run(
        &self,
        process: TaskProcess,
        command: ShellCommand,
        timeout: Option<Span>,
        stop: CancellationToken,
    ) -> io::Result<Option<TaskCommandEnd>> {
        self.run_task(&process, command, timeout, &stop).await
    }

    async fn task_adopt(
        &self,
        process: TaskProcess,
        stop: CancellationToken,
    ) -> Option<TaskCommandEnd> {
        self.adopt_task(&process, &stop).await
    }
}

/// Reads the events that follow `after` without a gap, up to the first line that does not match its checksum. A
/// line that is torn, or was never an event, is skipped: the writing process may be killed at any byte, and an
/// agent can modify the file.
fn events_after(text: &[u8], after: i64) -> EventTail {
    let mut tail = EventTail::default();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let last = tail.events.last().map_or(after, |event| event.no);
        match NumberedEvent::from_line(line) {
            Ok(event) if event.no == last + 1 => tail.events.push(event),
            Ok(_) | Err(BadEventLine::NotAnEvent) => {}
            Err(BadEventLine::Damaged) => {
                tail.damaged = Some(format!("line {number} of events.jsonl is damaged"));
                break;
            }
        }
    }
    tail
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::pin, task::Poll};

    use agent_worker_protocol::{Millis, WorkerEvent};

    use super::*;

    /// Returns true if `work` leaves the thread that awaits it: with no other thread available, it makes no
    /// progress.
    async fn leaves_thread_free<T>(work: impl Future<Output = T>) -> bool {
        let mut work = pin!(work);
        let (release, wait) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || wait.recv().ok());
        let aside = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_pending())).await;
        drop(release);
        if aside {
            work.await;
        }
        aside
    }

    #[test]
    fn looking_at_every_process_leaves_the_runtimes_threads_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let home = DaemonHome::open(folder.path()).unwrap();
        let groups = Cgroups::open(&home, Tracking::Tree);
        let processes = ProcessRunner::new(home, Duration::ZERO, groups);
        let attempt = AttemptId::new(uuid::Uuid::now_v7());
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().max_blocking_threads(1).build().unwrap().block_on(async {
            assert!(leaves_thread_free(processes.process_marks()).await);
            assert!(leaves_thread_free(processes.attempt_sweep(attempt)).await);
            let grace = processes.grace_period(RunId::new(attempt.get()));
            assert!(leaves_thread_free(processes.children.end_untracked(&grace)).await);
            assert!(leaves_thread_free(processes.children.adopt_leftovers("x")).await);
        });
    }

    #[test]
    fn what_is_torn_or_missing_is_no_event() {
        let event = |no| {
            format!(r#"{{"no":{no},"ts":"2026-01-01T00:00:00.000Z","kind":"retry","why":"x"}}"#)
        };
        let torn =
            [format!("{}\n{}\n{}", event(1), event(2), &event(3)[..20]).as_bytes(), &[0xe4, 0xb8]]
                .concat();
        let numbers = |text: &[u8], after| -> Vec<i64> {
            events_after(text, after).events.iter().map(|event| event.no).collect()
        };
        assert_eq!(numbers(&torn, 0), [1, 2]);
        assert_eq!(numbers(&torn, 1), [2]);
        let noise = format!("{}\nnoise\n{}\n{}\n", event(1), event(2), event(4));
        assert_eq!(numbers(noise.as_bytes(), 0), [1, 2], "a gap ends it");
    }

    #[test]
    fn nothing_after_a_damaged_line_is_trusted() {
        let event = |no: i64| {
            let event = WorkerEvent::Retry { why: format!("number {no}") };
            NumberedEvent { no, ts: Millis::new(no), event }
        };
        let mut text = Vec::new();
        for no in 1..=3 {
            text.extend(event(no).to_line().unwrap());
        }
        assert_eq!(events_after(&text, 0).damaged, None);
        let place = text.windows(8).position(|part| part == b"number 2").unwrap() + 7;
        text[place] = b'9';
        let tail = events_after(&text, 0);
        assert_eq!(tail.events, [event(1)]);
        assert_eq!(tail.damaged.as_deref(), Some("line 2 of events.jsonl is damaged"));
    }
}
