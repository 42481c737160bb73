//! Opens connections to an SQLite file, with the settings that every connection has.

use std::{path::Path, time::Duration};

use rusqlite::{OpenFlags, config::DbConfig};

use super::{Connection, Result};

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// More than the number of distinct statements of the store, so that each is planned once.
const STATEMENT_CACHE_CAPACITY: usize = 256;

/// The processes and connections that share the index of a database's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalIndexSharing {
    /// Every process shares the index, by a shared-memory file next to the database.
    Processes,
    /// The connections of this process share the index, in its memory: for a disk without space for that file. Other
    /// processes cannot open the database meanwhile.
    Connections,
}

impl Connection {
    /// Opens a file that exists. A removed file is never created again without the writer's knowledge.
    pub(crate) fn open_existing(path: &Path, sharing: WalIndexSharing) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = match sharing {
            WalIndexSharing::Processes => rusqlite::Connection::open_with_flags(path, flags)?,
            WalIndexSharing::Connections => {
                rusqlite::Connection::open_with_flags_and_vfs(path, flags, c"unix-excl")?
            }
        };
        Self::configured(db)
    }

    /// Opens a database in memory that is deleted with its connection.
    pub(crate) fn open_in_memory() -> Result<Self> {
        Self::configured(rusqlite::Connection::open_in_memory()?)
    }

    fn configured(db: rusqlite::Connection) -> Result<Self> {
        db.busy_timeout(BUSY_TIMEOUT)?;
        db.set_prepared_statement_cache_capacity(STATEMENT_CACHE_CAPACITY);
        // Savepoints copy each page they touch; in a temporary file that is half of all bytes written.
        db.pragma_update(None, "temp_store", "MEMORY")?;
        // Otherwise the bundled build plans cached statements again for each new value bound: a third of the writer's
        // time.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(Self(db))
    }

    /// Reads a number that SQLite keeps in the file's header.
    pub(crate) fn pragma(&self, name: &str) -> Result<i64> {
        Ok(self.0.pragma_query_value(None, name, |row| row.get(0))?)
    }

    /// Sets a pragma to a number.
    pub(crate) fn set_pragma(&self, name: &str, value: i64) -> Result<()> {
        Ok(self.0.pragma_update(None, name, value)?)
    }

    /// Sets a pragma to a keyword.
    pub(crate) fn set_pragma_word(&self, name: &str, value: &str) -> Result<()> {
        Ok(self.0.pragma_update(None, name, value)?)
    }

    /// Keeps the connection from copying the log into the database when it is closed.
    pub(crate) fn disable_checkpoint_on_close(&self) -> Result<()> {
        self.0.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        Ok(())
    }

    /// Closes the connection and reports a failure, which dropping it would hide.
    pub(crate) fn close(self) -> Result<()> {
        Ok(self.0.close().map_err(|(_, error)| error)?)
    }
}
