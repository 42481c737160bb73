//! Engines, which run the operations on a database. There is one engine: SQLite, on a file or in memory.

mod sqlite;

#[cfg(test)]
pub(crate) use sqlite::open_in_memory;
pub(crate) use sqlite::{DatabaseFault, SqliteEngine, newest_copy};
