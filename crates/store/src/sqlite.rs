//! The store on one SQLite file: a writer thread, a small pool of readers, inline reads by key, and a file per noun.

mod agents;
mod approvals;
mod attempts;
mod author;
mod binding;
mod changes;
mod checksum;
pub(crate) mod clock;
mod columns;
mod connection;
mod database_state;
mod deliveries;
mod documents;
mod effects;
mod events;
mod faults;
mod feedback;
mod file_guard;
mod file_imports;
mod file_states;
mod hashed_message;
mod inbox;
mod inline_reads;
mod instances;
mod integrity;
mod locked_instance;
mod members;
mod messages;
mod methods;
mod notices;
mod opener;
mod proposal_rows;
mod proposals;
#[cfg(test)]
mod query_plans;
mod questions;
mod read_cache;
mod readers;
pub(crate) mod rescue;
mod resources;
mod revisions;
mod roles;
mod run_settlement;
mod run_snapshot;
mod runs;
mod search;
mod suggestions;
pub(crate) mod team_databases;
mod tokens;
mod writer;

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};

use crate::{
    damage::{self, DamageRegister},
    error::{Error, Result},
    model::StoreFault,
};
use changes::ChangeNotifier;
use clock::StoreClock;
use database_state::WriterContext;
use faults::{DatabaseFault, FaultState};
use inline_reads::InlineReads;
use opener::{DatabaseLocation, DatabaseOpener, WriterSession};
use readers::ReaderPool;
use resources::ResourceFiles;
use writer::{SqliteWriter, Tx};

/// The database's name in its folder.
const DATABASE_FILE_NAME: &str = "agent-worker.db";

/// A handle to the database. Cloning it is cheap.
#[derive(Clone)]
pub struct Sqlite {
    writer: SqliteWriter,
    changes: ChangeNotifier,
    clock: StoreClock,
    faults: FaultState,
    damage: DamageRegister,
    medium: StorageMedium,
}

/// Where the data is.
#[derive(Clone)]
enum StorageMedium {
    File {
        location: DatabaseLocation,
        readers: ReaderPool,
        inline_reads: InlineReads,
        files: ResourceFiles,
    },
    /// Only the writer's connection sees it.
    Memory,
}

impl Sqlite {
    /// Opens `agent-worker.db` in `folder`, making it if need be. Only one process may have it open.
    pub fn open(folder: &Path) -> std::result::Result<Self, Error> {
        Self::open_file(&folder.join(DATABASE_FILE_NAME), folder, StoreClock::start)
    }

    /// Opens another database of this store, which shares its clock.
    pub(crate) fn open_sibling(&self, path: &Path, folder: &Path) -> Result<Self> {
        let clock = self.clock.clone();
        Self::open_file(path, folder, |db| clock.advance_to_saved(db).map(|()| clock.clone()))
    }

    /// Opens the database at `path`, with the folder of what is too large for it. A rescued copy in that folder may have
    /// data that the database lacks: somebody has to decide which of the two counts before anything is written.
    fn open_file(
        path: &Path,
        folder: &Path,
        clock: impl FnOnce(&Connection) -> Result<StoreClock>,
    ) -> Result<Self> {
        if let Some(copy) = rescue::newest_copy(folder)? {
            return Err(Error::RescuedCopy { copy, database: path.to_owned() });
        }
        let (opener, session) = DatabaseOpener::open(path)?;
        let clock = clock(&session.db)?;
        let location = opener.location();
        let (changes, faults) = (ChangeNotifier::default(), FaultState::default());
        let files = ResourceFiles::in_folder(folder)?;
        let readers = ReaderPool::start(&location)?;
        let inline_reads = InlineReads::new(location.clone());
        let context = WriterContext {
            changes: changes.clone(),
            faults: faults.clone(),
            clock: Some(clock.clone()),
            files: Some(database_state::DatabaseFiles {
                database: path.to_owned(),
                folder: folder.to_owned(),
                location: location.clone(),
            }),
        };
        let writer = SqliteWriter::start(session, move || opener.open_session(), context)?;
        let place = StorageMedium::File { location, readers, inline_reads, files };
        Ok(Self {
            writer,
            changes,
            clock,
            faults,
            damage: DamageRegister::default(),
            medium: place,
        })
    }

    /// A store that is gone with its last handle.
    pub fn in_memory() -> std::result::Result<Self, Error> {
        let (changes, faults) = (ChangeNotifier::default(), FaultState::default());
        let db = connection::open_in_memory()?;
        let clock = StoreClock::start(&db)?;
        let session = WriterSession::unguarded(db);
        let gone = || Err(Error::ReadOnly("the database in memory is gone".to_owned()));
        let context = WriterContext {
            changes: changes.clone(),
            faults: faults.clone(),
            clock: Some(clock.clone()),
            files: None,
        };
        let writer = SqliteWriter::start(session, gone, context)?;
        let damage = DamageRegister::default();
        Ok(Self { writer, changes, clock, faults, damage, medium: StorageMedium::Memory })
    }

    /// Waits until everything asked for is done and the file is closed; what other handles ask from then on is refused.
    /// Await this before the file is opened again: a reader that came while it was closing has met a short read.
    pub async fn close(self) {
        if let StorageMedium::File { readers, inline_reads, .. } = self.medium {
            inline_reads.close().await;
            readers.close().await;
        }
        self.writer.close().await;
    }

