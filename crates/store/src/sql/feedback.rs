//! Feedback of people and agents about the program itself.

use agent_worker_protocol::{WorkflowId, api::FeedbackView};

use super::{columns, effects::once, locked_instance::LockedInstance, transaction::Tx};
use crate::{
    db::{self, Connection, params},
    error::Result,
    model::{FeedbackKey, FeedbackRow, ListRange, Once, WriteContext},
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

pub(crate) const LIST_SQL: &str =
    "SELECT at, sender, place, body, id FROM feedback INDEXED BY feedback_newest
    WHERE at <= ?1 AND (at < ?1 OR id < ?2) ORDER BY at DESC, id DESC LIMIT ?3";

pub(crate) fn list(db: &Connection, range: ListRange<FeedbackKey>) -> Result<Vec<FeedbackRow>> {
    let (at, id) = range.after.map_or((i64::MAX, i64::MAX), |key| (key.ts.get(), key.id));
    let feedback = db
        .prepare_cached(LIST_SQL)?
        .query_map(params![at, id, range.limit], |row| {
            let ts = columns::millis(row, 0)?;
            let entry = FeedbackView {
                ts,
                by: row.get(1)?,
                instance: columns::optional(row, 2, columns::parse)?,
                message: row.get(3)?,
            };
            Ok(FeedbackRow { key: FeedbackKey { ts, id: row.get(4)? }, entry })
        })?
        .collect::<db::Result<_>>()?;
    Ok(feedback)
}
