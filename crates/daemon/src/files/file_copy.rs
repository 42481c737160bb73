//! One document and its file: imports a person's edits, then writes the newest revision.
//!
//! A document has two slots in its folder: the file that people edit, and the *out* slot (`.NAME.out`) with the
//! file that the last exchange replaced, because a program may still be writing it. For each slot the store keeps a
//! base.
//!
//! Invariant: the difference between a slot's text and its base is exactly the edit of a person that the store
//! lacks.
//!
//! Each step keeps the invariant, also if the daemon is killed before or after any step:
//! 1. *Take*, one transaction: a text F that is not the slot's base is merged, `merge(base, head, F)` is the next
//!    revision and F is the base. In a conflict F is a revision of its own, and also the base.
//! 2. *Stage*: write a temporary file, fsync, rename it to the out slot. By then the previous text there is its
//!    base. A file in the out slot whose inode is not the recorded one is a staged file: no person has written it.
//! 3. *Intend*, one transaction: the revision and the inode of the staged file.
//! 4. *Exchange* the two names in one step; without a file, create it.
//! 5. *Confirm*: fsync the folder, then one transaction: the file's base becomes the out slot's, the revision
//!    becomes the file's base, and the intent is removed.
//! 6. *Recover* an intent before anything else: `projection` decides whether step 4 happened.
//!
//! A program that holds the file open for longer than two exchanges writes into a file without a name: that write
//! is lost.

use std::{sync::Arc, time::Duration};

use agent_worker_kernel::{
    DECISIONS_FILE, DocumentFiles, FileSlot as Slot, FileState, FoundText, PendingConflictFile,
};
use agent_worker_protocol::{DocumentPath, Hash, Millis, Revision, hash};
use tokio::time::Instant;

use super::{
    FileSyncError,
    crash::CrashPoint,
    folder::{FileStamp, FileText, Folder, SlotContent},
    run_blocking,
};

/// A text is taken once the file has not changed for this long.
const SETTLE_TIME: Duration = Duration::from_millis(300);
/// An empty file is taken later: programs truncate a file before they write it.
const EMPTY_SETTLE_TIME: Duration = Duration::from_secs(1);
/// A file that keeps changing is exchanged after this long: it settles in the out slot, where no program opens it.
const MAX_UNSETTLED_TIME: Duration = Duration::from_secs(2);

/// The time of the next comparison if no event occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NextCheck {
    After(Duration),
    Idle,
}

/// The document that a [`FileCopy`] works on.
#[derive(Clone, Copy)]
pub(super) struct SyncTarget<'a> {
    pub(super) documents: &'a DocumentFiles,
    pub(super) folder: &'a Arc<Folder>,
    pub(super) path: &'a DocumentPath,
}

/// The file of one document, between two comparisons.
#[derive(Default)]
pub(super) struct FileCopy {
    /// State in the store; none before the first read and after an error, because the store may have advanced.
    pub(super) state: Option<FileState>,
    pub(super) file: SlotObservation,
    pub(super) out: SlotObservation,
    /// Time of the last exchange; after a restart, the time at which the state was loaded.
    pub(super) last_exchange: Option<Instant>,
}

/// The last observation of one slot.
#[derive(Default)]
pub(super) struct SlotObservation {
    /// The file whose text was the slot's base.
    pub(super) settled_stamp: Option<FileStamp>,
    /// The file at the last observation, and the time since which it is unchanged.
    last_seen: Option<(SlotContent, Instant)>,
    /// Time since which the text has differed from the base.
    unsettled_since: Option<Instant>,
}

/// The result of comparing a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlotStatus {
    Missing,
    /// The text is the slot's base.
    Settled,
    /// A person is writing; compare again after this long.
    Unsettled(Duration),
    /// A text was imported; compare everything again.
    Taken,
    /// The slot holds something other than a regular file.
    NotAFile,
}

impl SyncTarget<'_> {
    /// Runs file operations on a thread where blocking is allowed.
    pub(super) async fn run_file_operation<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folder, &DocumentPath) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, FileSyncError> {
        let (folder, path) = (Arc::clone(self.folder), self.path.clone());
        Ok(run_blocking(move || work(&folder, &path)).await?)
    }

    pub(super) fn reach(&self, point: CrashPoint) -> Result<(), FileSyncError> {
        Ok(self.folder.crash.reach(point)?)
    }
}

impl FileCopy {
    /// Brings file and document together as far as possible now.
    pub(super) async fn sync(
        &mut self,
        at: &SyncTarget<'_>,
        head: Option<Revision>,
    ) -> Result<NextCheck, FileSyncError> {
        let next = self.reconcile(at, head).await;
        if next.is_err() {
            // The store knows which steps it has carried out.
            self.state = None;
            (self.file.settled_stamp, self.out.settled_stamp) = (None, None);
        }
        next
    }

