//! Health of the daemon, its shutdown, and the check of its store.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Millis;

/// Reply of `GET /health`, for every caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// `ok`, `held` after a stop by the user, `draining`, `degraded` when the database of a team refuses writes, or
    /// `read_only` when the store does.
    pub status: HealthStatus,
    /// Version of the daemon.
    pub version: String,
    /// Proof that the daemon answers, for a request with `nonce` and `client` at the port: HMAC-SHA-256 under the hash of
    /// the client's token, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
    /// Further facts, for callers with permission to read them.
    #[serde(default, skip_serializing_if = "Option::is_none", flatten)]
    pub detail: Option<HealthDetail>,
}

/// Condition of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// The daemon wrote to disk within the last second.
    Ok,
    /// The daemon answers and starts no work, because its user stopped the last one.
    Held,
    /// The daemon is stopping and leases nothing more.
    Draining,
    /// The databases of one or more teams refuse writes; all other writes succeed.
    Degraded,
    /// The store refuses writes.
    ReadOnly,
}

/// Facts about the daemon that only permitted callers get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthDetail {
    /// Process id of the daemon.
    pub pid: u32,
    /// Start time of that process in the system's own unit; together with the pid it identifies one process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<u64>,
    /// Home folder of the daemon.
    pub home: PathBuf,
    /// Address of the listener for clients; absent if no port was available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Holder of the default port, if the daemon had to take another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_conflict: Option<String>,
    /// Start of the daemon.
    pub started: Millis,
    /// Number of runs that have not ended.
    pub live_runs: u32,
    /// Number of agents of those runs.
    #[serde(default)]
    pub agents: u32,
    /// Number of live attempts.
    pub workers: u32,
    /// Current fault of the store, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Copies of databases that were removed, replaced or truncated while the daemon had them open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rescued: Vec<PathBuf>,
    /// Damaged rows that were read since the daemon started, including those that `GET /doctor` found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<String>,
    /// Method for tracking the processes of attempts; absent in replies of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracking: Option<ProcessTracking>,
}

/// Method for tracking the processes of attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum ProcessTracking {
    /// Each attempt has a control group (version 2) of its own.
    Cgroup {
        /// Folder of the control groups.
        path: PathBuf,
    },
    /// Parents, process groups and the initial environment identify the processes.
    Tree {
        /// Reason against control groups.
        why: String,
    },
}

/// Body of `POST /shutdown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShutdownRequest {
    /// Treatment of the running workers; absent: `drain`.
    #[serde(default)]
    pub mode: ShutdownMode,
}

/// Treatment of the running workers at a shutdown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShutdownMode {
    /// Leases nothing more, gives the workers their time, and stops the rest.
    #[default]
    Drain,
    /// Stops the workers immediately.
    Now,
    /// Leaves the workers to the next daemon.
    Handover,
}

/// Reply of `GET /doctor`: the findings of a check of the whole store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoreReport {
    /// Number of instances checked.
    pub instances: u32,
    /// Number of messages whose hashes were recomputed.
    pub messages: u64,
    /// Number of rows that should have a checksum.
    #[serde(default)]
    pub rows: u64,
    /// Number of rows without a checksum, which an earlier version wrote.
    #[serde(default)]
    pub unhashed: u64,
    /// Faults found, one line each.
    pub problems: Vec<String>,
}
