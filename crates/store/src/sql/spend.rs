//! The calls of models that a run has paid for, or may have to pay for. `spend_slots` has those of a `start`, by time.
//!
//! Invariant: the stored usage of a call replaces its reservation. A reservation whose usage is never stored counts as spent; the
//! end of its attempt ends it.

use agent_worker_protocol::{
    AgentName, AttemptId, InstanceRef, Limits, RunId, RunMode, Sender, Usage, WorkflowId,
};

use super::{
    attempts, columns,
    columns::RunNo,
    locked_instance::LockedInstance,
    members,
    spend_slots::{self, SlotOwner},
    transaction::Tx,
};
use crate::{
    db::{Connection, params},
    error::{Error, Result},
    model::{
        AttemptRow, LimitScope, ReserveFacts, ReserveRule, ReserveStep, RunSpend, SpendFacts,
        UnreportedCall,
    },
    time::Now,
};

/// Maximum of one reservation or report. Sums of these fit into a column.
pub(super) const MAX_CALL: u64 = 1 << 50;

/// The place where the calls of an agent count.
struct Account {
    workflow: WorkflowId,
    run: RunNo,
    mode: RunMode,
    scope: LimitScope,
    /// The standalone agent; empty for a team.
    owner: String,
}

impl Account {
    /// Returns the account of an agent's calls.
    fn find(db: &Connection, run: RunId, agent: &str) -> Result<Self> {
        let sql = "SELECT r.id, r.mode, w.name, w.tag, w.id FROM run r JOIN workflow w ON w.id = r.workflow WHERE r.uuid = ?1";
        let run = run.get();
        Ok(db.prepare_cached(sql)?.query_row([run.as_bytes()], |row| {
            let instance =
                InstanceRef { name: columns::parse(row, 2)?, tag: columns::parse(row, 3)? };
            let (scope, owner) = if instance.is_global() {
                (LimitScope::Standalone, agent.to_owned())
            } else {
                (LimitScope::Team, String::new())
            };
            Ok(Self {
                workflow: WorkflowId::new(row.get(4)?),
                run: RunNo(row.get(0)?),
                mode: columns::word(row, 1)?,
                scope,
                owner,
            })
        })?)
    }

    /// Returns the calls of this account that count now.
    fn load(&self, db: &Connection, now: Now) -> Result<SpendFacts> {
        let mut facts = match self.mode {
            RunMode::Run => spent_in_run(db, self.workflow, self.run)?,
            RunMode::Start => spend_slots::load(db, &self.slots(), now.store)?,
        };
        // A standalone agent has one attempt at a time.
        if self.scope == LimitScope::Team {
            let values = params![self.workflow.get(), self.run.0];
            let mut statement = db.prepare_cached(RESERVED_SQL)?;
            facts.reserved = statement.query_row(values, |row| columns::run_spend(row, 0))?;
        }
        Ok(facts)
    }

    /// Counts usage, and the most that a call without a report can have used. The row of the run has the reported usage of its
    /// whole life already.
    fn count(
        &self,
        locked: &LockedInstance<'_>,
        reported: RunSpend,
        unreported: RunSpend,
        now: Now,
    ) -> Result<()> {
        match self.mode {
            RunMode::Run => add_lost(locked, self.run, unreported),
            RunMode::Start => {
                spend_slots::add(locked.tx, &self.slots(), (reported, unreported), now.store)
            }
        }
    }

    fn slots(&self) -> SlotOwner<'_> {
        SlotOwner { workflow: self.workflow, run: self.run, owner: &self.owner }
    }
}

pub(crate) const SPENT_SQL: &str = "SELECT min(input_tokens, 2305843009213693952) + min(output_tokens, 2305843009213693952) + lost_tokens,
    min(coalesce(cost_micros, 0), 2305843009213693952) + lost_cost, lost_tokens, lost_cost
    FROM run WHERE workflow = ?1 AND id = ?2";

fn spent_in_run(db: &Connection, workflow: WorkflowId, run: RunNo) -> Result<SpendFacts> {
    Ok(db.prepare_cached(SPENT_SQL)?.query_row(params![workflow.get(), run.0], |row| {
        let (spent, unreported) = (columns::run_spend(row, 0)?, columns::run_spend(row, 2)?);
        Ok(SpendFacts { spent, unreported, ..SpendFacts::default() })
    })?)
}

/// The reservations of live attempts; an ended one has none.
pub(crate) const RESERVED_SQL: &str = "SELECT CAST(coalesce(sum(reserved_tokens), 0) AS BIGINT), CAST(coalesce(sum(reserved_cost), 0) AS BIGINT)
    FROM attempt INDEXED BY attempt_reserved WHERE workflow = ?1 AND run = ?2 AND reserved_tokens > 0";

/// Returns the calls that count for the limits of a team; none for standalone agents, which have limits of their own.
pub(crate) fn load_of_team(db: &Connection, run: RunId, now: Now) -> Result<SpendFacts> {
    let account = Account::find(db, run, "")?;
    match account.scope {
        LimitScope::Team => account.load(db, now),
        LimitScope::Standalone => Ok(SpendFacts::default()),
    }
}

/// Returns the calls that count for the limits of an agent: those of its team, or its own.
pub(crate) fn load_of_agent(
    db: &Connection,
    run: RunId,
    agent: &AgentName,
    now: Now,
) -> Result<SpendFacts> {
    Account::find(db, run, agent.as_str())?.load(db, now)
}

