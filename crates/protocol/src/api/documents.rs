//! The team's documents, and content too long for a message.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    id::{ResourceId, Revision},
    name::DocumentPath,
    target::Target,
    time::Millis,
};

/// `GET /documents/{path}`: a document as a reader sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentText {
    /// Where.
    pub file: DocumentPath,
    /// Which revision; pass it as `base_revision` to write the next.
    pub revision: Revision,
    /// Who wrote it.
    pub author: String,
    /// What it says.
    pub content: String,
}

/// `GET /documents` gives a list of them, `GET /revisions/{path}` one for each revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentEntry {
    /// Where.
    pub file: DocumentPath,
    /// Its revision.
    pub revision: Revision,
    /// Who wrote that.
    pub author: String,
    /// How long it is.
    pub bytes: u64,
    /// When it was written.
    pub written: Millis,
}

/// `POST /documents/{path}`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentRequest {
    /// Which instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// What is written.
    pub content: String,
    /// How it meets what is there.
    pub mode: DocumentMode,
    /// Of `write`: the revision it follows; absent: there is none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_revision: Option<Revision>,
}

/// How a write meets what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DocumentMode {
    /// It replaces the revision it names.
    Write,
    /// It is added to the end.
    Append,
    /// There must be none yet.
    Create,
}

/// What a write made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentWritten {
    /// Where.
    pub file: DocumentPath,
    /// Its revision now.
    pub revision: Revision,
    /// Whether an earlier call with the same key had written it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deduplicated: bool,
}

/// `GET /resources/{id}`: a part of a resource, as text; bytes that are not text are replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceText {
    /// Which.
    pub id: ResourceId,
    /// What its maker said it is.
    pub r#type: String,
    /// How long the whole is.
    pub total: u64,
    /// The first byte of this part.
    pub start: u64,
    /// The first byte after it; ask from here for more.
    pub end: u64,
    /// The part.
    pub content: String,
}
