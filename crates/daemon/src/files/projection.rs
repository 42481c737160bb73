//! Writes a revision into a document's file: steps 2 to 6 of the protocol in `file_copy`.

use agent_worker_kernel::{ExchangeMode, FileIntent, FileSlot as Slot, FoundText};
use agent_worker_protocol::{Revision, hash};
use tokio::time::Instant;

use super::{
    FileSyncError,
    crash::CrashPoint,
    file_copy::{FileCopy, SlotObservation, SyncTarget, found_text},
    folder::{ExchangeResult, FileAccess, Folder, SlotContent},
};

/// The result of recovering an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExchangeRecovery {
    /// The exchange did not happen: the staged file is in the out slot.
    Unstage,
    /// The exchange happened, and this file is in the out slot.
    Confirm(Option<u64>),
    /// The out slot was deleted, so the result is unknown.
    Unknown,
}

/// Decides from the out slot whether the exchange of an intent happened.
fn decide_recovery(intent: &FileIntent, out: SlotContent) -> ExchangeRecovery {
    match (out, intent.mode) {
        (SlotContent::File(key), _) if key.ino == intent.inode => ExchangeRecovery::Unstage,
        (SlotContent::File(key), _) => ExchangeRecovery::Confirm(Some(key.ino)),
        (SlotContent::Missing | SlotContent::NotAFile, ExchangeMode::Create) => {
            ExchangeRecovery::Confirm(None)
        }
        (SlotContent::Missing | SlotContent::NotAFile, ExchangeMode::Exchange) => {
            ExchangeRecovery::Unknown
        }
    }
}

impl FileCopy {
    /// Writes a revision to the file.
    pub(super) async fn write_revision(
        &mut self,
        at: &SyncTarget<'_>,
        head: Revision,
    ) -> Result<(), FileSyncError> {
        if self.state(at).await?.out.is_some_and(|out| out.inode.is_none()) {
            // An earlier version wrote this state. Its text is imported; a staged file must not be mistaken for it.
            self.unstage(at).await?;
        }
        let text = at.documents.revision_text(at.path, head).await?;
        let hash = hash(&[text.as_bytes()]);
        let stage = move |folder: &Folder, path: &_| folder.stage(path, &text, FileAccess::Edit);
        let staged = at.run_file_operation(stage).await?;
        let mode = match at.folder.stat_slot(at.path, Slot::File)? {
            SlotContent::File(_) => ExchangeMode::Exchange,
            SlotContent::Missing => ExchangeMode::Create,
            SlotContent::NotAFile => return Ok(()),
        };
        let intended = at.documents.file_intend(at.path, (head, hash), staged.ino, mode).await?;
        self.state = Some(intended);
        at.reach(CrashPoint::IntentRecorded)?;
        let exchanged =
            at.run_file_operation(move |folder, path| folder.exchange(path, mode)).await?;
        if exchanged == ExchangeResult::Missed {
            // The intent stays; recovery finds the staged file where it was.
            return Ok(());
        }
        // The file is in the out slot now, and its text is the base unless a person wrote in between.
        self.out = SlotObservation::settled(self.file.settled_stamp);
        self.file = SlotObservation::settled(Some(staged));
        let replaced = match at.folder.stat_slot(at.path, Slot::Out)? {
            SlotContent::File(key) => Some(key.ino),
            SlotContent::Missing | SlotContent::NotAFile => None,
        };
        self.confirm_exchange(at, replaced, None).await
    }

    async fn confirm_exchange(
        &mut self,
        at: &SyncTarget<'_>,
        out: Option<u64>,
        intent: Option<&FileIntent>,
    ) -> Result<(), FileSyncError> {
        at.run_file_operation(Folder::sync).await?;
        at.reach(CrashPoint::FolderSynced)?;
        let when = intent.map(|intent| intent.at);
        self.state = Some(at.documents.file_confirm(at.path, out, when).await?);
        self.last_exchange = Some(Instant::now());
        at.reach(CrashPoint::Confirmed)
    }

    /// Completes an intent that an earlier daemon or an error left.
    pub(super) async fn recover(&mut self, at: &SyncTarget<'_>) -> Result<(), FileSyncError> {
        let Some(intent) = self.state(at).await?.intent else { return Ok(()) };
        match decide_recovery(&intent, at.folder.stat_slot(at.path, Slot::Out)?) {
            ExchangeRecovery::Confirm(out) => self.confirm_exchange(at, out, Some(&intent)).await?,
            ExchangeRecovery::Unstage => self.unstage(at).await?,
            ExchangeRecovery::Unknown => self.recover_unknown(at, &intent).await?,
        }
        (self.file, self.out) = Default::default();
        Ok(())
    }

    /// Recovers without the out slot from the text of the file: the staged text, the base, or a person's text with
    /// an unknown base.
    async fn recover_unknown(
        &mut self,
        at: &SyncTarget<'_>,
        intent: &FileIntent,
    ) -> Result<(), FileSyncError> {
        let Some(text) =
            at.run_file_operation(|folder, path| folder.read(path, Slot::File)).await?
        else {
            return self.unstage(at).await;
        };
        let found = FoundText { has_unknown_base: true, ..found_text(Slot::File, &text) };
        let base = self.state(at).await?.base(Slot::File);
        if found.hash == intent.hash {
            return self.confirm_exchange(at, None, Some(intent)).await;
        }
        if base.is_none_or(|base| base.hash != found.hash) {
            // The text is the base afterwards, so recovery after a kill takes the same path.
            self.take_text(at, &found).await?;
        }
        self.unstage(at).await
    }

    /// Records that no text of a person is in the out slot.
    pub(super) async fn unstage(&mut self, at: &SyncTarget<'_>) -> Result<(), FileSyncError> {
        self.state = Some(at.documents.file_unstage(at.path).await?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::Millis;

    use super::{super::folder::FileStamp, *};

    #[test]
    fn the_out_slot_tells_whether_an_exchange_happened() {
        let file = |ino| SlotContent::File(FileStamp { ino, mtime: (1, 2), size: 3 });
        for (out, mode, expected) in [
            (file(7), ExchangeMode::Exchange, ExchangeRecovery::Unstage),
            (file(7), ExchangeMode::Create, ExchangeRecovery::Unstage),
            (file(8), ExchangeMode::Exchange, ExchangeRecovery::Confirm(Some(8))),
            (SlotContent::Missing, ExchangeMode::Create, ExchangeRecovery::Confirm(None)),
            (SlotContent::Missing, ExchangeMode::Exchange, ExchangeRecovery::Unknown),
            (SlotContent::NotAFile, ExchangeMode::Exchange, ExchangeRecovery::Unknown),
        ] {
            let (revision, hash, at) = (Revision::new(1), [0; 32], Millis::new(1));
            let intent = FileIntent { revision, hash, inode: 7, mode, at };
            assert_eq!(decide_recovery(&intent, out), expected, "{out:?} {mode:?}");
        }
    }
}
