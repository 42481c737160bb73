//! Tools for the team's documents.

use agent_worker_kernel::{DocumentBase, InstanceSelector, Kernel, PageRequest, Principal};
use agent_worker_protocol::{
    DocumentPath, Revision, Seq,
    api::{SuggestRequest, SuggestionRequest, SuggestionView},
};
use serde::Deserialize;
use serde_json::json;

use super::call::{McpFailure, McpToolCall, McpToolResult, kernel_refusal, to_tool_result};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentReadArgs {
    file: Option<DocumentPath>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentWriteArgs {
    content: String,
    file: Option<DocumentPath>,
    base_revision: Option<Revision>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentAppendArgs {
    content: String,
    file: Option<DocumentPath>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentCreateArgs {
    file: DocumentPath,
    content: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentSuggestArgs {
    suggestion: String,
    file: Option<DocumentPath>,
    old: Option<String>,
    new: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SuggestionAnswerArgs {
    suggestion: Seq,
    accept: bool,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentToolNoArgs {}

/// Implements the `document_read` tool: a document that does not exist yet is empty, with revision 0.
pub(super) async fn read(kernel: &Kernel, who: &Principal, mut call: McpToolCall) -> McpToolResult {
    let DocumentReadArgs { file } = call.args()?;
    let file = file_or_default(kernel, who, &call, file).await?;
    let read = kernel.documents().read_or_empty(who, &call.place, file).await;
    to_tool_result(read)
}

/// Implements the `document_write` tool: without `base_revision` the base is the revision that this attempt read
/// last.
pub(super) async fn write(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let DocumentWriteArgs { content, file, base_revision } = call.args()?;
    let base = base_revision.map_or(DocumentBase::LastRead, DocumentBase::Revision);
    let file = file_or_default(kernel, who, &call, file).await?;
    write_document(kernel, who, call, file, content, base).await
}

/// Implements the `document_append` tool.
pub(super) async fn append(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let DocumentAppendArgs { mut content, file } = call.args()?;
    // The next text starts on its own line, as with the command.
    if !content.ends_with('\n') {
        content.push('\n');
    }
    let file = file_or_default(kernel, who, &call, file).await?;
    write_document(kernel, who, call, file, content, DocumentBase::Append).await
}

/// Implements the `document_create` tool.
pub(super) async fn create(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let DocumentCreateArgs { file, content } = call.args()?;
    write_document(kernel, who, call, file, content, DocumentBase::Absent).await
}

/// Implements the `document_list` tool.
pub(super) async fn list(kernel: &Kernel, who: &Principal, mut call: McpToolCall) -> McpToolResult {
    let DocumentToolNoArgs {} = call.args()?;
    let list = kernel.documents().list(who, &call.place, &PageRequest::whole()).await;
    to_tool_result(list.map(|page| json!({ "documents": page.items })))
}

/// Implements the `document_suggest` tool.
pub(super) async fn suggest(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let DocumentSuggestArgs { suggestion, file, old, new } = call.args()?;
    let InstanceSelector { target, project } = call.place;
    let request = SuggestRequest { target, project, file, suggestion, old, new };
    to_tool_result(kernel.suggestions().create(who, call.key, request).await)
}

/// Implements the `suggestion_answer` tool.
pub(super) async fn answer_suggestion(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let SuggestionAnswerArgs { suggestion, accept, reason } = call.args()?;
    let InstanceSelector { target, project } = call.place;
    let request = SuggestionRequest { target, project, accept, reason };
    let answered = kernel.suggestions().answer(who, call.key, suggestion, request).await;
    // Omit the text: the caller has read the suggestion it answers.
    to_tool_result(answered.map(|SuggestionView { state, revision, .. }| match revision {
        Some(revision) => json!({ "state": state, "revision": revision }),
        None => json!({ "state": state }),
    }))
}

/// Returns the named document, or the default document of the instance.
async fn file_or_default(
    kernel: &Kernel,
    who: &Principal,
    call: &McpToolCall,
    file: Option<DocumentPath>,
) -> Result<DocumentPath, McpFailure> {
    match file {
        Some(file) => Ok(file),
        None => Ok(kernel
            .documents()
            .default_path(who, &call.place)
            .await
            .map_err(kernel_refusal)?
            .file),
    }
}

async fn write_document(
    kernel: &Kernel,
    who: &Principal,
    call: McpToolCall,
    file: DocumentPath,
    content: String,
    base: DocumentBase,
) -> McpToolResult {
    to_tool_result(kernel.documents().write(who, call.key, &call.place, file, content, base).await)
}
