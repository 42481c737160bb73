//! The check of a whole database, on a connection of its own.
//!
//! FTS5 caches the structure of its index per connection and does not reread it for an integrity check. On a connection
//! that has searched before, the check reads segments that a later merge has removed and reports a healthy index as
//! damaged.

use rusqlite::{Connection, ErrorCode};

use super::{Place, Sqlite, connection};
use crate::error::Result;

impl Sqlite {
    pub(super) async fn check(&self) -> Result<Vec<String>> {
        match &self.place {
            Place::File { path, .. } => {
                let path = path.clone();
                self.read(move |_| structure(&connection::reading(&path)?)).await
            }
            Place::Memory => self.read(structure).await,
        }
    }
}

/// Returns the problems that SQLite finds in its own file. Some damage it cannot describe; then its error is the problem.
fn structure(db: &Connection) -> Result<Vec<String>> {
    let check = || -> rusqlite::Result<Vec<String>> {
        db.prepare("PRAGMA quick_check(20)")?.query_map([], |row| row.get(0))?.collect()
    };
    match check() {
        Ok(lines) => Ok(lines.into_iter().filter(|line| line != "ok").collect()),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
            Ok(vec![error.to_string()])
        }
        Err(error) => Err(error.into()),
    }
}
