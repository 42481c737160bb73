//! Settings that `main` reads once for this crate.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

/// The caller's folders, environment and identity.
#[derive(Clone, Debug)]
pub struct CliSettings {
    /// The daemon's home: `AGENT_WORKER_HOME`, else `~/.agent-worker`. Absolute.
    pub home: PathBuf,
    /// The caller's folder. Absolute.
    pub cwd: PathBuf,
    /// The caller's whole environment; only selected variables leave this process.
    pub env: BTreeMap<String, String>,
    /// True if the caller belongs to an attempt (`AGENT_WORKER_ATTEMPT`); such a caller starts no daemon.
    pub inside_attempt: bool,
    /// This program, to start a daemon from.
    pub exe: PathBuf,
    /// The configuration file that `--config` names, or `none`.
    pub config_flag: Option<OsString>,
}

impl CliSettings {
    /// Returns whether the caller is a command of an agent, even a disguised one; it does not act for a person.
    pub(crate) fn is_inside_attempt(&self) -> bool {
        self.inside_attempt || agent_worker_host::is_inside_attempt()
    }

    /// Returns the path of the daemon's socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.home.join("daemon.sock")
    }

    /// Returns whether a daemon has ever stored anything in this home; a copy of a removed database counts.
    pub(crate) fn has_history(&self) -> bool {
        let is_copy = |entry: std::fs::DirEntry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with("rescued-")
        };
        self.home.join("agent-worker.db").exists()
            || std::fs::read_dir(&self.home).is_ok_and(|entries| entries.flatten().any(is_copy))
    }

    /// Returns the caller's variables that `wanted` selects.
    pub(crate) fn filtered_env(&self, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
        let mut picked = self.env.clone();
        picked.retain(|name, _| wanted(name));
        picked
    }
}
