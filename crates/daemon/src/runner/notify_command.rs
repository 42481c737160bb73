//! One command that notifies the user: words without a shell, the notification on stdin, a time limit. It belongs to no
//! run and has no rights of its user towards the daemon, since the daemon is its parent.

use std::{io, process::Stdio, time::Duration};

use agent_worker_host::{Process, descendants, end_processes_off_thread};
use agent_worker_kernel::NotifyPlan;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
};

use super::ProcessRunner;

const MAX_STDERR_BYTES: usize = 4 * 1024;

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
        let ended = tokio::time::timeout(timeout, exchange(&mut child, &stdin)).await;
        let end = if let Ok(end) = ended {
            end
        } else {
            let tree = move || {
                let mut tree = descendants(pid);
                tree.extend(Process::of(pid).filter(|process| process.is_alive()));
                tree
            };
            end_processes_off_thread(tree, Vec::new(), Duration::ZERO).await;
            child.wait().await.map(|_| NotifyCommandEnd::TimedOut)
        };
        self.children.remove(pid);
        end
    }
}

/// Writes the input, and reads the error output until the command ends.
async fn exchange(child: &mut Child, input: &[u8]) -> io::Result<NotifyCommandEnd> {
    let (mut stdin, mut stderr) = (child.stdin.take(), child.stderr.take());
    let write = async {
        if let Some(stdin) = &mut stdin {
            // A command need not read its input.
            let _ = stdin.write_all(input).await;
        }
        drop(stdin);
    };
    let read = async {
        let mut kept = Vec::new();
        let mut part = [0; 1024];
        if let Some(stderr) = &mut stderr {
            while let Ok(n @ 1..) = stderr.read(&mut part).await {
                let room = MAX_STDERR_BYTES.saturating_sub(kept.len());
                kept.extend_from_slice(&part[..n.min(room)]);
            }
        }
        kept
    };
    let ((), stderr, status) = tokio::join!(write, read, child.wait());
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    Ok(NotifyCommandEnd::Exited { status: status?.code(), stderr })
}
