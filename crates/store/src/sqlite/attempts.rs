//! Attempts as stored. Their life is in `lease`, `events` and `finish`.

pub(super) mod events;
pub(super) mod finish;
pub(super) mod lease;

use agent_worker_protocol::{AttemptId, Epoch, Hash, WorkflowId};
use rusqlite::{Connection, OptionalExtension, Row};

use super::columns;
use crate::{
    error::{Error, Result},
    model::{AttemptRow, Fence},
};

const ATTEMPT: &str = "SELECT t.id, t.workflow, t.agent, t.epoch, r.uuid, t.oldest, t.number, t.setbacks, t.shown, t.last_no, t.finished, t.started, t.how,
    t.input_tokens, t.output_tokens, t.cost_micros FROM attempt t";
const ITS_RUN: &str = "JOIN run r ON r.workflow = t.workflow AND r.id = t.run";

fn attempt(row: &Row<'_>) -> rusqlite::Result<AttemptRow> {
    Ok(AttemptRow {
        id: columns::attempt_id(row, 0)?,
        fence: Fence {
            workflow: WorkflowId::new(row.get(1)?),
            agent: columns::parsed(row, 2)?,
            epoch: Epoch::new(row.get(3)?),
        },
        run: columns::run_id(row, 4)?,
        oldest: columns::seq(row, 5)?,
        number: row.get(6)?,
        setbacks: row.get(7)?,
        shown: columns::json(row, 8)?,
        last_no: row.get(9)?,
        finished: columns::if_any(row, 10, columns::json)?,
        started: columns::millis(row, 11)?,
        ended: columns::if_any(row, 12, columns::json)?,
        usage: columns::usage(row, 13)?,
    })
}

pub(super) fn by_token(db: &Connection, token: &Hash) -> Result<Option<AttemptRow>> {
    let sql = format!(
        "{ATTEMPT} INDEXED BY attempt_live {ITS_RUN} WHERE t.token_hash = ?1 AND t.ended IS NULL"
    );
    Ok(db.prepare_cached(&sql)?.query_row([token], attempt).optional()?)
}

pub(super) fn get(db: &Connection, id: AttemptId) -> Result<AttemptRow> {
    db.prepare_cached(&format!("{ATTEMPT} {ITS_RUN} WHERE t.id = ?1"))?
        .query_row([id.get().as_bytes()], attempt)
        .optional()?
        .ok_or(Error::NotFound("attempt"))
}

pub(super) fn live(db: &Connection) -> Result<Vec<AttemptRow>> {
    let sql = format!(
        "{ATTEMPT} INDEXED BY attempt_live {ITS_RUN} WHERE t.ended IS NULL ORDER BY t.started, t.id"
    );
    let attempts =
        db.prepare_cached(&sql)?.query_map([], attempt)?.collect::<rusqlite::Result<_>>()?;
    Ok(attempts)
}
