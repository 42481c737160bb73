//! Errors of a database: a missing row, a value that its reader rejects, or a failure of the engine.

use std::{error, fmt};

use super::FromValueError;
use crate::error::Error as StoreError;

/// The result of a database call.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// The cause of an error: the error of another crate or module.
type Cause = Box<dyn error::Error + Send + Sync>;

/// An error of a database call.
#[derive(Debug)]
pub(crate) enum Error {
    /// The statement returned no row.
    NoRows,
    /// A column holds a value that its reader rejects, for example a damaged row.
    InvalidValue(Cause),
    /// The engine itself failed.
    Failure {
        /// The class of the failure.
        kind: FailureKind,
        /// The engine's own error.
        cause: Cause,
    },
}

/// The class of an engine's failure, as far as callers distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The disk has no free space.
    DiskFull,
    /// The disk or the file system failed.
    Disk,
    /// The file is no database, or its structure is damaged.
    Malformed,
    /// Another connection holds a lock.
    Busy,
    /// A constraint of the schema was violated.
    Constraint,
    /// The process ran out of memory.
    OutOfMemory,
    /// Any other failure.
    Other,
}

impl Error {
    /// Makes a failure with a text.
    pub(crate) fn failure(kind: FailureKind, why: &str) -> Self {
        Self::Failure { kind, cause: why.into() }
    }

    /// Rejects a column's value.
    pub(crate) fn invalid_value(cause: impl error::Error + Send + Sync + 'static) -> Self {
        Self::InvalidValue(Box::new(cause))
    }

    /// Returns the class of a failure; other errors are no failures of the engine.
    pub(crate) fn kind(&self) -> Option<FailureKind> {
        match self {
            Self::Failure { kind, .. } => Some(*kind),
            Self::NoRows | Self::InvalidValue(_) => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRows => f.write_str("the query returned no rows"),
            Self::InvalidValue(cause) | Self::Failure { cause, .. } => cause.fmt(f),
        }
    }
}

impl error::Error for Error {
    /// Skips the cause itself, which [`fmt::Display`] shows.
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::NoRows => None,
            Self::InvalidValue(cause) | Self::Failure { cause, .. } => cause.source(),
        }
    }
}

impl From<FromValueError> for Error {
    fn from(error: FromValueError) -> Self {
        Self::invalid_value(error)
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        match error {
            Error::InvalidValue(cause) => match cause.downcast() {
                Ok(damaged) => Self::Damaged(*damaged),
                Err(cause) => Self::InvalidValue(cause.to_string()),
            },
            Error::Failure { kind: FailureKind::DiskFull, .. } => Self::DiskFull,
            Error::Failure { kind: FailureKind::Disk, cause } => Self::Disk(cause.to_string()),
            Error::Failure { kind: FailureKind::Malformed, cause } => {
                Self::Malformed(cause.to_string())
            }
            other => Self::Database(Box::new(other)),
        }
    }
}

/// Turns the error of a missing row into `None`.
pub(crate) trait OptionalExtension<T> {
    /// Returns `None` for [`Error::NoRows`].
    fn optional(self) -> Result<Option<T>>;
}

impl<T> OptionalExtension<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(Error::NoRows) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
