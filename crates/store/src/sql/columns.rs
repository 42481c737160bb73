//! The encoding of `protocol` types in columns: readers and writers side by side.

use std::{error, str::FromStr, time::Duration};

use agent_worker_protocol::{
    AttemptId, Keyword as _, Millis, PauseCause, Priority, RunId, RunState, Seq, Usage,
};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::{
    db::{self, FromValue, Row, ValueRef},
    error::Result,
    model::{RunClock, RunSpend},
    time::StoreTime,
};

/// A run's number within its instance. Other crates use its [`RunId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunNo(pub(crate) i64);

/// A column's value that this program never writes.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a known value")]
struct UnknownWord(String);

/// The first columns of a row, each read from SQLite once.
pub(crate) struct Columns<'a, const N: usize>([ValueRef<'a>; N]);

impl<'a, const N: usize> Columns<'a, N> {
    pub(crate) fn read(row: &'a Row<'_>) -> db::Result<Self> {
        let mut values = [ValueRef::Null; N];
        for (column, value) in values.iter_mut().enumerate() {
            *value = row.get_ref(column)?;
        }
        Ok(Self(values))
    }

    pub(crate) fn value(&self, column: usize) -> ValueRef<'a> {
        self.0[column]
    }

    pub(crate) fn get<T: FromValue>(&self, column: usize) -> db::Result<T> {
        T::from_value(self.0[column]).map_err(db::Error::invalid_value)
    }

    /// Reads a keyword.
    pub(crate) fn word<T: FromStr>(&self, column: usize) -> db::Result<T> {
        let text = self.0[column].as_str().map_err(db::Error::invalid_value)?;
        text.parse().map_err(|_| db::Error::invalid_value(UnknownWord(text.to_owned())))
    }
}

/// Reads text that a type parses.
pub(crate) fn parse<T>(row: &Row<'_>, column: usize) -> db::Result<T>
where
    T: FromStr<Err: error::Error + Send + Sync + 'static>,
{
    row.get::<String>(column)?.parse().map_err(db::Error::invalid_value)
}

/// Reads a keyword.
pub(crate) fn word<T: FromStr>(row: &Row<'_>, column: usize) -> db::Result<T> {
    let text: String = row.get(column)?;
    text.parse().map_err(|_| db::Error::invalid_value(UnknownWord(text)))
}

/// Reads a JSON column.
pub(crate) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> db::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(db::Error::invalid_value)
}

/// Reads a column that may be NULL with `read`.
pub(crate) fn optional<T>(
    row: &Row<'_>,
    column: usize,
    read: fn(&Row<'_>, usize) -> db::Result<T>,
) -> db::Result<Option<T>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => read(row, column).map(Some),
    }
}

pub(crate) fn run_id(row: &Row<'_>, column: usize) -> db::Result<RunId> {
    Ok(RunId::new(Uuid::from_bytes(row.get(column)?)))
}

pub(crate) fn attempt_id(row: &Row<'_>, column: usize) -> db::Result<AttemptId> {
    Ok(AttemptId::new(Uuid::from_bytes(row.get(column)?)))
}

pub(crate) fn seq(row: &Row<'_>, column: usize) -> db::Result<Seq> {
    row.get(column).map(Seq::new)
}

pub(crate) fn millis(row: &Row<'_>, column: usize) -> db::Result<Millis> {
    row.get(column).map(Millis::new)
}

pub(crate) fn store_time(row: &Row<'_>, column: usize) -> db::Result<StoreTime> {
    row.get(column).map(StoreTime::new)
}

/// Reads two columns: the time that has counted, and the start of the time that counts now.
pub(crate) fn run_clock(row: &Row<'_>, column: usize) -> db::Result<RunClock> {
    let counted = Duration::from_millis(size(row, column)?);
    Ok(RunClock { counted, since: optional(row, column + 1, store_time)? })
}

/// Reads two columns: tokens, and the sum of the known costs.
pub(crate) fn run_spend(row: &Row<'_>, column: usize) -> db::Result<RunSpend> {
    Ok(RunSpend { tokens: size(row, column)?, cost_micros: size(row, column + 1)? })
}

/// Reads a non-negative number, for example of bytes or tokens.
pub(crate) fn size(row: &Row<'_>, column: usize) -> db::Result<u64> {
    u64::try_from(row.get::<i64>(column)?).map_err(db::Error::invalid_value)
}

/// Converts a number for a column; a too large one becomes the maximum.
pub(crate) fn size_column(size: impl TryInto<i64>) -> i64 {
    size.try_into().unwrap_or(i64::MAX)
}

/// The accuracy of a cost, as bits of a column: a part of it was estimated; for a part of the tokens it is unknown.
const COST_ESTIMATED_BIT: i64 = 1;
const COST_UNKNOWN_BIT: i64 = 2;

