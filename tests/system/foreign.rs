//! Programs that nobody here wrote, which `scripts/clients` gets.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::world::{Said, skipped};

/// Where they are.
pub(crate) struct Foreign(PathBuf);

impl Foreign {
    /// None where they cannot be had; then what was not tried is counted.
    #[expect(clippy::disallowed_methods, reason = "where they are is a setting of the test itself")]
    pub(crate) fn find(untried: &str) -> Option<Self> {
        let cache = || {
            let home = std::env::var("HOME").ok()?;
            let cache = std::env::var("XDG_CACHE_HOME").unwrap_or(format!("{home}/.cache"));
            Some(format!("{cache}/agent-worker/clients"))
        };
        let folder = PathBuf::from(std::env::var("AW_CLIENTS").ok().or_else(cache)?);
        if folder.join(".have").exists() {
            return Some(Self(folder));
        }
        skipped(untried);
        None
    }

    /// A program of npm's, by the script that starts it.
    pub(crate) fn node(&self, script: &str) -> Command {
        let mut command = Command::new(self.0.join("node/node_modules/.bin/node"));
        command.arg(self.0.join("npm/node_modules").join(script));
        self.quiet(command)
    }

    fn quiet(&self, mut command: Command) -> Command {
        let node = self.0.join("node/node_modules/.bin");
        command
            .env_clear()
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", node.display()))
            .current_dir(&self.0)
            .stdin(Stdio::null());
        command
    }
}

/// Runs one to its end.
pub(crate) fn run(mut command: Command) -> Said {
    Said::from(command.output().unwrap())
}
