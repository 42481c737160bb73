//! Attempts as stored. `lease`, `events` and `finish` change them.

pub(crate) mod answer;
pub(crate) mod events;
pub(crate) mod finish;
pub(crate) mod lease;

use agent_worker_protocol::{AgentName, AttemptId, Epoch, Hash, HistoryState, RunId, WorkflowId};

use super::{
    checksum::{self, ATTEMPT, MESSAGE, RUN_ID},
    columns,
    transaction::Tx,
};
use crate::{
    damage,
    db::{self, Connection, OptionalExtension, Row, params},
    error::{Error, Result},
    model::{AttemptKey, AttemptRow, Fence, ListRange, TurnRow},
};

fn select_sql(index: &str, condition: &str) -> String {
    format!(
        "SELECT t.id, t.workflow, t.agent, t.epoch, {RUN_ID}, t.oldest, t.number, t.setbacks, t.shown, t.last_no, t.finished,
        t.started, t.how, t.ended, t.input_tokens, t.output_tokens, t.cost_micros, t.cost_how, {}, t.store_retry, t.session, t.history, t.store_started
        FROM attempt t {index} LEFT JOIN run r ON r.workflow = t.workflow AND r.id = t.run WHERE {condition}",
        ATTEMPT.check
    )
}

pub(crate) fn page_sql() -> String {
    select_sql(
        "INDEXED BY attempt_newest",
        "t.workflow = ?1 AND t.store_started <= ?2 AND (t.store_started < ?2 OR t.id < ?3)
         ORDER BY t.store_started DESC, t.id DESC",
    )
}

pub(crate) fn page_of_agent_sql() -> String {
    select_sql("", "t.workflow = ?1 AND t.agent = ?2 AND t.epoch < ?3 ORDER BY t.epoch DESC")
}

/// Lists the attempts of an instance, or of one agent, newest first. A damaged one uses no part of the limit.
pub(crate) fn page(
    db: &Connection,
    workflow: WorkflowId,
    agent: Option<&AgentName>,
    range: ListRange<AttemptKey>,
) -> Result<Vec<AttemptRow>> {
    let workflow = workflow.get();
    if let Some(agent) = agent {
        let epoch = range.after.map_or(i64::MAX, |key| key.epoch.get());
        let values = params![workflow, agent.as_str(), epoch];
        let mut statement = db.prepare_cached(&page_of_agent_sql())?;
        return damage::take_intact(statement.query_map(values, read_attempt)?, range.limit);
    }
    let started = range.after.map_or(i64::MAX, |key| key.started.get());
    let id = range.after.map_or(uuid::Uuid::max(), |key| key.id.get());
    let values = params![workflow, started, id.as_bytes()];
    let mut statement = db.prepare_cached(&page_sql())?;
    damage::take_intact(statement.query_map(values, read_attempt)?, range.limit)
}

pub(crate) const FIND_SQL: &str =
    "SELECT id FROM attempt WHERE id >= ?1 AND id <= ?2 ORDER BY id LIMIT ?3";

/// Finds the attempts whose id begins with these hexadecimal digits, oldest first.
pub(crate) fn find(db: &Connection, prefix: &str, limit: u32) -> Result<Vec<AttemptId>> {
    let bound = |fill: &str| {
        let digits = format!("{prefix}{}", fill.repeat(32_usize.saturating_sub(prefix.len())));
        uuid::Uuid::parse_str(&digits).map_err(|error| Error::InvalidValue(error.to_string()))
    };
    let [from, to] = [bound("0")?, bound("f")?];
    let mut statement = db.prepare_cached(FIND_SQL)?;
    let found = statement.query_map(params![from.as_bytes(), to.as_bytes(), limit], |row| {
        columns::attempt_id(row, 0)
    })?;
    Ok(found.collect::<db::Result<_>>()?)
}

