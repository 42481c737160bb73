//! Settings of an agent's sandbox, as the workflow file writes them and the worker's job carries them.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxNetwork {
    /// No network: at level `full` a loopback of its own, at level `basic` no internet sockets at all.
    #[default]
    Off,
    /// The network of the machine.
    Open,
}

impl SandboxSettings {
    /// Returns true for an agent without a sandbox.
    pub fn is_off(&self) -> bool {
        self.mode == SandboxMode::Off
    }
}
