//! The team's shared documents, in the store.

pub(crate) mod document_files;
pub(crate) mod file_merge;
pub(crate) mod line_diff;
pub(crate) mod line_merge;
pub(crate) mod resources;
pub(crate) mod suggestions;
pub(crate) mod transcript;

use std::cmp::Reverse;

use agent_worker_protocol::{
    DocumentPath, EffectKey, Permission, Revision, ToolName, WorkflowId,
    api::{DocumentDiff, DocumentEntry, DocumentNamed, DocumentText, DocumentWritten, ListPage},
};
use agent_worker_store::{
    Document, DocumentBase, DocumentInfo, DocumentWrite, Error as StoreError,
};

use crate::{
    access::instance_resolution::InstanceSelector,
    documents::document_files::CONFLICT_SUFFIX,
    error::{Error, Result},
    kernel::{Kernel, Principal},
    views::page::PageRequest,
    voting::proposals::DecisionsDocument,
};

/// Maximum size of a document.
pub(crate) const MAX_DOCUMENT_BYTES: usize = 4 * 1024 * 1024;

/// Reads and writes the documents of an instance.
#[derive(Clone, Copy)]
pub struct DocumentLibrary<'k>(pub(crate) &'k Kernel);

impl DocumentLibrary<'_> {
    /// Returns the default document, for a request that names none.
    pub async fn default_path(
        self,
        who: &Principal,
        selector: &InstanceSelector,
    ) -> Result<DocumentNamed> {
        // A caller that only writes needs the name as well, and learns nothing of the content.
        who.require_either(Permission::Read, Permission::Documents)?;
        let instance = self.0.resolve_instance(who, selector).await?;
        let file = match instance.live.or(instance.last) {
            Some(run) => {
                self.0.run_context(run).await?.script.workflow.context.layout.document.clone()
            }
            None => DocumentPath::default(),
        };
        Ok(DocumentNamed { file })
    }

    /// Reads a document: its newest revision, or an older one.
    pub async fn read(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        file: DocumentPath,
        at: Option<Revision>,
    ) -> Result<DocumentText> {
        who.require(Permission::Read)?;
        let instance = self.0.resolve_instance(who, selector).await?;
        if is_decisions(&file) {
            let DecisionsDocument { count, content, .. } =
                self.0.decisions_document(instance.id).await?;
            let (revision, author) = (Revision::new(count), "system".to_owned());
            if at.is_some_and(|at| at != revision) {
                return Err(missing_document(&file, at, &instance));
            }
            return Ok(DocumentText { file, revision, author, content });
        }
        let found = match (who, at) {
            // The base of the next write is the revision read here.
            (Principal::Agent(attempt), None) => {
                self.0.store.document_show(attempt.fence.clone(), file.clone()).await?
            }
            _ => self.0.store.document_get(instance.id, file.clone(), at).await?,
        };
        let Document { info, content } =
            found.ok_or_else(|| missing_document(&file, at, &instance))?;
        Ok(DocumentText { file: info.path, revision: info.revision, author: info.author, content })
    }

    /// Returns the newest text of a document; empty, with revision 0 and no author, if it does not exist yet.
    pub async fn read_or_empty(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        file: DocumentPath,
    ) -> Result<DocumentText> {
        match self.read(who, selector, file.clone(), None).await {
            Err(Error::Missing { .. }) => Ok(DocumentText {
                file,
                revision: Revision::new(0),
                author: String::new(),
                content: String::new(),
            }),
            read => read,
        }
    }

    /// Lists the documents of an instance.
    pub async fn list(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        page: &PageRequest,
    ) -> Result<ListPage<DocumentEntry>> {
        who.require(Permission::Read)?;
        let mut page = page.start::<String, _>("documents")?;
        let instance = self.0.resolve_instance(who, selector).await?;
        let range = page.range(|path| path.parse().ok());
        let list = self.0.store.document_list(instance.id, range).await?;
        let mut list: Vec<_> = list.into_iter().map(document_entry).collect();
        list.extend(self.0.decisions_entry(instance.id).await?);
        list.sort_by(|one, other| one.file.as_str().cmp(other.file.as_str()));
        for entry in list {
            page.push(entry.file.as_str().to_owned(), entry);
        }
        page.finish()
    }

    /// Lists a document's revisions, newest first.
    pub async fn history(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        file: DocumentPath,
        page: &PageRequest,
    ) -> Result<ListPage<DocumentEntry>> {
        who.require(Permission::Read)?;
        let mut page = page.start::<Reverse<Revision>, _>("revisions")?;
        let instance = self.0.resolve_instance(who, selector).await?;
        if is_decisions(&file) {
            // The text is generated, so only its newest revision exists.
            let newest = self.0.decisions_entry(instance.id).await?;
            let newest = newest.ok_or_else(|| missing_document(&file, None, &instance))?;
            page.push(Reverse(newest.revision), newest);
            return page.finish();
        }
        let range = page.range(|&Reverse(revision)| Some(revision));
        let revisions = self.0.store.document_history(instance.id, file.clone(), range).await?;
        if revisions.is_empty() && page.after().is_none() {
            return Err(missing_document(&file, None, &instance));
        }
        for info in revisions {
            page.push(Reverse(info.revision), document_entry(info));
        }
        page.finish()
    }

    /// Returns the difference between two revisions of a document; by default the change of the newest.
    pub async fn diff(
        self,
        who: &Principal,
        selector: &InstanceSelector,
        file: DocumentPath,
        between: (Option<Revision>, Option<Revision>),
    ) -> Result<DocumentDiff> {
        who.require(Permission::Read)?;
        let instance = self.0.resolve_instance(who, selector).await?;
        if is_decisions(&file) {
            let why = "decisions.md is generated from the votes and has no earlier revision";
            return Err(Error::BadRequest(why.into()));
        }
        let found = self.0.store.document_get(instance.id, file.clone(), between.1).await?;
        let after = found.ok_or_else(|| missing_document(&file, between.1, &instance))?;
        let to = after.info.revision;
        let from = between.0.unwrap_or(Revision::new(to.get() - 1));
        let before = if from == Revision::new(0) {
            String::new()
        } else {
            let found = self.0.store.document_get(instance.id, file.clone(), Some(from)).await?;
            found.ok_or_else(|| missing_document(&file, Some(from), &instance))?.content
        };
        let names = [format!("{file} {from}"), format!("{file} {to}")];
        // A comparison of long texts takes a while.
        let diff = move || line_diff::unified_diff(&before, &after.content, &names);
        let diff = tokio::task::spawn_blocking(diff).await.map_err(|_| StoreError::Closed)?;
        Ok(DocumentDiff { file, from, to, diff })
    }

    /// Writes a document: creates it, replaces a known revision, or appends.
    pub async fn write(
        self,
        who: &Principal,
        key: Option<EffectKey>,
        selector: &InstanceSelector,
        file: DocumentPath,
        content: String,
        base: DocumentBase,
    ) -> Result<DocumentWritten> {
        who.require(Permission::Documents)?;
        let by = who.author_with_key(key)?;
        if is_decisions(&file) {
            return Err(Error::Forbidden(
                "decisions.md is read-only: it is generated from the votes",
            ));
        }
        for tool in write_tools(base) {
            self.0.pass_gate(who, *tool).await?;
        }
        let (instance, run) = self.0.live_instance(who, selector).await?;
        self.0.run_context(run).await?.require_documents()?;
        if file.as_str().ends_with(CONFLICT_SUFFIX) {
            let why =
                format!("names that end in {CONFLICT_SUFFIX} are reserved for conflict files");
            return Err(Error::BadRequest(why));
        }
        let write = DocumentWrite {
            workflow: instance.id,
            path: file.clone(),
            content,
            base,
            max_bytes: MAX_DOCUMENT_BYTES,
        };
        let once =
            self.0.store.document_put(by, write, self.0.now()).await.map_err(document_too_long)?;
        let deduplicated = once.is_deduplicated();
        Ok(DocumentWritten { file, revision: once.value(), deduplicated })
    }
}

