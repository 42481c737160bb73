//! Where and with what the programs of an attempt run, and the end of what they write.
//!
//! A program gets the environment of its job, the attempt's two marks and the way to its daemon, and nothing of the
//! worker's own. It stays in the worker's process group; where its children go is for the end of the tree.

use std::{
    collections::BTreeMap,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use agent_worker_host::ATTEMPT_MARKER;
use agent_worker_protocol::WorkerJob;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::Command,
};

use crate::{event_reporter::EventReporter, worker_log::WorkerLog};

/// The activation, for children whose effects outside the daemon want a key that is stable over attempts.
const ACTIVATION_MARKER: &str = "AGENT_WORKER_ACTIVATION";
/// Where commands find their daemon.
const HOME_VARIABLE: &str = "AGENT_WORKER_HOME";
/// How much of an output is kept: its end.
const MAX_TAIL_BYTES: usize = 64 * 1024;
/// How long an output is read after its program has ended, when a process it left behind holds it open.
pub(crate) const PIPE_DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// Where and with what programs run.
#[derive(Clone, Default)]
pub(crate) struct ChildEnv {
    pub(crate) cwd: PathBuf,
    pub(crate) env: BTreeMap<String, String>,
}

impl ChildEnv {
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

    /// A program that is about to run here. What it writes is read.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.cwd)
            .env_clear()
            .envs(&self.env)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Where a program of this name is, by the agent's own `PATH`.
    pub(crate) fn find_program(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(self.cwd.join(name)).filter(|path| path.is_file());
        }
        let folders = self.env.get("PATH")?;
        let candidates =
            std::env::split_paths(folders).map(|folder| self.cwd.join(folder).join(name));
        candidates.into_iter().find(|path| path.is_file())
    }
}

/// The end of a stream.
#[derive(Default)]
pub(crate) struct OutputTail(Vec<u8>);

impl OutputTail {
    /// Reads to the end. One that cannot be read any more has ended.
    pub(crate) async fn read(
        &mut self,
        stream: Option<impl AsyncRead + Unpin>,
        report: &EventReporter,
        log: &WorkerLog,
    ) {
        let Some(mut stream) = stream else { return };
        let mut chunk = vec![0; 8 * 1024];
        while let Ok(n @ 1..) = stream.read(&mut chunk).await {
            report.touch();
            log.write_output(&chunk[..n]);
            self.push(&chunk[..n]);
        }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.0.extend_from_slice(chunk);
        // Cut rarely: moving the end forward costs as much as reading it did.
        if self.0.len() > 2 * MAX_TAIL_BYTES {
            self.0.drain(..self.0.len() - MAX_TAIL_BYTES);
        }
    }

    pub(crate) fn text(&self) -> String {
        let start = self.0.len().saturating_sub(MAX_TAIL_BYTES);
        String::from_utf8_lossy(&self.0[start..]).into_owned()
    }
}

/// How a process ended.
pub(crate) fn exit_status_text(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_output_the_end_is_kept() {
        let mut tail = OutputTail::default();
        for n in 0..100_000 {
            tail.push(format!("{n}\n").as_bytes());
        }
        let text = tail.text();
        assert_eq!(text.len(), MAX_TAIL_BYTES);
        assert!(text.ends_with("99998\n99999\n"));
        assert!(tail.0.len() <= 2 * MAX_TAIL_BYTES);
    }
}
