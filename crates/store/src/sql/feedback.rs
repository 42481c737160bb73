//! Feedback of people and agents about the program itself.

use agent_worker_protocol::{WorkflowId, api::FeedbackView};

use super::{columns, effects::once, locked_instance::LockedInstance, transaction::Tx};
use crate::{
    db::{self, Connection, params},
    error::Result,
    model::{Once, WriteContext},
    time::Now,
};

pub(crate) fn put_feedback(tx: &Tx<'_>, feedback: &FeedbackView) -> Result<()> {
    let place = feedback.instance.as_ref().map(ToString::to_string);
    tx.prepare_cached("INSERT INTO feedback (at, sender, place, body) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![feedback.ts.get(), feedback.by, place, feedback.message])?;
    Ok(())
}

pub(crate) fn submit(
    tx: &Tx<'_>,
    by: &WriteContext,
    workflow: WorkflowId,
    feedback: &FeedbackView,
    now: Now,
) -> Result<Once<FeedbackView>> {
    once(LockedInstance::lock(tx, workflow)?, by, now, |locked, _| {
        put_feedback(locked.tx, feedback)?;
        Ok(feedback.clone())
    })
}

pub(crate) fn list(db: &Connection, limit: u32) -> Result<Vec<FeedbackView>> {
    let feedback = db
        .prepare_cached("SELECT at, sender, place, body FROM feedback ORDER BY id DESC LIMIT ?1")?
        .query_map([limit], |row| {
            Ok(FeedbackView {
                ts: columns::millis(row, 0)?,
                by: row.get(1)?,
                instance: columns::optional(row, 2, columns::parse)?,
                message: row.get(3)?,
            })
        })?
        .collect::<db::Result<_>>()?;
    Ok(feedback)
}
