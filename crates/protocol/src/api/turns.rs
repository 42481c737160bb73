//! Turns: the attempts of agents and their history.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    history::{HistoryState, HistoryText, TextState},
    id::{AttemptId, RunId, Seq},
    message::{Message, Sender, Usage},
    name::AgentName,
    state::AttemptEnd,
    target::InstanceRef,
    time::Millis,
};

/// One attempt of an agent in the list of turns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnView {
    /// Id of the attempt.
    pub turn: AttemptId,
    pub agent: AgentName,
    pub instance: InstanceRef,
    pub run: RunId,
    /// Number of the try within its activation, from 1.
    pub number: u32,
    /// Message that woke the agent; absent if the message is hidden or damaged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_by: Option<TurnCause>,
    /// Messages that the attempt was shown.
    pub messages: Vec<Seq>,
    /// Start of the attempt.
    pub started: Millis,
    /// Duration of the attempt so far.
    pub lasted_ms: u64,
    /// Result of an ended attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<AttemptEnd>,
    /// End of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// Usage of the attempt so far.
    pub usage: Usage,
    /// State of its history.
    pub history: HistoryState,
}

/// Message that woke an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnCause {
    pub seq: Seq,
    pub from: Sender,
    /// Beginning of the message.
    pub text: String,
}

/// Reply of `GET /turns/{id}`: one attempt with a page of its history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnDetail {
    #[serde(flatten)]
    pub view: TurnView,
    /// Messages that the attempt was shown; only on the first page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<Message>,
    /// Final text of the attempt; only on the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Path of the worker's log, if it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<PathBuf>,
    /// Entries of the history, oldest first.
    pub items: Vec<TurnEntry>,
    /// Cursor of the next page, for `after`; null on the last page. During the turn, entries may follow all the same.
    #[serde(default)]
    pub next: Option<String>,
}

/// One entry of the history of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnEntry {
    /// Number of the worker's event.
    pub no: i64,
    /// Time of the entry.
    pub ts: Millis,
    /// Kind and content of the entry.
    #[serde(flatten)]
    pub body: TurnEntryBody,
}

/// Kind and content of an entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TurnEntryBody {
    /// System prompt of the agent.
    System(HistoryText),
    /// Prompt of the attempt.
    Prompt(HistoryText),
    /// Text that the model has written.
    Words(HistoryText),
    /// Tool call of the agent.
    ToolCall {
        /// Id that links the result to the call.
        id: String,
        /// Name of the tool.
        tool: String,
        /// Arguments; if they are not whole, possibly the beginning of their JSON as a string.
        args: Value,
        /// Size of the whole arguments as JSON; absent if it is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// Completeness of the arguments.
        state: TextState,
    },
    /// Result of a tool call.
    ToolResult {
        /// Id of the call.
        id: String,
        /// Name of the tool.
        tool: String,
        /// True if the call succeeded.
        ok: bool,
        /// Result, or its beginning.
        text: String,
        /// Size of the whole result; absent if it is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// Completeness of the result.
        state: TextState,
    },
    /// Tokens that were used since the last report.
    Usage(Usage),
    /// A message was given to the running turn.
    Joined {
        /// Position of the message in the channel.
        seq: Seq,
    },
    /// The worker retried an operation.
    Retry {
        /// Explanation of the failure.
        why: String,
    },
    /// The worker reported a fact about the turn.
    Note {
        /// The fact, for people.
        text: String,
    },
    /// The entry is damaged.
    Damaged,
}
