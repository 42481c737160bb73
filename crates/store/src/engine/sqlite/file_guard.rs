//! Checks that the files of a database on disk are still the ones this process has open.
//!
//! SQLite keeps writing to a file that was unlinked or replaced: every COMMIT succeeds, and the data is gone after a
//! restart. The writer therefore checks the files before a batch and again between COMMIT and the replies. A check
//! compares device and inode of each path with the open file, refuses a file that became shorter, and verifies the
//! headers and the last frame of the write-ahead log: a log that was truncated and then extended by our own COMMIT
//! has its old length, but zeros in front of the new frames.
//!
//! The guard shares the database's descriptor with [`super::opener`], which owns it: closing any descriptor of that
//! file would release the POSIX locks that SQLite holds on it. SQLite takes no locks on the log.

use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The first bytes of every SQLite database.
const DATABASE_MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// The first bytes of a log; the last bit selects the byte order of its checksums.
const WAL_MAGIC: u32 = 0x377f_0682;
const WAL_HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// The ways in which another program can take a database away from the process that has it open.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FileFault {
    #[error("`{0}` was removed while the daemon had it open")]
    Removed(String),
    #[error("`{0}` was replaced by another file while the daemon had it open")]
    Replaced(String),
    #[error("`{name}` was truncated from {from} to {to} bytes while the daemon had it open")]
    Truncated { name: String, from: u64, to: u64 },
    #[error("`{0}` was truncated or overwritten while the daemon had it open")]
    Overwritten(String),
    #[error("`{name}` cannot be checked: {why}")]
    Unreadable { name: String, why: String },
}

/// The files of one open database, as they were at the last check.
#[derive(Debug)]
pub(super) struct FileGuard {
    database: GuardedFile,
    wal: GuardedFile,
    tail: Option<WalFrame>,
}

#[derive(Debug)]
struct GuardedFile {
    path: PathBuf,
    file: Arc<File>,
    device: u64,
    inode: u64,
    /// The length at the last check. Neither file shrinks while the daemon has it open.
    length: u64,
}

/// The last whole frame of the log.
#[derive(Debug)]
struct WalFrame {
    offset: u64,
    bytes: Vec<u8>,
}

impl FileGuard {
    /// Guards the database at `path`, open as `database`, and its log, which a connection has created before.
    pub(super) fn new(path: &Path, database: Arc<File>) -> io::Result<Self> {
        let wal_path = wal_path(path);
        let database = GuardedFile::new(path.to_owned(), database)?;
        let wal = GuardedFile::new(wal_path.clone(), Arc::new(File::open(&wal_path)?))?;
        let tail = last_frame(&wal.file, wal.length)?;
        Ok(Self { database, wal, tail })
    }

    /// Compares the files with those of the last check.
    pub(super) fn check(&mut self) -> Result<(), FileFault> {
        let _ = self.database.check_identity()?;
        let grown = self.wal.check_identity()?;
        self.check_header()?;
        self.check_log()?;
        if grown == FileGrowth::Yes {
            let tail = last_frame(&self.wal.file, self.wal.length);
            self.tail = tail.map_err(|error| self.wal.unreadable(&error))?;
        }
        Ok(())
    }

    fn check_header(&self) -> Result<(), FileFault> {
        if self.database.length == 0 {
            return Ok(());
        }
        let mut found = [0; DATABASE_MAGIC.len()];
        match self.database.file.read_exact_at(&mut found, 0) {
            Ok(()) if found == *DATABASE_MAGIC => Ok(()),
            Ok(()) => Err(FileFault::Overwritten(self.database.name())),
            Err(error) => Err(self.database.unreadable(&error)),
        }
    }

    /// Verifies that the frame seen last is still there, or was overwritten by a frame of the current log.
    fn check_log(&mut self) -> Result<(), FileFault> {
        let Some(tail) = &mut self.tail else { return Ok(()) };
        let mut header = [0; WAL_HEADER_BYTES];
        let mut found = vec![0; tail.bytes.len()];
        let read = self.wal.file.read_exact_at(&mut header, 0);
        let read = read.and_then(|()| self.wal.file.read_exact_at(&mut found, tail.offset));
        read.map_err(|error| self.wal.unreadable(&error))?;
        if !is_valid_successor(&header, &tail.bytes, &found) {
            return Err(FileFault::Overwritten(self.wal.name()));
        }
        tail.bytes = found;
        Ok(())
    }
}

