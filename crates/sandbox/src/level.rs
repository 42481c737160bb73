//! The levels of the sandbox, their detection on this machine, and what stays open at each.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use agent_worker_host::find_program;
use agent_worker_protocol::{SandboxLevel, SandboxMode, SandboxNetwork};
use rustix::process::getuid;
use serde::Serialize;

use crate::{bubblewrap::probe_args, error::SandboxError, system::landlock_version};

/// The name of bubblewrap's program.
const BUBBLEWRAP_PROGRAM: &str = "bwrap";
/// The folders with bubblewrap. The user's `PATH` may contain folders that an agent can write.
const BUBBLEWRAP_PATH: &str =
    "/usr/local/bin:/usr/bin:/bin:/run/wrappers/bin:/run/current-system/sw/bin";
/// A program of every system, which the probe starts.
const PROBE_PROGRAM: &str = "true";

/// The sandbox that this machine supports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SandboxSupport {
    /// Version of the kernel's Landlock; absent if it has none.
    pub landlock: Option<u8>,
    /// Path of bubblewrap, if its namespaces work.
    pub bubblewrap: Option<PathBuf>,
    /// The reason why a part is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// Returns the parts of the system that enforce a level.
pub fn sandbox_parts(level: SandboxLevel) -> &'static str {
    match level {
        SandboxLevel::Full => "bubblewrap, Landlock and seccomp",
        SandboxLevel::Basic => "Landlock and seccomp",
    }
}

/// Returns the accesses that stay possible at a level, for people.
pub fn sandbox_gaps(level: SandboxLevel, network: &SandboxNetwork) -> Vec<&'static str> {
    let by_level: &[&str] = match level {
        // The system does not count the processes of root.
        SandboxLevel::Full if getuid().is_root() => &["the number of processes"],
        SandboxLevel::Full => &[],
        SandboxLevel::Basic => &[
            "sockets in the file system, such as those of docker, of ssh-agent and of this daemon",
            "`.git/hooks`, `.git/config` and settings of agents in the working folder, which can be changed",
            "names and arguments of other processes",
            "the number of processes",
        ],
    };
    let by_network: &[&str] = match network {
        SandboxNetwork::Off => &[],
        SandboxNetwork::Hosts(_) => &["the hosts that `network` lists"],
        SandboxNetwork::Open => &["the network, with services on this machine"],
    };
    [by_level, by_network].concat()
}

impl SandboxSupport {
    /// Detects the support of this machine.
    pub fn detect() -> Self {
        Self::detect_with(BUBBLEWRAP_PATH)
    }

    fn detect_with(path: &str) -> Self {
        let landlock = landlock_version();
        let bubblewrap = find_bubblewrap(path);
        let missing = match (&landlock, &bubblewrap) {
            (Err(why), _) => Some(format!("no Landlock: {why}")),
            (Ok(_), Err(why)) => Some(why.clone()),
            (Ok(_), Ok(_)) => None,
        };
        Self { landlock: landlock.ok(), bubblewrap: bubblewrap.ok(), missing }
    }

    /// Returns the best level; none without Landlock.
    pub fn best_level(&self) -> Option<SandboxLevel> {
        self.landlock?;
        Some(if self.bubblewrap.is_some() { SandboxLevel::Full } else { SandboxLevel::Basic })
    }

    /// Returns the level for a mode; none for `off`.
    pub fn level_for(&self, mode: SandboxMode) -> Result<Option<SandboxLevel>, SandboxError> {
        let why = || self.missing.clone().unwrap_or_default();
        match (mode, self.best_level()) {
            (SandboxMode::Off, _) => Ok(None),
            (SandboxMode::On | SandboxMode::Full, None) => {
                Err(SandboxError::NoLandlock { why: why() })
            }
            (SandboxMode::Full, Some(SandboxLevel::Basic)) => {
                Err(SandboxError::NotFull { why: why() })
            }
            (SandboxMode::On | SandboxMode::Full, Some(level)) => Ok(Some(level)),
        }
    }

    /// Refuses a list of hosts at a level that cannot keep it.
    pub fn require_for(
        &self,
        network: &SandboxNetwork,
        level: SandboxLevel,
    ) -> Result<(), SandboxError> {
        match (network, level) {
            (SandboxNetwork::Hosts(_), SandboxLevel::Basic) => {
                let why = self.missing.clone();
                let why = why.unwrap_or_else(|| "the level `basic` is required".to_owned());
                Err(SandboxError::NoHostList { why })
            }
            (SandboxNetwork::Hosts(_), SandboxLevel::Full)
            | (SandboxNetwork::Off | SandboxNetwork::Open, _) => Ok(()),
        }
    }
}

/// Returns the path of bubblewrap, or the reason why its namespaces do not work.
fn find_bubblewrap(path: &str) -> Result<PathBuf, String> {
    let program = find_program(BUBBLEWRAP_PROGRAM, Path::new("/"), path)
        .map_err(|_| "bubblewrap is not installed; install the package `bubblewrap`".to_owned())?;
    let mut command = Command::new(&program);
    command.args(probe_args()).arg(PROBE_PROGRAM).env_clear().env("PATH", "/usr/bin:/bin");
    let output = command.stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(program),
        Ok(output) => {
            let report = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(format!("the system refuses namespaces to bubblewrap: {report}"))
        }
        Err(error) => Err(format!("bubblewrap does not start: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BWRAP: &[&str] = &["/usr/bin/bwrap"];

    fn support(landlock: Option<u8>, bubblewrap: &[&str]) -> SandboxSupport {
        SandboxSupport {
            landlock,
            bubblewrap: bubblewrap.first().map(Into::into),
            missing: Some("x".to_owned()),
        }
    }

    #[test]
    fn a_mode_takes_the_best_level_and_is_refused_without_the_required_one() {
        use SandboxMode::{Full, Off, On};
        let cases = [
            (support(Some(7), BWRAP), On, "full"),
            (support(Some(7), BWRAP), Full, "full"),
            (support(Some(1), &[]), On, "basic"),
            (support(Some(7), &[]), Full, "refused"),
            (support(None, BWRAP), On, "refused"),
            (support(None, BWRAP), Full, "refused"),
            (support(None, &[]), Off, "none"),
        ];
        for (support, mode, expected) in cases {
            let found = match support.level_for(mode) {
                Ok(level) => level.map_or("none", Into::into),
                Err(_) => "refused",
            };
            assert_eq!(found, expected, "{support:?} {mode}");
        }
    }

    #[test]
    fn without_bubblewrap_the_reason_names_the_package() {
        let support = SandboxSupport::detect_with("/nonexistent");
        assert_eq!(support.bubblewrap, None);
        assert!(support.missing.unwrap().contains("`bubblewrap`"));
    }
}
