//! Several databases behind one store: the home's, and one for each file that a workflow names for its team.
//!
//! Invariant: an instance is in one database, whole. The high bits of its id are the number of that database.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    future::{Ready, ready},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, RwLock},
    time::{Duration, Instant},
};

use agent_worker_protocol::{AttemptId, InstanceRef, RunId, WorkflowId, sync};
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use tokio::{sync::Mutex, task::spawn_blocking};

use crate::{
    database::Database,
    engine,
    error::{Error, Result},
    link_check::refuse_links,
    model::InstanceQuery,
    sql::team_databases,
    store::{AttemptStore as _, RunStore as _},
};

/// A process that a killed daemon was about to start may hold the daemon's lock for a moment longer.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// All databases of a home. Cloning it is cheap.
#[derive(Clone)]
pub struct MultiStore(pub(crate) Arc<MultiStoreInner>);

pub(crate) struct MultiStoreInner {
    pub(crate) home: Database,
    databases: RwLock<BTreeMap<i64, TeamDatabase>>,
    /// Databases that could not be opened at the start of the daemon, with the reason: their instances are not
    /// visible.
    pub(crate) unavailable: Mutex<BTreeMap<PathBuf, String>>,
    /// Held while a database is opened or removed, so that no file is opened twice.
    pub(crate) open_lock: Mutex<()>,
}

/// A database of a team, other than the home's.
#[derive(Clone)]
pub(crate) struct TeamDatabase {
    pub(crate) path: PathBuf,
    pub(crate) store: Database,
    /// Held while the database is open.
    _lock: Arc<File>,
}

impl MultiStore {
    /// Opens the database in `folder`, creates it if it is missing, and opens the team databases that it records. A
    /// deleted one is removed from the record; one that cannot be opened, or whose whole folder is missing, is
    /// skipped until the next start.
    pub async fn open(folder: &Path) -> std::result::Result<Self, Error> {
        let home = Database::open(folder)?;
        let (databases, unavailable, changing) =
            (RwLock::default(), Mutex::default(), Mutex::default());
        let multi_store =
            Self(Arc::new(MultiStoreInner { home, databases, unavailable, open_lock: changing }));
        for path in multi_store.0.home.team_database_list().await? {
            match database_presence(&path) {
                Ok(DatabasePresence::Present) => {
                    match multi_store.open_database(path.clone()).await {
                        Ok(_) => {}
                        Err(error) => multi_store.mark_unavailable(path, &error).await,
                    }
                }
                Ok(DatabasePresence::Deleted) => {
                    tracing::warn!(database = %path.display(), "a team database was deleted, and its teams with it");
                    if let Err(error) = multi_store.0.home.team_database_remove(path).await {
                        tracing::warn!(%error, "could not remove the record of a deleted team database; retrying at the next start");
                    }
                }
                Err(error) => multi_store.mark_unavailable(path, &error.into()).await,
            }
        }
        Ok(multi_store)
    }

    /// Returns the open team databases.
    pub(crate) fn open_databases(&self) -> Vec<TeamDatabase> {
        let databases = sync::read(&self.0.databases);
        databases.values().cloned().collect()
    }

    async fn mark_unavailable(&self, path: PathBuf, why: &Error) {
        let why = match why {
            Error::File(why) => why.to_string(),
            other => other.to_string(),
        };
        tracing::error!(database = %path.display(), why, "cannot open a team database");
        self.0.unavailable.lock().await.insert(path, why);
    }

    /// Waits until every request is done and the files are closed.
    pub async fn close(self) {
        for store in self.all_stores() {
            store.close().await;
        }
    }

    /// Returns the home's database and all others, in the order of their numbers.
    pub(crate) fn all_stores(&self) -> Vec<Database> {
        let databases = sync::read(&self.0.databases);
        let others = databases.values().map(|database| database.store.clone());
        std::iter::once(self.0.home.clone()).chain(others).collect()
    }

