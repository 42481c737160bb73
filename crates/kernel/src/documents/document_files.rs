//! What of a run is kept as files, and its documents among it: what the daemon that keeps the files asks and tells. Not here: files.

use std::path::PathBuf;

use agent_worker_protocol::{DocumentPath, Hash, Millis, Revision, RunId, WorkflowId};
use agent_worker_store::{
    ChangeCursor, Document, Error as StoreError, ExchangeMode, FileImport, FileIntent, FileSlot,
    FileState, FileStep, ImportOutcome, Store,
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

/// A document's text that could not be merged lies beside it under this ending.
pub const CONFLICT_SUFFIX: &str = ".conflict";

/// The documents of one live run, for whoever keeps them as files.
#[derive(Clone)]
pub struct DocumentFiles {
    kernel: Kernel,
    run: RunId,
    workflow: WorkflowId,
    project: PathBuf,
    folder: Vec<String>,
}

/// What of a run is kept as files.
#[derive(Clone)]
pub struct RunFiles {
    /// Whose.
    pub run: RunId,
    /// Its documents, unless the store alone has them.
    pub documents: Option<DocumentFiles>,
    /// Its channel, with `provider: file`.
    pub transcript: Option<Transcript>,
}

impl RunFiles {
    /// What of a run is kept as files, if anything is.
    pub(crate) fn of(kernel: &Kernel, run_context: &RunContext) -> Option<Self> {
        let (shelf, transcript) =
            (DocumentFiles::of(kernel, run_context), Transcript::of(kernel, run_context));
        let any = shelf.is_some() || transcript.is_some();
        any.then_some(Self { run: run_context.run, documents: shelf, transcript })
    }
}

/// How far a run is, for files that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStage {
    /// More may come.
    Live,
    /// Nothing more comes.
    Ended,
    /// It was deleted, and its files are nobody's.
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
    /// The shelf of a run that keeps its documents as files.
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

    /// The project, and the folders beneath it, each in the one before.
    pub fn location(&self) -> (&PathBuf, &[String]) {
        (&self.project, &self.folder)
    }

    /// Whose documents.
    pub fn workflow(&self) -> WorkflowId {
        self.workflow
    }

    /// Waits until something of the instance has changed. A hint.
    pub async fn wait_for_change(&self, seen: ChangeCursor) -> ChangeCursor {
        self.store().change_wait(self.workflow, seen).await
    }

    /// How far the run is.
    pub async fn run_stage(&self) -> Result<RunStage> {
        self.kernel.run_stage(self.run).await
    }

    /// The newest revision of every document.
    pub async fn heads(&self) -> Result<Vec<(DocumentPath, Revision)>> {
        let list = self.store().document_list(self.workflow).await?;
        Ok(list.into_iter().map(|info| (info.path, info.revision)).collect())
    }

    /// How many votes were ever over: while that is the same, so is what was decided.
    pub async fn ended_vote_count(&self) -> Result<u64> {
        Ok(self.store().proposal_ended(self.workflow).await?)
    }

    /// What was decided, as the file of it holds it; none while nothing was. What it once held is how it begins.
    pub async fn decisions(&self) -> Result<Option<String>> {
        let decisions = self.kernel.decisions_document(self.workflow).await?;
        Ok(decisions.last.map(|_| decisions.content))
    }

    /// Reads what the store knows about a document's file.
    pub async fn file_state(&self, path: &DocumentPath) -> Result<FileState> {
        Ok(self.store().file_get(self.workflow, path.clone()).await?)
    }

    /// What a revision says.
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

    /// Records that the out slot holds no person's text.
    pub async fn file_unstage(&self, path: &DocumentPath) -> Result<FileState> {
        self.file_step(path, FileStep::Unstage).await
    }

    /// Records that a conflict file has its name.
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
                _ if is_decisions(path) => ImportOutcome::Refused {
                    why: "what was decided is changed by a vote".to_owned(),
                },
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
                // The file's text is compared after the out slot's, and may have been saved long ago.
                forget_before: match found.slot {
                    FileSlot::File => stale_before(now.min(found.saved)),
                    FileSlot::Out => Millis::new(0),
                },
            };
            match self.store().file_take(take, self.kernel.now()).await {
                // Another revision was written meanwhile: merge with that one.
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
            let why = "the copy that it replaced was deleted before it was compared".to_owned();
            return Ok(ImportOutcome::Conflict { store_text: stays(), why });
        }
        let own = state.base(found.slot).map(|base| base.number);
        // In a slot without a base everything is new.
        let mut bases = if own.is_none() { vec![String::new()] } else { Vec::new() };
        for number in merge_bases(state, found.slot, found.saved) {
            let base = self.store().file_base(self.workflow, path.clone(), number).await?;
            match base {
                Some(base) => bases.push(base),
                None if Some(number) == own => {
                    let why = "the revision that it was made from was deleted".to_owned();
                    return Ok(ImportOutcome::Conflict { store_text: stays(), why });
                }
                None => {}
            }
        }
        let (text, head) = (text.to_owned(), stays());
        // Long texts take a while to compare.
        let merged = tokio::task::spawn_blocking(move || take_outcome(&bases, &head, &text)).await;
        Ok(merged.map_err(|_| StoreError::Closed)?)
    }

    /// The time that is compared with the modification times of files: wall time.
    fn file_time(&self) -> Millis {
        self.kernel.now().wall
    }

    /// The documents whose file lies aside because it could not be merged.
    pub async fn conflicts(&self) -> Result<Vec<DocumentPath>> {
        let list = self.store().conflict_list(self.workflow).await?;
        Ok(list.into_iter().map(|conflict| conflict.path).collect())
    }

    /// Somebody has put it away.
    pub async fn conflict_close(&self, path: &DocumentPath) -> Result<()> {
        Ok(self.store().conflict_close(self.workflow, path.clone()).await?)
    }

    fn store(&self) -> &dyn Store {
        &*self.kernel.store
    }
}
