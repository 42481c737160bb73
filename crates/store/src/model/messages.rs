//! New messages, and queries for stored ones.

use std::ops::Range;

use agent_worker_protocol::{
    AgentName, AttachmentName, MessageKind, Priority, ResourceId, RunId, Seq,
};
use serde::{Deserialize, Serialize};

/// A message to be written. Its sender is the author of the write, never a field.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewMessage {
    /// Kind of the message.
    pub kind: MessageKind,
    /// Text of the message.
    pub body: String,
    /// Byte ranges of the body that came from data.
    pub data: Vec<Range<usize>>,
    /// Message that this one replies to.
    pub reply_to: Option<Seq>,
    /// Number of messages in the chain that led to this one.
    pub hops: u32,
    /// Priority of the message.
    pub priority: Priority,
    /// Resource with the whole text, if that is longer than a message.
    pub resource: Option<ResourceId>,
    /// Recipients, resolved once by the kernel.
    pub recipients: Vec<Recipient>,
    /// Files that are stored with the message. The first message of a run has none.
    #[serde(skip)]
    pub attachments: Vec<NewAttachment>,
}

/// A file of a message to be written.
#[derive(Clone, Debug)]
pub struct NewAttachment {
    /// Name of the file.
    pub name: AttachmentName,
    /// Media type of the content.
    pub media_type: String,
    /// Content of the file.
    pub content: Vec<u8>,
}

/// A recipient of a message, and the wake mode of its delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipient {
    /// Name of the agent.
    pub agent: AgentName,
    /// Wake mode of the delivery.
    pub wake: Wake,
}

/// The wake mode of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wake {
    /// The delivery starts no turn and is read along with the next one (`cc`).
    No,
    /// The delivery starts a turn, together with the other pending ones.
    Batched,
    /// The delivery starts a turn of its own (`send --wait`).
    Alone,
    /// The delivery starts a turn together with the other pending ones, also with those that would start a turn of
    /// their own (`send --now`).
    Now,
}

/// A value, marked as new or as the result of an earlier request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Once<T> {
    /// This request made the value.
    New(T),
    /// An earlier request with the same key made the value.
    Deduplicated(T),
}

/// Selects the messages to read.
#[derive(Clone, Debug)]
pub struct MessageQuery {
    /// Restricts the messages to one run.
    pub run: Option<RunId>,
    /// Returns only messages after this one.
    pub after: Seq,
    /// Returns only messages before this one.
    pub before: Option<Seq>,
    /// Returns only messages that contain this text, ignoring case.
    pub search: Option<String>,
    /// Returns only messages that wake this agent.
    pub to: Option<AgentName>,
    /// End of the list that is returned if there are more than `limit`.
    pub order: MessageOrder,
    /// Maximum number of messages.
    pub limit: u32,
}

/// Selects one end of a long list. The returned list is always oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageOrder {
    /// Selects the oldest messages.
    OldestFirst,
    /// Selects the newest messages.
    NewestFirst,
}

impl<T> Once<T> {
    /// Returns the value, new or not.
    pub fn value(self) -> T {
        match self {
            Self::New(value) | Self::Deduplicated(value) => value,
        }
    }
    /// Returns true if an earlier request made the value.
    pub fn is_deduplicated(&self) -> bool {
        matches!(self, Self::Deduplicated(_))
    }
}