impl Kernel {
    /// Returns the list entry of the decisions; none before the first decision.
    async fn decisions_entry(&self, workflow: WorkflowId) -> Result<Option<DocumentEntry>> {
        let DecisionsDocument { count, content, last } = self.decisions_document(workflow).await?;
        let (Some(written), Ok(file)) = (last, DECISIONS_FILE.parse()) else { return Ok(None) };
        Ok(Some(DocumentEntry {
            file,
            revision: Revision::new(count),
            author: "system".to_owned(),
            attempt: None,
            bytes: content.len() as u64,
            written,
        }))
    }
}

/// Returns the tools that write in this way; a gate on any of them also blocks the write.
fn write_tools(base: DocumentBase) -> &'static [ToolName] {
    match base {
        // The document may exist or not.
        DocumentBase::Absent | DocumentBase::LastRead => {
            &[ToolName::DocumentCreate, ToolName::DocumentWrite]
        }
        DocumentBase::Revision(_) => &[ToolName::DocumentWrite],
        DocumentBase::Append => &[ToolName::DocumentAppend],
    }
}

/// The read-only document of the decisions, generated from the proposals.
pub const DECISIONS_FILE: &str = "decisions.md";

pub(crate) fn is_decisions(file: &DocumentPath) -> bool {
    file.as_str() == DECISIONS_FILE
}

/// Converts the store's error about a long document to one that names the limit.
pub(crate) fn document_too_long(error: StoreError) -> Error {
    match error {
        StoreError::DocumentTooLong(size) => {
            Error::TooLarge { what: "this document", size, most: MAX_DOCUMENT_BYTES }
        }
        other => other.into(),
    }
}

/// Returns the error for a document or a revision that the instance does not have.
fn missing_document(
    file: &DocumentPath,
    at: Option<Revision>,
    instance: &agent_worker_store::Instance,
) -> Error {
    match at {
        Some(at) => {
            Error::missing(format!("revision {at} of document `{file}`"), &instance.instance)
        }
        None => Error::missing(format!("document `{file}`"), &instance.instance),
    }
}

pub(crate) fn document_entry(info: DocumentInfo) -> DocumentEntry {
    let DocumentInfo { path, revision, author, attempt, ts, bytes } = info;
    DocumentEntry { file: path, revision, author, attempt, bytes, written: ts }
}
