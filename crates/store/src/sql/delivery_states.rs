//! The codes of delivery states in the column `delivery.state`, for statements and rows.
//!
//! The open states come first, so that the index `delivery_open` can have the rows with `state <= 2`. SQLite uses
//! such an index only for a statement that repeats its condition: hence `state = PENDING AND state <= LAST_OPEN`.

use agent_worker_protocol::DeliveryState;

use crate::db::{self, Row};

/// Writes a statement with the names of codes between its parts: `delivery_sql!("… WHERE state = " PENDING " AND …")`.
macro_rules! delivery_sql {
    (@part PENDING) => { "0" };
    (@part LEASED) => { "1" };
    (@part DEAD) => { "2" };
    (@part ACTED) => { "3" };
    (@part DROPPED) => { "4" };
    // Dropped because no agent needs it any more, which is no failure. Reported as dropped.
    (@part UNNEEDED) => { "5" };
    (@part LAST_OPEN) => { "2" };
    // Pending or leased.
    (@part UNFINISHED) => { "(0, 1)" };
    // Dead or dropped: the rows of the index `delivery_failed`.
    (@part FAILED) => { "(2, 4)" };
    (@part $text:literal) => { $text };
    ($($part:tt)*) => { concat!($(delivery_sql!(@part $part)),*) };
}
pub(crate) use delivery_sql;

/// The codes for statements that are built by `format!`.
pub(crate) const PENDING: &str = delivery_sql!(PENDING);
pub(crate) const ACTED: &str = delivery_sql!(ACTED);
pub(crate) const LAST_OPEN: &str = delivery_sql!(LAST_OPEN);

/// Returns the code of a state, for a parameter.
pub(crate) const fn code(state: DeliveryState) -> i64 {
    match state {
        DeliveryState::Pending => 0,
        DeliveryState::Leased => 1,
        DeliveryState::Dead => 2,
        DeliveryState::Acted => 3,
        DeliveryState::Dropped => 4,
    }
}

/// Reads the column `state`.
pub(crate) fn read(row: &Row<'_>, column: usize) -> db::Result<DeliveryState> {
    Ok(match row.get::<i64>(column)? {
        0 => DeliveryState::Pending,
        1 => DeliveryState::Leased,
        2 => DeliveryState::Dead,
        3 => DeliveryState::Acted,
        4 | 5 => DeliveryState::Dropped,
        other => return Err(db::Error::invalid_value(UnknownCode(other))),
    })
}

/// A code that this program never writes.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a known code")]
struct UnknownCode(i64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Connection;

    #[test]
    fn every_state_is_spelt_alike_in_statements_parameters_and_rows() {
        let db = Connection::open_in_memory().unwrap();
        for (state, spelt) in [
            (DeliveryState::Pending, PENDING),
            (DeliveryState::Leased, delivery_sql!(LEASED)),
            (DeliveryState::Dead, delivery_sql!(DEAD)),
            (DeliveryState::Acted, ACTED),
            (DeliveryState::Dropped, delivery_sql!(DROPPED)),
        ] {
            assert_eq!(code(state).to_string(), spelt);
            let back = db.query_row("SELECT ?1", [code(state)], |row| read(row, 0)).unwrap();
            assert_eq!(back, state);
            let sql = format!(
                "SELECT {spelt} <= {LAST_OPEN}, {spelt} IN {}, {spelt} IN {}",
                delivery_sql!(UNFINISHED),
                delivery_sql!(FAILED)
            );
            let lists = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            let is_open = matches!(
                state,
                DeliveryState::Pending | DeliveryState::Leased | DeliveryState::Dead
            );
            let is_unfinished = matches!(state, DeliveryState::Pending | DeliveryState::Leased);
            let is_failed = matches!(state, DeliveryState::Dead | DeliveryState::Dropped);
            let found: (bool, bool, bool) = db.query_row(&sql, (), lists).unwrap();
            assert_eq!(found, (is_open, is_unfinished, is_failed), "{state}");
        }
        let unneeded = format!("SELECT {}", delivery_sql!(UNNEEDED));
        let read_back = db.query_row(&unneeded, (), |row| read(row, 0)).unwrap();
        assert_eq!(read_back, DeliveryState::Dropped);
    }
}
