//! Settings of an agent's sandbox, as the workflow file writes them and the worker's job carries them.

use std::{fmt, path::PathBuf, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use crate::network_host::NetworkHost;

/// Settings for the sandbox of an agent's program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxSettings {
    /// Requirement on the sandbox.
    pub mode: SandboxMode,
    /// Further files and folders that exist inside: absolute, relative to the working folder, or with `~/`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<PathBuf>,
    /// Further files and folders that can be changed inside, written as in `read`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<PathBuf>,
    /// Network inside the sandbox.
    #[serde(default)]
    pub network: SandboxNetwork,
    /// Limit of the memory of all processes inside.
    #[serde(default, skip_serializing_if = "MemoryLimit::is_default")]
    pub memory: MemoryLimit,
}

/// Requirement on a sandbox.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum SandboxMode {
    /// The best level that the machine has; refused without Landlock.
    On,
    /// The level `full`; refused on a machine without it.
    Full,
    /// No sandbox at all.
    #[default]
    Off,
}

/// Strength of a sandbox.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum SandboxLevel {
    /// Namespaces by bubblewrap, Landlock and seccomp.
    Full,
    /// Landlock and seccomp.
    Basic,
}

/// The sandbox of a running attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxInForce {
    /// Level of the sandbox.
    pub level: SandboxLevel,
    /// Accesses that stay possible, for people.
    pub open: Vec<String>,
}

/// The sandbox of a worker's job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSandbox {
    /// Settings of the agent.
    pub settings: SandboxSettings,
    /// Files that the agent cannot change although they may be in its working folder: the workflow file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_only: Vec<PathBuf>,
    /// Files that run outside of the sandbox: those of the command that notifies the user. The agent can neither change
    /// nor create them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<PathBuf>,
}

/// Network inside a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxNetwork {
    /// No network: at level `full` a loopback of its own, at level `basic` no internet sockets at all.
    #[default]
    Off,
    /// These hosts alone, through a proxy: only at level `full`.
    Hosts(Vec<NetworkHost>),
    /// The network of the machine.
    Open,
}

/// Limit of the memory of all processes in a sandbox, such as `2GiB`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct MemoryLimit(u64);

/// Error for a text that is no limit of memory.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{0}` is not a limit of memory: write a whole number and `MiB` or `GiB`, such as `2GiB`, from 64MiB to 1024GiB"
)]
pub struct BadMemoryLimit(String);

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Units from the largest to the smallest.
const MEMORY_UNITS: [(&str, u64); 2] = [("GiB", GIB), ("MiB", MIB)];
const MIN_MEMORY_BYTES: u64 = 64 * MIB;
const MAX_MEMORY_BYTES: u64 = 1024 * GIB;

impl MemoryLimit {
    /// Returns the number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Returns true for the limit of a sandbox without the key.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for MemoryLimit {
    fn default() -> Self {
        Self(4 * GIB)
    }
}

impl FromStr for MemoryLimit {
    type Err = BadMemoryLimit;
    fn from_str(text: &str) -> Result<Self, BadMemoryLimit> {
        let bad = || BadMemoryLimit(text.chars().take(40).collect());
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let (_, size) = MEMORY_UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
        let bytes = number.parse().ok().and_then(|number: u64| number.checked_mul(*size));
        let is_allowed = |bytes: &u64| (MIN_MEMORY_BYTES..=MAX_MEMORY_BYTES).contains(bytes);
        bytes.filter(is_allowed).map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) = if self.0.is_multiple_of(GIB) { ("GiB", GIB) } else { ("MiB", MIB) };
        write!(f, "{}{unit}", self.0 / size)
    }
}

impl TryFrom<String> for MemoryLimit {
    type Error = BadMemoryLimit;
    fn try_from(text: String) -> Result<Self, BadMemoryLimit> {
        text.parse()
    }
}

impl From<MemoryLimit> for String {
    fn from(limit: MemoryLimit) -> Self {
        limit.to_string()
    }
}

impl SandboxNetwork {
    /// Returns the hosts of a list; none if the network is no list.
    pub fn hosts(&self) -> Option<&[NetworkHost]> {
        match self {
            Self::Hosts(hosts) => Some(hosts),
            Self::Off | Self::Open => None,
        }
    }
}

impl SandboxSettings {
    /// Returns true for an agent without a sandbox.
    pub fn is_off(&self) -> bool {
        self.mode == SandboxMode::Off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_memory_has_a_unit_and_is_neither_tiny_nor_endless() {
        for (text, bytes) in [("2GiB", 2 * GIB), ("1536MiB", 1536 * MIB), ("64MiB", 64 * MIB)] {
            let limit: MemoryLimit = text.parse().unwrap();
            assert_eq!((limit.bytes(), limit.to_string().as_str()), (bytes, text));
        }
        for text in ["2", "GiB", "2GB", "2gib", "-1GiB", "63MiB", "1025GiB", "99999999999GiB"] {
            assert!(text.parse::<MemoryLimit>().is_err(), "{text}");
        }
    }
}
