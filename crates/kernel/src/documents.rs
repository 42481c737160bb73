//! The team's shared documents, in the store.

use agent_worker_protocol::{DocumentPath, EffectKey, Millis, Revision};
use agent_worker_store::{Base, Document, DocumentInfo, DocumentWrite, Error as StoreError};
use agent_worker_workflow::Documents;
use serde::{Deserialize, Serialize};

use crate::{
    channel::Place,
    error::{Error, Result},
    kernel::{Kernel, Principal},
    sizes,
};

/// The most a document is.
const DOCUMENT: usize = 4 * 1024 * 1024;

/// A document as a reader sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
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

/// One entry of a list of documents.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DocumentEntry {
    /// Where.
    pub file: DocumentPath,
    /// Its newest revision.
    pub revision: Revision,
    /// Who wrote that.
    pub author: String,
    /// How long it is.
    pub bytes: u64,
    /// When it was written.
    pub written: Millis,
}

/// What a write made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DocumentWritten {
    /// Where.
    pub file: DocumentPath,
    /// Its revision now.
    pub revision: Revision,
    /// Whether an earlier call with the same key had written it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deduplicated: bool,
}

impl Kernel {
    /// Reads a document's newest revision.
    pub async fn document_read(
        &self,
        who: &Principal,
        place: &Place,
        file: DocumentPath,
    ) -> Result<DocumentText> {
        who.require_known()?;
        let instance = self.instance_of(who, place).await?;
        let found = self.store.document_get(instance.id, file, None).await?;
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
        let (instance, run) = self.instance(who, place).await?;
        match self.card(run).await?.script.workflow.context.documents {
            Documents::Store => {}
            Documents::Off => {
                return Err(Error::Forbidden("this workflow keeps no documents (context: false)"));
            }
        }
        let before = match base {
            Base::Append => self.store.document_get(instance.id, file.clone(), None).await?,
            Base::Absent | Base::Revision(_) => None,
        };
        let there = before.map_or(0, |document| document.content.len());
        sizes::check("this document", there + content.len(), DOCUMENT)?;
        let write = DocumentWrite { workflow: instance.id, path: file.clone(), content, base };
        let once = self.store.document_put(by, write, self.clock.now()).await?;
        let deduplicated = once.is_deduplicated();
        Ok(DocumentWritten { file, revision: once.value(), deduplicated })
    }
}

fn entry(info: DocumentInfo) -> DocumentEntry {
    let DocumentInfo { path, revision, author, ts, bytes } = info;
    DocumentEntry { file: path, revision, author, bytes, written: ts }
}
