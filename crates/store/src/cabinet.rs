//! Several databases behind one door: the home's, and one for each file that a workflow names for its team.
//!
//! Invariant: an instance is in one database, whole. Which one its number says: it begins with the database's own.

mod methods;

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use agent_worker_protocol::{AttemptId, InstanceRef, RunId, WorkflowId};
use sha2::{Digest, Sha256};
use tokio::{sync::Mutex, task::spawn_blocking};

use crate::{
    error::{Error, Result},
    model::InstanceQuery,
    sqlite::{Sqlite, drawers, rescue},
    store::Store as _,
};

/// The lock of a daemon that was killed may be held for a moment longer, by a process it was about to start.
const LAST_BREATH: Duration = Duration::from_secs(1);
const GLANCE: Duration = Duration::from_millis(20);

/// All of a home's databases. Cloning it is cheap.
#[derive(Clone)]
pub struct Cabinet(Arc<Inside>);

struct Inside {
    home: Sqlite,
    drawers: RwLock<BTreeMap<i64, Drawer>>,
    /// Those that could not be opened when the daemon began, and why: what is in them is not seen.
    shut: Mutex<BTreeMap<PathBuf, String>>,
    /// Held by whoever opens or removes one, so that no file is opened twice.
    changing: Mutex<()>,
}

/// A database beside the home's.
#[derive(Clone)]
struct Drawer {
    path: PathBuf,
    store: Sqlite,
    /// Held for as long as it is open.
    _lock: Arc<File>,
}

impl Cabinet {
    /// Opens the database in `folder`, making it if need be, and those that were opened beside it before. One that was
    /// deleted is forgotten; one that cannot be opened, or whose whole folder is away, is left alone until the next time.
    pub async fn open(folder: &Path) -> std::result::Result<Self, Error> {
        let home = Sqlite::open(folder)?;
        let (drawers, shut, changing) = (RwLock::default(), Mutex::default(), Mutex::default());
        let cabinet = Self(Arc::new(Inside { home, drawers, shut, changing }));
        for path in cabinet.0.home.drawers().await? {
            match state(&path) {
                Ok(State::There) => match cabinet.pull_out(path.clone()).await {
                    Ok(_) => {}
                    Err(error) => cabinet.leave_shut(path, &error).await,
                },
                Ok(State::Deleted) => {
                    tracing::warn!(database = %path.display(), "is gone, and its teams with it");
                    if let Err(error) = cabinet.0.home.drawer_forget(path).await {
                        tracing::warn!(%error, "it will be looked for again at the next start");
                    }
                }
                Err(error) => cabinet.leave_shut(path, &error.into()).await,
            }
        }
        Ok(cabinet)
    }

    /// The databases beside the home's that are open.
    fn opened(&self) -> Vec<Drawer> {
        let drawers = self.0.drawers.read().unwrap_or_else(PoisonError::into_inner);
        drawers.values().cloned().collect()
    }

    async fn leave_shut(&self, path: PathBuf, why: &Error) {
        let why = match why {
            Error::File(why) => why.to_string(),
            other => other.to_string(),
        };
        tracing::error!(database = %path.display(), why, "cannot be opened");
        self.0.shut.lock().await.insert(path, why);
    }

    /// Waits until everything asked for is done and the files are closed.
    pub async fn close(self) {
        for store in self.all() {
            store.close().await;
        }
    }

    /// The home's database and all others, in the order of their numbers.
    fn all(&self) -> Vec<Sqlite> {
        let drawers = self.0.drawers.read().unwrap_or_else(PoisonError::into_inner);
        let others = drawers.values().map(|drawer| drawer.store.clone());
        std::iter::once(self.0.home.clone()).chain(others).collect()
    }

    /// Where an instance is.
    fn of(&self, workflow: WorkflowId) -> Result<Sqlite> {
        match workflow.get() >> drawers::SHIFT {
            0 => Ok(self.0.home.clone()),
            number => {
                let drawers = self.0.drawers.read().unwrap_or_else(PoisonError::into_inner);
                let drawer = drawers.get(&number).ok_or(Error::NotFound("instance"))?;
                Ok(drawer.store.clone())
            }
        }
    }

    /// Where everything is that belongs to no instance.
    #[expect(clippy::unnecessary_wraps, reason = "as the others are asked")]
    fn home(&self) -> Result<Sqlite> {
        Ok(self.0.home.clone())
    }

    /// The database at `path`, if it is open.
    fn open_already(&self, path: &Path) -> Option<Sqlite> {
        let drawers = self.0.drawers.read().unwrap_or_else(PoisonError::into_inner);
        drawers.values().find(|drawer| drawer.path == path).map(|drawer| drawer.store.clone())
    }

    /// Where a run is; the home's where there is no such run.
    async fn of_run(&self, run: RunId) -> Result<Sqlite> {
        let mut stores = self.all();
        while let Some(store) = stores.pop().filter(|_| !stores.is_empty()) {
            match store.run_get(run).await {
                Err(Error::NotFound(_)) => {}
                found => return found.map(|_| store),
            }
        }
        Ok(self.0.home.clone())
    }

    /// Where an attempt is; the home's where there is none.
    async fn of_attempt(&self, attempt: AttemptId) -> Result<Sqlite> {
        let mut stores = self.all();
        while let Some(store) = stores.pop().filter(|_| !stores.is_empty()) {
            match store.attempt_get(attempt).await {
                Err(Error::NotFound(_)) => {}
                found => return found.map(|_| store),
            }
        }
        Ok(self.0.home.clone())
    }