fn read_attempt(row: &Row<'_>) -> db::Result<AttemptRow> {
    ATTEMPT.verify(row, 18)?;
    Ok(AttemptRow {
        id: columns::attempt_id(row, 0)?,
        fence: Fence {
            workflow: WorkflowId::new(row.get(1)?),
            agent: columns::parse(row, 2)?,
            epoch: Epoch::new(row.get(3)?),
        },
        run: checksum::run_id(row, 4)?,
        oldest: columns::seq(row, 5)?,
        number: row.get(6)?,
        setbacks: row.get(7)?,
        shown: columns::json(row, 8)?,
        last_no: row.get(9)?,
        finished: columns::optional(row, 10, columns::json)?,
        started: columns::millis(row, 11)?,
        ended: columns::optional(row, 12, columns::json)?,
        ended_at: columns::optional(row, 13, columns::millis)?,
        usage: columns::usage(row, 14)?,
        retry_at: columns::optional(row, 19, columns::store_time)?,
        session: columns::optional(row, 20, columns::json)?,
        history: columns::optional(row, 21, columns::word)?.unwrap_or(HistoryState::None),
        store_started: columns::store_time(row, 22)?,
    })
}

/// Runs a statement that changes an attempt.
pub(crate) fn update_attempt(
    tx: &Tx<'_>,
    id: AttemptId,
    statement: impl FnOnce() -> Result<()>,
) -> Result<()> {
    ATTEMPT.update(tx, "t.id = ?1", params![id.get().as_bytes()], statement)
}

pub(crate) fn by_token(db: &Connection, token: &Hash) -> Result<Option<AttemptRow>> {
    let sql = select_sql("INDEXED BY attempt_live", "t.token_hash = ?1 AND t.ended IS NULL");
    Ok(db.prepare_cached(&sql)?.query_row([token], read_attempt).optional()?)
}

pub(crate) fn get(db: &Connection, id: AttemptId) -> Result<AttemptRow> {
    db.prepare_cached(&select_sql("", "t.id = ?1"))?
        .query_row([id.get().as_bytes()], read_attempt)
        .optional()?
        .ok_or(Error::NotFound("attempt"))
}

/// Lists an agent's attempts, newest first.
pub(crate) fn list(
    db: &Connection,
    workflow: WorkflowId,
    agent: &AgentName,
    limit: u32,
) -> Result<Vec<AttemptRow>> {
    let sql = select_sql("", "t.workflow = ?1 AND t.agent = ?2 ORDER BY t.epoch DESC LIMIT ?3");
    let mut statement = db.prepare_cached(&sql)?;
    damage::collect_intact(
        statement.query_map(params![workflow.get(), agent.as_str(), limit], read_attempt)?,
    )
}

pub(crate) fn turns_sql() -> String {
    format!(
        "SELECT t.agent, m.ts, t.started, t.store_started, t.store_ended, t.how, {}, CASE WHEN m.seq IS NOT NULL THEN {} END
        FROM run r JOIN attempt t INDEXED BY attempt_turn ON t.workflow = r.workflow AND t.run = r.id AND t.turn = 1
        LEFT JOIN message m ON m.workflow = t.workflow AND m.seq = t.oldest
        WHERE r.uuid = ?1 ORDER BY t.store_ended DESC LIMIT ?2",
        ATTEMPT.check, MESSAGE.check
    )
}

/// Lists the turns of a run, newest first.
pub(crate) fn turns(db: &Connection, run: RunId, limit: u32) -> Result<Vec<TurnRow>> {
    let mut statement = db.prepare_cached(&turns_sql())?;
    damage::collect_intact(statement.query_map(params![run.get().as_bytes(), limit], |row| {
        ATTEMPT.verify(row, 6)?;
        MESSAGE.verify(row, 7)?;
        let started = columns::millis(row, 2)?;
        let [from, until] = [columns::store_time(row, 3)?, columns::store_time(row, 4)?];
        let sent = columns::optional(row, 1, columns::millis)?.unwrap_or(started);
        Ok(TurnRow {
            agent: columns::parse(row, 0)?,
            waited: started.since(sent),
            took: until.since(from),
            end: columns::json(row, 5)?,
        })
    })?)
}

pub(crate) fn list_live(db: &Connection) -> Result<Vec<AttemptRow>> {
    let sql = select_sql("INDEXED BY attempt_live", "t.ended IS NULL ORDER BY t.started, t.id");
    let mut statement = db.prepare_cached(&sql)?;
    damage::collect_intact(statement.query_map((), read_attempt)?)
}
