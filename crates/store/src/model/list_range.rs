//! The part of a list that one read returns.

use agent_worker_protocol::{Millis, Priority, ResourceId, RunId, Seq, api::FeedbackView};

/// The part of a list that one read returns: the first `limit` items after the item with the key `after`. A key stays
/// valid when its item is gone, and an item that is added before it moves no other item to another part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListRange<K> {
    /// Key of the last item of the previous part; none for the first part.
    pub after: Option<K>,
    /// Maximum number of items. A damaged row is skipped and uses no part of it.
    pub limit: u32,
}

/// The place of an ended run in the list of runs: newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunKey {
    /// Start of the run.
    pub started: Millis,
    /// Id of the run.
    pub run: RunId,
}

/// The place of a message in an inbox: waking first, urgent first, then by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxKey {
    /// True if the message wakes its recipient.
    pub wakes: bool,
    /// Priority of the message.
    pub priority: Priority,
    /// Number of the message.
    pub seq: Seq,
}

/// The place of a resource in the list of an instance's resources: newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceKey {
    /// Time at which the resource was stored.
    pub ts: Millis,
    /// Id of the resource.
    pub id: ResourceId,
}

/// The place of a feedback entry in the list: newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedbackKey {
    /// Time of the entry.
    pub ts: Millis,
    /// Number of the entry; the high bits are the number of its database.
    pub id: i64,
}

/// A feedback entry and its place in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedbackRow {
    /// Place of the entry.
    pub key: FeedbackKey,
    /// The feedback itself.
    pub entry: FeedbackView,
}

impl<K> ListRange<K> {
    /// Returns the first `limit` items.
    pub fn first(limit: u32) -> Self {
        Self { after: None, limit }
    }

    /// Returns all items.
    pub fn all() -> Self {
        Self::first(u32::MAX)
    }
}
