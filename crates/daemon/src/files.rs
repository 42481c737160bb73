//! Files in a project, for people, editors and git: documents, written as they change and read when a person changes them
//! (`copy` describes the protocol), and with `provider: file` the channel (`channel`). The store is the truth.
//!
//! Invariant: nothing a person wrote is overwritten before the store has it, or a `.conflict` file.

mod channel;
mod copy;
mod crash;
#[cfg(test)]
mod crash_table;
mod decisions;
mod folder;
mod projection;
mod watch;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use agent_worker_kernel::{Change, Files, Shelf, Stage};
use agent_worker_protocol::{BadName, DocumentPath, Revision};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use copy::{Copy, Next, Place};
use decisions::Decisions;
use folder::Folder;
use watch::Watch;
pub(crate) use watch::Watches;

/// Looks follow each other no faster.
const PACE: Duration = Duration::from_millis(30);
/// After something failed it is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// So long after its run a shelf is finished; what is unfinished then is finished by the next run.
const LAST: Duration = Duration::from_secs(10);
/// So long the keeper before has, to let go.
const HANDOVER: Duration = Duration::from_secs(15);

/// What went wrong with one look.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("a file failed: {0}")]
    File(#[from] io::Error),
    #[error("{0}")]
    Name(#[from] BadName),
    #[error("{0}")]
    Kernel(#[from] agent_worker_kernel::Error),
}

/// How the keeping of files ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kept {
    /// Something is left for the next daemon or the next run.
    InPart,
    /// The files say what the store says.
    Whole,
}

/// Keeps what of a run is kept as files until it is over.
pub(crate) async fn keep(files: Files, watches: Watches, stop: CancellationToken) -> Kept {
    let Files { run: _, shelf, transcript } = files;
    let documents = async {
        match shelf {
            Some(shelf) => keep_documents(shelf, watches, &stop).await,
            None => Kept::Whole,
        }
    };
    let channel = async {
        match transcript {
            Some(transcript) => channel::keep(transcript, &stop).await,
            None => Kept::Whole,
        }
    };
    let (documents, channel) = tokio::join!(documents, channel);
    documents.min(channel)
}

async fn keep_documents(shelf: Shelf, watches: Watches, stop: &CancellationToken) -> Kept {
    let (project, names) = shelf.place();
    let place = project.join(names.join("/"));
    let mut patience = HANDOVER;
    loop {
        let opening = async {
            match first(&shelf, &place).await? {
                First::Document => {
                    Keeper::begin(shelf.clone(), watches.watch(), patience).await.map(Some)
                }
                First::End => Ok(None),
            }
        };
        let begun = tokio::select! {
            () = stop.cancelled() => return Kept::InPart,
            begun = opening => begun,
        };
        match begun {
            Ok(Some(mut keeper)) => return keeper.work(stop).await,
            Ok(None) => return Kept::Whole,
            Err(error) => {
                if !is_tried_again(shelf.stage().await, &error, &place, &mut patience, stop).await {
                    return Kept::InPart;
                }
            }
        }
    }
}

/// Waits until files that could not be begun are begun again: another team may have the folder, or a file be in its way.
/// Says whether there is still something to begin, and tells of it the first time.
async fn is_tried_again(
    stage: Result<Stage, agent_worker_kernel::Error>,
    error: &Trouble,
    place: &Path,
    patience: &mut Duration,
    stop: &CancellationToken,
) -> bool {
    if std::mem::take(patience) == HANDOVER {
        tracing::error!(place = %place.display(), %error, "nothing is kept as files here yet; trying again");
    }
    match stage {
        Ok(Stage::Over | Stage::Deleted) => false,
        Ok(Stage::Live) | Err(_) => tokio::select! {
            () = stop.cancelled() => false,
            () = tokio::time::sleep(AGAIN) => true,
        },
    }
}

enum First {
    Document,
    End,
}

/// Waits until there is anything to keep: who has no documents gets no folder.
async fn first(shelf: &Shelf, place: &Path) -> Result<First, Trouble> {
    let (mut seen, mut ended) = (Change::default(), 0);
    loop {
        seen = shelf.changed(seen).await;
        let before = std::mem::replace(&mut ended, shelf.ended().await?);
        let has_any = !shelf.heads().await?.is_empty()
            || before != ended && shelf.decisions().await?.is_some();
        if has_any || tokio::fs::try_exists(place).await? {
            return Ok(First::Document);
        }
        if shelf.stage().await? != Stage::Live {
            return Ok(First::End);
        }
        tokio::time::sleep(PACE).await;
    }
}

/// One folder of documents.
struct Keeper {
    shelf: Shelf,
    folder: Arc<Folder>,
    watch: Watch,
    copies: BTreeMap<DocumentPath, Copy>,
    decisions: Decisions,
}

impl Keeper {
    async fn begin(shelf: Shelf, watch: Watch, patience: Duration) -> Result<Self, Trouble> {
        let folder = Arc::new(open(shelf.place(), patience).await?);
        let (copies, decisions) = (BTreeMap::new(), Decisions::default());
        Ok(Self { shelf, folder, watch, copies, decisions })
    }

    async fn work(&mut self, stop: &CancellationToken) -> Kept {
        let mut seen = Change::default();
        let mut over: Option<Instant> = None;
        loop {
            let began = Instant::now();
            // Asked before the look, so that what its end brought about is seen by it.
            let stage = self.shelf.stage().await.unwrap_or(Stage::Live);
            let next = match self.look().await {
                Ok(next) => next,
                Err(error) => {
                    tracing::error!(%error, "keeping documents as files failed; trying again");
                    Next::In(AGAIN)
                }
            };
            let mut since = || over.get_or_insert(began).elapsed();
            match (stage, next) {
                (Stage::Deleted, _) | (Stage::Over, Next::Rest) => return Kept::Whole,
                (Stage::Over, Next::In(_)) if since() > LAST => return Kept::InPart,
                (Stage::Over | Stage::Live, _) => {}
            }
            let pause = match next {
                Next::Rest => Duration::MAX,
                Next::In(pause) => pause,
            };
            tokio::select! {
                () = stop.cancelled() => return Kept::InPart,
                change = self.shelf.changed(seen) => seen = change,
                () = self.watch.stirred() => {}
                () = tokio::time::sleep(pause) => {}
            }
            tokio::time::sleep_until(began + PACE).await;
        }
    }

    /// Looks at everything once; says when to look again though nothing stirs.
    async fn look(&mut self) -> Result<Next, Trouble> {
        if self.folder.is_gone() {
            self.folder = Arc::new(open(self.shelf.place(), HANDOVER).await?);
        }
        let (folder, watch) = (Arc::clone(&self.folder), self.watch.clone());
        let listing = blocking(move || folder.list(|fd| watch.add(fd))).await?;
        let heads: BTreeMap<DocumentPath, Revision> =
            self.shelf.heads().await?.into_iter().collect();
        let conflicts = self.shelf.conflicts().await?;
        for path in &conflicts {
            let at = Place { documents: &self.shelf, folder: &self.folder, path };
            let state = self.copies.entry(path.clone()).or_default().state(&at).await?;
            // Until its file has its name, a conflict is open.
            if state.aside.is_none() && !listing.aside.contains(path) {
                self.shelf.conflict_close(path).await?;
            }
        }
        let mut next = Next::Rest;
        let mut paths: BTreeSet<_> =
            heads.keys().chain(&listing.files).chain(&conflicts).cloned().collect();
        match self.decisions.keep(&self.shelf, &self.folder).await {
            // A conflict file that an earlier daemon left without its name is finished all the same.
            Ok(ours) => paths.retain(|path| {
                let has_aside = self.copies.get(path).is_some_and(Copy::has_aside);
                has_aside || Some(path) != ours.as_ref()
            }),
            Err(error) => {
                tracing::error!(%error, "keeping decisions as a file failed; trying again");
                next = Next::In(AGAIN);
            }
        }
        for path in paths {
            let copy = self.copies.entry(path.clone()).or_default();
            let at = Place { documents: &self.shelf, folder: &self.folder, path: &path };
            match copy.tend(&at, heads.get(&path).copied()).await {
                Ok(when) => next = next.min(when),
                Err(error) => {
                    tracing::error!(%path, %error, "keeping a document as a file failed; trying again");
                    next = next.min(Next::In(AGAIN));
                }
            }
        }
        Ok(next)
    }
}

/// Opens a folder, once the keeper before has let go of it.
async fn open((project, names): (&PathBuf, &[String]), patience: Duration) -> io::Result<Folder> {
    let deadline = Instant::now() + patience;
    loop {
        let (project, names) = (project.clone(), names.to_vec());
        match blocking(move || Folder::open(&project, &names)).await {
            // It is on its way out: the run before, or a daemon that was killed.
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline =>
            {
                tokio::time::sleep(PACE).await;
            }
            other => return other,
        }
    }
}

/// Runs what waits for a disk where waiting harms nobody.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|_| io::Error::other("cut short"))?
}
