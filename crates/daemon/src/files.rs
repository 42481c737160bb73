//! Files in a project, for people, editors and git: documents, which the daemon writes on change and reads after a
//! person edits them (`file_copy` describes the protocol), and with `provider: file` the channel (`channel`). The
//! store is the single source of truth.
//!
//! Invariant: no text of a person is overwritten before it is in the store or in a `.conflict` file.

mod channel;
mod crash;
#[cfg(test)]
mod crash_table;
mod decisions_file;
mod file_copy;
mod folder;
mod folder_watch;
mod projection;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agent_worker_kernel::{ChangeCursor, DocumentFiles, RunFiles, RunStage};
use agent_worker_protocol::{BadName, DocumentPath, Revision};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use decisions_file::DecisionsFile;
use file_copy::{FileCopy, NextCheck, SyncTarget};
use folder::Folder;
use folder_watch::FolderWatch;
pub(crate) use folder_watch::FolderWatcher;

/// Minimum interval between two syncs.
const MIN_SYNC_INTERVAL: Duration = Duration::from_millis(30);
/// Delay before a failed sync is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Time after the end of a run in which its files must be complete; the next run completes the rest.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that the previous holder of a folder has to release its lock.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(15);

/// The reason why one sync failed.
#[derive(Debug, thiserror::Error)]
enum FileSyncError {
    #[error("a file operation failed: {0}")]
    File(#[from] io::Error),
    #[error("{0}")]
    Name(#[from] BadName),
    #[error("{0}")]
    Kernel(#[from] agent_worker_kernel::Error),
}

/// The outcome of syncing the files of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SyncOutcome {
    /// Some changes are left for the next daemon or the next run.
    Incomplete,
    /// The files match the store.
    Complete,
}

/// Syncs the files of a run until the run ends.
pub(crate) async fn sync_files(
    files: RunFiles,
    watches: FolderWatcher,
    stop: CancellationToken,
) -> SyncOutcome {
    let RunFiles { run: _, documents: document_files, transcript } = files;
    let documents = async {
        match document_files {
            Some(document_files) => sync_documents(document_files, watches, &stop).await,
            None => SyncOutcome::Complete,
        }
    };
    let channel = async {
        match transcript {
            Some(transcript) => channel::sync_channel(transcript, &stop).await,
            None => SyncOutcome::Complete,
        }
    };
    let (documents, channel) = tokio::join!(documents, channel);
    documents.min(channel)
}

async fn sync_documents(
    document_files: DocumentFiles,
    watches: FolderWatcher,
    stop: &CancellationToken,
) -> SyncOutcome {
    let (project, names) = document_files.location();
    let place = project.join(names.join("/"));
    let mut handover_timeout = HANDOVER_TIMEOUT;
    loop {
        let opening = async {
            match wait_for_first_document(&document_files, &place).await? {
                SyncStart::Document => DocumentSync::open(
                    document_files.clone(),
                    watches.new_watch(),
                    handover_timeout,
                )
                .await
                .map(Some),
                SyncStart::End => Ok(None),
            }
        };
        let begun = tokio::select! {
            () = stop.cancelled() => return SyncOutcome::Incomplete,
            begun = opening => begun,
        };
        match begun {
            Ok(Some(mut keeper)) => return keeper.run(stop).await,
            Ok(None) => return SyncOutcome::Complete,
            Err(error) => {
                if !wait_for_retry(
                    document_files.run_stage().await,
                    &error,
                    &place,
                    &mut handover_timeout,
                    stop,
                )
                .await
                {
                    return SyncOutcome::Incomplete;
                }
            }
        }
    }
}

/// Logs the first failure to start the sync and waits for the next try; another team may hold the folder, or a file
/// may be in the way.
/// Returns false if no further try is due: the run has ended or the daemon stops.
async fn wait_for_retry(
    stage: Result<RunStage, agent_worker_kernel::Error>,
    error: &FileSyncError,
    place: &Path,
    handover_timeout: &mut Duration,
    stop: &CancellationToken,
) -> bool {
    if std::mem::take(handover_timeout) == HANDOVER_TIMEOUT {
        tracing::error!(place = %place.display(), %error, "cannot sync files to this folder yet; retrying");
    }
    match stage {
        Ok(RunStage::Ended | RunStage::Deleted) => false,
        Ok(RunStage::Live) | Err(_) => tokio::select! {
            () = stop.cancelled() => false,
            () = tokio::time::sleep(RETRY_DELAY) => true,
        },
    }
}

enum SyncStart {
    Document,
    End,
}

/// Waits until the instance has a document or a decision; a team without any gets no folder.
async fn wait_for_first_document(
    document_files: &DocumentFiles,
    place: &Path,
) -> Result<SyncStart, FileSyncError> {
    let (mut seen, mut ended) = (ChangeCursor::default(), 0);
    loop {
        seen = document_files.wait_for_change(seen).await;
        let before = std::mem::replace(&mut ended, document_files.ended_vote_count().await?);
        let has_any = !document_files.heads().await?.is_empty()
            || before != ended && document_files.decisions().await?.is_some();
        if has_any || tokio::fs::try_exists(place).await? {
            return Ok(SyncStart::Document);
        }
        if document_files.run_stage().await? != RunStage::Live {
            return Ok(SyncStart::End);
        }
        tokio::time::sleep(MIN_SYNC_INTERVAL).await;
    }
}

/// Syncs one folder of documents.
struct DocumentSync {
    document_files: DocumentFiles,
    folder: Arc<Folder>,
    watch: FolderWatch,
    copies: BTreeMap<DocumentPath, FileCopy>,
    decisions: DecisionsFile,
}

impl DocumentSync {
    async fn open(
        document_files: DocumentFiles,
        watch: FolderWatch,
        handover_timeout: Duration,
    ) -> Result<Self, FileSyncError> {
        let folder = Arc::new(open_folder(document_files.location(), handover_timeout).await?);
        let (copies, decisions) = (BTreeMap::new(), DecisionsFile::default());
        Ok(Self { document_files, folder, watch, copies, decisions })
    }

    async fn run(&mut self, stop: &CancellationToken) -> SyncOutcome {
        let mut seen = ChangeCursor::default();
        let mut over: Option<Instant> = None;
        loop {
            let began = Instant::now();
            // Read the stage first, so that this sync includes everything that the end of the run wrote.
            let stage = self.document_files.run_stage().await.unwrap_or(RunStage::Live);
            let next = match self.sync_once().await {
                Ok(next) => next,
                Err(error) => {
                    tracing::error!(%error, "syncing the documents to files failed; retrying");
                    NextCheck::After(RETRY_DELAY)
                }
            };
            let mut since = || over.get_or_insert(began).elapsed();
            match (stage, next) {
                (RunStage::Deleted, _) | (RunStage::Ended, NextCheck::Idle) => {
                    return SyncOutcome::Complete;
                }
                (RunStage::Ended, NextCheck::After(_)) if since() > FINISH_TIMEOUT => {
                    return SyncOutcome::Incomplete;
                }
                (RunStage::Ended | RunStage::Live, _) => {}
            }
            let pause = match next {
                NextCheck::Idle => Duration::MAX,
                NextCheck::After(pause) => pause,
            };
            tokio::select! {
                () = stop.cancelled() => return SyncOutcome::Incomplete,
                change = self.document_files.wait_for_change(seen) => seen = change,
                () = self.watch.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
            tokio::time::sleep_until(began + MIN_SYNC_INTERVAL).await;
        }
    }

    /// Syncs every file once; returns the time of the next sync if no event occurs.
    async fn sync_once(&mut self) -> Result<NextCheck, FileSyncError> {
        if self.folder.is_gone() {
            self.folder =
                Arc::new(open_folder(self.document_files.location(), HANDOVER_TIMEOUT).await?);
        }
        let (folder, watch) = (Arc::clone(&self.folder), self.watch.clone());
        let listing = run_blocking(move || folder.list(|fd| watch.add(fd))).await?;
        let heads: BTreeMap<DocumentPath, Revision> =
            self.document_files.heads().await?.into_iter().collect();
        let conflicts = self.document_files.conflicts().await?;
        for path in &conflicts {
            let at = SyncTarget { documents: &self.document_files, folder: &self.folder, path };
            let state = self.copies.entry(path.clone()).or_default().state(&at).await?;
            // A conflict stays open until its file has its final name.
            if state.conflict_file.is_none() && !listing.aside.contains(path) {
                self.document_files.conflict_close(path).await?;
            }
        }
        let mut next = NextCheck::Idle;
        let mut paths: BTreeSet<_> =
            heads.keys().chain(&listing.files).chain(&conflicts).cloned().collect();
        match self.decisions.sync(&self.document_files, &self.folder).await {
            // A conflict file that an earlier daemon left without its final name is still completed.
            Ok(ours) => paths.retain(|path| {
                let has_aside = self.copies.get(path).is_some_and(FileCopy::has_aside);
                has_aside || Some(path) != ours.as_ref()
            }),
            Err(error) => {
                tracing::error!(%error, "syncing the decisions to a file failed; retrying");
                next = NextCheck::After(RETRY_DELAY);
            }
        }
        for path in paths {
            let copy = self.copies.entry(path.clone()).or_default();
            let at =
                SyncTarget { documents: &self.document_files, folder: &self.folder, path: &path };
            match copy.sync(&at, heads.get(&path).copied()).await {
                Ok(when) => next = next.min(when),
                Err(error) => {
                    tracing::error!(%path, %error, "syncing a document to its file failed; retrying");
                    next = next.min(NextCheck::After(RETRY_DELAY));
                }
            }
        }
        Ok(next)
    }
}

/// Opens a folder as soon as the previous holder has released its lock.
async fn open_folder(
    (project, names): (&PathBuf, &[String]),
    handover_timeout: Duration,
) -> io::Result<Folder> {
    let deadline = Instant::now() + handover_timeout;
    loop {
        let (project, names) = (project.clone(), names.to_vec());
        match run_blocking(move || Folder::open(&project, &names)).await {
            // The holder is about to exit: the previous run, or a daemon that was killed.
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline =>
            {
                tokio::time::sleep(MIN_SYNC_INTERVAL).await;
            }
            other => return other,
        }
    }
}

/// Runs blocking disk operations on a thread where blocking is allowed.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| io::Error::other("a file operation was aborted"))?
}
