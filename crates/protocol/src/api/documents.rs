//! The team's documents, and content too long for a message.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    id::{AttemptId, ResourceId, Revision, Seq},
    name::{AgentName, DocumentPath},
    state::SuggestionState,
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
    /// In which attempt, if an agent did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptId>,
    /// How long it is.
    pub bytes: u64,
    /// When it was written.
    pub written: Millis,
}

/// `GET /diffs/{path}`: what changed from one revision to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentDiff {
    /// Where.
    pub file: DocumentPath,
    /// From which revision; 0 is before the first.
    pub from: Revision,
    /// To which.
    pub to: Revision,
    /// Line by line, as `diff -u` writes it; empty when nothing changed.
    pub diff: String,
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

/// `GET /document`: the document that is meant when none is named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentNamed {
    /// Where.
    pub file: DocumentPath,
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

/// `POST /suggestions`: what the owner of the documents is asked to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuggestRequest {
    /// Which instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Which document; absent: the one of `GET /document`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<DocumentPath>,
    /// What, in words.
    pub suggestion: String,
    /// A passage that occurs in it exactly once, to be replaced by `new`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// What stands in its place; without `old`: what is added at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

/// What suggesting something made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Suggested")]
pub struct SuggestReply {
    /// Its number: that of the message that told the owner.
    pub suggestion: Seq,
    /// Whom it waits for.
    pub owner: AgentName,
    /// Whether an earlier call with the same key had made it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deduplicated: bool,
}

/// `GET /suggestions` gives a list of them, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SuggestionView {
    /// Its number: that of the message that told the owner.
    pub suggestion: Seq,
    /// For which document.
    pub file: DocumentPath,
    /// Whose it is.
    pub author: String,
    /// Made in which attempt, if an agent made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptId>,
    /// What, in words.
    pub text: String,
    /// The passage to be replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// What is to be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// How it stands.
    pub state: SuggestionState,
    /// Who answered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why it was rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The revision that has it; absent if accepting it wrote nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// When it was made.
    pub made: Millis,
}

/// `POST /suggestions/{seq}`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuggestionRequest {
    /// Which instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Whether it is accepted; else it is rejected.
    pub accept: bool,
    /// Why it is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `POST /resources`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResourceRequest {
    /// Which instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// What is kept.
    pub content: String,
    /// What it is; absent: `text/plain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
}

/// The answer to [`ResourceRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceKept {
    /// What to read it by: its SHA-256, so that the same content is the same resource.
    pub id: ResourceId,
    /// How long it is.
    pub bytes: u64,
}

/// `GET /resources` gives a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceEntry {
    /// Which.
    pub id: ResourceId,
    /// What its maker said it is.
    pub r#type: String,
    /// How long it is.
    pub bytes: u64,
    /// When it was first kept.
    pub kept: Millis,
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
