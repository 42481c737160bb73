//! Job of a worker and the events that it reports. The job is one line of JSON on the worker's stdin; the rest is
//! HTTP.

use std::{borrow::Cow, collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    agent::{Effort, SpendLimits},
    approval::Permissions,
    attachment::Attachment,
    backend::Backend,
    history::{HistoryMode, HistoryText},
    id::{AttemptId, Seq},
    message::Usage,
    mock_tool::MockTool,
    name::AgentName,
    sandbox::{JobSandbox, SandboxInForce},
    secret_filter::SecretFilter,
    span::Span,
    state::FailureClass,
    target::InstanceRef,
    time::Millis,
};

/// The variables of the user's environment that every run and every worker's children get, with those that a file or a
/// backend names.
pub const BASE_ENV: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "TZ", "SSH_AUTH_SOCK"];

/// One attempt from the worker's side: everything that the worker needs and nothing else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkerJob {
    /// Id of this attempt; each of its processes has it in its environment as `AGENT_WORKER_ATTEMPT`.
    pub attempt: AttemptId,
    /// Activation id, the same in all attempts: `AGENT_WORKER_ACTIVATION`, an idempotency key for effects outside the
    /// daemon.
    pub activation: String,
    /// Number of this try, from 1.
    pub number: u32,
    /// Agent that the worker runs.
    pub agent: AgentName,
    /// Instance of the agent.
    pub instance: InstanceRef,
    /// Path of the daemon's socket.
    pub socket: PathBuf,
    /// Token that authenticates the worker; it becomes invalid at the end of the attempt.
    pub token: String,
    /// Private folder of the attempt (0700) for `worker.lock`, `events.jsonl` and `worker.log`.
    pub folder: PathBuf,
    /// Folder that persists over the agent's turns in this run; the worker creates it on demand.
    pub keep: PathBuf,
    /// Working folder of the attempt.
    pub cwd: PathBuf,
    /// Environment of the worker's children.
    pub env: BTreeMap<String, String>,
    /// System prompt of the agent.
    pub system_prompt: String,
    /// Prompt for this attempt.
    pub prompt: String,
    /// Bodies of the waking messages, without the rest of the prompt.
    pub woken_by: String,
    /// Backend through which the worker reaches a model.
    pub backend: Backend,
    /// Model, as written in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Models for a turn whose model is overloaded or used up, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<String>,
    /// Conversation that the last turn of this agent reported; only the backend interprets the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Value>,
    /// Permissions of the agent: the daemon decides, and a program may know the rules in advance.
    #[serde(default, skip_serializing_if = "Permissions::is_default")]
    pub permissions: Permissions,
    /// Sandbox of the agent's program; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<JobSandbox>,
    /// Tools with scripted results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mock_tools: Vec<MockTool>,
    /// Maximum number of model calls; absent: the backend's own limit, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// Maximum number of tokens of one answer of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// JSON Schema of the answer; absent: any text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Effort of the model's reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Names of the team's agents, which the prompt may mention.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub team: Vec<AgentName>,
    /// Files of the messages that the prompt shows; the worker fetches them before the turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<JobAttachment>,
    /// Mode of the history of the turn.
    #[serde(default, skip_serializing_if = "HistoryMode::is_default")]
    pub history: HistoryMode,
    /// Time limits that the worker enforces.
    pub limits: JobLimits,
}

/// File of a shown message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobAttachment {
    /// The file, as its message names it.
    pub attachment: Attachment,
    /// Path where the worker puts the file, in the attempt's folder.
    pub path: PathBuf,
}

/// Time limits that the worker enforces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLimits {
    /// Maximum duration of the attempt.
    pub wall: Span,
    /// Maximum time without output.
    pub silence: Span,
    /// Time that the worker continues without a daemon.
    pub orphan_grace: Span,
    /// Grace period of the children between TERM and KILL.
    pub kill_grace: Span,
    /// Limits of the run that the daemon checks before each call of a model.
    #[serde(default)]
    pub spend: SpendLimits,
}

/// Body of `POST /attempts/{id}/spend`: the most that the next call of a model can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpendRequest {
    /// Cost in millionths of a dollar; absent if the price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// Tokens of the input and the answer; 0 only ends the reservation of the last call.
    pub tokens: u64,
    /// True if the usage of the last call is not known: its reservation counts as spent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
}

