//! What `main` read once, for this room.

use std::{collections::BTreeMap, path::PathBuf};

/// Where the caller is, and who.
#[derive(Clone, Debug)]
pub struct CliSettings {
    /// The daemon's home: `AGENT_WORKER_HOME`, else `~/.agent-worker`. Absolute.
    pub home: PathBuf,
    /// The caller's folder. Absolute.
    pub cwd: PathBuf,
    /// The caller's whole environment; what leaves this process is picked from it.
    pub env: BTreeMap<String, String>,
    /// Whether the caller belongs to an attempt (`AGENT_WORKER_ATTEMPT`): then no daemon is started.
    pub inside_attempt: bool,
    /// This program, to start a daemon from: `/proc/self/exe`, since a rebuilt binary's own path is gone.
    pub exe: PathBuf,
}

impl CliSettings {
    /// Whether the caller is an agent's command, also when it hides that: then it speaks for no person.
    pub(crate) fn is_inside_attempt(&self) -> bool {
        self.inside_attempt || agent_worker_host::is_inside_attempt()
    }

    /// Where the daemon listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.home.join("daemon.sock")
    }

    /// Whether a daemon has ever kept anything in this home. A copy of a database that was removed counts.
    pub(crate) fn has_history(&self) -> bool {
        let is_copy = |entry: std::fs::DirEntry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with("rescued-")
        };
        self.home.join("agent-worker.db").exists()
            || std::fs::read_dir(&self.home).is_ok_and(|entries| entries.flatten().any(is_copy))
    }

    /// The variables of the caller that `wanted` names.
    pub(crate) fn filtered_env(&self, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
        let mut picked = self.env.clone();
        picked.retain(|name, _| wanted(name));
        picked
    }
}
