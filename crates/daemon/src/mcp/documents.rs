//! The team's documents, as tools.

use agent_worker_kernel::{Base, Kernel, Principal};
use agent_worker_protocol::{DocumentPath, Revision};
use serde::Deserialize;
use serde_json::json;

use super::call::{Call, Given, give};

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
struct Nothing {}

/// `document_read`
pub(super) async fn read(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Read { file } = call.args()?;
    give(kernel.document_read(who, &call.place, file.unwrap_or_default(), None).await)
}

/// `document_write`: replacing what one has not read is refused.
pub(super) async fn write(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Write { content, file, base_revision } = call.args()?;
    let base = base_revision.map_or(Base::Absent, Base::Revision);
    put(kernel, who, call, file.unwrap_or_default(), content, base).await
}

/// `document_append`
pub(super) async fn append(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Append { content, file } = call.args()?;
    put(kernel, who, call, file.unwrap_or_default(), content, Base::Append).await
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