/// Reply to [`SpendRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpendReply {
    /// The call is reserved until its usage arrives.
    Reserved,
    /// Calls of other agents hold the rest of the limit: the worker asks again.
    Wait,
    /// The call could exceed a limit. The run is paused, and the daemon ends the attempt.
    Refused,
}

/// Durable event, first written to `events.jsonl`, then posted until the daemon acknowledges it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NumberedEvent {
    /// Number that the worker assigns: 1, 2, 3 ….
    pub no: i64,
    /// Time of the event by the worker's clock.
    pub ts: Millis,
    /// Content of the event.
    #[serde(flatten)]
    pub event: WorkerEvent,
}

/// Durable report of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WorkerEvent {
    /// The worker runs; no backend starts before the daemon acknowledges this event.
    Started {
        /// Process id of the worker.
        pid: u32,
        /// Sandbox of the agent's program; absent for none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sandbox: Option<SandboxInForce>,
    },
    /// The worker is about to call a tool.
    ToolCall {
        /// Id that links the result to the call.
        id: String,
        /// Name of the tool.
        tool: String,
        /// Arguments of the call, long ones shortened.
        args: Value,
        /// The whole arguments, as JSON, for the history.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        whole: Option<HistoryText>,
    },
    /// A tool returned a result.
    ToolResult {
        /// Id of the call.
        id: String,
        /// Name of the tool.
        tool: String,
        /// True if the call succeeded.
        ok: bool,
        /// Beginning of the result.
        summary: String,
        /// The whole result, for the history.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        whole: Option<HistoryText>,
    },
    /// The texts that the turn starts with.
    Prompt {
        /// Mode in which the worker reports the texts of the turn.
        mode: HistoryMode,
        /// System prompt of the agent.
        system: HistoryText,
        /// Prompt of the attempt.
        prompt: HistoryText,
    },
    /// Text that the model has written since the last event.
    Words(HistoryText),
    /// Tokens used since the last report.
    Usage(Usage),
    /// The program has given a message to the model of the running turn.
    Joined {
        /// Position of the message in the channel.
        seq: Seq,
    },
    /// The worker retries an operation by itself.
    Retry {
        /// Explanation of the failure.
        why: String,
    },
    /// A fact about the turn that the worker reports to people.
    Note {
        /// The fact, for people.
        text: String,
    },
    /// Conversation that the next turn of this agent can continue.
    Session {
        /// Data that the backend needs to continue it.
        session: Value,
    },
    /// Last event: all children are gone, and their output is read to the end.
    Finished(Finished),
}

impl WorkerEvent {
    /// Returns the texts for the history.
    pub fn history_texts_mut(&mut self) -> impl Iterator<Item = &mut HistoryText> {
        let texts = match self {
            Self::ToolCall { whole, .. } | Self::ToolResult { whole, .. } => [whole.as_mut(), None],
            Self::Prompt { system, prompt, .. } => [Some(system), Some(prompt)],
            Self::Words(text) => [Some(text), None],
            Self::Started { .. }
            | Self::Usage(_)
            | Self::Joined { .. }
            | Self::Retry { .. }
            | Self::Note { .. }
            | Self::Session { .. }
            | Self::Finished(_) => [None, None],
        };
        texts.into_iter().flatten()
    }

    /// Returns true if the history of the turn lists the event itself.
    pub fn is_in_history(&self) -> bool {
        match self {
            Self::ToolCall { .. }
            | Self::ToolResult { .. }
            | Self::Usage(_)
            | Self::Joined { .. }
            | Self::Retry { .. }
            | Self::Note { .. } => true,
            Self::Started { .. }
            | Self::Prompt { .. }
            | Self::Words(_)
            | Self::Session { .. }
            | Self::Finished(_) => false,
        }
    }

    /// Returns the size of the texts for the history.
    pub fn history_bytes(&self) -> usize {
        match self {
            Self::ToolCall { whole, .. } | Self::ToolResult { whole, .. } => {
                whole.as_ref().map_or(0, HistoryText::present_bytes)
            }
            Self::Prompt { system, prompt, .. } => system.present_bytes() + prompt.present_bytes(),
            Self::Words(text) => text.present_bytes(),
            Self::Started { .. }
            | Self::Usage(_)
            | Self::Joined { .. }
            | Self::Retry { .. }
            | Self::Note { .. }
            | Self::Session { .. }
            | Self::Finished(_) => 0,
        }
    }

