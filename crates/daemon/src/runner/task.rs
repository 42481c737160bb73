//! The command of a task in a worker of its own: start or adopt, wait, and read its result.
//!
//! Invariant: a process without a result is given up under its lock before its end is reported, so its command never
//! starts after that.

use std::{
    borrow::Cow, fs, io, os::unix::fs::DirBuilderExt as _, process::ExitStatus, time::Duration,
};

use agent_worker_host::{
    CommandFolder, EXIT_SHORTAGE, LockFile, Process, TASK_MARKER, end_processes_off_thread,
    run_blocking, task_processes,
};
use agent_worker_kernel::{ShellCommand, TaskCommandEnd, TaskProcess};
use agent_worker_protocol::{CommandJob, CommandValue, JobLine, Span};
use rustix::io::Errno;
use tokio::process::Child;
use tokio_util::sync::CancellationToken;

use super::{
    ProcessRunner,
    recorded_tree::RecordedTree,
    shell::{MAX_OUTPUT_BYTES, require_cwd},
    task_folders::{TaskCommandResult, holder_of, read_result, stop_worker},
    worker::{STOP_MARGIN, lock_released, record_tree},
};
use crate::home;

/// Output of the workers of a run's tasks, in the folder of the run.
const LOG_FILE: &str = "tasks.log";

/// One process of a task on this machine.
struct RunningTask {
    folder: CommandFolder,
    /// The id of the run, in the environment of every process of the command.
    mark: String,
    /// The task, in the same environments.
    task: String,
    /// The processes below the worker, as far as they were recorded.
    tree: RecordedTree,
}

/// The state of a process whose worker may be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerRemains {
    Result,
    /// No result, and no command will start.
    Nothing,
    /// The worker holds its lock.
    Alive,
}

impl ProcessRunner {
    pub(super) async fn run_task(
        &self,
        process: &TaskProcess,
        command: ShellCommand,
        timeout: Option<Span>,
        stop: &CancellationToken,
    ) -> io::Result<Option<TaskCommandEnd>> {
        if stop.is_cancelled() {
            return Ok(Some(stopped_end()));
        }
        require_cwd(&command)?;
        let running = self.running_task(process, RecordedTree::default());
        let (child, pid) = self.start_task(process, &running, command, timeout).await?;
        let status = self.wait_for_child(process, child, pid, &running, stop).await;
        self.children.remove(pid);
        match self.finish_task(process, &running).await {
            Some(TaskCommandResult::Ended { end, .. }) => Ok(Some(end)),
            Some(TaskCommandResult::NotStarted(error)) => Err(error),
            None if stop.is_cancelled() => Ok(Some(stopped_end())),
            // The script is written last. Afterwards the worker may have started the command.
            None if is_shortage(&status) && !running.folder.script().exists() => {
                Err(Errno::AGAIN.into())
            }
            None => {
                let status = status.map_or_else(|error| error.to_string(), |it| it.to_string());
                tracing::error!(task = running.task, status, "a worker ended without a result");
                Ok(None)
            }
        }
    }

    pub(super) async fn adopt_task(
        &self,
        process: &TaskProcess,
        stop: &CancellationToken,
    ) -> Option<TaskCommandEnd> {
        let running = self.running_task(process, self.workers.register_task(process.run));
        while running.give_up_if_gone().await == WorkerRemains::Alive {
            self.wait_for_adopted(process, &running, stop).await;
        }
        match self.finish_task(process, &running).await {
            Some(TaskCommandResult::Ended { end, left }) => {
                running.tree.add(&left);
                Some(end)
            }
            // The same start fails again, with its reason.
            Some(TaskCommandResult::NotStarted(_)) | None => stop.is_cancelled().then(stopped_end),
        }
    }

    fn running_task(&self, process: &TaskProcess, tree: RecordedTree) -> RunningTask {
        let TaskProcess { run, key, attempt: _ } = process;
        let mark = run.to_string();
        let task = match key.item {
            0 => format!("{mark}/{}", key.path),
            item => format!("{mark}/{}/{item}", key.path),
        };
        RunningTask { folder: self.task_folder(process), mark, task, tree }
    }

    async fn start_task(
        &self,
        process: &TaskProcess,
        running: &RunningTask,
        command: ShellCommand,
        timeout: Option<Span>,
    ) -> io::Result<(Child, u32)> {
        let folder = running.folder.path();
        home::create_private_folder(&self.home.tasks(process.run))?;
        // An error if the process was started before.
        fs::DirBuilder::new().mode(0o700).create(folder)?;
        let job = self.command_job(running, command, timeout);
        let started = async {
            let log = self.home.run(process.run).join(LOG_FILE);
            let mut worker = self.worker_command(&running.mark, &log)?;
            worker.env(TASK_MARKER, &running.task);
            let line = JobLine::Command(Cow::Owned(job));
            self.spawn_with_job(worker, &running.mark, &line, |_| {}).await
        };
        let started = started.await;
        if started.is_err() {
            // Nothing is in it. An error leaves an empty folder until the run ends.
            let _ = fs::remove_dir_all(folder);
        }
        started
    }

