//! The store on one SQLite file: a writer thread, a small pool of readers, looks by key, and a file per noun.

mod agents;
mod approvals;
mod attempts;
mod author;
mod binding;
mod changes;
mod checksum;
mod columns;
mod connection;
mod content;
mod deliveries;
mod documents;
pub(crate) mod drawers;
mod effects;
mod events;
mod feedback;
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
#[cfg(test)]
mod plans;
mod projections;
mod proposals;
mod questions;
mod readers;
mod resources;
mod revisions;
mod roles;
mod runs;
mod search;
mod settle;
mod suggestions;
mod tokens;
mod writer;

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::{
    damage::{self, DamageRegister},
    error::{Error, Result},
};
use changes::Changes;
use looks::Looks;
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
    damage: DamageRegister,
    place: Place,
}

/// Where the data is.
#[derive(Clone)]
enum Place {
    File {
        path: PathBuf,
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
        Self::open_file(&folder.join(FILE), folder)
    }

    /// Opens the database at `path`, with the folder of what is too large for it.
    pub(crate) fn open_file(path: &Path, folder: &Path) -> Result<Self> {
        let path = path.to_owned();
        let changes = Changes::default();
        let files = Files::in_folder(folder)?;
        let readers = Readers::start(&path)?;
        let looks = Looks::at(&path);
        let place = Place::File { path: path.clone(), readers, looks, files };
        let writer = Writer::start(move || connection::writing(&path), changes.clone())?;
        Ok(Self { writer, changes, damage: DamageRegister::default(), place })
    }

    /// A store that is gone with its last handle.
    pub fn in_memory() -> std::result::Result<Self, Error> {
        let changes = Changes::default();
        let mut first = Some(connection::in_memory()?);
        let gone = || Error::ReadOnly("what was in memory is gone".to_owned());
        let writer = Writer::start(move || first.take().ok_or_else(gone), changes.clone())?;
        Ok(Self { writer, changes, damage: DamageRegister::default(), place: Place::Memory })
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

    /// Runs `work` on one snapshot: it sees everything that was answered before.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let watched = match &self.place {
            Place::File { readers, .. } => readers.read(|db| damage::watch(|| work(db))).await,
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
            Place::File { looks, .. } => looks.look(|db| damage::watch(|| work(db))),
            Place::Memory => self.writer.write(|tx| damage::watch(|| work(tx))).await,
        };
        self.damage.record(watched)
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
            other if other.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) => Self::Full,
            other => Self::Database(Box::new(other)),
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Garbled(error.to_string())
    }
}
