//! Programs that nobody here wrote, which `scripts/clients` and `scripts/agents` get.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::world::{CommandOutput, record_skip};

const NODE: &str = "node/node_modules/.bin/node";

/// Where they are.
pub(crate) struct ExternalPrograms(PathBuf);

impl ExternalPrograms {
    /// None where they cannot be had.
    pub(crate) fn locate() -> Option<Self> {
        cached("AW_CLIENTS", "clients").map(Self)
    }

    /// None where they cannot be had; then what was not tried is counted.
    pub(crate) fn locate_or_skip(untried: &str) -> Option<Self> {
        let found = Self::locate();
        if found.is_none() {
            record_skip(untried);
        }
        found
    }

    /// What runs scripts of npm's.
    pub(crate) fn node_path(&self) -> PathBuf {
        self.0.join(NODE)
    }

    /// A program of npm's, by the script that starts it.
    pub(crate) fn node(&self, script: &str) -> Command {
        let mut command = Command::new(self.node_path());
        command.arg(self.0.join("npm/node_modules").join(script));
        self.isolated(command)
    }

    /// A script of ours for one of their libraries. It lies in `folder`, where it finds them.
    pub(crate) fn script(&self, name: &str, folder: &Path) -> Command {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/system/clients");
        for entry in fs::read_dir(ours).unwrap().flatten() {
            fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
        }
        // Another test's script may have made it already.
        let _ = symlink(self.0.join("npm/node_modules"), folder.join("node_modules"));
        let program = if name == "python.py" { "python/bin/python" } else { NODE };
        let mut command = Command::new(self.0.join(program));
        command.arg(folder.join(name));
        self.isolated(command)
    }

    /// Where their programs look for others.
    pub(crate) fn path(&self) -> String {
        format!("{}:/usr/local/bin:/usr/bin:/bin", self.0.join("node/node_modules/.bin").display())
    }

    fn isolated(&self, mut command: Command) -> Command {
        command.env_clear().env("PATH", self.path()).current_dir(&self.0).stdin(Stdio::null());
        command
    }
}

/// Where the packages of agents are, if they could be had.
pub(crate) fn agents() -> Option<PathBuf> {
    cached("AW_AGENTS", "agents").map(|folder| folder.join("npm/node_modules"))
}

/// A folder that a script has filled.
#[expect(clippy::disallowed_methods, reason = "where it is is a setting of the test itself")]
fn cached(variable: &str, name: &str) -> Option<PathBuf> {
    let cache = || {
        let home = std::env::var("HOME").ok()?;
        let cache = std::env::var("XDG_CACHE_HOME").unwrap_or(format!("{home}/.cache"));
        Some(format!("{cache}/agent-worker/{name}"))
    };
    let folder = PathBuf::from(std::env::var(variable).ok().or_else(cache)?);
    folder.join(".have").exists().then_some(folder)
}

/// Runs one to its end.
pub(crate) fn run(mut command: Command) -> CommandOutput {
    CommandOutput::from(command.output().unwrap())
}
