//! The team's documents, as tools.

use agent_worker_kernel::{Base, Kernel, Place, Principal};
use agent_worker_protocol::{
    DocumentPath, Revision, Seq,
    api::{SuggestRequest, SuggestionRequest, SuggestionView},
};
use serde::Deserialize;
use serde_json::json;

use super::call::{Call, Failure, Given, give, refused};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    file: Option<DocumentPath>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Write {
    content: String,
    file: Option<DocumentPath>,
    base_revision: Option<Revision>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Append {
    content: String,
    file: Option<DocumentPath>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    file: DocumentPath,
    content: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Suggest {
    suggestion: String,
    file: Option<DocumentPath>,
    old: Option<String>,
    new: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    suggestion: Seq,
    accept: bool,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// `document_read`
pub(super) async fn read(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Read { file } = call.args()?;
    let file = named(kernel, who, &call, file).await?;
    give(kernel.document_read(who, &call.place, file, None).await)
}

/// `document_write`: without `base_revision` it follows what this attempt last read.
pub(super) async fn write(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Write { content, file, base_revision } = call.args()?;
    let base = base_revision.map_or(Base::Seen, Base::Revision);
    let file = named(kernel, who, &call, file).await?;
    put(kernel, who, call, file, content, base).await
}

/// `document_append`
pub(super) async fn append(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Append { content, file } = call.args()?;
    let file = named(kernel, who, &call, file).await?;
    put(kernel, who, call, file, content, Base::Append).await
}

/// `document_create`
pub(super) async fn create(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Create { file, content } = call.args()?;
    put(kernel, who, call, file, content, Base::Absent).await
}

/// `document_list`
pub(super) async fn list(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Nothing {} = call.args()?;
    let list = kernel.document_list(who, &call.place).await;
    give(list.map(|documents| json!({ "documents": documents })))
}

/// `document_suggest`
pub(super) async fn suggest(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Suggest { suggestion, file, old, new } = call.args()?;
    let Place { target, project } = call.place;
    let request = SuggestRequest { target, project, file, suggestion, old, new };
    give(kernel.suggest(who, call.key, request).await)
}

/// `suggestion_answer`
pub(super) async fn answer(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Answer { suggestion, accept, reason } = call.args()?;
    let Place { target, project } = call.place;
    let request = SuggestionRequest { target, project, accept, reason };
    let answered = kernel.suggestion_answer(who, call.key, suggestion, request).await;
    // What it says, whoever answers it has read.
    give(answered.map(|SuggestionView { state, revision, .. }| match revision {
        Some(revision) => json!({ "state": state, "revision": revision }),
        None => json!({ "state": state }),
    }))
}

/// The document that is named, else the one that is meant.
async fn named(
    kernel: &Kernel,
    who: &Principal,
    call: &Call,
    file: Option<DocumentPath>,
) -> Result<DocumentPath, Failure> {
    match file {
        Some(file) => Ok(file),
        None => Ok(kernel.document_default(who, &call.place).await.map_err(refused)?.file),
    }
}

async fn put(
    kernel: &Kernel,
    who: &Principal,
    call: Call,
    file: DocumentPath,
    content: String,
    base: Base,
) -> Given {
    give(kernel.document_write(who, call.key, &call.place, file, content, base).await)
}