    /// Refuses a team that is kept in another database than `wanted` (none: the home's).
    async fn refuse_elsewhere(
        &self,
        project: &str,
        instance: &InstanceRef,
        wanted: Option<&Path>,
    ) -> Result<()> {
        let others = self.opened().into_iter().map(|drawer| (Some(drawer.path), drawer.store));
        for (path, store) in std::iter::once((None, self.0.home.clone())).chain(others) {
            if path.as_deref() == wanted {
                continue;
            }
            let namesakes = store.instance_list(InstanceQuery::Named(instance.clone())).await?;
            if namesakes.iter().any(|namesake| namesake.project == project) {
                let place =
                    path.map_or_else(|| "the daemon's own database".into(), |path| shown(&path));
                return Err(Error::KeptElsewhere(place));
            }
        }
        Ok(())
    }

    /// Opens the database at `path`, making it if need be, and remembers it.
    async fn pull_out(&self, path: PathBuf) -> Result<Sqlite> {
        let text = path.to_str().ok_or_else(|| {
            let why = format!("the path of {} is not Unicode", path.display());
            io::Error::new(io::ErrorKind::InvalidInput, why)
        })?;
        let text = text.to_owned();
        let (file, home) = (path.clone(), self.0.home.clone());
        let opened = spawn_blocking(move || {
            let lock = lock(&file)?;
            home.open_sibling(&file, &beside(&file)).map(|store| (store, lock))
        });
        let (store, lock) = opened.await.map_err(|_| Error::Closed)??;
        // Nothing is written into one that the next daemon would not look for.
        let known = async {
            let number = self.number(&store, &text).await?;
            self.0.home.drawer_remember(text).await?;
            Ok(number)
        };
        match known.await {
            Ok(number) => {
                self.0.shut.lock().await.remove(&path);
                let drawer = Drawer { path, store: store.clone(), _lock: Arc::new(lock) };
                let mut drawers = self.0.drawers.write().unwrap_or_else(PoisonError::into_inner);
                drawers.insert(number, drawer);
                Ok(store)
            }
            Err(error) => {
                store.close().await;
                Err(error)
            }
        }
    }

    /// The number of a database that was opened just now, none of those that are open already.
    async fn number(&self, store: &Sqlite, path: &str) -> Result<i64> {
        let taken = |number: i64| {
            self.0.drawers.read().unwrap_or_else(PoisonError::into_inner).contains_key(&number)
        };
        match store.number().await? {
            0 => {
                // By its path, so that files of different homes rarely have the same one.
                let digest = Sha256::digest(path);
                let drawn = i64::from(u16::from_be_bytes([digest[0], digest[1]])) % drawers::MOST;
                let numbers = (drawn..drawers::MOST).chain(0..drawn).map(|number| number + 1);
                let number = numbers.into_iter().find(|number| !taken(*number));
                let number = number.ok_or(Error::Exists("number of a database"))?;
                store.give_number(number).await?;
                Ok(number)
            }
            number if taken(number) => Err(Error::Exists("number of a database")),
            number => Ok(number),
        }
    }

    /// Removes a database without instances, its file too.
    async fn put_away_if_empty(&self, number: i64) -> Result<()> {
        let drawer = {
            let drawers = self.0.drawers.read().unwrap_or_else(PoisonError::into_inner);
            drawers.get(&number).cloned()
        };
        let Some(Drawer { path, store, .. }) = drawer else { return Ok(()) };
        if !store.instance_list(InstanceQuery::All).await?.is_empty() {
            return Ok(());
        }
        self.0.home.drawer_forget(path.clone()).await?;
        self.0.drawers.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
        store.close().await;
        for ending in ["", "-wal", "-shm"] {
            gone(fs::remove_file(format!("{}{ending}", path.display())))?;
        }
        gone(fs::remove_dir_all(beside(&path)))
    }
}

/// What became of a database since it was last open.
enum State {
    There,
    Deleted,
}

/// Returns an error if the folder is missing: the disk may not be mounted, and the database must not be created again. A
/// database whose data was rescued counts as present.
fn state(database: &Path) -> io::Result<State> {
    if database.try_exists()? || rescue::newest(&beside(database))?.is_some() {
        return Ok(State::There);
    }
    fs::read_dir(database.parent().unwrap_or(database))?;
    Ok(State::Deleted)
}

fn gone(removed: io::Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The folder of what belongs to a database and is not in it.
fn beside(database: &Path) -> PathBuf {
    let mut folder = database.as_os_str().to_owned();
    folder.push(".d");
    folder.into()
}

/// Keeps every other daemon from a database: two that write would not know of each other.
fn lock(database: &Path) -> Result<File> {
    let folder = beside(database);
    // A daemon's own, for example.
    if database.exists() && !folder.exists() {
        return Err(Error::NotATeams(shown(database)));
    }
    if let Some(project) = folder.parent() {
        fs::create_dir_all(project)?;
    }
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    let options = OpenOptions::new().write(true).create(true).mode(0o600).clone();
    let file = options.open(folder.join("lock"))?;
    let deadline = Instant::now() + LAST_BREATH;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(error.into()),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                return Err(Error::InUse(shown(database)));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(GLANCE),
        }
    }
}
