//! Test processes: a shell and its children.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use agent_worker_host::ATTEMPT_MARKER;

/// A pid that no process has: a daemon that is no ancestor of any process.
pub(crate) const UNUSED_PID: u32 = u32::MAX;

/// A shell that reports the pid of a waiting child, and lives until it is dropped.
pub(crate) struct ProcessFamily {
    shell: Child,
    /// Pid of the process under test.
    pub(crate) observed_pid: u32,
}

impl ProcessFamily {
    /// Runs `script`, which prints the pid as its first line; all its processes end when its stdin closes.
    pub(crate) fn new(script: &str, mark: Option<&str>) -> Self {
        let mut command = Command::new("bash");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.env_remove(ATTEMPT_MARKER);
        command.envs(mark.map(|mark| (ATTEMPT_MARKER, mark)));
        let mut shell = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let observed_pid = line.trim().parse().unwrap_or_else(|_| panic!("{script}: {line:?}"));
        Self { shell, observed_pid }
    }

    /// Returns the pid of the shell.
    pub(crate) fn root_pid(&self) -> u32 {
        self.shell.id()
    }

    /// Waits until the shell has ended.
    pub(crate) fn wait(&mut self) {
        self.shell.wait().unwrap();
    }
}

impl Drop for ProcessFamily {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        self.shell.wait().ok();
    }
}
