//! The calls of models that a run has paid for, or may have to pay for.
//!
//! Invariant: the stored usage of a call replaces its reservation. A reservation whose usage is never stored counts as spent, also
//! after its attempt has ended.

use agent_worker_protocol::{AttemptId, Usage};

use super::{
    attempts, columns,
    locked_instance::{LiveRun, LockedInstance},
    transaction::Tx,
};
use crate::{
    db::params,
    error::{Error, Result},
    model::{AttemptRow, RunSpend, UnreportedCall},
};

/// Maximum of one reservation. Sums of these fit into a column.
const MAX_RESERVED: u64 = 1 << 50;

/// The calls of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoredSpend {
    /// Reported usage, and the most that calls without one can have used.
    pub(crate) spent: RunSpend,
    /// The most that calls under way can use.
    pub(crate) reserved: RunSpend,
}

/// A macro, because a constant cannot contain another.
macro_rules! reserved_sum {
    ($column:literal, $state:literal) => {
        concat!(
            "(SELECT CAST(coalesce(sum(t.",
            $column,
            "), 0) AS BIGINT) FROM attempt t INDEXED BY attempt_reserved
              WHERE t.workflow = ?1 AND t.run = ?2 AND t.reserved_tokens > 0 AND t.ended IS ",
            $state,
            ")"
        )
    };
}

pub(crate) const SPEND_SQL: &str = concat!(
    "SELECT min(r.input_tokens, 2305843009213693952) + min(r.output_tokens, 2305843009213693952) + r.lost_tokens + ",
    reserved_sum!("reserved_tokens", "NOT NULL"),
    ", min(coalesce(r.cost_micros, 0), 2305843009213693952) + r.lost_cost + ",
    reserved_sum!("reserved_cost", "NOT NULL"),
    ", ",
    reserved_sum!("reserved_tokens", "NULL"),
    ", ",
    reserved_sum!("reserved_cost", "NULL"),
    " FROM run r WHERE r.workflow = ?1 AND r.id = ?2"
);

/// Reads the spend of the live run.
pub(crate) fn load(locked: &LockedInstance<'_>, live: &LiveRun) -> Result<StoredSpend> {
    let values = params![locked.workflow.get(), live.number.0];
    let read = locked.tx.prepare_cached(SPEND_SQL)?.query_row(values, |row| {
        let (spent, reserved) = (columns::run_spend(row, 0)?, columns::run_spend(row, 2)?);
        Ok(StoredSpend { spent, reserved })
    });
    Ok(read?)
}

/// Reserves a call of a live attempt, in place of the last one.
pub(crate) fn reserve(tx: &Tx<'_>, id: AttemptId, call: RunSpend) -> Result<()> {
    let (attempt, locked) = lock_attempt(tx, id)?;
    if attempt.ended.is_some() {
        return Err(Error::Fenced);
    }
    set_reserved(&locked, &attempt, call)?;
    locked.save()
}

/// Ends the reservation of a call that reports no usage.
pub(crate) fn settle_unreported(tx: &Tx<'_>, id: AttemptId, call: UnreportedCall) -> Result<()> {
    let (attempt, locked) = lock_attempt(tx, id)?;
    let reserved = reserved(&locked, &attempt)?;
    if reserved == RunSpend::default() || attempt.ended.is_some() {
        return Ok(());
    }
    if call == UnreportedCall::MaybePaid {
        add_lost(&locked, &attempt, reserved)?;
    }
    set_reserved(&locked, &attempt, RunSpend::default())?;
    locked.save()
}

/// Ends the reservation of a call whose usage is being stored. A part that the usage does not tell is lost.
pub(crate) fn settle_usage(
    locked: &LockedInstance<'_>,
    attempt: &AttemptRow,
    usage: &Usage,
) -> Result<()> {
    let reserved = reserved(locked, attempt)?;
    if reserved == RunSpend::default() {
        return Ok(());
    }
    let cost_micros = if usage.cost_micros.is_some() { 0 } else { reserved.cost_micros };
    let tokens = if usage.has_tokens() { 0 } else { reserved.tokens };
    add_lost(locked, attempt, RunSpend { cost_micros, tokens })?;
    set_reserved(locked, attempt, RunSpend::default())
}

fn lock_attempt<'a>(tx: &'a Tx<'a>, id: AttemptId) -> Result<(AttemptRow, LockedInstance<'a>)> {
    let attempt = attempts::get(tx, id)?;
    let locked = LockedInstance::lock(tx, attempt.fence.workflow)?;
    Ok((attempt, locked))
}

fn reserved(locked: &LockedInstance<'_>, attempt: &AttemptRow) -> Result<RunSpend> {
    let sql = "SELECT reserved_tokens, reserved_cost FROM attempt WHERE id = ?1";
    let id = attempt.id.get();
    let mut statement = locked.tx.prepare_cached(sql)?;
    Ok(statement.query_row([id.as_bytes()], |row| columns::run_spend(row, 0))?)
}

fn set_reserved(locked: &LockedInstance<'_>, attempt: &AttemptRow, call: RunSpend) -> Result<()> {
    let column = |count: u64| columns::size_column(count.min(MAX_RESERVED));
    let sql = "UPDATE attempt SET reserved_tokens = ?2, reserved_cost = ?3 WHERE id = ?1";
    let id = attempt.id.get();
    let values = params![id.as_bytes(), column(call.tokens), column(call.cost_micros)];
    locked.tx.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

fn add_lost(locked: &LockedInstance<'_>, attempt: &AttemptRow, lost: RunSpend) -> Result<()> {
    let column = |count: u64| columns::size_column(count.min(MAX_RESERVED));
    let sql = "UPDATE run SET lost_tokens = min(lost_tokens + ?2, 1152921504606846976),
        lost_cost = min(lost_cost + ?3, 1152921504606846976) WHERE uuid = ?1";
    let run = attempt.run.get();
    let values = params![run.as_bytes(), column(lost.tokens), column(lost.cost_micros)];
    locked.tx.prepare_cached(sql)?.execute(values)?;
    Ok(())
}
