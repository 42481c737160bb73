//! Messages: sent, read, and where each of them is.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Mail;
use crate::{
    id::{RunId, Seq},
    message::{Message, Priority, Receipt},
    name::AgentName,
    target::{InstanceRef, Target},
};

/// `POST /messages`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// `high` sorts it before others in the inboxes it reaches, as an urgent word in it does.
    #[serde(default, skip_serializing_if = "Priority::is_normal")]
    pub priority: Priority,
}

/// The answer to [`SendRequest`]: it is on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// Who of those it wakes was stopped, and acts on it only when resumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopped: Vec<AgentName>,
    /// What it mentions that is nobody, each with a suggestion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<UnknownMention>,
    /// Whether an earlier call with the same key had written it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deduplicated: bool,
}

/// A mention of nobody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownMention {
    /// As written.
    pub name: String,
    /// Who may have been meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<AgentName>,
}

/// `GET /messages`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessagesReply {
    /// Whose channel.
    pub instance: InstanceRef,
    /// Oldest first; of a search the newest first.
    pub messages: Vec<Message>,
    /// Where those stand that are one's own, the user's all, if that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<Receipt>,
}

/// `GET /messages/{seq}/receipts`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiptsReply {
    /// One for each recipient.
    pub receipts: Vec<Receipt>,
}

/// `GET /inbox`: what waits for an agent; looking acks nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InboxReply {
    /// Whose.
    pub agent: AgentName,
    /// Where.
    pub instance: InstanceRef,
    /// Waking first, urgent first, then by age.
    pub messages: Vec<Mail>,
}

/// `POST /inbox/ack`: mail that `GET /inbox` showed is done when this turn succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AckRequest {
    /// Up to this message.
    pub until: Seq,
}

/// The answer to [`AckRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AckReply {
    /// Messages that are done when this turn succeeds.
    pub with_this_turn: Vec<Seq>,
}

/// `GET /dead` gives a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetter {
    /// Where.
    pub instance: InstanceRef,
    /// The folder its file lies in.
    pub project: PathBuf,
    /// In which run.
    pub run: RunId,
    /// Whether that run still lives, so that it can be tried again.
    pub live: bool,
    /// Whose, and why.
    #[serde(flatten)]
    pub receipt: Receipt,
    /// The message itself.
    pub message: Message,
}

/// `POST /dead/redrive` and `POST /dead/drop`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadRequest {
    /// Which instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Which message; absent: every dead letter of the instance's last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    /// Of which recipient; absent: of all for whom it is dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentName>,
    /// Why it is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The answer to [`DeadRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeadReply {
    /// Where.
    pub instance: InstanceRef,
    /// The deliveries, as they stand now.
    pub receipts: Vec<Receipt>,
}