    /// Replaces the secrets in everything that describes calls and texts. The final text is a message for others and
    /// stays as it is.
    #[must_use]
    pub fn redacted(mut self, secrets: &SecretFilter) -> Self {
        for text in self.history_texts_mut().filter_map(|whole| whole.text.as_mut()) {
            if let Cow::Owned(clean) = secrets.redact(text) {
                *text = clean;
            }
        }
        match self {
            Self::ToolCall { id, tool, args, whole } => {
                Self::ToolCall { id, tool, args: secrets.redact_json(args), whole }
            }
            Self::ToolResult { id, tool, ok, summary, whole } => {
                Self::ToolResult { id, tool, ok, summary: secrets.redact_owned(summary), whole }
            }
            Self::Retry { why } => Self::Retry { why: secrets.redact_owned(why) },
            Self::Note { text } => Self::Note { text: secrets.redact_owned(text) },
            Self::Finished(Finished {
                text,
                session,
                outcome: WorkerOutcome::Failed { class, why, retry_at },
            }) => {
                let why = secrets.redact_owned(why);
                let outcome = WorkerOutcome::Failed { class, why, retry_at };
                Self::Finished(Finished { text, session, outcome })
            }
            other @ (Self::Started { .. }
            | Self::Prompt { .. }
            | Self::Words(_)
            | Self::Usage(_)
            | Self::Joined { .. }
            | Self::Session { .. }
            | Self::Finished(_)) => other,
        }
    }
}

/// Result of a worker, as the worker reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finished {
    /// Final text of the attempt.
    pub text: String,
    /// Conversation that the next turn of the agent continues, if the attempt ended ok.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Value>,
    /// Result of the attempt.
    #[serde(flatten)]
    pub outcome: WorkerOutcome,
}

/// Result of an attempt, as its worker reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum WorkerOutcome {
    /// The work is done.
    Ok,
    /// The work failed.
    Failed {
        /// Class of the failure.
        class: FailureClass,
        /// Explanation of the failure, for people.
        why: String,
        /// Time at which the provider permits a retry.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Millis>,
    },
    /// The worker received a stop order, or had no daemon for too long.
    Interrupted {
        /// Explanation of the interruption.
        why: String,
    },
    /// The worker could not start its program: the machine had no process, memory, descriptor or disk space left.
    Unstarted {
        /// Resource that was missing, for people.
        why: String,
    },
}

/// Event that subscribers see only live and that is never stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LiveEvent {
    /// Text that a model writes.
    Text {
        /// Next part of the text.
        text: String,
    },
    /// Sign that the worker is alive.
    Heartbeat,
}

/// Body of `POST /attempts/{id}/events`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventsRequest {
    /// Events in order, from the first unacknowledged one.
    #[serde(default)]
    pub events: Vec<NumberedEvent>,
    /// Events that the daemon need not store.
    #[serde(default)]
    pub live: Vec<LiveEvent>,
}

/// Reply to [`EventsRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventsReply {
    /// Highest number that the daemon has stored.
    pub stored: i64,
    /// Order for the worker's next step.
    pub order: Order,
}

/// Body of `POST /attempts/{id}/messages`: asks for messages to the running turn, and waits for one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TurnMessagesRequest {
    /// The last message that the worker has received this way.
    #[serde(default)]
    pub after: Seq,
    /// Messages that the program has accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<Seq>,
    /// Messages that the program has refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Seq>,
    /// The last message that the worker has announced to its model; absent for a worker that announces none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail_after: Option<Seq>,
}

/// Reply to [`TurnMessagesRequest`]; without a message the worker asks again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnMessagesReply {
    /// Messages in the order of the channel.
    pub messages: Vec<TurnMessage>,
    /// Further mail that has arrived in the inbox and stays there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mail: Vec<MailNotice>,
}

/// The arrival of a message in the inbox of an agent in the middle of its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MailNotice {
    /// Position of the message in the channel.
    pub seq: Seq,
    /// The sender, as the agent reads it.
    pub from: String,
}

/// Message to a running turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnMessage {
    /// Position of the message in the channel.
    pub seq: Seq,
    /// Text for the model, with the message in its tags.
    pub text: String,
}

/// Order of the daemon to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Continue the attempt.
    Continue,
    /// End the process tree, report `finished`, and exit.
    Stop,
}
