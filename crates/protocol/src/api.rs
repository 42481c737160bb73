//! The bodies of the HTTP API, one section per route.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    id::{RunId, Seq},
    message::{Message, Receipt, Usage},
    name::{AgentName, Tag},
    state::{AgentState, RunMode, RunState},
    target::{InstanceRef, Target},
    time::Millis,
};

/// `GET /health`, for anybody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// `ok`, `draining`, or `read_only` when the store takes no writes.
    pub status: HealthStatus,
    /// The daemon's version.
    pub version: String,
    /// More, for those who may know.
    #[serde(default, skip_serializing_if = "Option::is_none", flatten)]
    pub detail: Option<HealthDetail>,
}

/// How the daemon is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// A write went to disk within the last second.
    Ok,
    /// It is stopping and leases nothing more.
    Draining,
    /// The store takes no writes.
    ReadOnly,
}

/// What the user may know of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthDetail {
    /// Its process.
    pub pid: u32,
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
}

/// `POST /shutdown`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShutdownRequest {
    /// How.
    pub mode: ShutdownMode,
}

/// How a daemon stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShutdownMode {
    /// Lease nothing more, give the workers their time, stop the rest.
    Drain,
    /// Stop the workers now.
    Now,
    /// Leave the workers to the next daemon.
    Handover,
}

/// `POST /runs`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// The workflow file, absolute.
    pub file: PathBuf,
    /// Where its commands run, absolute.
    pub cwd: PathBuf,
    /// Which instance; absent: `main`.
    #[serde(default)]
    pub tag: Option<Tag>,
    /// `run` or `start`.
    pub mode: RunMode,
    /// Values for the file's parameters.
    #[serde(default)]
    pub params: BTreeMap<String, String>,
    /// The caller's environment, as far as the file and the backends need it.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// The answer to [`RunRequest`]: the run exists; its setup begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The run.
    pub run: RunId,
    /// Its instance.
    pub instance: InstanceRef,
    /// Who takes part.
    pub agents: Vec<AgentName>,
}

/// `GET /runs/{id}`; `GET /runs` gives a list of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunView {
    /// The run.
    pub run: RunId,
    /// Its instance.
    pub instance: InstanceRef,
    /// The folder its file lies in.
    pub project: PathBuf,
    /// `run` or `start`.
    pub mode: RunMode,
    /// Where it stands.
    #[serde(flatten)]
    pub state: RunState,
    /// What made it fail, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// When it began.
    pub started: Millis,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Millis>,
    /// Attempts that ended ok or failed.
    pub turns: u32,
    /// Messages written in it.
    pub messages: u32,
    /// What it used.
    pub usage: Usage,
    /// Deliveries whose attempts are used up.
    pub dead_letters: Vec<Receipt>,
    /// Deliveries that were given up.
    pub dropped: Vec<Receipt>,
    /// Who takes part, and what each is doing.
    pub agents: Vec<AgentView>,
}

/// Why a run failed before or beside its agents' work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    /// `setup_failed`, `nobody_woken`, `bad_file`, …
    pub code: RunErrorCode,
    /// What happened.
    pub message: String,
}

/// The ways a run fails that are not a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunErrorCode {
    /// A setup command failed.
    SetupFailed,
    /// The kickoff wakes nobody.
    NobodyWoken,
    /// The kickoff could not be filled in.
    BadFile,
}

/// `GET /agents`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentView {
    /// Its name.
    pub name: AgentName,
    /// Its instance.
    pub instance: InstanceRef,
    /// The folder its file lies in.
    pub project: PathBuf,
    /// `mock`, …
    pub backend: String,
    /// What it is doing.
    #[serde(flatten)]
    pub state: AgentState,
    /// Waking mail that waits or is being shown.
    pub waiting: u32,
    /// Turns it took in this run.
    pub turns: u32,
    /// Messages it wrote in this run.
    pub messages: u32,
    /// What it used in this run.
    pub usage: Usage,
}

/// `POST /runs/{id}/stop`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStopped {
    /// The run.
    pub run: RunId,
    /// Its instance.
    pub instance: InstanceRef,
    /// Attempts that were ended, by agent.
    pub attempts: Vec<AgentName>,
    /// Processes that were ended.
    pub processes: u32,
}

/// `POST /messages`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendRequest {
    /// Where to, as typed. An agent calls it without: its own instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// What to say.
    pub message: String,
    /// Whom besides those it mentions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<AgentName>,
    /// Who reads it without being woken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cc: Vec<AgentName>,
    /// What it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<Seq>,
    /// Whether each recipient gets a turn for it alone (`--wait`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
}

/// The answer to [`SendRequest`]: it is on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendReply {
    /// Its place in the channel.
    pub seq: Seq,
    /// Where it went.
    pub instance: InstanceRef,
    /// Who is woken by it.
    pub woken: Vec<AgentName>,
    /// Who reads it without being woken.
    pub cc: Vec<AgentName>,
    /// Why nobody acts on it for now: its run is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// What it mentions that is nobody, each with a suggestion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<UnknownMention>,
    /// Whether an earlier call with the same key had written it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deduplicated: bool,
}

/// A mention of nobody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownMention {
    /// As written.
    pub name: String,
    /// Who may have been meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<AgentName>,
}

/// `GET /messages`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesReply {
    /// Whose channel.
    pub instance: InstanceRef,
    /// Oldest first.
    pub messages: Vec<Message>,
}

/// `GET /messages/{seq}/receipts`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptsReply {
    /// One for each recipient.
    pub receipts: Vec<Receipt>,
}

/// `POST /tokens`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRequest {
    /// What it is called.
    pub name: String,
}

/// The answer to [`TokenRequest`]: the only time the secret is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenCreated {
    /// What it is called.
    pub name: String,
    /// The secret.
    pub token: String,
}

/// `GET /tokens` gives a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenView {
    /// What it is called.
    pub name: String,
    /// When it was made.
    pub created: Millis,
}