/// Asks `rule` whether a live attempt may make a call, and reserves the call or carries out the refusal.
pub(crate) fn reserve(
    tx: &Tx<'_>,
    id: AttemptId,
    call: RunSpend,
    rule: ReserveRule,
    now: Now,
) -> Result<ReserveStep> {
    let (attempt, mut locked) = lock_attempt(tx, id)?;
    if attempt.ended.is_some() {
        return Err(Error::Fenced);
    }
    let agent = &attempt.fence.agent;
    let account = Account::find(locked.tx, attempt.run, agent.as_str())?;
    let facts = ReserveFacts {
        mode: account.mode,
        limits: read_limits(&locked, account.run)?,
        limit_scope: account.scope,
        spend: account.load(locked.tx, now)?,
        call,
        now,
    };
    let step = rule(&facts);
    match &step {
        ReserveStep::Reserve => set_reserved(&locked, id, call)?,
        ReserveStep::Wait => return Ok(step),
        ReserveStep::Refuse(cause) => match account.scope {
            LimitScope::Team => locked.pause_run_if(Some(cause), &Sender::System, now)?,
            LimitScope::Standalone => {
                let why = cause.to_string();
                members::mark_stopped(&mut locked, agent, &why, &Sender::System, now)?;
            }
        },
    }
    locked.save()?;
    Ok(step)
}

/// Ends the reservation of a call that reports no usage.
pub(crate) fn settle_unreported(
    tx: &Tx<'_>,
    id: AttemptId,
    call: UnreportedCall,
    now: Now,
) -> Result<()> {
    let (attempt, locked) = lock_attempt(tx, id)?;
    if attempt.ended.is_some() || reserved(&locked, id)? == RunSpend::default() {
        return Ok(());
    }
    match call {
        UnreportedCall::MaybePaid => {
            settle_end(&locked, (id, attempt.run), &attempt.fence.agent, now)?;
        }
        UnreportedCall::Unused => set_reserved(&locked, id, RunSpend::default())?,
    }
    locked.save()
}

/// Counts usage that is being stored, and ends the reservation of its call. A part that the usage does not tell counts with all
/// that was reserved.
pub(crate) fn settle_usage(
    locked: &LockedInstance<'_>,
    attempt: &AttemptRow,
    usage: &Usage,
    now: Now,
) -> Result<()> {
    let reserved = reserved(locked, attempt.id)?;
    let unreported = RunSpend {
        cost_micros: if usage.cost_micros.is_some() { 0 } else { reserved.cost_micros },
        tokens: if usage.has_tokens() { 0 } else { reserved.tokens },
    };
    let reported = RunSpend {
        cost_micros: usage.cost_micros.unwrap_or_default(),
        tokens: usage.input_tokens.saturating_add(usage.output_tokens),
    };
    let account = Account::find(locked.tx, attempt.run, attempt.fence.agent.as_str())?;
    account.count(locked, reported, unreported, now)?;
    if reserved == RunSpend::default() {
        return Ok(());
    }
    set_reserved(locked, attempt.id, RunSpend::default())
}

/// Ends the reservation of an attempt that reports no more usage: its call counts with all that it can have used.
pub(crate) fn settle_end(
    locked: &LockedInstance<'_>,
    (attempt, run): (AttemptId, RunId),
    agent: &AgentName,
    now: Now,
) -> Result<()> {
    let unreported = reserved(locked, attempt)?;
    if unreported == RunSpend::default() {
        return Ok(());
    }
    let account = Account::find(locked.tx, run, agent.as_str())?;
    account.count(locked, RunSpend::default(), unreported, now)?;
    set_reserved(locked, attempt, RunSpend::default())
}

fn lock_attempt<'a>(tx: &'a Tx<'a>, id: AttemptId) -> Result<(AttemptRow, LockedInstance<'a>)> {
    let attempt = attempts::get(tx, id)?;
    let locked = LockedInstance::lock(tx, attempt.fence.workflow)?;
    Ok((attempt, locked))
}

fn read_limits(locked: &LockedInstance<'_>, run: RunNo) -> Result<Limits> {
    let sql = "SELECT limits FROM run WHERE workflow = ?1 AND id = ?2";
    let values = params![locked.workflow.get(), run.0];
    Ok(locked.tx.prepare_cached(sql)?.query_row(values, |row| columns::json(row, 0))?)
}

fn reserved(locked: &LockedInstance<'_>, attempt: AttemptId) -> Result<RunSpend> {
    let sql = "SELECT reserved_tokens, reserved_cost FROM attempt WHERE id = ?1";
    let id = attempt.get();
    let mut statement = locked.tx.prepare_cached(sql)?;
    Ok(statement.query_row([id.as_bytes()], |row| columns::run_spend(row, 0))?)
}

fn set_reserved(locked: &LockedInstance<'_>, attempt: AttemptId, call: RunSpend) -> Result<()> {
    let column = |count: u64| columns::size_column(count.min(MAX_CALL));
    let sql = "UPDATE attempt SET reserved_tokens = ?2, reserved_cost = ?3 WHERE id = ?1";
    let id = attempt.get();
    let values = params![id.as_bytes(), column(call.tokens), column(call.cost_micros)];
    locked.tx.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

fn add_lost(locked: &LockedInstance<'_>, run: RunNo, lost: RunSpend) -> Result<()> {
    let column = |count: u64| columns::size_column(count.min(MAX_CALL));
    let sql = "UPDATE run SET lost_tokens = min(lost_tokens + ?3, 1152921504606846976),
        lost_cost = min(lost_cost + ?4, 1152921504606846976) WHERE workflow = ?1 AND id = ?2";
    let values =
        params![locked.workflow.get(), run.0, column(lost.tokens), column(lost.cost_micros)];
    locked.tx.prepare_cached(sql)?.execute(values)?;
    Ok(())
}
