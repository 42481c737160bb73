//! One command that notifies the user: words without a shell, the notification on stdin, a time limit. It belongs to no
//! run and has no rights of its user towards the daemon, since the daemon is its parent.

use std::{io, process::Stdio, time::Duration};

use agent_worker_host::{Process, descendants, end_processes_off_thread};
use agent_worker_kernel::NotifyPlan;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
};
use tokio_util::sync::CancellationToken;

use super::ProcessRunner;

const MAX_STDERR_BYTES: usize = 4 * 1024;
/// Time for the error output after the command ended: a process that it left may hold the pipe.
const OUTPUT_GRACE: Duration = Duration::from_millis(100);

/// A command line and its input.
#[derive(Debug)]
pub(crate) struct NotifyCommand {
    pub(crate) words: Vec<String>,
    pub(crate) stdin: Vec<u8>,
    pub(crate) timeout: Duration,
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotifyCommandEnd {
    /// The command ended; a signal leaves no status.
    Exited { status: Option<i32>, stderr: String },
    /// The time limit ended the command and its children.
    TimedOut,
}

impl ProcessRunner {
    /// Runs a command in the environment and the folder of a plan.
    pub(crate) async fn run_notify_command(
        &self,
        command: NotifyCommand,
        plan: &NotifyPlan,
    ) -> io::Result<NotifyCommandEnd> {
        let NotifyCommand { words, stdin, timeout } = command;
        let Some((program, args)) = words.split_first() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let folder = if plan.folder.is_dir() { plan.folder.as_path() } else { self.home.root() };
        let mut process = Command::new(program);
        process
            .args(args)
            .current_dir(folder)
            .env_clear()
            .envs(&plan.env)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let (mut child, pid) = self.children.spawn(&mut process)?;
        let end = exchange(&mut child, &stdin, timeout).await;
        if let Ok(NotifyCommandEnd::TimedOut) = end {
            end_command(&mut child, pid).await;
        }
        self.children.remove(pid);
        end
    }
}

/// Writes the input, and reads the error output until the command ends. What it leaves behind may hold the pipes for longer.
async fn exchange(
    child: &mut Child,
    input: &[u8],
    timeout: Duration,
) -> io::Result<NotifyCommandEnd> {
    let (mut stdin, mut stderr) = (child.stdin.take(), child.stderr.take());
    let ended = CancellationToken::new();
    let mut kept = Vec::new();
    let write = async {
        if let Some(stdin) = &mut stdin {
            // A command need not read its input.
            let _ = stdin.write_all(input).await;
        }
        drop(stdin);
    };
    let read = async {
        let mut part = [0; 1024];
        if let Some(stderr) = &mut stderr {
            while let Ok(n @ 1..) = stderr.read(&mut part).await {
                let room = MAX_STDERR_BYTES.saturating_sub(kept.len());
                kept.extend_from_slice(&part[..n.min(room)]);
            }
        }
    };
    let transfer = async {
        let late = async {
            ended.cancelled().await;
            tokio::time::sleep(OUTPUT_GRACE).await;
        };
        tokio::select! {
            _ = async { tokio::join!(write, read) } => {}
            () = late => {}
        }
    };
    let wait = async {
        let status = tokio::time::timeout(timeout, child.wait()).await;
        ended.cancel();
        status
    };
    let (status, ()) = tokio::join!(wait, transfer);
    let Ok(status) = status else { return Ok(NotifyCommandEnd::TimedOut) };
    let stderr = String::from_utf8_lossy(&kept).into_owned();
    Ok(NotifyCommandEnd::Exited { status: status?.code(), stderr })
}

/// Kills a command, its descendants and its process group. `pid` names both until the command is reaped.
async fn end_command(child: &mut Child, pid: u32) {
    if child.id() != Some(pid) {
        return;
    }
    let tree = move || {
        let mut tree = descendants(pid);
        tree.extend(Process::of(pid).filter(|process| process.is_alive()));
        tree
    };
    end_processes_off_thread(tree, Vec::new(), Duration::ZERO).await;
    let group = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        // Orphans of the command are in its group and in no tree. Without one, there is no process to kill.
        let _ = kill_process_group(group, Signal::KILL);
    }
    if let Err(error) = child.wait().await {
        tracing::error!(pid, %error, "could not wait for a command that notifies the user");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a script in a process group of its own.
    fn start(script: &str) -> (Child, u32) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0).stdin(Stdio::piped());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id().unwrap();
        (child, pid)
    }

    #[tokio::test]
    async fn a_command_that_leaves_a_process_ends_with_its_own_status() {
        let (mut child, pid) = start("echo broken >&2; sleep 60 & exit 3");
        let end = exchange(&mut child, b"{}", Duration::from_secs(30)).await.unwrap();
        let stderr = "broken\n".to_owned();
        assert_eq!(end, NotifyCommandEnd::Exited { status: Some(3), stderr });
        // The process that was left keeps the group.
        let group = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        kill_process_group(group, Signal::KILL).unwrap();
    }

    #[tokio::test]
    async fn the_time_limit_ends_the_orphans_of_a_command_too() {
        let (mut child, pid) = start("(sleep 60 & echo $!); exec sleep 60");
        let mut printed = tokio::io::BufReader::new(child.stdout.take().unwrap());
        let mut orphan = String::new();
        tokio::io::AsyncBufReadExt::read_line(&mut printed, &mut orphan).await.unwrap();
        let orphan = Process::of(orphan.trim().parse().unwrap()).unwrap();
        let end = exchange(&mut child, b"", Duration::from_millis(1)).await.unwrap();
        assert_eq!(end, NotifyCommandEnd::TimedOut);
        assert!(orphan.is_alive());
        end_command(&mut child, pid).await;
        assert_eq!(child.id(), None);
        // The pipe ends with its last holder.
        let mut rest = String::new();
        let read = printed.read_to_string(&mut rest);
        tokio::time::timeout(Duration::from_secs(20), read).await.unwrap().unwrap();
    }
}
