//! One database as a store: an engine, and the state in memory that belongs to its data.

mod resources;

use std::path::{Path, PathBuf};

use crate::{
    changes::ChangeNotifier,
    clock::StoreClock,
    damage::{self, DamageRegister},
    db::Connection,
    engine::{DatabaseFault, SqliteEngine},
    error::{Error, Result},
    model::{IntegrityReport, StoreFault},
    sql::{integrity, team_databases, transaction::Tx},
};

/// The name of the database file in its folder.
const DATABASE_FILE_NAME: &str = "agent-worker.db";

/// A handle to one database. Cloning it is cheap.
#[derive(Clone)]
pub struct Database {
    pub(crate) engine: SqliteEngine,
    pub(crate) changes: ChangeNotifier,
    pub(crate) clock: StoreClock,
    pub(crate) damage: DamageRegister,
}

impl Database {
    /// Opens `agent-worker.db` in `folder`, creating it if it is missing. Only one process may have it open.
    pub fn open(folder: &Path) -> std::result::Result<Self, Error> {
        Self::open_file(&folder.join(DATABASE_FILE_NAME), folder, StoreClock::start)
    }

    /// Opens another database of this store, which shares the clock of this one.
    pub(crate) fn open_sibling(&self, path: &Path, folder: &Path) -> Result<Self> {
        let clock = self.clock.clone();
        Self::open_file(path, folder, |db| clock.advance_to_saved(db).map(|()| clock.clone()))
    }

    fn open_file(
        path: &Path,
        folder: &Path,
        clock: impl FnOnce(&Connection) -> Result<StoreClock>,
    ) -> Result<Self> {
        let changes = ChangeNotifier::default();
        let (engine, clock) = SqliteEngine::open(path, folder, &changes, clock)?;
        Ok(Self { engine, changes, clock, damage: DamageRegister::default() })
    }

    /// Opens a store in memory that is deleted with its last handle.
    pub fn in_memory() -> std::result::Result<Self, Error> {
        let changes = ChangeNotifier::default();
        let (engine, clock) = SqliteEngine::open_in_memory(&changes)?;
        Ok(Self { engine, changes, clock, damage: DamageRegister::default() })
    }

    /// Waits until every request is done and the file is closed; later requests of other handles are refused. Await
    /// this before the file is opened again.
    pub async fn close(self) {
        self.engine.close().await;
    }

    /// Lists the team databases that are recorded in this one.
    pub(crate) async fn team_database_list(&self) -> Result<Vec<PathBuf>> {
        self.read(team_databases::list).await
    }

    pub(crate) async fn team_database_add(&self, path: String) -> Result<()> {
        self.write(move |tx| team_databases::add(tx, &path)).await
    }

    pub(crate) async fn team_database_remove(&self, path: PathBuf) -> Result<()> {
        self.write(move |tx| team_databases::remove(tx, &path)).await
    }

    /// Returns the number of this database among the team databases; 0 for the home's, and for one without a number.
    pub(crate) async fn database_number(&self) -> Result<i64> {
        self.read(team_databases::database_number).await
    }

    pub(crate) async fn set_database_number(&self, number: i64) -> Result<()> {
        self.write(move |tx| team_databases::set_database_number(tx, number)).await
    }

    /// Returns the reason why writes are refused, if they are; `database` is the path of this one.
    pub(crate) fn fault(&self, database: Option<PathBuf>) -> Option<StoreFault> {
        let DatabaseFault { why, copy, .. } = self.engine.fault()?;
        Some(StoreFault { database, why, copy })
    }

    /// Checks the files without writing; [`Self::fault`] reports a fault.
    pub(crate) async fn check_files(&self) -> Result<()> {
        self.engine.check_files().await
    }

    /// Checks the whole database; afterwards the register holds exactly the damage that was found.
    pub(crate) async fn check_integrity(&self) -> Result<IntegrityReport> {
        // Lost files are detected first: the check then reads the copy of their data.
        if let Err(error) = self.check_files().await {
            tracing::debug!(%error, "checking a store that refuses writes");
        }
        let files = self.engine.resource_files();
        let check = move |db: &Connection| integrity::check_database(db, files.as_ref());
        let checked =
            self.engine.read_on_new_connection(move |db| damage::collect_skipped(|| check(db)));
        let found = self.damage.record(checked.await)?;
        self.damage.replace(&found.damaged);
        Ok(found)
    }

    /// Runs `work` on one snapshot that includes every write that was acknowledged before.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let read = self.engine.read(|db| damage::collect_skipped(|| work(db))).await;
        self.damage.record(read)
    }

    /// Runs `work` in the same way on the caller's thread: for a read by key, which takes less time than waking a
    /// thread.
    pub(crate) async fn read_inline<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let read = self.engine.read_inline(|db| damage::collect_skipped(|| work(db))).await;
        self.damage.record(read)
    }

    /// Runs `work` in a write transaction and returns when it is on disk.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let written = self.engine.write(|tx| damage::collect_skipped(|| work(tx))).await;
        self.damage.record(written)
    }
}