    async fn reconcile(
        &mut self,
        at: &SyncTarget<'_>,
        head: Option<Revision>,
    ) -> Result<NextCheck, FileSyncError> {
        self.recover(at).await?;
        self.finish_aside(at).await?;
        match self.take_if_settled(at, Slot::Out).await? {
            SlotStatus::Unsettled(pause) => return Ok(NextCheck::After(pause)),
            SlotStatus::Taken => return Ok(NextCheck::After(Duration::ZERO)),
            SlotStatus::Missing | SlotStatus::Settled | SlotStatus::NotAFile => {}
        }
        let status = self.take_if_settled(at, Slot::File).await?;
        let base = self.state(at).await?.base(Slot::File);
        let is_newest = base.and_then(|base| base.revision) == head;
        let is_overdue =
            self.file.unsettled_since.is_some_and(|since| since.elapsed() > MAX_UNSETTLED_TIME);
        let head = match (status, head) {
            (SlotStatus::Taken, _) => return Ok(NextCheck::After(Duration::ZERO)),
            (SlotStatus::Unsettled(_), Some(head)) if is_overdue => head,
            (SlotStatus::Unsettled(pause), _) => return Ok(NextCheck::After(pause)),
            (SlotStatus::Settled, _) if is_newest => return Ok(NextCheck::Idle),
            (SlotStatus::NotAFile, _) | (SlotStatus::Settled | SlotStatus::Missing, None) => {
                return Ok(NextCheck::Idle);
            }
            (SlotStatus::Settled | SlotStatus::Missing, Some(head)) => head,
        };
        // A program that opened the replaced file has this long to write it.
        if let Some(left) = self.last_exchange.and_then(|at| SETTLE_TIME.checked_sub(at.elapsed()))
        {
            return Ok(NextCheck::After(left));
        }
        self.write_revision(at, head).await?;
        Ok(NextCheck::After(Duration::ZERO))
    }

    /// Returns the state of the file in the store, from the cache if it is known.
    pub(super) async fn state(&mut self, at: &SyncTarget<'_>) -> Result<&FileState, FileSyncError> {
        let state = if let Some(state) = self.state.take() {
            state
        } else {
            let state = at.documents.file_state(at.path).await?;
            self.last_exchange = state.out.map(|_| Instant::now());
            state
        };
        Ok(self.state.insert(state))
    }

    /// Takes the text of a slot if it is not the slot's base.
    async fn take_if_settled(
        &mut self,
        at: &SyncTarget<'_>,
        slot: Slot,
    ) -> Result<SlotStatus, FileSyncError> {
        let seen = at.folder.stat_slot(at.path, slot)?;
        let state = self.state(at).await?;
        let (base, has_base) = (state.base(slot).map(|base| base.hash), state.file.is_some());
        let key = match seen {
            SlotContent::File(key) => key,
            SlotContent::NotAFile => return Ok(SlotStatus::NotAFile),
            // An editor may have deleted the file to write a new one.
            SlotContent::Missing if slot == Slot::File && has_base => {
                let left = self.file.remaining_settle_time(seen, SETTLE_TIME);
                return Ok(left.map_or(SlotStatus::Missing, SlotStatus::Unsettled));
            }
            SlotContent::Missing => return Ok(SlotStatus::Missing),
        };
        if slot == Slot::Out && !self.is_replaced_file(at, key) {
            if self.state(at).await?.out.is_some() {
                // Another file may get the inode number later: from now on, no inode counts as the recorded one.
                self.unstage(at).await?;
            }
            return Ok(SlotStatus::Missing);
        }
        let side = self.observation(slot);
        if side.settled_stamp == Some(key) {
            *side = SlotObservation::settled(side.settled_stamp);
            return Ok(SlotStatus::Settled);
        }
        side.unsettled_since.get_or_insert_with(Instant::now);
        let settle_time = if key.size == 0 { EMPTY_SETTLE_TIME } else { SETTLE_TIME };
        let moving = side.remaining_settle_time(seen, settle_time);
        let Some(text) = at.run_file_operation(move |folder, path| folder.read(path, slot)).await?
        else {
            return Ok(SlotStatus::Unsettled(SETTLE_TIME));
        };
        if Some(hash(&[&text.bytes])) == base {
            *self.observation(slot) = SlotObservation::settled(Some(text.key));
            return Ok(SlotStatus::Settled);
        }
        let is_torn = text.key != key || at.folder.stat_slot(at.path, slot)? != seen;
        match moving {
            Some(pause) => Ok(SlotStatus::Unsettled(pause)),
            None if is_torn => Ok(SlotStatus::Unsettled(SETTLE_TIME)),
            None => {
                self.take_text(at, &found_text(slot, &text)).await?;
                self.observation(slot).settled_stamp = Some(text.key).filter(|_| !self.has_aside());
                self.finish_aside(at).await?;
                Ok(SlotStatus::Taken)
            }
        }
    }

