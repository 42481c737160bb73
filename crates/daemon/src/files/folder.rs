//! A folder of one instance, for its documents or its channel. Every operation is relative to an open folder and
//! follows no link, so that no path and no planted file redirects a read or a write.

use std::{
    collections::BTreeSet,
    io::{self, Read as _, Write as _},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::Path,
};

use super::crash::{CrashPoint, CrashSwitch};
use agent_worker_kernel::{CONFLICT_SUFFIX, ExchangeMode, FileSlot as Slot};
use agent_worker_protocol::DocumentPath;
use rustix::{
    fs::{self, AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat},
    io::Errno,
};

/// Maximum size of a document, 4 MiB; the rest of a longer file is not read.
const MAX_DOCUMENT_BYTES: u64 = 4 * 1024 * 1024;
/// Maximum number of files in a listing.
const MAX_FILES: usize = 10_000;
/// Maximum depth of subfolders in a listing; a document's path is no deeper.
const MAX_DEPTH: usize = 100;
/// Maximum number of conflict files of one document.
const MAX_ASIDE_FILES: usize = 100;
/// Name of our own folder in every project.
const OWN_FOLDER: &str = ".workflow";
/// Content of the `.gitignore` in our folder: hides our working copies from git.
const GITIGNORE_TEXT: &str = "# Created by agent-worker: its temporary copies.\n.*.out\n.*.tmp\n";

/// An open folder of documents or of a channel.
pub(super) struct Folder {
    root: OwnedFd,
    pub(super) crash: CrashSwitch,
}

/// The result of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExchangeResult {
    Done,
    /// The file was deleted or created meanwhile; nothing was changed.
    Missed,
}

/// The access that people get to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileAccess {
    Edit,
    Read,
}

/// Identity and version of a file at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    pub(super) ino: u64,
    pub(super) mtime: (i64, i64),
    pub(super) size: u64,
}

/// The kind of file under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotContent {
    Missing,
    File(FileStamp),
    /// A folder, a link or another file that is never ours.
    NotAFile,
}

/// The content of a file.
pub(super) struct FileText {
    pub(super) key: FileStamp,
    pub(super) bytes: Vec<u8>,
    /// True if the file was read completely.
    pub(super) is_whole: bool,
}

/// The content of the folder.
#[derive(Default)]
pub(super) struct Listing {
    pub(super) files: BTreeSet<DocumentPath>,
    /// The documents that have a conflict file.
    pub(super) aside: BTreeSet<DocumentPath>,
}

impl Folder {
    /// Opens the folder `names` beneath `project`, and creates it if needed. Fails with `WouldBlock` while another
    /// daemon holds it.
    pub(super) fn open(project: &Path, names: &[String]) -> io::Result<Self> {
        let mut root = fs::open(project, folder_flags(), Mode::empty())?;
        // A parent folder may belong to another program; only our own folder gets a `.gitignore`.
        let ours =
            if names.first().is_some_and(|name| name == OWN_FOLDER) { 1 } else { names.len() };
        for (depth, name) in (1..).zip(names) {
            root = open_subfolder(root.as_fd(), name, FolderLookup::Create)?;
            if depth == ours {
                write_gitignore(root.as_fd());
            }
        }
        fs::flock(&root, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { root, crash: CrashSwitch::default() })
    }

