//! What people and agents say about the program itself.

use agent_worker_protocol::{WorkflowId, api::FeedbackView};
use rusqlite::{Connection, params};

use super::{columns, effects::once, head::Head, writer::Tx};
use crate::{
    error::Result,
    model::{By, Once},
    time::Now,
};

pub(super) fn put(tx: &Tx<'_>, said: &FeedbackView) -> Result<()> {
    let place = said.instance.as_ref().map(ToString::to_string);
    tx.prepare_cached("INSERT INTO feedback (at, sender, place, body) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![said.ts.get(), said.by, place, said.message])?;
    Ok(())
}

pub(super) fn submit(
    tx: &Tx<'_>,
    by: &By,
    workflow: WorkflowId,
    said: &FeedbackView,
    now: Now,
) -> Result<Once<FeedbackView>> {
    once(Head::lock(tx, workflow)?, by, now, |head, _| {
        put(head.tx, said)?;
        Ok(said.clone())
    })
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
