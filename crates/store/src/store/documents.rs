//! Documents, suggestions, documents as files, and resources.

use std::{ops::Range, sync::Arc};

use agent_worker_protocol::{
    DocumentPath, Millis, ResourceId, Revision, RunId, Seq, WorkflowId, api::SuggestionView,
};
use async_trait::async_trait;

use super::store_methods;
use crate::{
    database::Database,
    error::{Error, Result},
    model::{
        BaseNumber, Document, DocumentConflict, DocumentInfo, DocumentWrite, Fence, FileImport,
        FileState, FileStep, ListRange, NewSuggestion, Once, ResourceInfo, ResourceKey,
        ResourcePart, SuggestionAnswer, WriteContext,
    },
    multi_store::MultiStore,
    sql::{documents, file_imports, file_states, resources, suggestions},
    time::Now,
};

/// Documents, suggestions, the files that show documents, and resources.
#[async_trait]
pub trait DocumentStore: Send + Sync {
    /// Writes a document's next revision.
    async fn document_put(
        &self,
        by: WriteContext,
        write: DocumentWrite,
        now: Now,
    ) -> Result<Once<Revision>>;
    /// Reads a document, its newest revision or an older one.
    async fn document_get(
        &self,
        workflow: WorkflowId,
        path: DocumentPath,
        at: Option<Revision>,
    ) -> Result<Option<Document>>;
    /// Lists the newest revision of every document.
    async fn document_list(
        &self,
        workflow: WorkflowId,
        range: ListRange<DocumentPath>,
    ) -> Result<Vec<DocumentInfo>>;
    /// Lists the newest revision of every document that was written last in a run: the first hundred, by path.
    async fn document_written(&self, workflow: WorkflowId, run: RunId)
    -> Result<Vec<DocumentInfo>>;
    /// Lists the revisions of a document, newest first.
    async fn document_history(
        &self,
        workflow: WorkflowId,
        path: DocumentPath,
        range: ListRange<Revision>,
    ) -> Result<Vec<DocumentInfo>>;
    /// Reads a document's newest revision for a live attempt and records the read.
    async fn document_show(&self, fence: Fence, path: DocumentPath) -> Result<Option<Document>>;
    /// Stores a suggestion and notifies the documents' owner; its number is the seq of that message.
    async fn suggestion_put(
        &self,
        by: WriteContext,
        suggestion: NewSuggestion,
        now: Now,
    ) -> Result<Once<Seq>>;
    /// Answers an open suggestion and notifies its author; an accepted one is applied in the same transaction.
    /// Returns the revision that this wrote.
    async fn suggestion_answer(
        &self,
        by: WriteContext,
        answer: SuggestionAnswer,
        now: Now,
    ) -> Result<Once<Option<Revision>>>;
    /// Lists suggestions, newest first.
    async fn suggestion_list(
        &self,
        workflow: WorkflowId,
        range: ListRange<Seq>,
    ) -> Result<Vec<SuggestionView>>;
    /// Reads one suggestion.
    async fn suggestion_get(
        &self,
        workflow: WorkflowId,
        suggestion: Seq,
    ) -> Result<Option<SuggestionView>>;
    /// Reads the state of a document's file.
    async fn file_get(&self, workflow: WorkflowId, path: DocumentPath) -> Result<FileState>;
    /// Reads the text of a base; none if its revision was deleted.
    async fn file_base(
        &self,
        workflow: WorkflowId,
        path: DocumentPath,
        base: BaseNumber,
    ) -> Result<Option<String>>;
    /// Imports a person's text: writes its revision and makes the text the base of its slot. Refused if the newest
    /// revision is not the one it was merged with.
    async fn file_take(&self, take: FileImport, now: Now) -> Result<FileState>;
    /// Records a step of writing a document's file.
    async fn file_step(
        &self,
        workflow: WorkflowId,
        path: DocumentPath,
        step: FileStep,
    ) -> Result<FileState>;
    /// Lists the edits of a person that could not be merged.
    async fn conflict_list(&self, workflow: WorkflowId) -> Result<Vec<DocumentConflict>>;
    /// Deletes a conflict from that list.
    async fn conflict_close(&self, workflow: WorkflowId, path: DocumentPath) -> Result<()>;
    /// Stores a resource under its hash, once.
    async fn resource_put(
        &self,
        by: WriteContext,
        workflow: WorkflowId,
        kind: String,
        content: Vec<u8>,
        now: Millis,
    ) -> Result<ResourceId>;
    /// Reads a range of a resource's bytes; the part beyond its end is left out.
    async fn resource_get(
        &self,
        workflow: WorkflowId,
        id: ResourceId,
        range: Range<u64>,
    ) -> Result<ResourcePart>;
    /// Lists the resources, newest first.
    async fn resource_list(
        &self,
        workflow: WorkflowId,
        range: ListRange<ResourceKey>,
    ) -> Result<Vec<ResourceInfo>>;
}

