//! Engines, which run the operations on a database. There is one engine: SQLite, on a file or in memory.

mod sqlite;

pub(crate) use sqlite::{DatabaseFault, SqliteEngine, newest_copy, open_in_memory};
