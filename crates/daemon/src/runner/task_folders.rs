//! The folders of the processes of tasks: what their workers wrote, and the end of all of them with their run.
//!
//! A folder stays until its run ends, so that a daemon that dies before the COMMIT of a result leaves the result to the
//! next one.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use agent_worker_host::{CommandFolder, LockFile, Process, marked_processes, run_blocking};
use agent_worker_kernel::{Runner as _, ShellOutcome, TaskCommandEnd, TaskProcess};
use agent_worker_protocol::{CommandEnded, CommandResult, RunId, hash};
use rustix::process::Signal;

use super::{
    ProcessRunner,
    grace_period::GracePeriod,
    worker::{STOP_MARGIN, lock_released},
};

/// Number of bytes of the hash in the name of a folder.
const NAME_BYTES: usize = 16;

/// Result of a worker, with the output of its command.
#[derive(Debug)]
pub(super) enum TaskCommandResult {
    Ended {
        end: TaskCommandEnd,
        /// Living processes that the command left in the background.
        left: Vec<Process>,
    },
    NotStarted(io::Error),
}

/// The processes of the tasks of a run that is being ended.
#[derive(Debug, Default)]
pub(super) struct EndedTasks {
    /// Number of processes that were ended with their workers.
    pub(super) ended: usize,
    /// Processes that commands left in the background.
    pub(super) left: Vec<Process>,
}

impl ProcessRunner {
    /// Returns the folder of a process. Its name is a hash, because the path of a task may be long.
    pub(super) fn task_folder(&self, process: &TaskProcess) -> CommandFolder {
        let TaskProcess { run, key, attempt } = process;
        let path = key.path.as_str().as_bytes();
        let name = hash(&[path, &key.item.to_le_bytes(), &attempt.to_le_bytes()]);
        let name = name[..NAME_BYTES].iter().map(|byte| format!("{byte:02x}"));
        CommandFolder::at(self.home.tasks(*run).join(name.collect::<String>()))
    }

    /// Ends the workers of a run's tasks, each with its tree. Each worker writes that it was stopped: if its processes
    /// got a signal first, it would take their end for a result.
    pub(super) async fn end_task_workers(&self, mark: &str, grace: &GracePeriod) -> EndedTasks {
        let Ok(run) = mark.parse() else { return EndedTasks::default() };
        let (tasks, of) = (self.home.tasks(run), mark.to_owned());
        let stop = move || {
            let held = |lock: &PathBuf| LockFile::is_held(lock).unwrap_or(false);
            let mut locks: Vec<_> = folders_in(&tasks).iter().map(CommandFolder::lock).collect();
            locks.retain(held);
            let count = if locks.is_empty() { 0 } else { marked_processes(&of).len() };
            for lock in &locks {
                stop_worker(holder_of(lock));
            }
            (locks, count)
        };
        let (locks, before) = run_blocking(stop).await.unwrap_or_default();
        let has_ended = !locks.is_empty();
        let released: Vec<_> = locks.into_iter().map(lock_released).collect();
        let all = async {
            for released in released {
                let _ = released.await;
            }
        };
        grace.wait_for(all, STOP_MARGIN).await;
        let (tasks, of) = (self.home.tasks(run), mark.to_owned());
        let look = move || {
            let rest = if has_ended { marked_processes(&of).len() } else { 0 };
            EndedTasks { ended: before.saturating_sub(rest), left: left_in(&tasks) }
        };
        run_blocking(look).await.unwrap_or_default()
    }

    /// Records the processes that commands of tasks left under earlier daemons, so that a caller among them is not taken
    /// for the user. They are no children of this daemon, and their environment may be empty.
    pub(crate) async fn record_left_processes(&self) -> io::Result<()> {
        for run in self.run_log_list().await? {
            let tasks = self.home.tasks(run);
            let Some(left) = run_blocking(move || left_in(&tasks)).await else { return Ok(()) };
            if !left.is_empty() {
                self.workers.register_task(run).add(&left);
            }
        }
        Ok(())
    }

    /// Removes the folders of the processes of a run that has ended.
    pub(super) async fn remove_task_folders(&self, run: RunId) {
        let folder = self.home.tasks(run);
        match run_blocking(move || fs::remove_dir_all(folder)).await {
            Some(Ok(())) | None => {}
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Some(Err(error)) => {
                tracing::error!(%run, %error, "could not remove the files of tasks");
            }
        }
    }
}

fn folders_in(tasks: &Path) -> Vec<CommandFolder> {
    let entries = fs::read_dir(tasks).into_iter().flatten().flatten();
    entries.map(|entry| CommandFolder::at(entry.path())).collect()
}

/// Returns the living processes that the commands of a run left.
fn left_in(tasks: &Path) -> Vec<Process> {
    let folders = folders_in(tasks);
    let ended = folders.iter().filter_map(|folder| read_ended(folder).ok().flatten());
    ended.flat_map(|ended| left_of(&ended)).collect()
}

/// Reads the result of a worker that has released its lock. A result that cannot be read is none.
pub(super) async fn read_result(folder: &CommandFolder) -> Option<TaskCommandResult> {
    let at = folder.clone();
    match run_blocking(move || read_files(&at)).await? {
        Ok(result) => result,
        Err(error) => {
            let folder = folder.path().display();
            tracing::error!(%folder, %error, "could not read the result of a command");
            None
        }
    }
}

fn read_files(folder: &CommandFolder) -> io::Result<Option<TaskCommandResult>> {
    Ok(match read_optional(&folder.result())? {
        None => None,
        Some(text) => Some(match serde_json::from_slice(&text)? {
            CommandResult::Ended(ended) => {
                let stdout = read_optional(&folder.stdout())?.unwrap_or_default();
                let left = left_of(&ended);
                let CommandEnded { status, timed_out, stopped, ms, stderr, left: _ } = ended;
                let outcome = ShellOutcome { status, stdout, stderr };
                TaskCommandResult::Ended {
                    end: TaskCommandEnd { outcome, timed_out, stopped, ms },
                    left,
                }
            }
            CommandResult::NotStarted { why, errno } => {
                TaskCommandResult::NotStarted(match errno {
                    Some(errno) => io::Error::from_raw_os_error(errno),
                    None => io::Error::other(why),
                })
            }
        }),
    })
}

fn read_ended(folder: &CommandFolder) -> io::Result<Option<CommandEnded>> {
    Ok(match read_optional(&folder.result())? {
        None => None,
        Some(text) => match serde_json::from_slice(&text)? {
            CommandResult::Ended(ended) => Some(ended),
            CommandResult::NotStarted { .. } => None,
        },
    })
}

/// Returns the processes that a command left and that still live.
fn left_of(ended: &CommandEnded) -> Vec<Process> {
    let left = ended.left.iter();
    let left = left.map(|left| Process { pid: left.pid, start_time: left.start_time });
    left.filter(|process| process.is_alive()).collect()
}

fn read_optional(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the worker that holds a lock, if it has written its pid.
pub(super) fn holder_of(lock: &Path) -> Option<Process> {
    let holder = LockFile::holder(lock).ok().flatten();
    holder.filter(|pid| *pid != std::process::id()).and_then(Process::of)
}

/// Asks a worker to end its command.
pub(super) fn stop_worker(worker: Option<Process>) {
    if let Some(worker) = worker
        && let Err(error) = worker.signal(Signal::TERM)
    {
        tracing::error!(pid = worker.pid, %error, "could not send SIGTERM to a worker");
    }
}
