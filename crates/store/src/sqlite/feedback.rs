//! What people and agents say about the program itself.

use agent_worker_protocol::api::FeedbackView;
use rusqlite::{Connection, params};

use super::{columns, writer::Tx};
use crate::error::Result;

pub(super) fn put(tx: &Tx<'_>, said: &FeedbackView) -> Result<()> {
    let place = said.instance.as_ref().map(ToString::to_string);
    tx.prepare_cached("INSERT INTO feedback (at, sender, place, body) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![said.ts.get(), said.by, place, said.message])?;
    Ok(())
}

pub(super) fn list(db: &Connection, limit: u32) -> Result<Vec<FeedbackView>> {
    let said = db
        .prepare_cached("SELECT at, sender, place, body FROM feedback ORDER BY id DESC LIMIT ?1")?
        .query_map([limit], |row| {
            Ok(FeedbackView {
                ts: columns::millis(row, 0)?,
                by: row.get(1)?,
                instance: columns::if_any(row, 2, columns::parsed)?,
                message: row.get(3)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(said)
}
