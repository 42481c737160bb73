//! How the daemon is, how it stops, and whether its store is sound.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Millis;

/// `GET /health`, for anybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// `ok`, `draining`, `degraded` when the database of a team refuses writes, or `read_only` when the store does.
    pub status: HealthStatus,
    /// The daemon's version.
    pub version: String,
    /// More, for those who may know.
    #[serde(default, skip_serializing_if = "Option::is_none", flatten)]
    pub detail: Option<HealthDetail>,
}

/// How the daemon is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// A write went to disk within the last second.
    Ok,
    /// It is stopping and leases nothing more.
    Draining,
    /// The database of one or more teams refuses writes; everything else is written.
    Degraded,
    /// The store takes no writes.
    ReadOnly,
}

/// What the user may know of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthDetail {
    /// Its process.
    pub pid: u32,
    /// When that process began, in the system's own unit: with the pid it identifies one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<u64>,
    /// Its home.
    pub home: PathBuf,
    /// Where it listens for clients; absent when no port could be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Since when it runs.
    pub started: Millis,
    /// Runs that are not over.
    pub live_runs: u32,
    /// Attempts that live.
    pub workers: u32,
    /// What is wrong, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Copies of databases that were removed, replaced or truncated while the daemon had them open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rescued: Vec<PathBuf>,
    /// Stored rows that are damaged, as far as anybody has read them since the daemon started or `GET /doctor` was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<String>,
    /// How the processes of attempts are tracked; absent from a daemon of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracking: Option<ProcessTracking>,
}

/// How the processes of attempts are tracked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum ProcessTracking {
    /// Each attempt has a control group (version 2) of its own.
    Cgroup {
        /// The folder of the groups.
        path: PathBuf,
    },
    /// By parents, process groups and the environment they were started with.
    Tree {
        /// Why no control groups are used.
        why: String,
    },
}

/// `POST /shutdown`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShutdownRequest {
    /// How.
    pub mode: ShutdownMode,
}

/// How a daemon stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShutdownMode {
    /// Lease nothing more, give the workers their time, stop the rest.
    Drain,
    /// Stop the workers now.
    Now,
    /// Leave the workers to the next daemon.
    Handover,
}

/// `GET /doctor`: what a look through the whole store found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoreReport {
    /// Instances that were looked at.
    pub instances: u32,
    /// Messages whose hashes were computed anew.
    pub messages: u64,
    /// Rows that should have a checksum.
    #[serde(default)]
    pub rows: u64,
    /// Rows without one: an earlier version wrote them.
    #[serde(default)]
    pub unhashed: u64,
    /// What is wrong, one line each.
    pub problems: Vec<String>,
}