    /// Returns true if the folder was deleted.
    pub(super) fn is_gone(&self) -> bool {
        fs::fstat(&self.root).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Returns the kind of file in a slot of a document.
    pub(super) fn stat_slot(&self, path: &DocumentPath, slot: Slot) -> io::Result<SlotContent> {
        let (folder, name) = match self.open_parent(path, FolderLookup::Existing) {
            Ok(found) => found,
            Err(error) => return content_of_error(&error).ok_or(error),
        };
        match fs::statat(&folder, slot_name(slot, name), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                Ok(SlotContent::File(FileStamp::of(&stat)))
            }
            Ok(_) => Ok(SlotContent::NotAFile),
            Err(Errno::NOENT) => Ok(SlotContent::Missing),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a slot if it is a regular file.
    pub(super) fn read(&self, path: &DocumentPath, slot: Slot) -> io::Result<Option<FileText>> {
        self.read_up_to(path, slot, MAX_DOCUMENT_BYTES)
    }

    /// Reads a file of up to `length` bytes, and enough of a longer file to detect that it is longer.
    pub(super) fn read_beyond(
        &self,
        path: &DocumentPath,
        slot: Slot,
        length: usize,
    ) -> io::Result<Option<FileText>> {
        self.read_up_to(
            path,
            slot,
            MAX_DOCUMENT_BYTES.max(u64::try_from(length).unwrap_or(MAX_DOCUMENT_BYTES)),
        )
    }

    fn read_up_to(
        &self,
        path: &DocumentPath,
        slot: Slot,
        most: u64,
    ) -> io::Result<Option<FileText>> {
        let (folder, name) = self.open_parent(path, FolderLookup::Existing)?;
        // Non-blocking: a pipe at this path must not block the daemon.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = match fs::openat(&folder, slot_name(slot, name), flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stat = fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        std::fs::File::from(file).take(most + 1).read_to_end(&mut bytes)?;
        let is_whole = u64::try_from(bytes.len()).is_ok_and(|read| read <= most);
        Ok(Some(FileText { key: FileStamp::of(&stat), bytes, is_whole }))
    }

    /// Writes a text into a new file and renames it to the out slot, durably. Returns the file.
    pub(super) fn stage(
        &self,
        path: &DocumentPath,
        text: &str,
        access: FileAccess,
    ) -> io::Result<FileStamp> {
        let (folder, name) = self.open_parent(path, FolderLookup::Create)?;
        let unfinished = format!(".{name}.tmp");
        let mode = match access {
            FileAccess::Edit => Mode::from_raw_mode(0o644),
            FileAccess::Read => Mode::from_raw_mode(0o444),
        };
        self.crash.reach(CrashPoint::StageBegins)?;
        let mut file = create_new_file(&folder, &unfinished, mode)?;
        file.write_all(text.as_bytes())?;
        self.crash.reach(CrashPoint::StageWritten)?;
        file.sync_all()?;
        self.crash.reach(CrashPoint::StageSynced)?;
        let key = FileStamp::of(&fs::fstat(&file)?);
        fs::renameat(&folder, &unfinished, &folder, slot_name(Slot::Out, name))?;
        // An intent that survives a power loss must find the staged file.
        std::fs::File::from(folder).sync_all()?;
        self.crash.reach(CrashPoint::StageRenamed)?;
        Ok(key)
    }

    /// Gives the staged file the document's name in one atomic step.
    pub(super) fn exchange(
        &self,
        path: &DocumentPath,
        mode: ExchangeMode,
    ) -> io::Result<ExchangeResult> {
        let (folder, name) = self.open_parent(path, FolderLookup::Existing)?;
        let flags = match mode {
            ExchangeMode::Exchange => RenameFlags::EXCHANGE,
            ExchangeMode::Create => RenameFlags::NOREPLACE,
        };
        match fs::renameat_with(&folder, slot_name(Slot::Out, name), &folder, name, flags) {
            Ok(()) => self.crash.reach(CrashPoint::Exchanged).map(|()| ExchangeResult::Done),
            Err(Errno::EXIST | Errno::NOENT) => Ok(ExchangeResult::Missed),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the names in a document's folder durable.
    pub(super) fn sync(&self, path: &DocumentPath) -> io::Result<()> {
        let (folder, _) = self.open_parent(path, FolderLookup::Existing)?;
        std::fs::File::from(folder).sync_all()
    }

    /// Stages a text and exchanges it, for a file whose slots the store does not track.
    pub(super) fn stage_and_exchange(
        &self,
        path: &DocumentPath,
        text: &str,
        access: FileAccess,
    ) -> io::Result<FileStamp> {
        let key = self.stage(path, text, access)?;
        if self.exchange(path, ExchangeMode::Create)? == ExchangeResult::Missed {
            self.exchange(path, ExchangeMode::Exchange)?;
        }
        self.sync(path)?;
        Ok(key)
    }

    /// Opens a growing file, and creates it if needed; fails if a write to it would modify another file.
    pub(super) fn open_log(&self, path: &DocumentPath) -> io::Result<(std::fs::File, FileStamp)> {
        let (folder, name) = self.open_parent(path, FolderLookup::Create)?;
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = fs::openat(&folder, name, flags, Mode::from_raw_mode(0o644))?;
        let stat = fs::fstat(&file)?;
        require_single_file(&stat, path.as_str())?;
        Ok((file.into(), FileStamp::of(&stat)))
    }

    /// Replaces a file with a text in one atomic step; the caller has set aside a foreign file before.
    pub(super) fn replace(&self, path: &DocumentPath, text: &str) -> io::Result<()> {
        let (folder, name) = self.open_parent(path, FolderLookup::Create)?;
        let unfinished = format!(".{name}.tmp");
        let mut file = create_new_file(&folder, &unfinished, Mode::from_raw_mode(0o644))?;
        file.write_all(text.as_bytes())?;
        Ok(fs::renameat(&folder, &unfinished, &folder, name)?)
    }

    /// Removes the file in a document's out slot.
    pub(super) fn remove_out_slot(&self, path: &DocumentPath) -> io::Result<()> {
        let (folder, name) = self.open_parent(path, FolderLookup::Existing)?;
        remove_if_exists(&folder, &slot_name(Slot::Out, name))
    }

    /// Renames a person's text to the first free conflict name.
    pub(super) fn set_aside(&self, path: &DocumentPath, slot: Slot) -> io::Result<()> {
        let (folder, name) = self.open_parent(path, FolderLookup::Existing)?;
        for number in 1..=MAX_ASIDE_FILES {
            let aside = match number {
                1 => format!("{name}{CONFLICT_SUFFIX}"),
                more => format!("{name}.{more}{CONFLICT_SUFFIX}"),
            };
            let from = slot_name(slot, name);
            match fs::renameat_with(&folder, from, &folder, aside, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
                Ok(()) => return std::fs::File::from(folder).sync_all(),
            }
        }
        Err(io::Error::other("there are too many conflict files of this name"))
    }

    /// Lists documents and conflict files, and calls `visit` with each folder.
    pub(super) fn list(&self, mut visit: impl FnMut(BorrowedFd<'_>)) -> io::Result<Listing> {
        let mut listing = Listing::default();
        let root = open_subfolder(self.root.as_fd(), ".", FolderLookup::Existing)?;
        let mut left = vec![(root, String::new())];
        while let Some((folder, before)) = left.pop() {
            visit(folder.as_fd());
            for entry in Dir::read_from(&folder)? {
                let entry = entry?;
                let Ok(name) = entry.file_name().to_str() else { continue };
                let path = format!("{before}{name}");
                if let Some(whole) = path.strip_suffix(CONFLICT_SUFFIX) {
                    listing.aside.extend(documents_in_conflict(whole));
                    continue;
                }
                let Ok(path) = path.parse::<DocumentPath>() else { continue };
                if path.is_option_like() {
                    continue;
                }
                let stat = fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW);
                match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
                    Ok(FileType::RegularFile) if listing.files.len() < MAX_FILES => {
                        listing.files.insert(path);
                    }
                    Ok(FileType::Directory) if before.matches('/').count() < MAX_DEPTH => {
                        if let Ok(inner) =
                            open_subfolder(folder.as_fd(), name, FolderLookup::Existing)
                        {
                            left.push((inner, format!("{path}/")));
                        }
                    }
                    Ok(_) | Err(_) => {}
                }
            }
        }
        Ok(listing)
    }

    /// Opens the folder that contains a document, and returns it with the document's name there.
    fn open_parent<'p>(
        &self,
        path: &'p DocumentPath,
        lookup: FolderLookup,
    ) -> io::Result<(OwnedFd, &'p str)> {
        let mut folder = open_subfolder(self.root.as_fd(), ".", FolderLookup::Existing)?;
        let mut parts = path.as_str().split('/').peekable();
        let mut name = parts.next().unwrap_or_default();
        for next in parts {
            folder = open_subfolder(folder.as_fd(), name, lookup)?;
            name = next;
        }
        Ok((folder, name))
    }
}

/// Returns the file name of a slot in the document's folder.
fn slot_name(slot: Slot, name: &str) -> String {
    match slot {
        Slot::File => name.to_owned(),
        Slot::Out => format!(".{name}.out"),
    }
}

impl FileStamp {
    /// Returns the current stamp of an open file.
    pub(super) fn of_file(file: &std::fs::File) -> io::Result<Self> {
        Ok(Self::of(&fs::fstat(file)?))
    }

    fn of(stat: &Stat) -> Self {
        let mtime = (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or(0));
        Self { ino: stat.st_ino, mtime, size: u64::try_from(stat.st_size).unwrap_or(0) }
    }
}

/// Selects whether a missing folder is created.
#[derive(Clone, Copy)]
enum FolderLookup {
    Existing,
    Create,
}

fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

fn remove_if_exists(folder: &OwnedFd, name: &str) -> io::Result<()> {
    match fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Creates a file for writing in place of anything that has its name. A pipe or a link that another process plants there
/// is removed, or makes the call fail: it neither blocks the call nor redirects the text.
fn create_new_file(folder: &OwnedFd, name: &str, mode: Mode) -> io::Result<std::fs::File> {
    remove_if_exists(folder, name)?;
    let flags = OFlags::WRONLY
        | OFlags::CREATE
        | OFlags::EXCL
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::CLOEXEC;
    let file = fs::openat(folder, name, flags, mode)?;
    require_single_file(&fs::fstat(&file)?, name)?;
    Ok(file.into())
}

/// Refuses a file to which a write would modify another name or block.
fn require_single_file(stat: &Stat, name: &str) -> io::Result<()> {
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if is_file && stat.st_nlink == 1 {
        return Ok(());
    }
    Err(io::Error::other(format!("{name} is not a regular file with exactly one link")))
}

/// Opens a subfolder; never follows a link.
fn open_subfolder(folder: BorrowedFd<'_>, name: &str, lookup: FolderLookup) -> io::Result<OwnedFd> {
    let open = || fs::openat(folder, name, folder_flags() | OFlags::NOFOLLOW, Mode::empty());
    match (open(), lookup) {
        (Err(Errno::NOENT), FolderLookup::Create) => {
            match fs::mkdirat(folder, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => Ok(open()?),
                Err(error) => Err(error.into()),
            }
        }
        (opened, _) => Ok(opened?),
    }
}

/// Maps an error on the way to a name: a missing folder means a missing file, any other obstacle means `NotAFile`.
fn content_of_error(error: &io::Error) -> Option<SlotContent> {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => Some(SlotContent::Missing),
        Some(Errno::NOTDIR | Errno::LOOP) => Some(SlotContent::NotAFile),
        _ => None,
    }
}

/// Returns the documents that a conflict file may belong to, such as `notes.md` and `notes.md.2` for the same name.
fn documents_in_conflict(whole: &str) -> impl Iterator<Item = DocumentPath> {
    let numbered = whole.rsplit_once('.').filter(|(_, number)| number.parse::<usize>().is_ok());
    [Some(whole), numbered.map(|(name, _)| name)]
        .into_iter()
        .flatten()
        .filter_map(|name| name.parse().ok())
}

/// Writes our `.gitignore`, unless the folder already has one.
fn write_gitignore(folder: BorrowedFd<'_>) {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Ok(file) = fs::openat(folder, ".gitignore", flags, Mode::from_raw_mode(0o644))
        && let Err(error) = std::fs::File::from(file).write_all(GITIGNORE_TEXT.as_bytes())
    {
        tracing::warn!(%error, "could not write a .gitignore");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gitignore_file_is_written_only_in_our_own_folder() {
        for (names, told) in [
            (&[".workflow", "team", "main"][..], &[".workflow"][..]),
            (&["docs", "team"], &["docs/team"]),
            (&["my-context"], &["my-context"]),
            (&[], &[]),
        ] {
            let place = tempfile::tempdir().unwrap();
            let owned: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            Folder::open(place.path(), &owned).unwrap();
            let all = (0..=names.len()).map(|depth| names[..depth].join("/"));
            let found: Vec<_> =
                all.filter(|at| place.path().join(at).join(".gitignore").exists()).collect();
            assert_eq!(found, told);
        }
    }
}