    fn command_job(
        &self,
        running: &RunningTask,
        command: ShellCommand,
        timeout: Option<Span>,
    ) -> CommandJob {
        let files = command.prepared.files.into_iter();
        let values = files.map(|file| CommandValue { variable: file.variable, value: file.value });
        let kill_grace = u64::try_from(self.kill_grace.as_millis()).unwrap_or(u64::MAX);
        CommandJob {
            folder: running.folder.path().to_owned(),
            mark: running.mark.clone(),
            task: running.task.clone(),
            script: command.prepared.script,
            values: values.collect(),
            program: command.program,
            options: command.options,
            cwd: command.cwd,
            env: command.env,
            timeout,
            kill_grace: Span::from_millis(kill_grace),
            max_stdout: MAX_OUTPUT_BYTES as u64,
        }
    }

    async fn wait_for_child(
        &self,
        process: &TaskProcess,
        mut child: Child,
        pid: u32,
        running: &RunningTask,
        stop: &CancellationToken,
    ) -> io::Result<ExitStatus> {
        tokio::select! {
            status = child.wait() => return status,
            () = stop.cancelled() => {}
        }
        let worker = Process::of(pid);
        stop_worker(worker);
        self.grace_period(process.run).wait_for(child.wait(), STOP_MARGIN).await;
        if !matches!(child.try_wait(), Ok(Some(_))) {
            running.kill(worker).await;
        }
        child.wait().await
    }

    /// Waits for the worker of an earlier daemon.
    async fn wait_for_adopted(
        &self,
        process: &TaskProcess,
        running: &RunningTask,
        stop: &CancellationToken,
    ) {
        let lock = running.folder.lock();
        let worker = holder_of(&lock);
        let mut gone = lock_released(lock);
        tokio::select! {
            _ = &mut gone => return,
            () = record_tree(worker, &running.tree) => {}
            () = stop.cancelled() => {}
        }
        stop_worker(worker);
        self.grace_period(process.run).wait_for(&mut gone, STOP_MARGIN).await;
        if running.give_up_if_gone().await == WorkerRemains::Alive {
            running.kill(worker).await;
        }
    }

    /// Reads the result of a worker that is gone. Without one, the process is given up and nothing of it runs any more;
    /// otherwise the processes that its command left are kept for the run.
    async fn finish_task(
        &self,
        process: &TaskProcess,
        running: &RunningTask,
    ) -> Option<TaskCommandResult> {
        let result = read_result(&running.folder).await;
        match &result {
            Some(TaskCommandResult::Ended { left, .. }) => self.children.keep(left, &running.mark),
            Some(TaskCommandResult::NotStarted(_)) => {}
            None => {
                running.give_up_if_gone().await;
                running.kill(None).await;
                // The processes of a killed worker are now children of this daemon, whatever their environment is.
                self.children.end_untracked(&self.grace_period(process.run)).await;
                running.folder.remove_values();
            }
        }
        result
    }
}

impl RunningTask {
    /// Gives the process up, unless its worker holds its lock or has written a result.
    async fn give_up_if_gone(&self) -> WorkerRemains {
        let folder = self.folder.clone();
        let checked = run_blocking(move || {
            LockFile::while_free(&folder.lock(), || {
                if folder.result().exists() {
                    return Ok(WorkerRemains::Result);
                }
                fs::File::create(folder.given_up())?;
                Ok(WorkerRemains::Nothing)
            })
        });
        match checked.await {
            Some(Ok(Some(remains))) => remains,
            Some(Ok(None)) => WorkerRemains::Alive,
            // Without its folder no worker was started.
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => WorkerRemains::Nothing,
            // The caller ends all processes of the command, so also a worker that would take the lock later.
            Some(Err(error)) => {
                tracing::error!(task = self.task, %error, "could not give up a worker");
                WorkerRemains::Nothing
            }
            // The daemon is ending, and so is the caller.
            None => WorkerRemains::Nothing,
        }
    }

    /// Kills the processes of the command and its worker.
    async fn kill(&self, worker: Option<Process>) {
        let (mark, task, tree) = (self.mark.clone(), self.task.clone(), self.tree.clone());
        let find = move || {
            if let Some(worker) = worker {
                tree.record(worker);
            }
            let mut all = task_processes(&mark, &task);
            all.extend(tree.living());
            all.extend(worker.filter(|worker| worker.is_alive()));
            all.sort_unstable();
            all.dedup();
            all
        };
        end_processes_off_thread(find, Vec::new(), Duration::ZERO).await;
    }
}

/// Returns the end of a command that was stopped before it had a result.
fn stopped_end() -> TaskCommandEnd {
    TaskCommandEnd { stopped: true, ..TaskCommandEnd::default() }
}

/// Returns true if a worker ended because the machine lacked a resource.
fn is_shortage(status: &io::Result<ExitStatus>) -> bool {
    matches!(status, Ok(status) if status.code() == Some(i32::from(EXIT_SHORTAGE)))
}

#[cfg(test)]
mod tests;