    /// Which databases were opened beside this one.
    pub(crate) async fn team_database_list(&self) -> Result<Vec<PathBuf>> {
        self.read(team_databases::list).await
    }

    pub(crate) async fn team_database_add(&self, path: String) -> Result<()> {
        self.write(move |tx| team_databases::add(tx, &path)).await
    }

    pub(crate) async fn team_database_remove(&self, path: PathBuf) -> Result<()> {
        self.write(move |tx| team_databases::remove(tx, &path)).await
    }

    /// Its own number among them; 0 is the home's, or that of one that has none yet.
    pub(crate) async fn database_number(&self) -> Result<i64> {
        self.read(team_databases::database_number).await
    }

    pub(crate) async fn set_database_number(&self, number: i64) -> Result<()> {
        self.write(move |tx| team_databases::set_database_number(tx, number)).await
    }

    /// The reason why writes are refused, if they are; `database` names this one.
    pub(crate) fn fault(&self, database: Option<PathBuf>) -> Option<StoreFault> {
        let DatabaseFault { why, copy, .. } = self.faults.current()?;
        Some(StoreFault { database, why, copy })
    }

    /// Checks the files without writing; a fault is reported by [`Self::fault`].
    pub(crate) async fn check_files(&self) -> Result<()> {
        self.write(|_| Ok(())).await
    }

    /// Runs `work` on one snapshot: it sees everything that was answered before.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let watched = match &self.medium {
            StorageMedium::File { readers, .. } => {
                let read = readers.read(|db| damage::collect_skipped(|| work(db))).await;
                self.explain_failed_read(read).await
            }
            StorageMedium::Memory => {
                self.writer.write(|tx| damage::collect_skipped(|| work(tx))).await
            }
        };
        self.damage.record(watched)
    }

    /// The same for what is found by its key, which is quicker than a thread is woken.
    async fn read_inline<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let watched = match &self.medium {
            StorageMedium::File { inline_reads, .. } => {
                let read = inline_reads.read(|db| damage::collect_skipped(|| work(db)));
                self.explain_failed_read(read).await
            }
            StorageMedium::Memory => {
                self.writer.write(|tx| damage::collect_skipped(|| work(tx))).await
            }
        };
        self.damage.record(watched)
    }

    /// A failed read with its cause: the files are checked at once, not only with the next write.
    async fn explain_failed_read<T>(&self, read: Result<T>) -> Result<T> {
        let failed = matches!(
            read,
            Err(Error::Disk(_)
                | Error::Malformed(_)
                | Error::Database(_)
                | Error::Damaged(_)
                | Error::InvalidValue(_))
        );
        if failed && self.check_files().await.is_err() {
            let fault = self.fault(None);
            return fault.map_or(read, |fault| Err(Error::ReadOnly(fault.why)));
        }
        read
    }

    /// Runs `work` in the writer thread and answers when it is on disk.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.damage.record(self.writer.write(|tx| damage::collect_skipped(|| work(tx))).await)
    }

    fn resource_files(&self) -> Option<ResourceFiles> {
        match &self.medium {
            StorageMedium::File { files, .. } => Some(files.clone()),
            StorageMedium::Memory => None,
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::FromSqlConversionFailure(_, _, why) => match why.downcast() {
                Ok(damaged) => Self::Damaged(*damaged),
                Err(why) => Self::InvalidValue(why.to_string()),
            },
            other => match other.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => Self::DiskFull,
                Some(
                    ErrorCode::SystemIoFailure
                    | ErrorCode::CannotOpen
                    | ErrorCode::ReadOnly
                    | ErrorCode::FileLockingProtocolFailed,
                ) => Self::Disk(other.to_string()),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                    Self::Malformed(other.to_string())
                }
                _ => Self::Database(Box::new(other)),
            },
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::InvalidValue(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    fn truncate_log(folder: &Path) -> std::io::Result<()> {
        OpenOptions::new().write(true).open(folder.join("agent-worker.db-wal"))?.set_len(0)
    }

    #[tokio::test]
    async fn a_missing_folder_is_not_called_a_full_disk() {
        let folder = tempfile::tempdir().unwrap();
        let opened = Sqlite::open(&folder.path().join("missing")).map(drop);
        assert!(matches!(&opened, Err(error) if !matches!(error, Error::DiskFull)), "{opened:?}");
    }

    #[tokio::test]
    async fn a_write_that_fails_because_the_log_was_truncated_names_the_cause() {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(folder.path()).unwrap();
        let path = folder.path().to_owned();
        let failed = store.write(move |_| {
            truncate_log(&path)?;
            Err::<(), _>(Error::Disk("short read".to_owned()))
        });
        let failed = failed.await;
        assert!(
            matches!(&failed, Err(Error::ReadOnly(why)) if why.contains("rescued-")),
            "{failed:?}"
        );
    }

    #[tokio::test]
    async fn a_read_that_fails_beside_a_write_because_the_log_was_truncated_names_the_cause() {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(folder.path()).unwrap();
        let path = folder.path().to_owned();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let write = store.write(move |_| {
            released.recv().unwrap();
            Ok(truncate_log(&path)?)
        });
        // The check of the files is queued behind the write, and so in its batch.
        let read = store.explain_failed_read(Err::<(), _>(Error::Disk("short read".to_owned())));
        let go = async { release.send(()).unwrap() };
        let (_, read, ()) = tokio::join!(write, read, go);
        assert!(matches!(&read, Err(Error::ReadOnly(why)) if why.contains("rescued-")), "{read:?}");
    }
}
