//! Documents of a team, and resources for content too long for a message.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    attachment::Base64Bytes,
    id::{AttemptId, ResourceId, Revision, Seq},
    message::Sender,
    name::{AgentName, DocumentPath},
    state::SuggestionState,
    target::Target,
    time::Millis,
};

/// Reply of `GET /documents/{path}`: the text of one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentText {
    /// Path of the document.
    pub file: DocumentPath,
    /// Revision of the text; pass it as `base_revision` to write the next one.
    pub revision: Revision,
    /// Author of the revision.
    pub author: String,
    pub content: String,
}

/// One entry of `GET /documents`, or one revision of `GET /revisions/{path}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentEntry {
    /// Path of the document.
    pub file: DocumentPath,
    pub revision: Revision,
    /// Author of the revision.
    pub author: String,
    /// Attempt that wrote the revision, if its author is an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptId>,
    pub bytes: u64,
    /// Time of writing.
    pub written: Millis,
}

/// Reply of `GET /diffs/{path}`: the changes from one revision to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentDiff {
    /// Path of the document.
    pub file: DocumentPath,
    /// Revision of the old text; 0 is the empty text before the first revision.
    pub from: Revision,
    /// Revision of the new text.
    pub to: Revision,
    /// Changed lines in the format of `diff -u`; empty if nothing changed.
    pub diff: String,
}

/// Body of `POST /documents/{path}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentRequest {
    /// Instance of the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Text to write.
    pub content: String,
    /// Treatment of an existing text.
    pub mode: DocumentMode,
    /// Revision that a `write` replaces; absent: the document does not exist yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_revision: Option<Revision>,
}

/// Treatment of an existing text by a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DocumentMode {
    /// Replaces the revision that the request names.
    Write,
    /// Adds the text at the end.
    Append,
    /// Creates a document that must not exist yet.
    Create,
}

/// Reply of `GET /document`: the document that a request without a path addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentNamed {
    /// Path of the document.
    pub file: DocumentPath,
}

/// Result of a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentWritten {
    /// Path of the document.
    pub file: DocumentPath,
    /// Revision that the write made.
    pub revision: Revision,
    /// True if an earlier call with the same key had written it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deduplicated: bool,
}

/// Body of `POST /suggestions`: a change for the owner of the documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuggestRequest {
    /// Instance of the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Path of the document; absent: the one of `GET /document`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<DocumentPath>,
    /// Description of the change, in words.
    pub suggestion: String,
    /// Passage that occurs in the document exactly once, to be replaced by `new`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// Replacement for `old`; without `old`: text to add at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

/// Reply to [`SuggestRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Suggested")]
pub struct SuggestReply {
    /// Number of the suggestion: the seq of the message that notified the owner.
    pub suggestion: Seq,
    /// Agent that must answer the suggestion.
    pub owner: AgentName,
    /// True if an earlier call with the same key had made it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deduplicated: bool,
}

/// One suggestion; `GET /suggestions` returns a list of them, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SuggestionView {
    /// Number of the suggestion: the seq of the message that notified the owner.
    pub suggestion: Seq,
    /// Path of the document.
    pub file: DocumentPath,
    /// Author of the suggestion.
    pub author: String,
    /// Attempt that made the suggestion, if its author is an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptId>,
    /// Description of the change, in words.
    pub text: String,
    /// Passage to be replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// Text to be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// State of the suggestion.
    pub state: SuggestionState,
    /// Author of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Reason for the rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Revision with the change; absent if the acceptance wrote nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// Time of the suggestion.
    pub made: Millis,
}

/// Body of `POST /suggestions/{seq}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuggestionRequest {
    /// Instance of the suggestion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// True to accept the suggestion, false to reject it.
    pub accept: bool,
    /// Reason for a rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Body of `POST /resources`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResourceRequest {
    /// Instance of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// The caller's folder: its project's instances come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Content to keep.
    pub content: String,
    /// Media type of the content; absent: `text/plain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
}

/// Reply to [`ResourceRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceKept {
    /// Id for reading the resource: its SHA-256, so that equal contents are one resource.
    pub id: ResourceId,
    pub bytes: u64,
}

/// One resource; `GET /resources` returns a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceEntry {
    pub id: ResourceId,
    /// Media type that the creator gave.
    pub r#type: String,
    pub bytes: u64,
    /// Time at which the content was first stored.
    pub kept: Millis,
    /// Sender that first stored the content; absent for a resource of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<Sender>,
}

/// Reply of `GET /resources/{id}`: a part of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceText {
    pub id: ResourceId,
    /// Media type that the creator gave.
    pub r#type: String,
    /// Sender that first stored the content; absent for a resource of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<Sender>,
    /// Length of the whole resource, in bytes.
    pub total: u64,
    /// Offset of the first byte of this part.
    pub start: u64,
    /// Offset of the first byte after this part, from which to continue.
    pub end: u64,
    /// Encoding of `content`; absent for text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<ResourceEncoding>,
    /// Text of this part, with replacements for bytes that are not text; base64 if `encoding` says so.
    pub content: String,
}

/// Encoding of a part of a resource whose media type is not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResourceEncoding {
    /// The content is base64.
    Base64,
}

impl ResourceText {
    /// Returns the bytes of the content; none if its base64 is invalid.
    pub fn content_bytes(&self) -> Option<Vec<u8>> {
        match self.encoding {
            None => Some(self.content.clone().into_bytes()),
            Some(ResourceEncoding::Base64) => {
                Base64Bytes::try_from(self.content.clone()).ok().map(|bytes| bytes.0)
            }
        }
    }

    /// Replaces the content.
    pub fn set_content_bytes(&mut self, bytes: Vec<u8>) {
        self.content = match self.encoding {
            None => String::from_utf8_lossy(&bytes).into_owned(),
            Some(ResourceEncoding::Base64) => Base64Bytes(bytes).into(),
        };
    }
}
