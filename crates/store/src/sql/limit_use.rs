//! What counts for the limits of a run: turns by their end, and the spend that `spend` counts. Reads only.

use std::time::Duration;

use agent_worker_protocol::{AgentName, Limits, RunId, RunMode, WorkflowId};

use super::{
    columns::{self, RunNo},
    locked_instance::{LiveRun, LockedInstance},
    spend,
};
use crate::{
    db::{Connection, OptionalExtension, params},
    error::{Error, Result},
    model::LimitUse,
    time::{Now, StoreTime},
};

/// The period in which the turns and the spend of a `start` count for its limits.
pub(crate) const LIMIT_WINDOW: Duration = Duration::from_hours(24);

pub(crate) const TURNS_TODAY_SQL: &str = "SELECT count(*) FROM (
        SELECT 1 FROM attempt INDEXED BY attempt_turn
        WHERE workflow = ?1 AND run = ?2 AND turn = 1 AND store_ended > ?3 LIMIT ?4) AS found";

/// Returns the number of turns that ended in the last 24 hours, counted up to the limit.
pub(crate) fn turns_today(
    db: &Connection,
    (workflow, run): (WorkflowId, RunNo),
    limits: &Limits,
    now: Now,
) -> Result<u32> {
    let Some(most) = limits.turns else { return Ok(0) };
    let after = now.store.minus(LIMIT_WINDOW).get();
    let values = [workflow.get(), run.0, after, most.into()];
    Ok(db.prepare_cached(TURNS_TODAY_SQL)?.query_row(values, |row| row.get(0))?)
}

pub(crate) const TURN_EXPIRES_SQL: &str = "SELECT store_ended FROM attempt INDEXED BY attempt_turn
        WHERE workflow = ?1 AND run = ?2 AND turn = 1 ORDER BY store_ended DESC LIMIT 1 OFFSET ?3";

/// Returns the time at which a run has a turn again whose turns of the last 24 hours and live attempts fill the limit.
pub(crate) fn turn_expires(
    db: &Connection,
    (workflow, run): (WorkflowId, RunNo),
    limits: &Limits,
    (taken, attempts): (u32, u32),
) -> Result<Option<StoreTime>> {
    let Some(most) = limits.turns.filter(|most| taken.saturating_add(attempts) >= *most) else {
        return Ok(None);
    };
    // This many turns may count next to the live attempts and one more.
    let Some(others) = most.checked_sub(attempts + 1) else { return Ok(None) };
    let values = params![workflow.get(), run.0, others];
    let mut query = db.prepare_cached(TURN_EXPIRES_SQL)?;
    let ended = query.query_row(values, |row| columns::store_time(row, 0)).optional()?;
    Ok(ended.map(|ended| ended.plus(LIMIT_WINDOW)))
}

pub(crate) const AGENT_TURNS_TODAY_SQL: &str = "SELECT count(*) FROM (
        SELECT 1 FROM attempt INDEXED BY attempt_turn
        WHERE workflow = ?1 AND run = ?2 AND turn = 1 AND store_ended > ?3 AND agent = ?5 LIMIT ?4) AS found";

/// Returns the same number for one agent, of the turns that ended after `since`.
pub(crate) fn agent_turns_today(
    locked: &LockedInstance<'_>,
    live: &LiveRun,
    agent: &AgentName,
    since: StoreTime,
    limits: &Limits,
    now: Now,
) -> Result<u32> {
    let Some(most) = limits.turns else { return Ok(0) };
    let after = since.max(now.store.minus(LIMIT_WINDOW)).get();
    let mut query = locked.tx.prepare_cached(AGENT_TURNS_TODAY_SQL)?;
    let values = params![locked.workflow.get(), live.number.0, after, most, agent.as_str()];
    Ok(query.query_row(values, |row| row.get(0))?)
}

pub(crate) const LIMIT_USE_SQL: &str = "SELECT r.workflow, r.id, r.mode, r.limits, r.turns,
        (SELECT count(*) FROM agent a WHERE a.workflow = r.workflow AND a.run = r.id AND a.live IS NOT NULL)
        FROM run r WHERE r.uuid = ?1";

/// Returns what counts for the limits of a run now.
pub(crate) fn limit_use(db: &Connection, run: RunId, now: Now) -> Result<LimitUse> {
    let id = run.get();
    let (key, mode, limits, turns, attempts) = db
        .prepare_cached(LIMIT_USE_SQL)?
        .query_row([id.as_bytes()], |row| {
            let key = (WorkflowId::new(row.get(0)?), RunNo(row.get(1)?));
            let mode: RunMode = columns::word(row, 2)?;
            Ok((key, mode, columns::json::<Limits>(row, 3)?, row.get::<u32>(4)?, row.get(5)?))
        })
        .optional()?
        .ok_or(Error::NotFound("run"))?;
    let today = turns_today(db, key, &limits, now)?;
    let turns = match mode {
        RunMode::Run => turns,
        RunMode::Start => today,
    };
    let turn_expires = turn_expires(db, key, &limits, (turns, attempts))?;
    let spend = spend::load_of_team(db, run, now)?;
    Ok(LimitUse { turns, attempts, turn_expires, spend })
}