    /// Returns the databases with their numbers; the number of the home's database is 0.
    pub(crate) fn numbered_stores(&self) -> Vec<(i64, Database)> {
        let databases = sync::read(&self.0.databases);
        let others = databases.iter().map(|(number, database)| (*number, database.store.clone()));
        std::iter::once((0, self.0.home.clone())).chain(others).collect()
    }

    /// Returns the database of an instance.
    pub(crate) fn store_for(&self, workflow: WorkflowId) -> Result<Database> {
        match workflow.get() >> team_databases::DATABASE_NUMBER_SHIFT {
            0 => Ok(self.0.home.clone()),
            number => {
                let databases = sync::read(&self.0.databases);
                let database = databases.get(&number).ok_or(Error::NotFound("instance"))?;
                Ok(database.store.clone())
            }
        }
    }

    /// Returns the database of an instance in the form of the other routes.
    pub(crate) fn of_workflow(&self, workflow: WorkflowId) -> Ready<Result<Database>> {
        ready(self.store_for(workflow))
    }

    /// Returns the home's database, for all data that belongs to no instance.
    pub(crate) fn of_home(&self) -> Ready<Result<Database>> {
        ready(Ok(self.0.home.clone()))
    }

    /// Returns the database at `path`, if it is open.
    pub(crate) fn find_open(&self, path: &Path) -> Option<Database> {
        let databases = sync::read(&self.0.databases);
        databases
            .values()
            .find(|database| database.path == path)
            .map(|database| database.store.clone())
    }

    /// Returns the database of a run; the home's if there is no such run.
    pub(crate) async fn of_run(&self, run: RunId) -> Result<Database> {
        let mut stores = self.all_stores();
        while let Some(store) = stores.pop().filter(|_| !stores.is_empty()) {
            match store.run_get(run).await {
                Err(Error::NotFound(_)) => {}
                found => return found.map(|_| store),
            }
        }
        Ok(self.0.home.clone())
    }

    /// Returns the database of an attempt; the home's if there is no such attempt.
    pub(crate) async fn of_attempt(&self, attempt: AttemptId) -> Result<Database> {
        let mut stores = self.all_stores();
        while let Some(store) = stores.pop().filter(|_| !stores.is_empty()) {
            match store.attempt_get(attempt).await {
                Err(Error::NotFound(_)) => {}
                found => return found.map(|_| store),
            }
        }
        Ok(self.0.home.clone())
    }

    /// Refuses a team that is in another database than `wanted` (none: the home's).
    pub(crate) async fn refuse_other_database(
        &self,
        project: &str,
        instance: &InstanceRef,
        wanted: Option<&Path>,
    ) -> Result<()> {
        let others =
            self.open_databases().into_iter().map(|database| (Some(database.path), database.store));
        for (path, store) in std::iter::once((None, self.0.home.clone())).chain(others) {
            if path.as_deref() == wanted {
                continue;
            }
            let namesakes = store.instance_list(InstanceQuery::Named(instance.clone())).await?;
            if namesakes.iter().any(|namesake| namesake.project == project) {
                let place = path
                    .map_or_else(|| "the daemon's own database".into(), |path| path_text(&path));
                return Err(Error::InOtherDatabase(place));
            }
        }
        Ok(())
    }

    /// Opens the database at `path`, creates it if it is missing, and records it.
    pub(crate) async fn open_database(&self, path: PathBuf) -> Result<Database> {
        let text = path.to_str().ok_or_else(|| {
            let why = format!("the path of {} is not Unicode", path.display());
            io::Error::new(io::ErrorKind::InvalidInput, why)
        })?;
        let text = text.to_owned();
        let (file, home) = (path.clone(), self.0.home.clone());
        let opened = spawn_blocking(move || {
            let lock = lock_database(&file)?;
            home.open_sibling(&file, &companion_folder(&file)).map(|store| (store, lock))
        });
        let (store, lock) = opened.await.map_err(|_| Error::Closed)??;
        // The store writes nothing into a database that the next daemon would not open.
        let known = async {
            let number = self.ensure_database_number(&store, &text).await?;
            self.0.home.team_database_add(text).await?;
            Ok(number)
        };
        match known.await {
            Ok(number) => {
                self.0.unavailable.lock().await.remove(&path);
                let database = TeamDatabase { path, store: store.clone(), _lock: Arc::new(lock) };
                let mut databases = sync::write(&self.0.databases);
                databases.insert(number, database);
                Ok(store)
            }
            Err(error) => {
                store.close().await;
                Err(error)
            }
        }
    }

