//! The database interface: a connection, statements, rows and values, with an error type of its own.
//!
//! Every operation in `sql/` and the engine in `engine/` are written against these types. `db/lite.rs` implements
//! them on SQLite.
//!
//! Invariant: no type of a database driver is named outside this module; `tests/driver_types.rs` checks this.

mod error;
mod lite;
mod params;
mod value;

pub(crate) use error::{Error, FailureKind, OptionalExtension, Result};
pub(crate) use lite::{Connection, FunctionArguments, Row, WalIndexSharing};
pub(crate) use params::{Params, params};
pub(crate) use value::{FromValue, FromValueError, ToValue, ValueRef};
