//! Documents, resources and the event log.

use agent_worker_protocol::{DocumentPath, Millis, Position, Revision, RunId, WorkflowId};

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
    pub base: Base,
    /// The most bytes the document may have afterwards.
    pub most: usize,
}

/// How a write meets the document that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// There is none yet.
    Absent,
    /// It is at this revision.
    Revision(Revision),
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
    /// When.
    pub ts: Millis,
    /// How long it is, in bytes.
    pub bytes: u64,
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
