//! What a worker is given, and what it reports. One line of JSON on its stdin, then HTTP.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    approval::Permissions, backend::Backend, id::AttemptId, message::Usage, name::AgentName,
    span::Span, state::FailureClass, target::InstanceRef, time::Millis,
};

/// The variables of the user's environment that every run and every worker's children get, with those that a file or a
/// backend names.
pub const BASE_ENV: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "TZ", "SSH_AUTH_SOCK"];

/// One attempt, from the worker's side: everything it needs and nothing else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerJob {
    /// This attempt. Every process of it carries it as `AGENT_WORKER_ATTEMPT`.
    pub attempt: AttemptId,
    /// The activation, stable over attempts: `AGENT_WORKER_ACTIVATION`, for effects outside the daemon.
    pub activation: String,
    /// Which try this is, from 1.
    pub number: u32,
    /// Who it works as.
    pub agent: AgentName,
    /// Where.
    pub instance: InstanceRef,
    /// The daemon's socket.
    pub socket: PathBuf,
    /// What proves who it is. Dead when the attempt ends.
    pub token: String,
    /// A folder of its own (0700) for `worker.lock`, `events.jsonl`, `worker.log`.
    pub folder: PathBuf,
    /// A folder that stays over the agent's turns in this run. The worker makes it when it needs one.
    pub keep: PathBuf,
    /// Where it works.
    pub cwd: PathBuf,
    /// The environment of its children.
    pub env: BTreeMap<String, String>,
    /// Who the agent is told it is.
    pub system_prompt: String,
    /// What it is told to do.
    pub prompt: String,
    /// The bodies that woke it, alone.
    pub woken_by: String,
    /// How it reaches a model.
    pub backend: Backend,
    /// The model, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the last turn of this agent said its conversation is: for the backend alone to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Value>,
    /// What it may do by itself: the daemon decides, a program may be told beforehand.
    #[serde(default, skip_serializing_if = "Permissions::is_default")]
    pub permissions: Permissions,
    /// How often it may ask its model.
    pub max_steps: u32,
    /// Its clocks.
    pub limits: JobLimits,
}

/// The clocks a worker keeps itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLimits {
    /// The longest it may take.
    pub wall: Span,
    /// The longest it may be silent.
    pub silence: Span,
    /// How long it goes on without a daemon.
    pub orphan_grace: Span,
    /// How long its children have between TERM and KILL.
    pub kill_grace: Span,
}

/// A durable event, first written to `events.jsonl`, then posted until it is acknowledged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NumberedEvent {
    /// 1, 2, 3 …, by the worker.
    pub no: i64,
    /// When, by the worker's clock.
    pub ts: Millis,
    /// What.
    #[serde(flatten)]
    pub event: WorkerEvent,
}

/// What a worker reports for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WorkerEvent {
    /// It is there; no backend starts before this is acknowledged.
    Started {
        /// Its process.
        pid: u32,
    },
    /// It is about to call a tool.
    ToolCall {
        /// Ties the result to it.
        id: String,
        /// Which tool.
        tool: String,
        /// With what.
        args: Value,
    },
    /// A tool answered.
    ToolResult {
        /// The call it answers.
        id: String,
        /// Which tool.
        tool: String,
        /// Whether it did what was asked.
        ok: bool,
        /// The first words of the answer.
        summary: String,
    },
    /// Tokens were used since the last report.
    Usage(Usage),
    /// It tries something again by itself.
    Retry {
        /// What failed.
        why: String,
    },
    /// The conversation that the next turn of this agent can go on with.
    Session {
        /// What its backend needs for that.
        session: Value,
    },
    /// The last word: its children are gone, their output is read to the end.
    Finished(Finished),
}

/// How a worker ended, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finished {
    /// Its final text.
    pub text: String,
    /// What became of the attempt.
    #[serde(flatten)]
    pub outcome: WorkerOutcome,
}

/// What became of the attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum WorkerOutcome {
    /// The work is done.
    Ok,
    /// It is not.
    Failed {
        /// What kind of failure.
        class: FailureClass,
        /// What happened, for people.
        why: String,
        /// When the provider said to come back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Millis>,
    },
    /// It was told to stop, or lost its daemon for too long.
    Interrupted {
        /// Which.
        why: String,
    },
    /// It could not start its program: the machine had no process, memory, descriptor or disk space left.
    Unstarted {
        /// What was missing, for people.
        why: String,
    },
}

/// What is shown while it happens and never repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LiveEvent {
    /// A model's words.
    Text {
        /// The next of them.
        text: String,
    },
    /// It is still there.
    Heartbeat,
}

/// `POST /attempts/{id}/events`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventsRequest {
    /// In order, from the first that was not acknowledged.
    #[serde(default)]
    pub events: Vec<NumberedEvent>,
    /// What need not be kept.
    #[serde(default)]
    pub live: Vec<LiveEvent>,
}

/// The answer to [`EventsRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventsReply {
    /// The highest number stored.
    pub stored: i64,
    /// What to do next.
    pub order: Order,
}

/// What the daemon wants of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Go on.
    Continue,
    /// End your tree, report `finished`, exit.
    Stop,
}
