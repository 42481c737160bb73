//! The database interface on SQLite.
//!
//! A statement is prepared once for each connection and cached. Rows are read while the statement runs: no list of
//! rows is built here.

mod backup;
mod open;

use rusqlite::{
    CachedStatement, ErrorCode, ToSql,
    functions::{Context, FunctionFlags},
    types::{ToSqlOutput, ValueRef as SqlValue},
};

use super::{Error, FailureKind, FromValue, FromValueError, Params, Result, ValueRef};
pub(crate) use open::WalIndexSharing;

/// An open connection to a database.
pub(crate) struct Connection(rusqlite::Connection);

/// A prepared statement from the connection's cache.
pub(crate) struct Statement<'c>(CachedStatement<'c>);

/// The rows of a running statement.
pub(crate) struct Rows<'s>(rusqlite::Rows<'s>);

/// The rows of a running statement, each read by a function.
pub(crate) struct MappedRows<'s, F> {
    rows: Rows<'s>,
    read: F,
}

/// One row of a running statement.
pub(crate) struct Row<'r>(&'r rusqlite::Row<'r>);

/// The arguments of an SQL function.
pub(crate) struct FunctionArguments<'a>(&'a Context<'a>);

impl Connection {
    /// Prepares a statement, or takes it from the cache.
    pub(crate) fn prepare_cached(&self, sql: &str) -> Result<Statement<'_>> {
        Ok(Statement(self.0.prepare_cached(sql)?))
    }

    /// Executes a statement whose number of changed rows is not needed.
    pub(crate) fn execute(&self, sql: &str, params: impl Params) -> Result<()> {
        self.prepare_cached(sql)?.execute(params)
    }

    /// Executes a query and reads its first row.
    pub(crate) fn query_row<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        self.prepare_cached(sql)?.query_row(params, read)
    }

    /// Executes several statements without parameters.
    pub(crate) fn execute_batch(&self, sql: &str) -> Result<()> {
        Ok(self.0.execute_batch(sql)?)
    }

    /// Returns true unless a transaction is open.
    pub(crate) fn is_autocommit(&self) -> bool {
        self.0.is_autocommit()
    }

    /// Returns the number of rows that this connection has changed so far.
    pub(crate) fn total_changes(&self) -> u64 {
        self.0.total_changes()
    }

    /// Defines a deterministic SQL function that returns a blob; an `arity` of -1 allows any number of arguments.
    pub(crate) fn create_function<const N: usize>(
        &self,
        name: &std::ffi::CStr,
        arity: i32,
        function: fn(&FunctionArguments<'_>) -> [u8; N],
    ) -> Result<()> {
        let flags = FunctionFlags::SQLITE_UTF8
            | FunctionFlags::SQLITE_DETERMINISTIC
            | FunctionFlags::SQLITE_INNOCUOUS;
        let call = move |context: &Context<'_>| Ok(function(&FunctionArguments(context)));
        Ok(self.0.create_scalar_function(name, arity, flags, call)?)
    }
}

