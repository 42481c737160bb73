//! The history of turns.

use agent_worker_protocol::{AttemptId, Epoch, EventBody, HistoryText, Millis};

use crate::time::StoreTime;

/// The place of an attempt in a list of attempts: newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptKey {
    /// Start of the attempt.
    pub started: StoreTime,
    /// Number of the attempt among those of its agent.
    pub epoch: Epoch,
    /// Id of the attempt.
    pub id: AttemptId,
}

/// The place of an entry in the history of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HistoryKey {
    /// Number of the worker's event.
    pub no: i64,
    /// Part of the event.
    pub part: u32,
}

/// One entry of the history of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryEntry {
    /// Place of the entry.
    pub key: HistoryKey,
    /// Time of the entry by the worker's clock.
    pub ts: Millis,
    /// Content of the entry.
    pub content: HistoryContent,
}

/// The content of an entry.
#[derive(Clone, Debug, PartialEq)]
pub enum HistoryContent {
    /// System prompt of the agent.
    System(HistoryText),
    /// Prompt of the attempt.
    Prompt(HistoryText),
    /// Words of the model.
    Words(HistoryText),
    /// An event of the worker, with its whole text if it has one that was shortened.
    Event(EventBody, Option<HistoryText>),
    /// The row of the entry, or of its event, is damaged.
    Damaged,
}

/// One part of the history of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryPart {
    /// The entries, oldest first.
    pub entries: Vec<HistoryEntry>,
    /// True if the part ended because of the size of its texts, and entries may follow.
    pub is_cut: bool,
}
