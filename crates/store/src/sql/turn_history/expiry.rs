//! Deletion of old history, in short steps: the writer thread serves other requests between two of them.
//!
//! Entries are deleted by attempt, texts by their last use. A text outlives its entries by a day, because its last use may
//! be outdated and a turn may last long; an entry whose text is gone says so.

use super::super::{columns, transaction::Tx};
use crate::{
    db::{self, params},
    error::Result,
    time::StoreTime,
};

/// Number of attempts, or of texts, that one step deletes.
const STEP_ROWS: u32 = 50;
/// Time for which a text outlives the entries that name it.
const TEXT_GRACE_MILLIS: i64 = 24 * 60 * 60 * 1_000;

/// Finds attempts with old history.
pub(crate) const OLD_ATTEMPTS_SQL: &str =
    "SELECT workflow, id FROM attempt INDEXED BY attempt_history
    WHERE store_ended < ?1 AND history IS NOT NULL AND history <> 'expired' LIMIT ?2";
/// Finds old texts.
pub(crate) const OLD_TEXTS_SQL: &str = "SELECT workflow, run, hash, bytes FROM turn_text INDEXED BY turn_text_used WHERE used < ?1 LIMIT ?2";

/// Deletes a part of the history from before `before`. Returns the number of deleted rows: 0 if none are left.
pub(crate) fn expire(tx: &Tx<'_>, before: StoreTime) -> Result<u32> {
    let mut deleted = 0;
    let attempts = tx
        .prepare_cached(OLD_ATTEMPTS_SQL)?
        .query_map(params![before.get(), STEP_ROWS], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<db::Result<Vec<(i64, Vec<u8>)>>>()?;
    for (workflow, id) in attempts {
        tx.prepare_cached("DELETE FROM turn_entry WHERE workflow = ?1 AND attempt = ?2")?
            .execute(params![workflow, id])?;
        tx.prepare_cached("UPDATE attempt SET history = 'expired' WHERE id = ?1")?
            .execute(params![id])?;
        deleted += 1;
    }
    let texts = tx
        .prepare_cached(OLD_TEXTS_SQL)?
        .query_map(params![before.get() - TEXT_GRACE_MILLIS, STEP_ROWS], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, columns::size(row, 3)?))
        })?
        .collect::<db::Result<Vec<(i64, i64, Vec<u8>, u64)>>>()?;
    for (workflow, run, hash, bytes) in texts {
        tx.prepare_cached("DELETE FROM turn_text WHERE workflow = ?1 AND run = ?2 AND hash = ?3")?
            .execute(params![workflow, run, hash])?;
        tx.prepare_cached(
            "UPDATE run SET history_bytes = max(history_bytes - ?3, 0) WHERE workflow = ?1 AND id = ?2",
        )?
        .execute(params![workflow, run, columns::size_column(bytes)])?;
        deleted += 1;
    }
    Ok(deleted)
}