/// Reads the four columns of usage, from `first` on. The cost is unknown if only a part of it is known.
pub(crate) fn usage(row: &Row<'_>, first: usize) -> db::Result<Usage> {
    let how: i64 = row.get(first + 3)?;
    let cost_micros = optional(row, first + 2, size)?.filter(|_| how & COST_UNKNOWN_BIT == 0);
    Ok(Usage {
        input_tokens: size(row, first)?,
        output_tokens: size(row, first + 1)?,
        cost_micros,
        cost_reckoned: cost_micros.is_some() && how & COST_ESTIMATED_BIT != 0,
    })
}

/// Adds the parameters `?1` to `?4` to those columns. The sum stops below a number that would not fit its column.
pub(crate) const ADD_USAGE: &str = "input_tokens = min(input_tokens + ?1, 4611686018427387904), \
     output_tokens = min(output_tokens + ?2, 4611686018427387904), \
     cost_micros = CASE WHEN CAST(?3 AS BIGINT) IS NULL THEN cost_micros \
     ELSE min(coalesce(cost_micros, 0) + ?3, 4611686018427387904) END, \
     cost_how = cost_how | ?4";

/// Returns the parameters of [`ADD_USAGE`].
pub(crate) fn usage_columns(usage: &Usage) -> (i64, i64, Option<i64>, i64) {
    let column = |count: u64| i64::try_from(count).unwrap_or(1 << 62).min(1 << 62);
    let reckoned = if usage.cost_reckoned { COST_ESTIMATED_BIT } else { 0 };
    let unknown = if usage.has_unknown_cost() { COST_UNKNOWN_BIT } else { 0 };
    let cost = usage.cost_micros.map(column);
    (column(usage.input_tokens), column(usage.output_tokens), cost, reckoned | unknown)
}

/// Returns a run's state as its word and its details.
pub(crate) fn state_columns(state: &RunState) -> Result<(&'static str, Option<String>)> {
    Ok(match state {
        RunState::Setup => ("setup", None),
        RunState::Electing => ("electing", None),
        RunState::Running => ("running", None),
        RunState::Paused { cause } => ("paused", Some(serde_json::to_string(cause)?)),
        RunState::Ended { outcome } => ("ended", Some(outcome.word().to_owned())),
    })
}

/// Reads the two columns of a run's state, from `first` on.
pub(crate) fn run_state(row: &Row<'_>, first: usize) -> db::Result<RunState> {
    let text: String = row.get(first)?;
    Ok(match text.as_str() {
        "setup" => RunState::Setup,
        "electing" => RunState::Electing,
        "running" => RunState::Running,
        "paused" => RunState::Paused { cause: json::<PauseCause>(row, first + 1)? },
        "ended" => RunState::Ended { outcome: word(row, first + 1)? },
        _ => return Err(db::Error::invalid_value(UnknownWord(text))),
    })
}

pub(crate) const fn priority_number(priority: Priority) -> i64 {
    match priority {
        Priority::Normal => 0,
        Priority::High => 1,
    }
}

#[cfg(test)]
mod tests {
    use crate::db::Connection;
    use agent_worker_protocol::{LimitKind, Outcome};

    use super::*;

    #[test]
    fn a_runs_state_reads_back_as_it_was_written() {
        let db = Connection::open_in_memory().unwrap();
        let cause = PauseCause::limit(LimitKind::Hops, "51 of 50".to_owned());
        for written in [
            RunState::Setup,
            RunState::Electing,
            RunState::Running,
            RunState::Paused { cause },
            RunState::Ended { outcome: Outcome::Failed },
        ] {
            let columns = state_columns(&written).unwrap();
            let read = db.query_row("SELECT ?1, ?2", columns, |row| run_state(row, 0)).unwrap();
            assert_eq!(read, written);
        }
    }

    #[test]
    fn no_usage_is_too_large_to_be_added_up() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            "CREATE TABLE t (input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cost_micros INTEGER, cost_how INTEGER NOT NULL) STRICT;
             INSERT INTO t VALUES (0, 0, NULL, 0)",
        )
        .unwrap();
        let add = |usage: Usage| {
            db.execute(&format!("UPDATE t SET {ADD_USAGE}"), usage_columns(&usage)).unwrap();
            db.query_row("SELECT * FROM t", (), |row| super::usage(row, 0)).unwrap()
        };
        let used = |input_tokens, output_tokens, cost| Usage {
            input_tokens,
            output_tokens,
            cost_micros: Some(cost),
            cost_reckoned: false,
        };
        assert_eq!(add(used(2, 3, 1)), used(2, 3, 1));
        assert_eq!(add(used(u64::MAX, 1, 7)), used(1 << 62, 4, 8));
        assert_eq!(add(used(u64::MAX, 1, u64::MAX)), used(1 << 62, 5, 1 << 62));
    }
}
