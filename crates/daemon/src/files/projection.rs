//! Writing a revision into a document's file: steps 2 to 6 of the protocol in `copy`.

use agent_worker_kernel::{ExchangeMode, FileIntent, FileSlot as Slot, FoundText};
use agent_worker_protocol::{Revision, hash};
use tokio::time::Instant;

use super::{
    Trouble,
    copy::{Copy, Place, Side, found},
    crash::CrashPoint,
    folder::{Access, Exchange, Folder, Seen},
};

/// Whether the exchange of an intent happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recovery {
    /// It did not: the staged file is in the out slot.
    Unstage,
    /// It did, and this file is in the out slot.
    Confirm(Option<u64>),
    /// The out slot was deleted, and with it the answer.
    Unknown,
}

/// Decides from the out slot whether the exchange of an intent happened.
fn recovery(intent: &FileIntent, out: Seen) -> Recovery {
    match (out, intent.mode) {
        (Seen::File(key), _) if key.ino == intent.inode => Recovery::Unstage,
        (Seen::File(key), _) => Recovery::Confirm(Some(key.ino)),
        (Seen::Nothing | Seen::Strange, ExchangeMode::Create) => Recovery::Confirm(None),
        (Seen::Nothing | Seen::Strange, ExchangeMode::Exchange) => Recovery::Unknown,
    }
}

impl Copy {
    /// Puts a revision into the file.
    pub(super) async fn project(&mut self, at: &Place<'_>, head: Revision) -> Result<(), Trouble> {
        if self.state(at).await?.out.is_some_and(|out| out.inode.is_none()) {
            // Written by an earlier version. Its text is taken; a staged file must not be mistaken for it.
            self.unstage(at).await?;
        }
        let text = at.documents.text(at.path, head).await?;
        let hash = hash(&[text.as_bytes()]);
        let stage = move |folder: &Folder, path: &_| folder.stage(path, &text, Access::Edit);
        let staged = at.files(stage).await?;
        let mode = match at.folder.look(at.path, Slot::File)? {
            Seen::File(_) => ExchangeMode::Exchange,
            Seen::Nothing => ExchangeMode::Create,
            Seen::Strange => return Ok(()),
        };
        let intended = at.documents.file_intend(at.path, (head, hash), staged.ino, mode).await?;
        self.state = Some(intended);
        at.reach(CrashPoint::IntentRecorded)?;
        let exchanged = at.files(move |folder, path| folder.exchange(path, mode)).await?;
        if exchanged == Exchange::Missed {
            // The intent stays; recovery finds the staged file where it was.
            return Ok(());
        }
        // The file is in the out slot now, and its text is the base unless a person wrote in between.
        self.out = Side::settled(self.file.settled);
        self.file = Side::settled(Some(staged));
        let replaced = match at.folder.look(at.path, Slot::Out)? {
            Seen::File(key) => Some(key.ino),
            Seen::Nothing | Seen::Strange => None,
        };
        self.confirm(at, replaced, None).await
    }

    async fn confirm(
        &mut self,
        at: &Place<'_>,
        out: Option<u64>,
        intent: Option<&FileIntent>,
    ) -> Result<(), Trouble> {
        at.files(Folder::sync).await?;
        at.reach(CrashPoint::FolderSynced)?;
        let when = intent.map(|intent| intent.at);
        self.state = Some(at.documents.file_confirm(at.path, out, when).await?);
        self.exchanged = Some(Instant::now());
        at.reach(CrashPoint::Confirmed)
    }

    /// Ends an intent that an earlier daemon left, or an error.
    pub(super) async fn recover(&mut self, at: &Place<'_>) -> Result<(), Trouble> {
        let Some(intent) = self.state(at).await?.intent else { return Ok(()) };
        match recovery(&intent, at.folder.look(at.path, Slot::Out)?) {
            Recovery::Confirm(out) => self.confirm(at, out, Some(&intent)).await?,
            Recovery::Unstage => self.unstage(at).await?,
            Recovery::Unknown => self.recover_unknown(at, &intent).await?,
        }
        (self.file, self.out) = Default::default();
        Ok(())
    }

    /// Without the out slot, the text of the file tells: the staged one, the base, or a person's whose base is unknown.
    async fn recover_unknown(
        &mut self,
        at: &Place<'_>,
        intent: &FileIntent,
    ) -> Result<(), Trouble> {
        let Some(text) = at.files(|folder, path| folder.read(path, Slot::File)).await? else {
            return self.unstage(at).await;
        };
        let found = FoundText { has_unknown_base: true, ..found(Slot::File, &text) };
        let base = self.state(at).await?.base(Slot::File);
        if found.hash == intent.hash {
            return self.confirm(at, None, Some(intent)).await;
        }
        if base.is_none_or(|base| base.hash != found.hash) {
            // The text is the base afterwards: after a kill, the same way leads on.
            self.take(at, &found).await?;
        }
        self.unstage(at).await
    }

    /// Records that the out slot holds no person's text.
    pub(super) async fn unstage(&mut self, at: &Place<'_>) -> Result<(), Trouble> {
        self.state = Some(at.documents.file_unstage(at.path).await?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::Millis;

    use super::{super::folder::Key, *};

    #[test]
    fn the_out_slot_tells_whether_an_exchange_happened() {
        let file = |ino| Seen::File(Key { ino, mtime: (1, 2), size: 3 });
        for (out, mode, expected) in [
            (file(7), ExchangeMode::Exchange, Recovery::Unstage),
            (file(7), ExchangeMode::Create, Recovery::Unstage),
            (file(8), ExchangeMode::Exchange, Recovery::Confirm(Some(8))),
            (Seen::Nothing, ExchangeMode::Create, Recovery::Confirm(None)),
            (Seen::Nothing, ExchangeMode::Exchange, Recovery::Unknown),
            (Seen::Strange, ExchangeMode::Exchange, Recovery::Unknown),
        ] {
            let (revision, hash, at) = (Revision::new(1), [0; 32], Millis::new(1));
            let intent = FileIntent { revision, hash, inode: 7, mode, at };
            assert_eq!(recovery(&intent, out), expected, "{out:?} {mode:?}");
        }
    }
}
