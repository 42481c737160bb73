//! Working folder and environment of the programs of an attempt, and the tail of their output.
//!
//! A program gets the environment of its job, the two markers of the attempt and the location of its daemon, and no
//! other variable of the worker. The program stays in the worker's process group; its children may leave the group,
//! because the worker ends the whole process tree.

use std::{
    collections::BTreeMap,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use agent_worker_backends::endpoint_variables;
use agent_worker_host::{ATTEMPT_MARKER, ProgramDefect, find_program};
use agent_worker_protocol::WorkerJob;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::Command,
};

use crate::{event_reporter::EventReporter, worker_log::WorkerLog};

/// Variable with the activation: a key, stable over attempts, for effects of children outside the daemon.
const ACTIVATION_MARKER: &str = "AGENT_WORKER_ACTIVATION";
/// Variable from which commands locate their daemon.
const HOME_VARIABLE: &str = "AGENT_WORKER_HOME";
/// Maximum size of the kept tail of an output.
const MAX_TAIL_BYTES: usize = 64 * 1024;
/// Time to read an output after its program has ended, if a process that it left behind holds the pipe open.
pub(crate) const PIPE_DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// Variables that name a proxy.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// Working folder and environment of programs.
#[derive(Clone, Default)]
pub(crate) struct ChildEnv {
    pub(crate) cwd: PathBuf,
    pub(crate) env: BTreeMap<String, String>,
}

impl ChildEnv {
    pub(crate) fn new(job: &WorkerJob) -> Self {
        let mut env = job.env.clone();
        // The worker alone calls the model.
        for name in endpoint_variables(&job.backend) {
            env.remove(&name);
        }
        env.insert(ATTEMPT_MARKER.to_owned(), job.attempt.to_string());
        env.insert(ACTIVATION_MARKER.to_owned(), job.activation.clone());
        // `agent-worker` in an agent's shell calls the daemon of the agent, not the user's default daemon.
        if let Some(home) = job.socket.parent().and_then(Path::to_str) {
            env.insert(HOME_VARIABLE.to_owned(), home.to_owned());
        }
        bypass_proxy_for_loopback(&mut env);
        Self { cwd: job.cwd.clone(), env }
    }

    /// Returns a command that runs in this environment, with its outputs piped.
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

    /// Finds a program by the `PATH` of the agent, or by its own path.
    pub(crate) fn find_program(&self, name: &str) -> Result<PathBuf, ProgramDefect> {
        let path = self.env.get("PATH").map(String::as_str).unwrap_or_default();
        find_program(name, &self.cwd, path)
    }
}

/// Exempts loopback from a proxy of the environment: programs would send the calls of the team's tools to the proxy.
fn bypass_proxy_for_loopback(env: &mut BTreeMap<String, String>) {
    if !PROXY_VARIABLES.iter().any(|name| env.get(*name).is_some_and(|proxy| !proxy.is_empty())) {
        return;
    }
    for name in ["NO_PROXY", "no_proxy"] {
        let exempt = env.get(name).map(String::as_str).unwrap_or_default();
        let exempt = exempt.split(',').map(str::trim).filter(|host| !host.is_empty());
        let mut exempt: Vec<String> = exempt.map(str::to_owned).collect();
        for host in ["127.0.0.1", "localhost"] {
            if !exempt.iter().any(|one| one == host) {
                exempt.push(host.to_owned());
            }
        }
        env.insert(name.to_owned(), exempt.join(","));
    }
}

/// The tail of a stream.
#[derive(Default)]
pub(crate) struct OutputTail(Vec<u8>);

impl OutputTail {
    /// Reads to the end. A read error counts as the end.
    pub(crate) async fn read(
        &mut self,
        stream: Option<impl AsyncRead + Unpin>,
        report: &EventReporter,
        log: &WorkerLog,
    ) {
        self.read_and_watch(stream, report, log, |_| ()).await;
    }

    /// Reads to the end, and passes each piece on.
    pub(crate) async fn read_and_watch(
        &mut self,
        stream: Option<impl AsyncRead + Unpin>,
        report: &EventReporter,
        log: &WorkerLog,
        watch: impl Fn(&[u8]),
    ) {
        let Some(mut stream) = stream else { return };
        let mut chunk = vec![0; 8 * 1024];
        while let Ok(n @ 1..) = stream.read(&mut chunk).await {
            report.touch();
            log.write_output(&chunk[..n]);
            self.push(&chunk[..n]);
            watch(&chunk[..n]);
        }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        self.0.extend_from_slice(chunk);
        // Cuts rarely, because moving the tail forward costs as much as reading it did.
        if self.0.len() > 2 * MAX_TAIL_BYTES {
            self.0.drain(..self.0.len() - MAX_TAIL_BYTES);
        }
    }

    pub(crate) fn text(&self) -> String {
        let start = self.0.len().saturating_sub(MAX_TAIL_BYTES);
        String::from_utf8_lossy(&self.0[start..]).into_owned()
    }
}

/// Describes the exit status of a process.
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
    fn the_key_and_the_endpoint_of_a_model_reach_no_child() {
        let env = [
            ("PATH", "/bin"),
            ("OPENAI_API_KEY", "k"),
            ("OPENAI_BASE_URL", "http://o"),
            ("MINE", "m"),
            ("TEAM", "t"),
            ("HTTPS_PROXY", ""),
        ];
        let env: BTreeMap<_, _> = env.into();
        let backend = serde_json::json!({"backend": "api", "provider": "openai", "model": "m",
            "api_key": "$MINE", "headers": {"x-team": "${TEAM}"}});
        let job = serde_json::json!({
            "attempt": uuid::Uuid::nil(), "activation": "coder/7", "number": 1, "agent": "coder",
            "instance": "review:pr-1", "socket": "/home/daemon.sock", "token": "s3cret", "folder": "/f",
            "keep": "/k", "cwd": "/", "env": env, "system_prompt": "", "prompt": "", "woken_by": "",
            "backend": backend,
            "limits": {"wall": "30s", "silence": "30s", "orphan_grace": "30s", "kill_grace": "1s"},
        });
        let job: WorkerJob = serde_json::from_value(job).unwrap();
        let child = ChildEnv::new(&job).env;
        let names: Vec<_> = child.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "AGENT_WORKER_ACTIVATION",
                "AGENT_WORKER_ATTEMPT",
                "AGENT_WORKER_HOME",
                "HTTPS_PROXY",
                "PATH"
            ]
        );
    }

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
