//! One setup command: its values are in private files, and its tree ends with it when the run stops.

use std::{
    io,
    path::Path,
    process::Stdio,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use agent_worker_host::{
    ATTEMPT_MARKER, Durability, descendants, marked_processes, write_atomically,
};
use agent_worker_kernel::{ShellCommand, ShellOutcome};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::Command,
};
use tokio_util::sync::CancellationToken;

use super::ProcessRunner;
use crate::home;

/// Maximum size of the kept output of a command; one byte more than a value may have.
pub(super) const MAX_OUTPUT_BYTES: usize = 64 * 1024 * 1024 + 1;
const MAX_STDERR_BYTES: usize = 64 * 1024;
/// Time for which a background process may keep the output of an ended command open.
const OUTPUT_CLOSE_TIMEOUT: Duration = Duration::from_millis(300);

static NEXT_FOLDER_NUMBER: AtomicU64 = AtomicU64::new(0);

impl ProcessRunner {
    pub(super) async fn run_shell(
        &self,
        command: ShellCommand,
        stop: &CancellationToken,
    ) -> io::Result<ShellOutcome> {
        let number = NEXT_FOLDER_NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = self.home.run(command.run).join(format!("setup-{number}"));
        home::create_private_folder(&folder)?;
        let end = self.run_in_folder(&folder, &command, stop).await;
        if let Err(error) = std::fs::remove_dir_all(&folder) {
            tracing::error!(run = %command.run, %error, "could not remove the files of a setup command");
        }
        end
    }

    async fn run_in_folder(
        &self,
        folder: &Path,
        command: &ShellCommand,
        stop: &CancellationToken,
    ) -> io::Result<ShellOutcome> {
        require_cwd(command)?;
        let script = folder.join("script");
        write_atomically(&script, command.prepared.script.as_bytes(), Durability::Machine)?;
        let mark = command.run.to_string();
        let mut shell = Command::new(&command.program);
        shell
            .args(&command.options)
            .arg(&script)
            .current_dir(&command.cwd)
            .env_clear()
            .envs(&command.env)
            .env(ATTEMPT_MARKER, &mark)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (n, file) in command.prepared.files.iter().enumerate() {
            let path = folder.join(format!("value-{n}"));
            write_atomically(&path, file.value.as_bytes(), Durability::Machine)?;
            shell.env(&file.variable, path);
        }
        let (mut child, pid) = self.children.spawn(&mut shell)?;
        // Processes that the command started before this are found only by their mark and their parent.
        self.groups.move_process(&mark, pid).await;
        let stdout = self.collect_output(child.stdout.take());
        let stderr = self.collect_output(child.stderr.take());
        let status = tokio::select! {
            status = child.wait() => status,
            () = stop.cancelled() => {
                let mark = mark.clone();
                let tree = move || [descendants(pid), marked_processes(&mark)].concat();
                self.grace_period(command.run).end_processes(tree, Vec::new()).await;
                child.wait().await
            }
        };
        self.children.remove(pid);
        self.children.adopt_leftovers(&mark).await;
        let (stdout, stderr) = tokio::join!(stdout.finish(), stderr.finish());
        let from = stderr.len().saturating_sub(MAX_STDERR_BYTES);
        let stderr = String::from_utf8_lossy(&stderr[from..]).into_owned();
        Ok(ShellOutcome { status: status?.code(), stdout, stderr })
    }

    fn collect_output(
        &self,
        pipe: Option<impl AsyncRead + Unpin + Send + 'static>,
    ) -> CollectedOutput {
        let (done, read) = tokio::sync::watch::channel(Vec::new());
        let reading = async move {
            let Some(mut pipe) = pipe else { return };
            let mut part = vec![0; 64 * 1024];
            // Read to the end in any case: a command whose pipe is closed dies without a message.
            while let Ok(n @ 1..) = pipe.read(&mut part).await {
                done.send_modify(|all: &mut Vec<u8>| {
                    let remaining = MAX_OUTPUT_BYTES.saturating_sub(all.len());
                    all.extend_from_slice(&part[..n.min(remaining)]);
                });
            }
        };
        CollectedOutput { task: self.children.tracker().spawn(reading), read }
    }
}

/// Returns an error if the working folder of a command does not exist.
pub(super) fn require_cwd(command: &ShellCommand) -> io::Result<()> {
    if command.cwd.is_dir() {
        return Ok(());
    }
    let why = format!("the folder `{}` does not exist", command.cwd.display());
    Err(io::Error::new(io::ErrorKind::NotFound, why))
}

/// The output of a command so far.
struct CollectedOutput {
    task: tokio::task::JoinHandle<()>,
    read: tokio::sync::watch::Receiver<Vec<u8>>,
}

impl CollectedOutput {
    /// Returns the output: all of it, or the part up to the timeout if a background process holds it open.
    async fn finish(self) -> Vec<u8> {
        let abort = self.task.abort_handle();
        if tokio::time::timeout(OUTPUT_CLOSE_TIMEOUT, self.task).await.is_err() {
            abort.abort();
        }
        self.read.borrow().clone()
    }
}
