//! The SQLite engine: a writer thread with group commit, a small pool of reader threads, and inline reads by key.

mod connection;
mod database_state;
mod faults;
mod file_guard;
mod inline_reads;
mod opener;
mod readers;
mod rescue;
mod writer;

use std::path::Path;

use crate::{
    changes::ChangeNotifier,
    clock::StoreClock,
    db::Connection,
    error::{Error, Result},
    sql::{resources::ResourceFiles, transaction::Tx},
};
pub(crate) use connection::open_in_memory;
use database_state::WriterContext;
pub(crate) use faults::DatabaseFault;
use faults::FaultState;
use inline_reads::InlineReads;
use opener::{DatabaseLocation, DatabaseOpener, WriterSession};
use readers::ReaderPool;
pub(crate) use rescue::newest_copy;
use writer::SqliteWriter;

/// A handle to one database. Cloning it is cheap.
#[derive(Clone)]
pub(crate) struct SqliteEngine {
    writer: SqliteWriter,
    faults: FaultState,
    medium: StorageMedium,
}

/// The storage of the data.
#[derive(Clone)]
enum StorageMedium {
    File {
        location: DatabaseLocation,
        readers: ReaderPool,
        inline_reads: InlineReads,
        files: ResourceFiles,
    },
    /// A database in memory, which only the writer's connection can read.
    Memory,
}

impl SqliteEngine {
    /// Opens the database at `path`, with the folder for content that is too large for it. A rescued copy in that
    /// folder may have data that the database lacks: the user has to choose between the two before the store writes
    /// anything. `clock` makes the store's clock from the saved one.
    pub(crate) fn open(
        path: &Path,
        folder: &Path,
        changes: &ChangeNotifier,
        clock: impl FnOnce(&Connection) -> Result<StoreClock>,
    ) -> Result<(Self, StoreClock)> {
        if let Some(copy) = newest_copy(folder)? {
            return Err(Error::RescuedCopy { copy, database: path.to_owned() });
        }
        let (opener, session) = DatabaseOpener::open(path)?;
        let clock = clock(&session.db)?;
        let location = opener.location();
        let faults = FaultState::default();
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
        let medium = StorageMedium::File { location, readers, inline_reads, files };
        Ok((Self { writer, faults, medium }, clock))
    }

    /// Opens a database in memory that is deleted with its last handle.
    pub(crate) fn open_in_memory(changes: &ChangeNotifier) -> Result<(Self, StoreClock)> {
        let faults = FaultState::default();
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
        Ok((Self { writer, faults, medium: StorageMedium::Memory }, clock))
    }

    /// Waits until every request is done and the file is closed; later requests of other handles are refused. Await
    /// this before the file is opened again: a reader that opened the file during the close has met a short read.
    pub(crate) async fn close(self) {
        if let StorageMedium::File { readers, inline_reads, .. } = self.medium {
            inline_reads.close().await;
            readers.close().await;
        }
        self.writer.close().await;
    }

    /// Returns the reason why writes are refused, if they are.
    pub(crate) fn fault(&self) -> Option<DatabaseFault> {
        self.faults.current()
    }

    /// Checks the files without writing; [`Self::fault`] reports a fault.
    pub(crate) async fn check_files(&self) -> Result<()> {
        self.write(|_| Ok(())).await
    }

    /// Runs `work` on one snapshot that includes every write that was acknowledged before.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match &self.medium {
            StorageMedium::File { readers, .. } => {
                self.explain_failed_read(readers.read(work).await).await
            }
            StorageMedium::Memory => self.writer.write(|tx| work(tx)).await,
        }
    }

    /// Runs `work` in the same way on the caller's thread: for a read by key, which takes less time than waking a
    /// thread.
    pub(crate) async fn read_inline<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match &self.medium {
            StorageMedium::File { inline_reads, .. } => {
                self.explain_failed_read(inline_reads.read(work)).await
            }
            StorageMedium::Memory => self.writer.write(|tx| work(tx)).await,
        }
    }

    /// Runs `work` in the same way on a connection that has read nothing before.
    pub(crate) async fn read_on_new_connection<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match &self.medium {
            StorageMedium::File { location, .. } => {
                let location = location.clone();
                self.read(move |_| work(&location.connection(None)?.db)).await
            }
            StorageMedium::Memory => self.read(work).await,
        }
    }

    /// Runs `work` in the writer thread and returns when it is on disk.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.writer.write(work).await
    }

    /// Returns the folder of large resources; a database in memory has none.
    pub(crate) fn resource_files(&self) -> Option<ResourceFiles> {
        match &self.medium {
            StorageMedium::File { files, .. } => Some(files.clone()),
            StorageMedium::Memory => None,
        }
    }

    /// Replaces the error of a failed read by its cause: checks the files at once instead of with the next write.
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
            return self.fault().map_or(read, |fault| Err(Error::ReadOnly(fault.why)));
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    fn open(folder: &Path) -> Result<SqliteEngine> {
        let changes = ChangeNotifier::default();
        let path = folder.join("agent-worker.db");
        SqliteEngine::open(&path, folder, &changes, StoreClock::start).map(|(engine, _)| engine)
    }

    fn truncate_log(folder: &Path) -> std::io::Result<()> {
        OpenOptions::new().write(true).open(folder.join("agent-worker.db-wal"))?.set_len(0)
    }

    #[tokio::test]
    async fn a_missing_folder_is_not_called_a_full_disk() {
        let folder = tempfile::tempdir().unwrap();
        let opened = open(&folder.path().join("missing")).map(drop);
        assert!(matches!(&opened, Err(error) if !matches!(error, Error::DiskFull)), "{opened:?}");
    }

    #[tokio::test]
    async fn a_write_that_fails_because_the_log_was_truncated_names_the_cause() {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(folder.path()).unwrap();
        let path = folder.path().to_owned();
        let failed = engine.write(move |_| {
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
    async fn a_read_that_fails_during_a_write_because_the_log_was_truncated_names_the_cause() {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(folder.path()).unwrap();
        let path = folder.path().to_owned();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let write = engine.write(move |_| {
            released.recv().unwrap();
            Ok(truncate_log(&path)?)
        });
        // The check of the files is queued after the write, and therefore in its batch.
        let read = engine.explain_failed_read(Err::<(), _>(Error::Disk("short read".to_owned())));
        let go = async { release.send(()).unwrap() };
        let (_, read, ()) = tokio::join!(write, read, go);
        assert!(matches!(&read, Err(Error::ReadOnly(why)) if why.contains("rescued-")), "{read:?}");
    }
}
