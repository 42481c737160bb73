//! The files of a run and its documents: the interface for the daemon, which syncs the files. Not here: file
//! access.

use std::path::PathBuf;

use agent_worker_protocol::{DocumentPath, Hash, Millis, Revision, RunId, WorkflowId};
use agent_worker_store::{
    ChangeCursor, Document, Error as StoreError, ExchangeMode, FileImport, FileIntent, FileSlot,
    FileState, FileStep, ImportOutcome, ListRange, Store,
};
use agent_worker_workflow::Documents;

use crate::{
    documents::is_decisions,
    documents::{
        file_merge::{FoundText, merge_bases, stale_before, take_outcome},
        transcript::Transcript,
    },
    error::Result,
    kernel::{Kernel, RunContext},
};

/// Suffix of the file with a text that could not be merged into its document.
pub const CONFLICT_SUFFIX: &str = ".conflict";

/// The documents of one live run, for the file sync.
#[derive(Clone)]
pub struct DocumentFiles {
    kernel: Kernel,
    run: RunId,
    workflow: WorkflowId,
    project: PathBuf,
    folder: Vec<String>,
}

/// The parts of a run that are synced to files.
#[derive(Clone)]
pub struct RunFiles {
    /// Id of the run.
    pub run: RunId,
    /// The documents of the run, unless only the store has them.
    pub documents: Option<DocumentFiles>,
    /// The channel of the run, with `provider: file`.
    pub transcript: Option<Transcript>,
}

impl RunFiles {
    /// Returns the parts of a run that are synced to files, if there are any.
    pub(crate) fn of(kernel: &Kernel, run_context: &RunContext) -> Option<Self> {
        let (documents, transcript) =
            (DocumentFiles::of(kernel, run_context), Transcript::of(kernel, run_context));
        let any = documents.is_some() || transcript.is_some();
        any.then_some(Self { run: run_context.run, documents, transcript })
    }
}

/// The stage of a run, for the file sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStage {
    /// The run may still change.
    Live,
    /// The run has ended and does not change.
    Ended,
    /// The run was deleted, and its files no longer belong to it.
    Deleted,
}

impl Kernel {
    pub(crate) async fn run_stage(&self, run: RunId) -> Result<RunStage> {
        match self.store.run_get(run).await {
            Ok(row) if row.state.is_live() => Ok(RunStage::Live),
            Ok(_) => Ok(RunStage::Ended),
            Err(StoreError::NotFound(_)) => Ok(RunStage::Deleted),
            Err(error) => Err(error.into()),
        }
    }
}

impl DocumentFiles {
    /// Returns the documents of a run that keeps them as files.
    fn of(kernel: &Kernel, run_context: &RunContext) -> Option<Self> {
        let context = &run_context.script.workflow.context;
        match context.documents {
            Documents::File => {}
            Documents::Store | Documents::Off => return None,
        }
        Some(Self {
            kernel: kernel.clone(),
            run: run_context.run,
            workflow: run_context.workflow,
            project: PathBuf::from(&run_context.project),
            folder: context
                .layout
                .document_folder(&run_context.instance.name, &run_context.instance.tag),
        })
    }

    /// Returns the project, and the nested folder names beneath it.
    pub fn location(&self) -> (&PathBuf, &[String]) {
        (&self.project, &self.folder)
    }

    /// Returns the id of the instance.
    pub fn workflow(&self) -> WorkflowId {
        self.workflow
    }

    /// Waits until the instance has changed. A hint: the caller reads the store.
    pub async fn wait_for_change(&self, seen: ChangeCursor) -> ChangeCursor {
        self.store().change_wait(self.workflow, seen).await
    }

    /// Returns the stage of the run.
    pub async fn run_stage(&self) -> Result<RunStage> {
        self.kernel.run_stage(self.run).await
    }

    /// Returns the newest revision of every document.
    pub async fn heads(&self) -> Result<Vec<(DocumentPath, Revision)>> {
        let list = self.store().document_list(self.workflow, ListRange::all()).await?;
        Ok(list.into_iter().map(|info| (info.path, info.revision)).collect())
    }

    /// Returns the number of ended votes: the decisions change only with it.
    pub async fn ended_vote_count(&self) -> Result<u64> {
        Ok(self.store().proposal_ended(self.workflow).await?)
    }

    /// Returns the decisions as text; none before the first decision. Every older text is a prefix of it.
    pub async fn decisions(&self) -> Result<Option<String>> {
        let decisions = self.kernel.decisions_document(self.workflow).await?;
        Ok(decisions.last.map(|_| decisions.content))
    }

    /// Returns the stored state of a document's file.
    pub async fn file_state(&self, path: &DocumentPath) -> Result<FileState> {
        Ok(self.store().file_get(self.workflow, path.clone()).await?)
    }

    /// Returns the text of a revision.
    pub async fn revision_text(&self, path: &DocumentPath, revision: Revision) -> Result<String> {
        let found = self.store().document_get(self.workflow, path.clone(), Some(revision)).await?;
        Ok(found.ok_or(StoreError::NotFound("document"))?.content)
    }

