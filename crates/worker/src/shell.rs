//! A shell command as a child of the worker, and the last of what it wrote. All of that is in the log as well.
//!
//! A child gets the environment of its job, the attempt's two marks and the way to its daemon, and nothing of the
//! worker's own. It stays in the worker's process group; where its children go is for the end of the tree.

use std::{
    collections::BTreeMap,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    pin::pin,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use agent_worker_host::ATTEMPT_MARKER;
use agent_worker_protocol::WorkerJob;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
    time::timeout,
};

use crate::{log::Log, model::ToolResult, report::Report};

/// The activation, for children whose effects outside the daemon want a key that is stable over attempts.
const ACTIVATION_MARKER: &str = "AGENT_WORKER_ACTIVATION";
/// Where commands find their daemon.
const HOME_VARIABLE: &str = "AGENT_WORKER_HOME";
/// How much of an output is kept: its end.
const KEPT: usize = 64 * 1024;
/// How long an output is read after its command has ended, when a process it left behind holds it open.
const LINGER: Duration = Duration::from_millis(250);

/// Where and with what commands run.
pub(crate) struct Shell {
    cwd: PathBuf,
    env: BTreeMap<String, String>,
}

impl Shell {
    pub(crate) fn new(job: &WorkerJob) -> Self {
        let mut env = job.env.clone();
        env.insert(ATTEMPT_MARKER.to_owned(), job.attempt.to_string());
        env.insert(ACTIVATION_MARKER.to_owned(), job.activation.clone());
        // `agent-worker` in an agent's shell asks the daemon the agent belongs to, not the caller's usual one.
        if let Some(home) = job.socket.parent().and_then(Path::to_str) {
            env.insert(HOME_VARIABLE.to_owned(), home.to_owned());
        }
        Self { cwd: job.cwd.clone(), env }
    }

    /// Runs a command to its end. Its result is its stdout, or how it failed and its stderr.
    pub(crate) async fn run(&self, command: &str, report: &Report, log: &Log) -> ToolResult {
        let child = Command::new("/bin/sh")
            .args(["-c", command])
            .current_dir(&self.cwd)
            .env_clear()
            .envs(&self.env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let watched = match child {
            Ok(child) => watch(child, report, log).await,
            Err(error) => Err(error),
        };
        match watched {
            Ok((status, output, _)) if status.success() => ToolResult::Done(output),
            Ok((status, _, errors)) => {
                ToolResult::Failed(format!("{}: {}", in_words(status), errors.trim()))
            }
            Err(error) => {
                let place = self.cwd.display();
                ToolResult::Failed(format!("could not run a shell in {place}: {error}"))
            }
        }
    }
}

/// Waits for a child and reads what it writes.
async fn watch(
    mut child: Child,
    report: &Report,
    log: &Log,
) -> std::io::Result<(ExitStatus, String, String)> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut output, mut errors) = (Tail::default(), Tail::default());
    let status = {
        let mut reading = pin!(async {
            tokio::join!(output.read(stdout, report, log), errors.read(stderr, report, log));
        });
        tokio::select! {
            () = &mut reading => child.wait().await?,
            status = child.wait() => {
                // What the command itself wrote is in the pipe already.
                let _ = timeout(LINGER, reading).await;
                status?
            }
        }
    };
    Ok((status, output.text(), errors.text()))
}

/// The end of a stream.
#[derive(Default)]
struct Tail(Vec<u8>);

impl Tail {
    /// Reads to the end. One that cannot be read any more has ended.
    async fn read(&mut self, stream: Option<impl AsyncRead + Unpin>, report: &Report, log: &Log) {
        let Some(mut stream) = stream else { return };
        let mut chunk = vec![0; 8 * 1024];
        while let Ok(n @ 1..) = stream.read(&mut chunk).await {
            report.touch();
            log.printed(&chunk[..n]);
            self.push(&chunk[..n]);
        }
    }

    fn push(&mut self, chunk: &[u8]) {
        self.0.extend_from_slice(chunk);
        // Cut rarely: moving the end forward costs as much as reading it did.
        if self.0.len() > 2 * KEPT {
            self.0.drain(..self.0.len() - KEPT);
        }
    }

    fn text(&self) -> String {
        let start = self.0.len().saturating_sub(KEPT);
        String::from_utf8_lossy(&self.0[start..]).into_owned()
    }
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
impl Shell {
    /// One for tests that run nothing.
    pub(crate) fn nowhere() -> Self {
        Self { cwd: PathBuf::new(), env: BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_output_the_end_is_kept() {
        let mut tail = Tail::default();
        for n in 0..100_000 {
            tail.push(format!("{n}\n").as_bytes());
        }
        let text = tail.text();
        assert_eq!(text.len(), KEPT);
        assert!(text.ends_with("99998\n99999\n"));
        assert!(tail.0.len() <= 2 * KEPT);
    }
}
