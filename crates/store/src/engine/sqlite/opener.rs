//! One database file: opens its connections, and holds the location that its readers use.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{
        Arc, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use agent_worker_protocol::sync;

use super::{
    connection,
    file_guard::{FileFault, FileGuard},
};
use crate::{
    db::{Connection, WalIndexSharing},
    error::{Error, Result},
};

/// Several times the size of the first shared-memory file.
const MIN_SHARED_MEMORY_BYTES: u64 = 256 * 1024;

/// Opens the connection that writes. Owns the descriptor that the guards of all sessions share: it is closed after
/// every connection of the writer.
pub(super) struct DatabaseOpener {
    path: PathBuf,
    sharing: WalIndexSharing,
    database: Arc<File>,
}

/// The connection that writes, with the guard of its files.
pub(super) struct WriterSession {
    pub(super) db: Connection,
    /// The guard of the files; none for a database in memory.
    guard: Option<FileGuard>,
}

/// The location of the database for readers. It changes once, when a rescue moves readers to the copy.
#[derive(Clone)]
pub(super) struct DatabaseLocation(Arc<DatabaseLocationState>);

struct DatabaseLocationState {
    current: RwLock<(PathBuf, WalIndexSharing)>,
    moves: AtomicU64,
}

/// A read-only connection, and the location it was opened at.
pub(super) struct ReadConnection {
    pub(super) db: Connection,
    moves: u64,
}

impl DatabaseOpener {
    /// Opens the database at `path`, and creates it if it is missing. A disk without space for a shared-memory file
    /// is no obstacle: the index of the log is then kept in this process, and writes fail until there is space.
    pub(super) fn open(path: &Path) -> Result<(Self, WriterSession)> {
        // SQLite reserves the shared-memory file in steps of 4 KiB. With smaller blocks, a full disk may lack the
        // space for a page of the file, and the first write to that page would kill the process (SIGBUS).
        let folder = path.parent().unwrap_or(Path::new("."));
        let first = if lacks_space_for_shared_memory(folder) {
            Err(Error::DiskFull)
        } else {
            Self::open_with(path, WalIndexSharing::Processes)
        };
        let Err(error @ (Error::DiskFull | Error::Disk(_))) = first else { return first };
        let second = Self::open_with(path, WalIndexSharing::Connections);
        if second.is_ok() {
            tracing::error!(database = %path.display(), %error, "opened without a shared-memory file");
        }
        second.map_err(|_| error)
    }

    fn open_with(path: &Path, sharing: WalIndexSharing) -> Result<(Self, WriterSession)> {
        connection::create_file(path)?;
        let database = Arc::new(File::open(path)?);
        let opener = Self { path: path.to_owned(), sharing, database };
        let session = opener.open_session()?;
        Ok((opener, session))
    }

    /// Opens another connection that writes, after one has failed.
    pub(super) fn open_session(&self) -> Result<WriterSession> {
        let db = connection::open_writer(&self.path, self.sharing)?;
        let mut guard = FileGuard::new(&self.path, Arc::clone(&self.database))?;
        guard.check().map_err(|fault| Error::ReadOnly(fault.to_string()))?;
        Ok(WriterSession { db, guard: Some(guard) })
    }

    pub(super) fn location(&self) -> DatabaseLocation {
        let current = RwLock::new((self.path.clone(), self.sharing));
        DatabaseLocation(Arc::new(DatabaseLocationState { current, moves: AtomicU64::new(0) }))
    }
}

/// Returns true if a shared-memory file may not fit on the disk. The blocks that ext4 reserves for root do not count:
/// they are not guaranteed when a page is written.
fn lacks_space_for_shared_memory(folder: &Path) -> bool {
    rustix::fs::statvfs(folder)
        .is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < MIN_SHARED_MEMORY_BYTES)
}

impl WriterSession {
    /// Makes a session without files to guard.
    pub(super) fn unguarded(db: Connection) -> Self {
        Self { db, guard: None }
    }

    /// Checks that the files on disk are still those of this connection.
    pub(super) fn check(&mut self) -> std::result::Result<(), FileFault> {
        self.guard.as_mut().map_or(Ok(()), FileGuard::check)
    }

    /// Keeps the connection from writing when it is closed: it would copy a damaged log into the database.
    pub(super) fn disable_checkpoint_on_close(&self) {
        if let Err(error) = self.db.disable_checkpoint_on_close() {
            tracing::error!(%error, "the write-ahead log may be copied into the database on close");
        }
    }
}

impl DatabaseLocation {
    #[cfg(test)]
    pub(super) fn fixed(path: &Path) -> Self {
        let current = RwLock::new((path.to_owned(), WalIndexSharing::Processes));
        Self(Arc::new(DatabaseLocationState { current, moves: AtomicU64::new(0) }))
    }

    /// Returns the kept reader, unless the database has moved since; else a new one.
    pub(super) fn connection(&self, kept: Option<ReadConnection>) -> Result<ReadConnection> {
        let moves = self.0.moves.load(Ordering::Acquire);
        match kept {
            Some(kept) if kept.moves == moves => Ok(kept),
            Some(_) | None => {
                let (path, sharing) = sync::read(&self.0.current).clone();
                Ok(ReadConnection { db: connection::open_reader(&path, sharing)?, moves })
            }
        }
    }

    /// Moves the readers to the copy at `path`.
    pub(super) fn move_to(&self, path: &Path) {
        let current = (path.to_owned(), WalIndexSharing::Processes);
        *sync::write(&self.0.current) = current;
        self.0.moves.fetch_add(1, Ordering::Release);
    }
}