    /// Records that a staged revision is about to be exchanged with the file.
    pub async fn file_intend(
        &self,
        path: &DocumentPath,
        (revision, hash): (Revision, Hash),
        inode: u64,
        mode: ExchangeMode,
    ) -> Result<FileState> {
        let intent = FileIntent { revision, hash, inode, mode, at: self.file_time() };
        self.file_step(path, FileStep::Intend(intent)).await
    }

    /// Records that the exchange happened, at `replaced` or just now. `out` is the file in the out slot.
    pub async fn file_confirm(
        &self,
        path: &DocumentPath,
        out: Option<u64>,
        replaced: Option<Millis>,
    ) -> Result<FileState> {
        let now = self.file_time();
        let (replaced, forget_before) = (replaced.unwrap_or(now), stale_before(now));
        self.file_step(path, FileStep::Confirm { out, replaced, forget_before }).await
    }

    /// Records that no text of a person is in the out slot.
    pub async fn file_unstage(&self, path: &DocumentPath) -> Result<FileState> {
        self.file_step(path, FileStep::Unstage).await
    }

    /// Records that a conflict file has its final name.
    pub async fn file_aside_done(&self, path: &DocumentPath) -> Result<FileState> {
        self.file_step(path, FileStep::ConflictFileDone).await
    }

    async fn file_step(&self, path: &DocumentPath, step: FileStep) -> Result<FileState> {
        Ok(self.store().file_step(self.workflow, path.clone(), step).await?)
    }

    /// Merges a person's text into the document and makes it the base of its slot.
    pub async fn file_take(
        &self,
        path: &DocumentPath,
        found: &FoundText,
        state: &FileState,
    ) -> Result<FileState> {
        loop {
            let head = self.store().document_get(self.workflow, path.clone(), None).await?;
            let outcome = match &found.text {
                _ if is_decisions(path) => {
                    ImportOutcome::Refused { why: "only a vote can change decisions".to_owned() }
                }
                Err(why) => ImportOutcome::Refused { why: why.clone() },
                Ok(_) if state.marks.contains(&found.mark) => ImportOutcome::Same,
                Ok(text) => self.file_merge(path, text, head.as_ref(), (found, state)).await?,
            };
            let text = match outcome {
                ImportOutcome::Refused { .. } => None,
                _ => found.text.clone().ok().map(|text| (text, found.hash)),
            };
            let now = self.file_time();
            let take = FileImport {
                workflow: self.workflow,
                path: path.clone(),
                slot: found.slot,
                inode: found.inode,
                text,
                merged_with: head.map(|document| document.info.revision),
                outcome,
                // The file's text is compared after the out slot's, and may be much older.
                forget_before: match found.slot {
                    FileSlot::File => stale_before(now.min(found.saved)),
                    FileSlot::Out => Millis::new(0),
                },
            };
            match self.store().file_take(take, self.kernel.now()).await {
                // Another revision was written meanwhile: merge with the new one.
                Err(StoreError::StaleRevision(_)) => {}
                other => return Ok(other?),
            }
        }
    }

    async fn file_merge(
        &self,
        path: &DocumentPath,
        text: &str,
        head: Option<&Document>,
        (found, state): (&FoundText, &FileState),
    ) -> Result<ImportOutcome> {
        let Some(head) = head else {
            return Ok(ImportOutcome::Merged { content: text.to_owned(), removed: 0 });
        };
        let stays = || head.content.clone();
        if found.has_unknown_base {
            let why =
                "the copy that the edit replaced was deleted before the comparison".to_owned();
            return Ok(ImportOutcome::Conflict { store_text: stays(), why });
        }
        let own = state.base(found.slot).map(|base| base.number);
        // In a slot without a base, all text is new.
        let mut bases = if own.is_none() { vec![String::new()] } else { Vec::new() };
        for number in merge_bases(state, found.slot, found.saved) {
            let base = self.store().file_base(self.workflow, path.clone(), number).await?;
            match base {
                Some(base) => bases.push(base),
                None if Some(number) == own => {
                    let why = "the base revision of the edit was deleted".to_owned();
                    return Ok(ImportOutcome::Conflict { store_text: stays(), why });
                }
                None => {}
            }
        }
        let (text, head) = (text.to_owned(), stays());
        // A comparison of long texts takes a while.
        let merged = tokio::task::spawn_blocking(move || take_outcome(&bases, &head, &text)).await;
        Ok(merged.map_err(|_| StoreError::Closed)?)
    }

    /// Returns the wall time, which is compared with the modification times of files.
    fn file_time(&self) -> Millis {
        self.kernel.now().wall
    }

    /// Returns the documents that have a conflict file.
    pub async fn conflicts(&self) -> Result<Vec<DocumentPath>> {
        let list = self.store().conflict_list(self.workflow).await?;
        Ok(list.into_iter().map(|conflict| conflict.path).collect())
    }

    /// Closes a conflict after a person has removed its file.
    pub async fn conflict_close(&self, path: &DocumentPath) -> Result<()> {
        Ok(self.store().conflict_close(self.workflow, path.clone()).await?)
    }

    fn store(&self) -> &dyn Store {
        &*self.kernel.store
    }
}