    /// Returns the number of a database that was just opened; it must differ from those of the open databases.
    async fn ensure_database_number(&self, store: &Database, path: &str) -> Result<i64> {
        let taken = |number: i64| sync::read(&self.0.databases).contains_key(&number);
        match store.database_number().await? {
            0 => {
                // Derived from the path, so that files of different homes rarely have the same number.
                let digest = Sha256::digest(path);
                let drawn = i64::from(u16::from_be_bytes([digest[0], digest[1]]))
                    % team_databases::MAX_TEAM_DATABASES;
                let numbers = (drawn..team_databases::MAX_TEAM_DATABASES)
                    .chain(0..drawn)
                    .map(|number| number + 1);
                let number = numbers.into_iter().find(|number| !taken(*number));
                let number = number.ok_or(Error::Exists("database number"))?;
                store.set_database_number(number).await?;
                Ok(number)
            }
            number if taken(number) => Err(Error::Exists("database number")),
            number => Ok(number),
        }
    }

    /// Removes a database without instances, including its file.
    pub(crate) async fn remove_if_empty(&self, number: i64) -> Result<()> {
        let database = {
            let databases = sync::read(&self.0.databases);
            databases.get(&number).cloned()
        };
        let Some(TeamDatabase { path, store, .. }) = database else { return Ok(()) };
        if !store.instance_list(InstanceQuery::All).await?.is_empty() {
            return Ok(());
        }
        self.0.home.team_database_remove(path.clone()).await?;
        sync::write(&self.0.databases).remove(&number);
        store.close().await;
        for ending in ["", "-wal", "-shm"] {
            ignore_not_found(fs::remove_file(format!("{}{ending}", path.display())))?;
        }
        ignore_not_found(fs::remove_dir_all(companion_folder(&path)))
    }
}

/// The presence of a database that was open before.
enum DatabasePresence {
    Present,
    Deleted,
}

/// Checks for a database on disk. Returns an error if the folder is missing: the disk may not be mounted, and the
/// database must not be created again. A database whose data was rescued counts as present.
fn database_presence(database: &Path) -> io::Result<DatabasePresence> {
    if database.try_exists()? || engine::newest_copy(&companion_folder(database))?.is_some() {
        return Ok(DatabasePresence::Present);
    }
    fs::read_dir(database.parent().unwrap_or(database))?;
    Ok(DatabasePresence::Deleted)
}

fn ignore_not_found(removed: io::Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Returns the folder for a database's lock, large resources and rescued copies.
fn companion_folder(database: &Path) -> PathBuf {
    let mut folder = database.as_os_str().to_owned();
    folder.push(".d");
    folder.into()
}

/// Locks a database against other daemons: two writers would not know of each other.
fn lock_database(database: &Path) -> Result<File> {
    let folder = companion_folder(database);
    refuse_links(database, &folder)?;
    // An existing file without this folder is no team database; it may be a daemon's own.
    if database.exists() && !folder.exists() {
        return Err(Error::NotTeamDatabase(path_text(database)));
    }
    if let Some(project) = folder.parent() {
        fs::create_dir_all(project)?;
    }
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    // Neither follows a link nor waits for the reader of a pipe that took the place of the lock.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(folder.join("lock"))?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(error.into()),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                return Err(Error::InUse(path_text(database)));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_POLL_INTERVAL),
        }
    }
}
