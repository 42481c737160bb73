//! The team's shared documents, in the store.

use agent_worker_protocol::{
    DocumentPath, EffectKey, Revision, ToolName,
    api::{DocumentEntry, DocumentText, DocumentWritten},
};
use agent_worker_store::{Base, Document, DocumentInfo, DocumentWrite, Error as StoreError};
use agent_worker_workflow::Documents;

use crate::{
    error::{Error, Result},
    kernel::{Kernel, Principal},
    place::Place,
};

/// The most a document is.
const DOCUMENT: usize = 4 * 1024 * 1024;
const MOST_REVISIONS: u32 = 1_000;

impl Kernel {
    /// Reads a document: its newest revision, or an older one.
    pub async fn document_read(
        &self,
        who: &Principal,
        place: &Place,
        file: DocumentPath,
        at: Option<Revision>,
    ) -> Result<DocumentText> {
        who.require_known()?;
        let instance = self.instance_of(who, place).await?;
        if is_decisions(&file) {
            let (count, content) = self.decisions_md(&instance).await?;
            let (revision, author) = (Revision::new(count), "system".to_owned());
            return Ok(DocumentText { file, revision, author, content });
        }
        let found = self.store.document_get(instance.id, file, at).await?;
        let Document { info, content } = found.ok_or(StoreError::NotFound("document"))?;
        Ok(DocumentText { file: info.path, revision: info.revision, author: info.author, content })
    }

    /// Lists the documents.
    pub async fn document_list(
        &self,
        who: &Principal,
        place: &Place,
    ) -> Result<Vec<DocumentEntry>> {
        who.require_known()?;
        let instance = self.instance_of(who, place).await?;
        let list = self.store.document_list(instance.id).await?;
        Ok(list.into_iter().map(entry).collect())
    }

    /// Lists a document's revisions, newest first.
    pub async fn document_history(
        &self,
        who: &Principal,
        place: &Place,
        file: DocumentPath,
    ) -> Result<Vec<DocumentEntry>> {
        who.require_known()?;
        let instance = self.instance_of(who, place).await?;
        let revisions = self.store.document_history(instance.id, file, MOST_REVISIONS).await?;
        if revisions.is_empty() {
            return Err(StoreError::NotFound("document").into());
        }
        Ok(revisions.into_iter().map(entry).collect())
    }

    /// Writes a document: a new one, the next revision of a known one, or more of one.
    pub async fn document_write(
        &self,
        who: &Principal,
        key: Option<EffectKey>,
        place: &Place,
        file: DocumentPath,
        content: String,
        base: Base,
    ) -> Result<DocumentWritten> {
        let by = who.by(key)?;
        if is_decisions(&file) {
            return Err(Error::Forbidden(
                "decisions.md is written by the votes, and by nobody else",
            ));
        }
        for tool in doors(base) {
            self.pass_gate(who, *tool).await?;
        }
        let (instance, run) = self.instance(who, place).await?;
        match self.card(run).await?.script.workflow.context.documents {
            Documents::Store => {}
            Documents::Off => {
                return Err(Error::Forbidden("this workflow keeps no documents (context: false)"));
            }
        }
        let write = DocumentWrite {
            workflow: instance.id,
            path: file.clone(),
            content,
            base,
            most: DOCUMENT,
        };
        let once = match self.store.document_put(by, write, self.clock.now()).await {
            Err(StoreError::TooLong(size)) => {
                return Err(Error::TooLarge { what: "this document", size, most: DOCUMENT });
            }
            once => once?,
        };
        let deduplicated = once.is_deduplicated();
        Ok(DocumentWritten { file, revision: once.value(), deduplicated })
    }
}

/// The tools that write like this; a gate before one of them is a gate before the write.
fn doors(base: Base) -> &'static [ToolName] {
    match base {
        Base::Absent => &[ToolName::DocumentCreate, ToolName::DocumentWrite],
        Base::Revision(_) => &[ToolName::DocumentWrite],
        Base::Append => &[ToolName::DocumentAppend],
    }
}

/// The document that nobody writes: what was decided, read from the proposals themselves.
fn is_decisions(file: &DocumentPath) -> bool {
    file.as_str() == "decisions.md"
}

fn entry(info: DocumentInfo) -> DocumentEntry {
    let DocumentInfo { path, revision, author, ts, bytes } = info;
    DocumentEntry { file: path, revision, author, bytes, written: ts }
}