impl Statement<'_> {
    /// Executes a statement whose number of changed rows is not needed.
    pub(crate) fn execute(&mut self, params: impl Params) -> Result<()> {
        self.execute_counted(params).map(drop)
    }

    /// Executes a statement and returns the number of rows that it changed.
    pub(crate) fn execute_counted(&mut self, params: impl Params) -> Result<usize> {
        self.bind(params)?;
        Ok(self.0.raw_execute()?)
    }

    /// Executes a query and reads its first row.
    pub(crate) fn query_row<T>(
        &mut self,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut rows = self.query(params)?;
        let row = rows.next()?.ok_or(Error::NoRows)?;
        read(&row)
    }

    /// Executes a query; `read` is called with each row when the iterator reaches it.
    pub(crate) fn query_map<T, F>(
        &mut self,
        params: impl Params,
        read: F,
    ) -> Result<MappedRows<'_, F>>
    where
        F: FnMut(&Row<'_>) -> Result<T>,
    {
        Ok(MappedRows { rows: self.query(params)?, read })
    }

    /// Executes a query and returns its rows.
    pub(crate) fn query(&mut self, params: impl Params) -> Result<Rows<'_>> {
        self.bind(params)?;
        Ok(Rows(self.0.raw_query()))
    }

    /// Executes a query and returns true if it has a row.
    pub(crate) fn exists(&mut self, params: impl Params) -> Result<bool> {
        Ok(self.query(params)?.next()?.is_some())
    }

    /// Returns the number of parameters.
    pub(crate) fn parameter_count(&self) -> usize {
        self.0.parameter_count()
    }

    fn bind(&mut self, params: impl Params) -> Result<()> {
        let expected = self.parameter_count();
        let mut index = 0;
        params.bind_each(|value| {
            index += 1;
            if index <= expected {
                self.0.raw_bind_parameter(index, BoundValue(value))?;
            }
            Ok(())
        })?;
        if index == expected {
            return Ok(());
        }
        let why = format!("{index} parameters for a statement with {expected}");
        Err(Error::failure(FailureKind::Other, &why))
    }
}

impl Rows<'_> {
    /// Returns the next row.
    pub(crate) fn next(&mut self) -> Result<Option<Row<'_>>> {
        Ok(self.0.next()?.map(Row))
    }
}

impl<T, F: FnMut(&Row<'_>) -> Result<T>> Iterator for MappedRows<'_, F> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let row = self.rows.next().transpose()?;
        Some(row.and_then(|row| (self.read)(&row)))
    }
}

impl<'r> Row<'r> {
    /// Reads and converts a column.
    pub(crate) fn get<T: FromValue>(&self, column: usize) -> Result<T> {
        let value = self.get_ref(column)?;
        T::from_value(value).map_err(|error| match error {
            FromValueError::WrongSize { .. } => error.into(),
            FromValueError::WrongType
            | FromValueError::OutOfRange(_)
            | FromValueError::NotUtf8(_) => {
                Error::failure(FailureKind::Other, &format!("column {column}: {error}"))
            }
        })
    }

    /// Returns a column's value without copying it.
    pub(crate) fn get_ref(&self, column: usize) -> Result<ValueRef<'r>> {
        Ok(self.0.get_ref(column)?.into())
    }
}

impl FunctionArguments<'_> {
    /// Returns the number of arguments.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns an argument.
    pub(crate) fn value(&self, index: usize) -> ValueRef<'_> {
        self.0.get_raw(index).into()
    }
}

/// A parameter for a rusqlite statement.
struct BoundValue<'a>(ValueRef<'a>);

impl ToSql for BoundValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            ValueRef::Null => SqlValue::Null,
            ValueRef::Integer(number) => SqlValue::Integer(number),
            ValueRef::Real(number) => SqlValue::Real(number),
            ValueRef::Text(text) => SqlValue::Text(text),
            ValueRef::Blob(blob) => SqlValue::Blob(blob),
        }))
    }
}

impl<'a> From<SqlValue<'a>> for ValueRef<'a> {
    fn from(value: SqlValue<'a>) -> Self {
        match value {
            SqlValue::Null => Self::Null,
            SqlValue::Integer(number) => Self::Integer(number),
            SqlValue::Real(number) => Self::Real(number),
            SqlValue::Text(text) => Self::Text(text),
            SqlValue::Blob(blob) => Self::Blob(blob),
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        let kind = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => FailureKind::DiskFull,
            Some(
                ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::FileLockingProtocolFailed,
            ) => FailureKind::Disk,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => FailureKind::Malformed,
            Some(ErrorCode::DatabaseBusy) => FailureKind::Busy,
            Some(ErrorCode::ConstraintViolation) => FailureKind::Constraint,
            Some(ErrorCode::OutOfMemory) => FailureKind::OutOfMemory,
            _ => FailureKind::Other,
        };
        Self::Failure { kind, cause: Box::new(error) }
    }
}
