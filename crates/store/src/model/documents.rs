//! Documents, resources and the event log.

use agent_worker_protocol::{
    AttemptId, DocumentPath, Millis, PauseCause, Position, ResourceId, Revision, RunId, Seq,
    WorkflowId,
};

use super::messages::NewMessage;

/// A write to a document.
#[derive(Clone, Debug)]
pub struct DocumentWrite {
    /// The instance.
    pub workflow: WorkflowId,
    /// Which document.
    pub path: DocumentPath,
    /// What is written.
    pub content: String,
    /// How it meets what is there.
    pub base: DocumentBase,
    /// The most bytes the document may have afterwards.
    pub max_bytes: usize,
}

/// How a write meets the document that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentBase {
    /// There is none yet.
    Absent,
    /// It is at this revision.
    Revision(Revision),
    /// It is at the revision this attempt last read, or wrote; there is none yet if it read none.
    LastRead,
    /// Whatever is there, add to its end.
    Append,
}

/// One revision of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Which, and by whom.
    pub info: DocumentInfo,
    /// What it says.
    pub content: String,
}

/// One revision of a document, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentInfo {
    /// Where.
    pub path: DocumentPath,
    /// Which revision.
    pub revision: Revision,
    /// Who wrote it.
    pub author: String,
    /// In which attempt.
    pub attempt: Option<AttemptId>,
    /// When.
    pub ts: Millis,
    /// How long it is, in bytes.
    pub bytes: u64,
}

/// A change somebody would make to a document if they were its owner.
#[derive(Clone, Debug)]
pub struct NewSuggestion {
    /// The instance.
    pub workflow: WorkflowId,
    /// Which document.
    pub path: DocumentPath,
    /// In words.
    pub text: String,
    /// Exactly, so that it can be carried out.
    pub edit: Option<DocumentEdit>,
    /// What the owner is told; whom it reaches is worked out here.
    pub message: NewMessage,
    /// Pauses the run in the same step.
    pub pause: Option<PauseCause>,
}

/// A change to a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentEdit {
    /// This is added to its end.
    Append(String),
    /// One passage becomes another.
    Replace {
        /// What is there, exactly once.
        old: String,
        /// What is to be there.
        new: String,
    },
}

impl DocumentEdit {
    /// The text with this change made; else how often the passage occurs.
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

/// What becomes of a suggestion.
#[derive(Clone, Debug)]
pub struct SuggestionAnswer {
    /// The instance.
    pub workflow: WorkflowId,
    /// Which.
    pub suggestion: Seq,
    /// Yes or no.
    pub verdict: SuggestionVerdict,
    /// What its author is told; whether it wakes them is worked out here.
    pub message: NewMessage,
    /// Pauses the run in the same step.
    pub pause: Option<PauseCause>,
    /// The most bytes the document may have afterwards.
    pub max_bytes: usize,
}

/// Yes or no to a suggestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuggestionVerdict {
    /// It is carried out, if it says exactly what to change.
    Accept,
    /// It is not, for this reason.
    Reject(String),
}

/// What a person wrote and could not be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentConflict {
    /// Which document.
    pub path: DocumentPath,
    /// Why.
    pub why: String,
}

/// A part of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourcePart {
    /// What it is, as its maker said.
    pub kind: String,
    /// How long the whole is, in bytes.
    pub total: u64,
    /// The bytes asked for.
    pub bytes: Vec<u8>,
}

/// A resource, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceInfo {
    /// Which.
    pub id: ResourceId,
    /// What it is, as its maker said.
    pub kind: String,
    /// How long it is, in bytes.
    pub bytes: u64,
    /// When it was first kept.
    pub ts: Millis,
}

/// Which events to read, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventQuery {
    /// Of which instance.
    pub workflow: WorkflowId,
    /// Of one run only.
    pub run: Option<RunId>,
    /// After this one.
    pub after: Position,
    /// At most so many.
    pub limit: u32,
}
