//! The file of a document, as the store knows it: the text that each slot is compared with, and the write that may be
//! under way. `daemon/files/copy.rs` describes the protocol.

use agent_worker_protocol::{DocumentPath, Hash, Millis, Revision, WorkflowId};

/// One of the two names that a document has in its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSlot {
    /// The file that people edit.
    File,
    /// The file that the last exchange replaced. A program may still be writing it.
    Out,
}

/// Numbers the bases of one document, ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BaseNumber(i64);

/// A text that is or was in a slot and whose every edit is in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileBase {
    /// Identifies the base among those of its document.
    pub number: BaseNumber,
    /// Of the text.
    pub hash: Hash,
    /// The revision with the same text, if there is one.
    pub revision: Option<Revision>,
    /// When another text took its place in the file; none for the base of the file itself.
    pub replaced: Option<Millis>,
}

/// The file that the last exchange replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutSlot {
    /// Its base; none if nothing of its text is in the store.
    pub base: Option<BaseNumber>,
    /// Its inode; none in rows of versions that did not record it. Another inode in the slot is a staged file.
    pub inode: Option<u64>,
}

/// How a staged file gets its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeMode {
    /// `RENAME_EXCHANGE`: the file that has the name becomes the out slot.
    Exchange,
    /// `RENAME_NOREPLACE`: no file has the name.
    Create,
}

/// A staged revision that is about to be exchanged with the file, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIntent {
    /// The revision.
    pub revision: Revision,
    /// Of its text.
    pub hash: Hash,
    /// The staged file.
    pub inode: u64,
    /// How it gets its name.
    pub mode: ExchangeMode,
    /// When the intent was recorded.
    pub at: Millis,
}

/// A file that is about to be renamed to `NAME.conflict`, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingConflictFile {
    /// The slot it was found in.
    pub slot: FileSlot,
    /// The file.
    pub inode: u64,
}

/// Everything the store knows about the file of one document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileState {
    /// The bases of both slots, and those that were in the file a few seconds ago; ascending.
    pub bases: Vec<FileBase>,
    /// The base of the file; none if nothing of its text is in the store.
    pub file: Option<BaseNumber>,
    /// The out slot; none if no person's text can be in it.
    pub out: Option<OutSlot>,
    /// The write under way.
    pub intent: Option<FileIntent>,
    /// The conflict file under way.
    pub conflict_file: Option<PendingConflictFile>,
    /// Texts whose every edit is in the store, as versions without bases recorded them: by file, time and content.
    pub marks: Vec<Hash>,
}

impl BaseNumber {
    /// The number as it is stored.
    pub fn new(number: i64) -> Self {
        Self(number)
    }

    /// The number as it is stored.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl FileState {
    /// The base of a slot.
    pub fn base(&self, slot: FileSlot) -> Option<&FileBase> {
        let number = match slot {
            FileSlot::File => self.file,
            FileSlot::Out => self.out.and_then(|out| out.base),
        };
        self.bases.iter().find(|base| Some(base.number) == number)
    }
}

/// A step of the protocol other than a take. Each is one transaction.
#[derive(Clone, Debug)]
pub enum FileStep {
    /// Records that a staged revision is about to be exchanged with the file.
    Intend(FileIntent),
    /// Records that it was: `base(out) := base(file)`, `base(file) := text(revision)`, no intent.
    Confirm {
        /// The file that is in the out slot now; none if there was none to exchange.
        out: Option<u64>,
        /// When the exchange happened.
        replaced: Millis,
        /// Bases that were replaced before are deleted.
        forget_before: Millis,
    },
    /// Records that the out slot holds no person's text: at most a staged file. Deletes the intent.
    Unstage,
    /// Records that the conflict file has its name.
    ConflictFileDone,
}

/// A person's text, found in a slot.
#[derive(Clone, Debug)]
pub struct FileImport {
    /// The instance.
    pub workflow: WorkflowId,
    /// The document.
    pub path: DocumentPath,
    /// The slot.
    pub slot: FileSlot,
    /// The file.
    pub inode: u64,
    /// The whole text and its hash: the slot's next base. None if it cannot be kept.
    pub text: Option<(String, Hash)>,
    /// The newest revision it was merged with; none if there was no document.
    pub merged_with: Option<Revision>,
    /// The result of the merge.
    pub outcome: ImportOutcome,
    /// Bases that were replaced before are deleted.
    pub forget_before: Millis,
}

/// The result of merging a person's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportOutcome {
    /// The newest revision has every edit of it already.
    Same,
    /// Merged, it is the next revision.
    Merged {
        /// The text of the revision.
        content: String,
        /// The number of lines of the newest revision that it no longer has.
        removed: usize,
    },
    /// It cannot be merged as a whole: it is stored as a revision of its own, followed by another. The file is set aside.
    Conflict {
        /// The text of the second revision: the store's, with what could be merged.
        store_text: String,
        /// Why.
        why: String,
    },
    /// It cannot be stored. The file is set aside.
    Refused {
        /// Why.
        why: String,
    },
}