    /// Returns true if a file in the out slot is the one that the last exchange replaced.
    fn is_replaced_file(&self, at: &SyncTarget<'_>, key: FileStamp) -> bool {
        let out = self.state.as_ref().and_then(|state| state.out);
        // The decisions are written without an intent; any text in their slots that is not ours belongs to a
        // person.
        at.path.as_str() == DECISIONS_FILE
            || out.is_some_and(|out| out.inode.is_none_or(|inode| inode == key.ino))
    }

    /// Merges a text into the document and makes it the base of its slot.
    pub(super) async fn take_text(
        &mut self,
        at: &SyncTarget<'_>,
        found: &FoundText,
    ) -> Result<(), FileSyncError> {
        at.reach(CrashPoint::TakeBegins)?;
        let state = self.state(at).await?;
        self.state = Some(at.documents.file_take(at.path, found, state).await?);
        let side = self.observation(found.slot);
        *side = SlotObservation::default();
        at.reach(CrashPoint::Taken)
    }

    /// Returns true if a file still has to be renamed to `NAME.conflict`.
    pub(super) fn has_aside(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.conflict_file.is_some())
    }

    /// Renames a file that could not be merged to `NAME.conflict`, if that is still pending.
    async fn finish_aside(&mut self, at: &SyncTarget<'_>) -> Result<(), FileSyncError> {
        let Some(PendingConflictFile { slot, inode }) = self.state(at).await?.conflict_file else {
            return Ok(());
        };
        // A different inode under this name means that the file was renamed, or that its writer replaced it.
        if matches!(at.folder.stat_slot(at.path, slot)?, SlotContent::File(key) if key.ino == inode)
        {
            at.run_file_operation(move |folder, path| folder.set_aside(path, slot)).await?;
        }
        at.reach(CrashPoint::AsideRenamed)?;
        self.state = Some(at.documents.file_aside_done(at.path).await?);
        *self.observation(slot) = SlotObservation::default();
        Ok(())
    }

    fn observation(&mut self, slot: Slot) -> &mut SlotObservation {
        match slot {
            Slot::File => &mut self.file,
            Slot::Out => &mut self.out,
        }
    }
}

impl SlotObservation {
    /// Creates an observation of a slot whose text is its base, in the file `key` if that is known.
    pub(super) fn settled(key: Option<FileStamp>) -> Self {
        Self { settled_stamp: key, ..Self::default() }
    }

    /// Returns the time for which the slot must stay unchanged, or none if it was unchanged for `settle_time`.
    fn remaining_settle_time(
        &mut self,
        seen: SlotContent,
        settle_time: Duration,
    ) -> Option<Duration> {
        let since = match self.last_seen {
            Some((before, since)) if before == seen => since,
            Some(_) | None => {
                let now = Instant::now();
                self.last_seen = Some((seen, now));
                now
            }
        };
        settle_time.checked_sub(since.elapsed()).filter(|left| !left.is_zero())
    }
}

/// Converts a text into the form that the kernel imports.
pub(super) fn found_text(slot: Slot, text: &FileText) -> FoundText {
    FoundText {
        slot,
        inode: text.key.ino,
        text: decode_text(text),
        hash: hash(&[&text.bytes]),
        saved: saved_at(text.key),
        mark: legacy_mark(text),
        has_unknown_base: false,
    }
}

/// Returns the mark that versions without bases recorded for a text: its file, its save time and its content.
fn legacy_mark(text: &FileText) -> Hash {
    let FileStamp { ino, mtime: (seconds, nanos), .. } = text.key;
    hash(&[&ino.to_be_bytes(), &seconds.to_be_bytes(), &nanos.to_be_bytes(), &text.bytes])
}

fn saved_at(key: FileStamp) -> Millis {
    let (seconds, nanos) = key.mtime;
    Millis::new(seconds.saturating_mul(1_000).saturating_add(nanos / 1_000_000))
}

fn decode_text(text: &FileText) -> Result<String, String> {
    if !text.is_whole {
        return Err(format!("the file has {} bytes, more than a document holds", text.key.size));
    }
    String::from_utf8(text.bytes.clone()).map_err(|_| "the file is not UTF-8 text".to_owned())
}
