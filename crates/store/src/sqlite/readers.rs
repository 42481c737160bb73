//! A few connections that only read: each sees everything that was answered before, and stands in nobody's way.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::connection;
use crate::error::{Error, Result};

const READERS: u32 = 4;

/// A handle to the pool. Connections are opened when they are first needed.
#[derive(Clone)]
pub(super) struct Readers(Arc<Pool>);

struct Pool {
    path: PathBuf,
    turns: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    /// Readers of the file at `path`, which has its schema already.
    pub(super) fn new(path: PathBuf) -> Self {
        let turns = Arc::new(Semaphore::new(READERS as usize));
        Self(Arc::new(Pool { path, turns, idle: Mutex::default() }))
    }

    /// Runs `work` on one snapshot of the database.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let turns = Arc::clone(&self.0.turns);
        let turn = turns.acquire_owned().await.map_err(|_| Error::Closed)?;
        let pool = Arc::clone(&self.0);
        let read = move || {
            let result = pool.read(work);
            // Held to here even when the caller has gone: closing waits for it.
            drop(turn);
            result
        };
        tokio::task::spawn_blocking(read).await.map_err(|_| Error::Closed)?
    }

    /// Waits for the reads under way, then refuses the rest.
    pub(super) async fn close(self) {
        let all = self.0.turns.acquire_many(READERS).await;
        self.0.turns.close();
        drop(all);
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Pool {
    fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let db = idle.map_or_else(|| connection::reading(&self.path), Ok)?;
        let snapshot = db.unchecked_transaction()?;
        let result = work(&db);
        drop(snapshot);
        // After a failure of the file, a fresh connection is the better reader.
        if !matches!(result, Err(Error::Database(_))) {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(db);
        }
        result
    }
}
