//! The state of a document's file in the store: the text that each slot is compared with, and the write that may be
//! under way. `daemon/files/file_copy.rs` describes the protocol.

use agent_worker_protocol::{DocumentPath, Hash, Millis, Revision, WorkflowId};
use strum::{EnumString, IntoStaticStr};

/// One of the two names that a document has in its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
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
    /// Hash of the text.
    pub hash: Hash,
    /// The revision with the same text, if there is one.
    pub revision: Option<Revision>,
    /// Time at which another text replaced this one in the file; none for the base of the file itself.
    pub replaced: Option<Millis>,
}

/// The file that the last exchange replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutSlot {
    /// Base of the slot; none if no part of its text is in the store.
    pub base: Option<BaseNumber>,
    /// Inode of the file; none in rows of versions that did not record it. Another inode in the slot is a staged
    /// file.
    pub inode: Option<u64>,
}

/// The way in which a staged file gets its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ExchangeMode {
    /// `RENAME_EXCHANGE`: the file that has the name becomes the out slot.
    Exchange,
    /// `RENAME_NOREPLACE`: no file has the name.
    Create,
}

/// A staged revision that is about to be exchanged with the file, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIntent {
    /// Revision in the staged file.
    pub revision: Revision,
    /// Hash of the revision's text.
    pub hash: Hash,
    /// Inode of the staged file.
    pub inode: u64,
    /// Way in which the staged file gets its name.
    pub mode: ExchangeMode,
    /// Time at which the intent was recorded.
    pub at: Millis,
}

/// A file that is about to be renamed to `NAME.conflict`, or was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingConflictFile {
    /// Slot in which the file was found.
    pub slot: FileSlot,
    /// Inode of the file.
    pub inode: u64,
}

/// The state of the file of one document, as far as the store knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileState {
    /// Bases of both slots, and those that were in the file a few seconds ago; ascending.
    pub bases: Vec<FileBase>,
    /// Base of the file; none if no part of its text is in the store.
    pub file: Option<BaseNumber>,
    /// The out slot; none if no person's text can be in it.
    pub out: Option<OutSlot>,
    /// Write that is under way.
    pub intent: Option<FileIntent>,
    /// Conflict file that is under way.
    pub conflict_file: Option<PendingConflictFile>,
    /// Texts whose every edit is in the store, as versions without bases recorded them: by file, time and content.
    pub marks: Vec<Hash>,
}

impl BaseNumber {
    /// Makes a number from its stored form.
    pub fn new(number: i64) -> Self {
        Self(number)
    }

    /// Returns the stored form of the number.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl FileState {
    /// Returns the base of a slot.
    pub fn base(&self, slot: FileSlot) -> Option<&FileBase> {
        let number = match slot {
            FileSlot::File => self.file,
            FileSlot::Out => self.out.and_then(|out| out.base),
        };
        self.bases.iter().find(|base| Some(base.number) == number)
    }
}

/// A step of the protocol other than an import. Each is one transaction.
#[derive(Clone, Debug)]
pub enum FileStep {
    /// Records that a staged revision is about to be exchanged with the file.
    Intend(FileIntent),
    /// Records that the exchange happened: `base(out) := base(file)`, `base(file) := text(revision)`, no intent.
    Confirm {
        /// File in the out slot after the exchange; none if there was none to exchange.
        out: Option<u64>,
        /// Time of the exchange.
        replaced: Millis,
        /// Deletes the bases that were replaced before this time.
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
    /// Instance of the document.
    pub workflow: WorkflowId,
    /// Path of the document.
    pub path: DocumentPath,
    /// Slot in which the text was found.
    pub slot: FileSlot,
    /// Inode of the file.
    pub inode: u64,
    /// The whole text and its hash: the slot's next base. None if the text cannot be stored.
    pub text: Option<(String, Hash)>,
    /// Newest revision that the text was merged with; none if there was no document.
    pub merged_with: Option<Revision>,
    /// The result of the merge.
    pub outcome: ImportOutcome,
    /// Deletes the bases that were replaced before this time.
    pub forget_before: Millis,
}

/// The result of merging a person's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportOutcome {
    /// The newest revision has every edit of the text already.
    Same,
    /// The merged text is the next revision.
    Merged {
        /// Text of the revision.
        content: String,
        /// Number of lines of the newest revision that the merged text no longer has.
        removed: usize,
    },
    /// The text cannot be merged as a whole: the store keeps it as a revision of its own, followed by another. The
    /// file is set aside.
    Conflict {
        /// Text of the second revision: the store's text, with the edits that could be merged.
        store_text: String,
        /// Reason of the conflict.
        why: String,
    },
    /// The text cannot be stored. The file is set aside.
    Refused {
        /// Reason of the refusal.
        why: String,
    },
}
