//! Messages on their way in, and how they are looked up.

use std::ops::Range;

use agent_worker_protocol::{AgentName, MessageKind, Priority, ResourceId, RunId, Seq};
use serde::{Deserialize, Serialize};

/// A message to be written. Its sender is who writes, never a field.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewMessage {
    /// What it is.
    pub kind: MessageKind,
    /// What it says.
    pub body: String,
    /// Byte ranges of the body that came from data.
    pub data: Vec<Range<usize>>,
    /// The message it answers.
    pub reply_to: Option<Seq>,
    /// How many messages led to it.
    pub hops: u32,
    /// How urgent it is.
    pub priority: Priority,
    /// Its whole text, when that is longer than a message.
    pub resource: Option<ResourceId>,
    /// Whom it is for, worked out once by the kernel.
    pub recipients: Vec<Recipient>,
}

/// How a message reaches one recipient.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipient {
    /// Who.
    pub agent: AgentName,
    /// Whether it starts a turn.
    pub wake: Wake,
}

/// Whether a delivery starts a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wake {
    /// Read along with the next turn (`cc`).
    No,
    /// Starts a turn, together with whatever else waits.
    Batched,
    /// Starts a turn of its own (`send --wait`).
    Alone,
}

/// A value, and whether this request made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Once<T> {
    /// This request made it.
    New(T),
    /// An earlier request with the same key had made it.
    Deduplicated(T),
}

/// Which messages to read.
#[derive(Clone, Debug)]
pub struct MessageQuery {
    /// Of one run only.
    pub run: Option<RunId>,
    /// After this one.
    pub after: Seq,
    /// Containing this text, whatever the case of its letters.
    pub search: Option<String>,
    /// Which end to take when there are more than `limit`.
    pub order: MessageOrder,
    /// At most so many.
    pub limit: u32,
}

/// Which end of a long list is meant. What is returned is always oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageOrder {
    /// The first ones.
    OldestFirst,
    /// The last ones.
    NewestFirst,
}

impl<T> Once<T> {
    /// The value, whoever made it.
    pub fn value(self) -> T {
        match self {
            Self::New(value) | Self::Deduplicated(value) => value,
        }
    }
    /// Whether an earlier request had made it.
    pub fn is_deduplicated(&self) -> bool {
        matches!(self, Self::Deduplicated(_))
    }
}
