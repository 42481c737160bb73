//! Copies the content of an open database into another file.

use std::{path::Path, thread, time::Duration};

use rusqlite::backup::{Backup, StepResult};

use super::{Connection, Error, FailureKind, Result};

/// The time that a copy waits for a connection that holds the database, and the interval of its retries.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const BUSY_INTERVAL: Duration = Duration::from_millis(20);

impl Connection {
    /// Copies the whole content into the empty file at `path`; returns the connection to the copy.
    pub(crate) fn back_up_into(&self, path: &Path) -> Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "this is the store")]
        let mut copy = rusqlite::Connection::open(path)?;
        run_backup(&Backup::new(&self.0, &mut copy)?)?;
        Ok(Self(copy))
    }
}

fn run_backup(backup: &Backup<'_, '_>) -> Result<()> {
    let mut waited = Duration::ZERO;
    loop {
        match backup.step(-1)? {
            StepResult::Done => return Ok(()),
            _ if waited < BUSY_TIMEOUT => {
                thread::sleep(BUSY_INTERVAL);
                waited += BUSY_INTERVAL;
            }
            _ => return Err(Error::failure(FailureKind::Disk, "the database stayed busy")),
        }
    }
}
