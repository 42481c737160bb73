//! Engines: how operations reach a database. Today there is one, SQLite on a file or in memory.

mod sqlite;

#[cfg(test)]
pub(crate) use sqlite::open_in_memory;
pub(crate) use sqlite::{DatabaseFault, SqliteEngine, newest_copy};
