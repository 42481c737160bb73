//! Documents, resources and the event log.

use agent_worker_protocol::{
    AttemptId, DocumentPath, Millis, PauseCause, Position, ResourceId, Revision, RunId, Sender,
    Seq, WorkflowId,
};

use super::messages::NewMessage;

/// A write to a document.
#[derive(Clone, Debug)]
pub struct DocumentWrite {
    /// Instance of the document.
    pub workflow: WorkflowId,
    /// Path of the document.
    pub path: DocumentPath,
    /// Text to be written.
    pub content: String,
    /// Required state of the document before the write.
    pub base: DocumentBase,
    /// Maximum length of the document after the write, in bytes.
    pub max_bytes: usize,
}

/// The state of the document that a write requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentBase {
    /// The document does not exist yet.
    Absent,
    /// The document is at this revision.
    Revision(Revision),
    /// The document is at the revision that this attempt last read or wrote; it does not exist yet if the attempt
    /// read none.
    LastRead,
    /// The document has any state; the text is added to its end.
    Append,
}

/// One revision of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Path, revision and author.
    pub info: DocumentInfo,
    /// Text of the revision.
    pub content: String,
}

/// One revision of a document, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentInfo {
    /// Path of the document.
    pub path: DocumentPath,
    /// Number of the revision.
    pub revision: Revision,
    /// Author of the revision.
    pub author: String,
    /// Attempt that wrote the revision, if an agent did.
    pub attempt: Option<AttemptId>,
    /// Time of the write.
    pub ts: Millis,
    /// Length in bytes.
    pub bytes: u64,
}

/// A proposed change to a document by an agent that is not its owner.
#[derive(Clone, Debug)]
pub struct NewSuggestion {
    /// Instance of the document.
    pub workflow: WorkflowId,
    /// Path of the document.
    pub path: DocumentPath,
    /// Description of the change in words.
    pub text: String,
    /// The exact change, so that the store can apply it.
    pub edit: Option<DocumentEdit>,
    /// Message to the owner; the store fills in the recipients.
    pub message: NewMessage,
    /// Pauses the run in the same transaction.
    pub pause: Option<PauseCause>,
}

/// A change to a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentEdit {
    /// Adds this text to the end of the document.
    Append(String),
    /// Replaces one passage by another.
    Replace {
        /// The present text, which occurs exactly once.
        old: String,
        /// The new text of the passage.
        new: String,
    },
}

impl DocumentEdit {
    /// Returns the text with this change; as an error, the number of times the passage occurs.
    pub fn apply(&self, text: &str) -> Result<String, usize> {
        match self {
            Self::Append(new) => Ok(format!("{text}{new}")),
            Self::Replace { old, new } => match text.matches(old.as_str()).count() {
                1 => Ok(text.replacen(old.as_str(), new, 1)),
                times => Err(times),
            },
        }
    }
}

/// The answer to a suggestion.
#[derive(Clone, Debug)]
pub struct SuggestionAnswer {
    /// Instance of the suggestion.
    pub workflow: WorkflowId,
    /// Number of the suggestion.
    pub suggestion: Seq,
    /// Accepted or rejected.
    pub verdict: SuggestionVerdict,
    /// Message to the suggestion's author; the store decides if it wakes the author.
    pub message: NewMessage,
    /// Pauses the run in the same transaction.
    pub pause: Option<PauseCause>,
    /// Maximum length of the document after the write, in bytes.
    pub max_bytes: usize,
}

/// The decision about a suggestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuggestionVerdict {
    /// Applies the suggestion, if it has an exact change.
    Accept,
    /// Rejects the suggestion for this reason.
    Reject(String),
}

/// A person's edit that could not be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentConflict {
    /// Path of the document.
    pub path: DocumentPath,
    /// Reason of the conflict.
    pub why: String,
}

/// A part of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourcePart {
    /// Kind of the content, as its creator gave it.
    pub kind: String,
    /// Creator of the resource; none if an earlier version stored it.
    pub created_by: Option<Sender>,
    /// Length of the whole resource, in bytes.
    pub total: u64,
    /// Bytes of the requested range.
    pub bytes: Vec<u8>,
}

/// A resource, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceInfo {
    /// Id of the resource.
    pub id: ResourceId,
    /// Kind of the content, as its creator gave it.
    pub kind: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Time of the first write.
    pub ts: Millis,
    /// Creator of the resource; none if an earlier version stored it.
    pub created_by: Option<Sender>,
}

/// Selects the events to read, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventQuery {
    /// Instance of the events.
    pub workflow: WorkflowId,
    /// Restricts the events to one run.
    pub run: Option<RunId>,
    /// Returns only events after this position.
    pub after: Position,
    /// Maximum number of events.
    pub limit: u32,
}