store_methods! {
    impl DocumentStore;
    both {
        write of_workflow(write.workflow) document_put(by: WriteContext, write: DocumentWrite, now: Now) -> Once<Revision>
            = move |tx| documents::put_document(tx, &by, &write, now);
        read of_workflow(workflow) document_list(workflow: WorkflowId, range: ListRange<DocumentPath>) -> Vec<DocumentInfo>
            = move |db| documents::list(db, workflow, &range);
        read of_workflow(workflow) document_written(workflow: WorkflowId, run: RunId) -> Vec<DocumentInfo>
            = move |db| documents::written(db, workflow, run);
        read of_workflow(workflow) document_history(workflow: WorkflowId, path: DocumentPath, range: ListRange<Revision>) -> Vec<DocumentInfo>
            = move |db| documents::history(db, workflow, &path, range);
        write of_workflow(fence.workflow) document_show(fence: Fence, path: DocumentPath) -> Option<Document>
            = move |tx| documents::show(tx, &fence, &path);
        write of_workflow(suggestion.workflow) suggestion_put(by: WriteContext, suggestion: NewSuggestion, now: Now) -> Once<Seq>
            = move |tx| suggestions::put_suggestion(tx, &by, &suggestion, now);
        write of_workflow(answer.workflow) suggestion_answer(by: WriteContext, answer: SuggestionAnswer, now: Now) -> Once<Option<Revision>>
            = move |tx| suggestions::answer_suggestion(tx, &by, &answer, now);
        read of_workflow(workflow) suggestion_list(workflow: WorkflowId, range: ListRange<Seq>) -> Vec<SuggestionView>
            = move |db| suggestions::list(db, workflow, range);
        read of_workflow(workflow) suggestion_get(workflow: WorkflowId, suggestion: Seq) -> Option<SuggestionView>
            = move |db| suggestions::get(db, workflow, suggestion);
        read of_workflow(workflow) file_get(workflow: WorkflowId, path: DocumentPath) -> FileState
            = move |db| file_states::get(db, workflow, &path);
        read of_workflow(workflow) file_base(workflow: WorkflowId, path: DocumentPath, base: BaseNumber) -> Option<String>
            = move |db| file_states::base_text(db, workflow, &path, base);
        write of_workflow(take.workflow) file_take(take: FileImport, now: Now) -> FileState
            = move |tx| file_imports::import_file(tx, &take, now);
        write of_workflow(workflow) file_step(workflow: WorkflowId, path: DocumentPath, step: FileStep) -> FileState
            = move |tx| file_states::apply_step(tx, workflow, &path, &step);
        read of_workflow(workflow) conflict_list(workflow: WorkflowId) -> Vec<DocumentConflict>
            = move |db| file_imports::list_conflicts(db, workflow);
        write of_workflow(workflow) conflict_close(workflow: WorkflowId, path: DocumentPath) -> ()
            = move |tx| file_imports::close_conflict(tx, workflow, &path);
        read of_workflow(workflow) resource_list(workflow: WorkflowId, range: ListRange<ResourceKey>) -> Vec<ResourceInfo>
            = move |db| resources::list(db, workflow, range);
    }
    database {}
    multi_store {
        of_workflow(workflow) document_get(workflow: WorkflowId, path: DocumentPath, at: Option<Revision>) -> Option<Document>;
        of_workflow(workflow) resource_put(by: WriteContext, workflow: WorkflowId, kind: String, content: Vec<u8>, now: Millis) -> ResourceId;
        of_workflow(workflow) resource_get(workflow: WorkflowId, id: ResourceId, range: Range<u64>) -> ResourcePart;
    }
    impl Database {
        async fn document_get(
            &self,
            workflow: WorkflowId,
            path: DocumentPath,
            at: Option<Revision>,
        ) -> Result<Option<Document>> {
            let at = at.map_or(documents::RevisionSelector::Newest, documents::RevisionSelector::Revision);
            self.read(move |db| documents::get(db, workflow, &path, at)).await
        }
        async fn resource_put(
            &self,
            by: WriteContext,
            workflow: WorkflowId,
            kind: String,
            content: Vec<u8>,
            now: Millis,
        ) -> Result<ResourceId> {
            // Hashing takes a while if the content is large.
            let hash = move || resources::NewResource::new(workflow, kind, content);
            let new = tokio::task::spawn_blocking(hash).await.map_err(|_| Error::Closed)?;
            self.store_resource(Arc::new(new), by, now).await
        }
        async fn resource_get(
            &self,
            workflow: WorkflowId,
            id: ResourceId,
            range: Range<u64>,
        ) -> Result<ResourcePart> {
            let files = self.engine.resource_files();
            self.read(move |db| resources::get(db, workflow, id, &range, files.as_ref())).await
        }
    }
    impl MultiStore {}
}
