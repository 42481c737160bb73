//! The calls of models of a `start` in the last 24 hours: sums for slots of ten minutes of store time.
//!
//! Invariant: a slot counts until 24 hours after its end, so no period of 24 hours has more calls than those that count. An owner
//! has at most 146 slots: a new one removes those that no longer count.

use std::time::Duration;

use agent_worker_protocol::WorkflowId;

use super::{
    columns::{self, RunNo},
    limit_use::LIMIT_WINDOW,
    spend::MAX_CALL,
    transaction::Tx,
};
use crate::{
    db::{self, Connection, params},
    error::Result,
    model::{ExpiringSpend, RunSpend, SpendFacts},
    time::StoreTime,
};

const SLOT: Duration = Duration::from_mins(10);

/// The slots of a team, or of a standalone agent.
pub(super) struct SlotOwner<'a> {
    pub(super) workflow: WorkflowId,
    pub(super) run: RunNo,
    /// The standalone agent; empty for a team.
    pub(super) owner: &'a str,
}

fn slot_of(time: StoreTime) -> i64 {
    time.get().div_euclid(slot_millis())
}

fn slot_millis() -> i64 {
    columns::size_column(SLOT.as_millis())
}

/// Returns the number of the first slot that counts.
fn first_slot(now: StoreTime) -> i64 {
    slot_of(now.minus(LIMIT_WINDOW))
}

pub(crate) const SLOTS_SQL: &str =
    "SELECT slot, tokens, cost, unreported_tokens, unreported_cost FROM spend_slot
    WHERE workflow = ?1 AND run = ?2 AND owner = ?3 AND slot >= ?4 ORDER BY slot";

/// Returns the calls that count, without reservations.
pub(super) fn load(db: &Connection, key: &SlotOwner<'_>, now: StoreTime) -> Result<SpendFacts> {
    let mut facts = SpendFacts::default();
    let mut statement = db.prepare_cached(SLOTS_SQL)?;
    let values = params![key.workflow.get(), key.run.0, key.owner, first_slot(now)];
    let slots = statement.query_map(values, |row| {
        let end =
            StoreTime::new(row.get::<i64>(0)?.saturating_add(1).saturating_mul(slot_millis()));
        let (spend, unreported) = (columns::run_spend(row, 1)?, columns::run_spend(row, 3)?);
        Ok((ExpiringSpend { at: end.plus(LIMIT_WINDOW), spend }, unreported))
    })?;
    for slot in slots.collect::<db::Result<Vec<_>>>()? {
        facts.spent = facts.spent.plus(slot.0.spend);
        facts.unreported = facts.unreported.plus(slot.1);
        facts.expiring.push(slot.0);
    }
    Ok(facts)
}

/// Adds reported calls, and the most that calls without a report can have used, to the current slot.
pub(super) fn add(
    tx: &Tx<'_>,
    key: &SlotOwner<'_>,
    (reported, unreported): (RunSpend, RunSpend),
    now: StoreTime,
) -> Result<()> {
    let column = |count: u64| columns::size_column(count.min(MAX_CALL));
    let (workflow, run, owner) = (key.workflow.get(), key.run.0, key.owner);
    let sum = reported.plus(unreported);
    if sum == RunSpend::default() {
        return Ok(());
    }
    tx.prepare_cached(
        "DELETE FROM spend_slot WHERE workflow = ?1 AND run = ?2 AND owner = ?3 AND slot < ?4",
    )?
    .execute(params![workflow, run, owner, first_slot(now)])?;
    tx.prepare_cached(
        "INSERT INTO spend_slot (workflow, run, owner, slot, tokens, cost, unreported_tokens, unreported_cost)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (workflow, run, owner, slot) DO UPDATE SET
         tokens = min(spend_slot.tokens + excluded.tokens, 1152921504606846976),
         cost = min(spend_slot.cost + excluded.cost, 1152921504606846976),
         unreported_tokens = min(spend_slot.unreported_tokens + excluded.unreported_tokens, 1152921504606846976),
         unreported_cost = min(spend_slot.unreported_cost + excluded.unreported_cost, 1152921504606846976)",
    )?
    .execute(params![
        workflow,
        run,
        owner,
        slot_of(now),
        column(sum.tokens),
        column(sum.cost_micros),
        column(unreported.tokens),
        column(unreported.cost_micros)
    ])?;
    Ok(())
}

/// Deletes the slots of a standalone agent, whose limits begin again.
pub(super) fn reset(tx: &Tx<'_>, workflow: WorkflowId, owner: &str) -> Result<()> {
    tx.prepare_cached(
        "DELETE FROM spend_slot WHERE workflow = ?1 AND owner = ?2 AND run = (SELECT live_run FROM workflow WHERE id = ?1)",
    )?
    .execute(params![workflow.get(), owner])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: &str = include_str!("schema/lite/32.sql");

    /// Attempts `1` and `2` of a `start` have ended, the second in the middle of a call, and `3` works. Run 2 is a `run`.
    #[test]
    fn a_file_of_an_older_program_has_the_spend_of_its_attempts_in_slots() {
        let db = crate::engine::open_in_memory().unwrap();
        db.execute_batch("DROP TABLE spend_slot").unwrap();
        db.execute_batch(
            "INSERT INTO workflow (id, project, name, tag) VALUES (7, '/p', 'review', 'main'), (8, '/p', 'once', 'main');
             INSERT INTO run (workflow, id, uuid, mode, state, limits, keep, started, after_seq, script, lost_cost, lost_tokens)
             VALUES (7, 1, x'01', 'start', 'running', '{}', 'always', 10, 0, '', 3, 4),
                    (8, 1, x'02', 'run', 'running', '{}', 'always', 10, 0, '', 3, 4);
             INSERT INTO attempt (workflow, agent, epoch, id, run, oldest, number, setbacks, shown, token_hash, started, ended,
               store_started, store_ended, input_tokens, output_tokens, cost_micros, reserved_cost, reserved_tokens)
             VALUES (7, 'a', 1, x'01', 1, 1, 1, 0, '[]', x'01', 1, 1, 600000, 1199999, 10, 5, 100, 0, 0),
                    (7, 'a', 2, x'02', 1, 1, 1, 0, '[]', x'02', 1, 1, 600000, 1200000, 20, 0, NULL, 30, 40),
                    (7, 'a', 3, x'03', 1, 1, 1, 0, '[]', x'03', 1, NULL, 600000, NULL, 1, 1, 7, 50, 60),
                    (8, 'a', 1, x'04', 1, 1, 1, 0, '[]', x'04', 1, 1, 600000, 600000, 9, 9, 9, 30, 40);",
        )
        .unwrap();
        db.execute_batch(STEP).unwrap();
        let rows = |sql: &str| -> Vec<[i64; 5]> {
            let mut rows = db.prepare_cached(sql).unwrap();
            let rows = rows.query_map((), |row| {
                Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?])
            });
            rows.unwrap().collect::<db::Result<_>>().unwrap()
        };
        let slots = "SELECT slot, tokens, cost, unreported_tokens, unreported_cost FROM spend_slot ORDER BY slot";
        assert_eq!(rows(slots), [[1, 17, 107, 0, 0], [2, 64, 33, 44, 33]]);
        let others = "SELECT workflow, lost_tokens, lost_cost, (SELECT sum(reserved_tokens) FROM attempt t
            WHERE t.workflow = r.workflow), (SELECT sum(reserved_cost) FROM attempt t WHERE t.workflow = r.workflow)
            FROM run r ORDER BY workflow";
        assert_eq!(rows(others), [[7, 44, 33, 60, 50], [8, 44, 33, 0, 0]]);
    }
}
