//! Messages: send, read, acknowledge, and the state of each delivery.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Mail;
use crate::{
    attachment::{AttachmentName, Base64Bytes},
    effect::hash,
    id::{ResourceId, RunId, Seq},
    message::{Message, Priority, Receipt},
    name::AgentName,
    target::{InstanceRef, Target},
};

/// Body of `POST /messages`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendRequest {
    /// Target as typed; an agent omits it and sends to its own instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Text of the message.
    pub message: String,
    /// Recipients in addition to the mentioned agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<AgentName>,
    /// Agents that read the message without being woken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cc: Vec<AgentName>,
    /// Message to which this one replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<Seq>,
    /// True if each recipient gets a turn for this message alone (`--wait`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    /// True if the message also reaches an agent in the middle of its turn (`--now`). An agent may not set it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub now: bool,
    /// Priority; `high` sorts the message before others in an inbox, as an urgent word in the text does.
    #[serde(default, skip_serializing_if = "Priority::is_normal")]
    pub priority: Priority,
    /// Files that come with the message: at most 20, with at most 10 MiB each and 60 MiB together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<AttachmentRequest>,
}

impl SendRequest {
    /// Returns the arguments that identify this request: everything, with the hashes of the files instead of their
    /// content.
    pub fn to_arguments(&mut self) -> Value {
        let files = std::mem::take(&mut self.attachments);
        let mut args = serde_json::to_value(&*self).unwrap_or_default();
        if !files.is_empty() {
            let file = |file: &AttachmentRequest| json!({"name": file.name, "sha256": ResourceId::new(hash(&[&file.content.0]))});
            args["attachments"] = files.iter().map(file).collect();
        }
        self.attachments = files;
        args
    }
}

/// File of a [`SendRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachmentRequest {
    /// Name of the file, without a folder.
    pub name: AttachmentName,
    /// Content of the file in base64.
    pub content: Base64Bytes,
}

/// Reply to [`SendRequest`]: the message is on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SendReply {
    /// Position of the message in the channel.
    pub seq: Seq,
    /// Instance that received the message.
    pub instance: InstanceRef,
    /// Agents that the message wakes.
    pub woken: Vec<AgentName>,
    /// Agents that read the message without being woken.
    pub cc: Vec<AgentName>,
    /// Reason for which the run is paused and no agent acts on the message for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// Stopped agents among the woken ones, which act on the message only after a resume.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopped: Vec<AgentName>,
    /// Mentions of unknown agents, each with a suggestion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<UnknownMention>,
    /// Effect of a message with `now` on each woken agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub now: Vec<NowReceipt>,
    /// True if an earlier call with the same key had written it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deduplicated: bool,
}

/// Effect of a message with `now` on one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NowReceipt {
    pub agent: AgentName,
    pub outcome: NowOutcome,
}

/// Way in which a message with `now` reaches an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NowOutcome {
    /// The running turn gets the message: its program passes it to the model with the next step. If the turn ends before
    /// that, the next one starts with the message.
    Joined,
    /// The message ended the running turn; the next one has its messages and this one.
    Interrupted,
    /// No turn was running; the next one starts with the message.
    Started,
    /// The run is paused or the agent is stopped; the message is pending.
    Waiting,
}

/// Mention of an unknown agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownMention {
    /// Name as written in the text.
    pub name: String,
    /// Existing agent with a similar name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<AgentName>,
}

/// Reply of `GET /messages`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessagesReply {
    /// Instance of the channel.
    pub instance: InstanceRef,
    /// Messages, oldest first; newest first for a search.
    pub items: Vec<Message>,
    /// Cursor of the next page, for `after`; null on the last page. The next page has the messages before these ones,
    /// or after them for a request with `since` or `thread`.
    #[serde(default)]
    pub next: Option<String>,
    /// Receipts for the caller's own messages, or for all messages if the caller is the user; only on request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<Receipt>,
}

/// Reply of `GET /inbox`: the pending messages of an agent. Reading them acknowledges nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InboxReply {
    pub agent: AgentName,
    pub instance: InstanceRef,
    /// Messages in order: waking first, urgent first, then by age.
    pub items: Vec<Mail>,
    /// Cursor of the next page, for `after`; null on the last page.
    #[serde(default)]
    pub next: Option<String>,
}

/// Body of `POST /inbox/ack`: messages that `GET /inbox` showed become acted if this turn succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AckRequest {
    /// Last message to acknowledge.
    pub until: Seq,
}

/// Reply to [`AckRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AckReply {
    /// Messages that become acted if this turn succeeds.
    pub with_this_turn: Vec<Seq>,
}

/// One dead letter; `GET /dead` returns a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetter {
    pub instance: InstanceRef,
    /// Folder of the workflow file.
    pub project: PathBuf,
    pub run: RunId,
    /// True if the run is live, so that a redrive is possible.
    pub live: bool,
    /// Recipient and reason of the dead delivery.
    #[serde(flatten)]
    pub receipt: Receipt,
    pub message: Message,
}

/// Body of `POST /dead/redrive` and `POST /dead/drop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadRequest {
    /// Instance of the dead letters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Message to select; absent: every dead letter of the instance's last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    /// Recipient to select; absent: every recipient for which the message is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// Reason for a drop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Reply to [`DeadRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeadReply {
    pub instance: InstanceRef,
    /// Deliveries in their new state.
    pub receipts: Vec<Receipt>,
}
