//! The store on one SQLite file: a writer thread, a small pool of readers, looks by key, and a file per noun.

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
mod content;
mod deliveries;
mod disk;
mod documents;
pub(crate) mod drawers;
mod effects;
mod events;
mod faults;
mod feedback;
mod file_guard;
mod file_states;
mod file_takes;
mod head;
mod inbox;
mod instances;
mod integrity;
mod known;
mod looks;
mod members;
mod messages;
mod methods;
mod notices;
mod opener;
#[cfg(test)]
mod plans;
mod proposal_rows;
mod proposals;
mod questions;
mod readers;
pub(crate) mod rescue;
mod resources;
mod revisions;
mod roles;
mod run_snapshot;
mod runs;
mod search;
mod settle;
mod suggestions;
mod tokens;
mod writer;

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode};

use crate::{
    damage::{self, DamageRegister},
    error::{Error, Result},
    model::StoreFault,
};
use changes::Changes;
use clock::StoreClock;
use disk::Surface;
use faults::{Fault, Faults};
use looks::Looks;
use opener::{Location, Opener, Session};
use readers::Readers;
use resources::Files;
use writer::{Tx, Writer};

/// The database's name in its folder.
const FILE: &str = "agent-worker.db";

/// A handle to the database. Cloning it is cheap.
#[derive(Clone)]
pub struct Sqlite {
    writer: Writer,
    changes: Changes,
    clock: StoreClock,
    faults: Faults,
    damage: DamageRegister,
    place: Place,
}

/// Where the data is.
#[derive(Clone)]
enum Place {
    File {
        location: Location,
        readers: Readers,
        looks: Looks,
        files: Files,
    },
    /// Only the writer's connection sees it.
    Memory,
}

impl Sqlite {
    /// Opens `agent-worker.db` in `folder`, making it if need be. Only one process may have it open.
    pub fn open(folder: &Path) -> std::result::Result<Self, Error> {
        Self::open_file(&folder.join(FILE), folder, StoreClock::start)
    }

    /// Opens another database of this store, which shares its clock.
    pub(crate) fn open_sibling(&self, path: &Path, folder: &Path) -> Result<Self> {
        let clock = self.clock.clone();
        Self::open_file(path, folder, |db| clock.join(db).map(|()| clock.clone()))
    }

    /// Opens the database at `path`, with the folder of what is too large for it. A rescued copy in that folder may have
    /// data that the database lacks: somebody has to decide which of the two counts before anything is written.
    fn open_file(
        path: &Path,
        folder: &Path,
        clock: impl FnOnce(&Connection) -> Result<StoreClock>,
    ) -> Result<Self> {
        if let Some(copy) = rescue::newest(folder)? {
            return Err(Error::RescuedCopy { copy, database: path.to_owned() });
        }
        let (opener, session) = Opener::open(path)?;
        let clock = clock(&session.db)?;
        let location = opener.location();
        let (changes, faults) = (Changes::default(), Faults::default());
        let files = Files::in_folder(folder)?;
        let readers = Readers::start(&location)?;
        let looks = Looks::at(location.clone());
        let surface = Surface {
            changes: changes.clone(),
            faults: faults.clone(),
            clock: Some(clock.clone()),
            files: Some(disk::Files {
                database: path.to_owned(),
                folder: folder.to_owned(),
                location: location.clone(),
            }),
        };
        let writer = Writer::start(session, move || opener.session(), surface)?;
        let place = Place::File { location, readers, looks, files };
        Ok(Self { writer, changes, clock, faults, damage: DamageRegister::default(), place })
    }

    /// A store that is gone with its last handle.
    pub fn in_memory() -> std::result::Result<Self, Error> {
        let (changes, faults) = (Changes::default(), Faults::default());
        let db = connection::in_memory()?;
        let clock = StoreClock::start(&db)?;
        let session = Session::unguarded(db);
        let gone = || Err(Error::ReadOnly("the database in memory is gone".to_owned()));
        let surface = Surface {
            changes: changes.clone(),
            faults: faults.clone(),
            clock: Some(clock.clone()),
            files: None,
        };
        let writer = Writer::start(session, gone, surface)?;
        let damage = DamageRegister::default();
        Ok(Self { writer, changes, clock, faults, damage, place: Place::Memory })
    }

    /// Waits until everything asked for is done and the file is closed; what other handles ask from then on is refused.
    /// Await this before the file is opened again: a reader that came while it was closing has met a short read.
    pub async fn close(self) {
        if let Place::File { readers, looks, .. } = self.place {
            looks.close().await;
            readers.close().await;
        }
        self.writer.close().await;
    }

    /// Which databases were opened beside this one.
    pub(crate) async fn drawers(&self) -> Result<Vec<PathBuf>> {
        self.read(drawers::list).await
    }

    pub(crate) async fn drawer_remember(&self, path: String) -> Result<()> {
        self.write(move |tx| drawers::remember(tx, &path)).await
    }

    pub(crate) async fn drawer_forget(&self, path: PathBuf) -> Result<()> {
        self.write(move |tx| drawers::forget(tx, &path)).await
    }

    /// Its own number among them; 0 is the home's, or that of one that has none yet.
    pub(crate) async fn number(&self) -> Result<i64> {
        self.read(drawers::number).await
    }

    pub(crate) async fn give_number(&self, number: i64) -> Result<()> {
        self.write(move |tx| drawers::give_number(tx, number)).await
    }

    /// The reason why writes are refused, if they are; `database` names this one.
    pub(crate) fn fault(&self, database: Option<PathBuf>) -> Option<StoreFault> {
        let Fault { why, copy, .. } = self.faults.current()?;
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
        let watched = match &self.place {
            Place::File { readers, .. } => {
                let read = readers.read(|db| damage::watch(|| work(db))).await;
                self.explained(read).await
            }
            Place::Memory => self.writer.write(|tx| damage::watch(|| work(tx))).await,
        };
        self.damage.record(watched)
    }

    /// The same for what is found by its key, which is quicker than a thread is woken.
    async fn look<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let watched = match &self.place {
            Place::File { looks, .. } => {
                let read = looks.look(|db| damage::watch(|| work(db)));
                self.explained(read).await
            }
            Place::Memory => self.writer.write(|tx| damage::watch(|| work(tx))).await,
        };
        self.damage.record(watched)
    }

    /// A failed read with its cause: the files are checked at once, not only with the next write.
    async fn explained<T>(&self, read: Result<T>) -> Result<T> {
        let failed = matches!(
            read,
            Err(Error::Disk(_)
                | Error::Malformed(_)
                | Error::Database(_)
                | Error::Damaged(_)
                | Error::Garbled(_))
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
        self.damage.record(self.writer.write(|tx| damage::watch(|| work(tx))).await)
    }

    fn files(&self) -> Option<Files> {
        match &self.place {
            Place::File { files, .. } => Some(files.clone()),
            Place::Memory => None,
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::FromSqlConversionFailure(_, _, why) => match why.downcast() {
                Ok(damaged) => Self::Damaged(*damaged),
                Err(why) => Self::Garbled(why.to_string()),
            },
            other => match other.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => Self::Full,
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
        Self::Garbled(error.to_string())
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
        assert!(matches!(&opened, Err(error) if !matches!(error, Error::Full)), "{opened:?}");
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
        let read = store.explained(Err::<(), _>(Error::Disk("short read".to_owned())));
        let go = async { release.send(()).unwrap() };
        let (_, read, ()) = tokio::join!(write, read, go);
        assert!(matches!(&read, Err(Error::ReadOnly(why)) if why.contains("rescued-")), "{read:?}");
    }
}