/// Returns true if SQLite itself can have turned one state of a frame into the other. A frame that was written again
/// carries the salts of the log's present header.
fn is_valid_successor(header: &[u8; WAL_HEADER_BYTES], before: &[u8], now: &[u8]) -> bool {
    let is_log = u32::from_be_bytes([header[0], header[1], header[2], header[3]]) & !1 == WAL_MAGIC;
    let is_rewritten =
        before[..FRAME_HEADER_BYTES] != now[..FRAME_HEADER_BYTES] && now[8..16] == header[16..24];
    is_log && (before == now || is_rewritten)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FileGrowth {
    Yes,
    No,
}

impl GuardedFile {
    fn new(path: PathBuf, file: Arc<File>) -> io::Result<Self> {
        let found = file.metadata()?;
        let (device, inode, length) = (found.dev(), found.ino(), found.len());
        Ok(Self { path, file, device, inode, length })
    }

    fn check_identity(&mut self) -> Result<FileGrowth, FileFault> {
        let found: Metadata = match fs::metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(FileFault::Removed(self.name()));
            }
            Err(error) => return Err(self.unreadable(&error)),
        };
        if (found.dev(), found.ino()) != (self.device, self.inode) {
            return Err(FileFault::Replaced(self.name()));
        }
        let (from, to) = (self.length, found.len());
        if to < from {
            return Err(FileFault::Truncated { name: self.name(), from, to });
        }
        self.length = to;
        Ok(if to > from { FileGrowth::Yes } else { FileGrowth::No })
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn unreadable(&self, error: &io::Error) -> FileFault {
        // The file lost its end after its length was read.
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return FileFault::Overwritten(self.name());
        }
        FileFault::Unreadable { name: self.name(), why: error.to_string() }
    }
}

/// Returns the path of a database's write-ahead log.
pub(super) fn wal_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

fn last_frame(wal: &File, length: u64) -> io::Result<Option<WalFrame>> {
    if length < WAL_HEADER_BYTES as u64 {
        return Ok(None);
    }
    let mut page_size = [0; 4];
    wal.read_exact_at(&mut page_size, 8)?;
    let size = FRAME_HEADER_BYTES as u64 + u64::from(u32::from_be_bytes(page_size));
    let count = (length - WAL_HEADER_BYTES as u64) / size;
    let Some(before) = count.checked_sub(1) else { return Ok(None) };
    let offset = WAL_HEADER_BYTES as u64 + before * size;
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    wal.read_exact_at(&mut bytes, offset)?;
    Ok(Some(WalFrame { offset, bytes }))
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use crate::db::Connection;

    use super::{
        super::connection::{create_file, open_writer},
        *,
    };
    use crate::db::WalIndexSharing;

    fn start(folder: &Path) -> (Connection, FileGuard) {
        let path = folder.join("x.db");
        create_file(&path).unwrap();
        let database = Arc::new(File::open(&path).unwrap());
        let db = open_writer(&path, WalIndexSharing::Processes).unwrap();
        db.execute_batch("CREATE TABLE thing (body BLOB)").unwrap();
        let guard = FileGuard::new(&path, database).unwrap();
        (db, guard)
    }

    fn add(db: &Connection, bytes: u32) {
        db.execute("INSERT INTO thing VALUES (randomblob(?1))", [bytes]).unwrap();
    }

    #[test]
    fn growth_checkpoints_and_a_log_that_starts_again_are_no_fault() {
        let folder = tempfile::tempdir().unwrap();
        let (db, mut guard) = start(folder.path());
        db.set_pragma_word("synchronous", "OFF").unwrap();
        db.set_pragma("wal_autocheckpoint", 20).unwrap();
        let mut generations = std::collections::BTreeSet::new();
        for n in 0..2000 {
            // Batches of one to a dozen frames, so that a log that starts again ends before, at or after its old end.
            add(&db, n * 37 % 45_000);
            assert_eq!(guard.check(), Ok(()), "{n}");
            let mut salts = [0; 8];
            guard.wal.file.read_exact_at(&mut salts, 16).unwrap();
            generations.insert(salts);
        }
        assert!(generations.len() > 10, "the log started again: {}", generations.len());
    }

    #[test]
    fn a_log_that_was_truncated_and_then_extended_by_a_commit_is_noticed() {
        for keep in [0, 32, 5_000, u64::MAX] {
            let folder = tempfile::tempdir().unwrap();
            let (db, mut guard) = start(folder.path());
            for _ in 0..5 {
                add(&db, 3000);
            }
            assert_eq!(guard.check(), Ok(()));
            let length = guard.wal.length;
            let wal = OpenOptions::new().write(true).open(&guard.wal.path).unwrap();
            wal.set_len(keep.min(length - 100)).unwrap();
            add(&db, 30_000);
            assert!(
                fs::metadata(&guard.wal.path).unwrap().len() > length,
                "its length shows nothing"
            );
            assert_eq!(guard.check(), Err(FileFault::Overwritten("x.db-wal".to_owned())), "{keep}");
        }
    }
}
