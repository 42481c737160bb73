//! Third-party programs that `scripts/clients` and `scripts/agents` install.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::world::{CommandOutput, record_skip};

const NODE: &str = "node/node_modules/.bin/node";

/// The folder of the installed programs.
pub(crate) struct ExternalPrograms(PathBuf);

impl ExternalPrograms {
    /// Returns `None` if the programs are not installed.
    pub(crate) fn locate() -> Option<Self> {
        cached("AW_CLIENTS", "clients").map(Self)
    }

    /// Returns `None` if the programs are not installed; the test is then counted as skipped.
    pub(crate) fn locate_or_skip(untried: &str) -> Option<Self> {
        let found = Self::locate();
        if found.is_none() {
            record_skip(untried);
        }
        found
    }

    /// Returns the path of Node.js, which runs the npm scripts.
    pub(crate) fn node_path(&self) -> PathBuf {
        self.0.join(NODE)
    }

    /// Returns a command for a program from npm, by the script that starts it.
    pub(crate) fn node(&self, script: &str) -> Command {
        let mut command = Command::new(self.node_path());
        command.arg(self.0.join("npm/node_modules").join(script));
        self.isolated(command)
    }

    /// Returns a command for a program from the Python packages.
    pub(crate) fn python(&self, program: &str) -> Command {
        self.isolated(Command::new(self.0.join("python/bin").join(program)))
    }

    /// Returns a command for one of our scripts that use a third-party library. Copies the scripts to `folder`,
    /// next to the libraries.
    pub(crate) fn script(&self, name: &str, folder: &Path) -> Command {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/system/clients");
        for entry in fs::read_dir(ours).unwrap().flatten() {
            fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
        }
        // The script of another test may have created the link already.
        let _ = symlink(self.0.join("npm/node_modules"), folder.join("node_modules"));
        let is_python = Path::new(name).extension().is_some_and(|end| end == "py");
        let program = if is_python { "python/bin/python" } else { NODE };
        let mut command = Command::new(self.0.join(program));
        command.arg(folder.join(name));
        self.isolated(command)
    }

    /// Returns the `PATH` of the programs.
    pub(crate) fn path(&self) -> String {
        format!("{}:/usr/local/bin:/usr/bin:/bin", self.0.join("node/node_modules/.bin").display())
    }

    fn isolated(&self, mut command: Command) -> Command {
        command.env_clear().env("PATH", self.path()).current_dir(&self.0).stdin(Stdio::null());
        command
    }
}

/// Returns the folder of the agents' packages, if they are installed.
pub(crate) fn agents() -> Option<PathBuf> {
    cached("AW_AGENTS", "agents").map(|folder| folder.join("npm/node_modules"))
}

/// Returns a folder that a script has filled.
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

/// Runs a command to its end.
pub(crate) fn run(mut command: Command) -> CommandOutput {
    CommandOutput::from(command.output().unwrap())
}
