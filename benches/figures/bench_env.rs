//! A home and a project for a benchmark, the commands that run there, and their daemon.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use agent_worker_host::DaemonSocket;
use anyhow::{Context as _, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::machine;

/// A home and a project. Dropping it stops its daemon and all descendants.
pub(crate) struct BenchEnv {
    folder: TempDir,
    daemon: Option<Child>,
}

impl BenchEnv {
    /// Creates an environment without a daemon.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let folder = machine::folder()?;
        fs::create_dir(folder.path().join("project"))?;
        Ok(Self { folder, daemon: None })
    }

    /// Creates an environment with a running daemon.
    pub(crate) fn with_daemon() -> anyhow::Result<Self> {
        let mut bench_env = Self::new()?;
        bench_env.start()?;
        Ok(bench_env)
    }

    /// Starts the daemon and waits until it reports that it is ready.
    pub(crate) fn start(&mut self) -> anyhow::Result<()> {
        self.start_with(&[])
    }

    /// Starts the daemon with further options.
    pub(crate) fn start_with(&mut self, options: &[&str]) -> anyhow::Result<()> {
        let mut command = self.command(&["daemon", "--announce"]);
        command.args(options);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let stdout = child.stdout.take().context("the daemon has no stdout")?;
        self.daemon = Some(child);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        ensure!(line == "ready\n", "the daemon did not start");
        Ok(())
    }

    /// Stops the daemon and waits for its exit.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut daemon) = self.daemon.take() else { return Ok(()) };
        let asked = self.command(&["daemon", "stop", "--now"]).output()?;
        if !asked.status.success() {
            daemon.kill()?;
        }
        daemon.wait()?;
        Ok(())
    }

    /// Returns a command of the binary under test, in this environment and without the caller's variables.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent-worker"));
        command
            .args(words)
            .current_dir(self.folder.path().join("project"))
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.folder.path())
            .env("AGENT_WORKER_HOME", self.home())
            .env("AGENT_WORKER_PORT", "0")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command that must succeed, and parses its JSON.
    pub(crate) fn json(&self, words: &[&str]) -> anyhow::Result<Value> {
        let output = self.command(words).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{words:?} failed: {said}");
        serde_json::from_slice(&output.stdout).with_context(|| format!("{words:?} printed no JSON"))
    }

    /// Starts a permanent team; returns its run.
    pub(crate) fn team(&self, yaml: &str) -> anyhow::Result<String> {
        self.file("team.yaml", yaml)?;
        let started = self.json(&["start", "team.yaml", "--background", "--json"])?;
        Ok(started["run"].as_str().context("a run without an id")?.to_owned())
    }

    /// Writes a file of the project.
    pub(crate) fn file(&self, name: &str, text: &str) -> anyhow::Result<()> {
        Ok(fs::write(self.folder.path().join("project").join(name), text)?)
    }

    /// Returns a client of the daemon with a connection of its own.
    pub(crate) fn connect(&self) -> DaemonSocket {
        DaemonSocket::at(self.socket())
    }

    /// Returns the path of the daemon's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.home().join("daemon.sock")
    }

    /// Returns the daemon's resident memory in bytes, including the pages of its executable.
    pub(crate) fn resident(&self) -> anyhow::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next());
        let kibibytes: u32 = kibibytes.context("no VmRSS")?.parse()?;
        Ok(f64::from(kibibytes) * 1024.0)
    }

    /// Returns the pid of the daemon.
    pub(crate) fn pid(&self) -> anyhow::Result<u32> {
        Ok(self.daemon.as_ref().context("no daemon runs here")?.id())
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }
}

impl Drop for BenchEnv {
    fn drop(&mut self) {
        // A daemon that cannot be stopped affects only this folder.
        let _ = self.stop();
    }
}
