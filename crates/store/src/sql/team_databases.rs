//! Team databases, other than the home's: the list of their paths, and the number of each.

use std::path::{Path, PathBuf};

use super::transaction::Tx;
use crate::{
    db::{self, Connection},
    error::Result,
};

/// The maximum number of team databases; the home's number is 0.
pub(crate) const MAX_TEAM_DATABASES: i64 = 4095;
/// The shift of a database's number in the ids of its instances. Number and id together stay within the integers that
/// JSON keeps exactly.
pub(crate) const DATABASE_NUMBER_SHIFT: u32 = 40;

/// Lists the recorded team databases.
pub(crate) fn list(db: &Connection) -> Result<Vec<PathBuf>> {
    let paths = db
        .prepare_cached("SELECT path FROM drawer ORDER BY path")?
        .query_map((), |row| row.get::<String>(0).map(PathBuf::from))?
        .collect::<db::Result<_>>()?;
    Ok(paths)
}

pub(crate) fn add(tx: &Tx<'_>, path: &str) -> Result<()> {
    tx.prepare_cached("INSERT INTO drawer (path) VALUES (?1) ON CONFLICT DO NOTHING")?
        .execute([path])?;
    Ok(())
}

pub(crate) fn remove(tx: &Tx<'_>, path: &Path) -> Result<()> {
    tx.prepare_cached("DELETE FROM drawer WHERE path = ?1")?.execute([path.to_string_lossy()])?;
    Ok(())
}

/// Returns the number of this database.
pub(crate) fn database_number(db: &Connection) -> Result<i64> {
    Ok(db.pragma("application_id")?)
}

/// Gives a number to a database that has none; the ids of its instances continue from that number.
pub(crate) fn set_database_number(tx: &Tx<'_>, number: i64) -> Result<()> {
    tx.set_pragma("application_id", number)?;
    tx.execute("DELETE FROM sqlite_sequence WHERE name = 'workflow'", ())?;
    tx.execute(
        "INSERT INTO sqlite_sequence (name, seq) VALUES ('workflow', ?1)",
        [number << DATABASE_NUMBER_SHIFT],
    )?;
    Ok(())
}
