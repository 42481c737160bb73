//! The decision about a run: the facts, the step, and the effects of an end on everything that is open.

use std::collections::BTreeSet;

use agent_worker_protocol::{
    AgentName, AttemptEnd, AttemptEndedData, AttemptId, DeliveryData, EventBody, Outcome,
    RunEndedData, RunId, RunState, Sender, Seq, SpendLimits, api::RunError,
};

use super::{
    attempts, columns,
    delivery_states::delivery_sql,
    effects,
    events::EventEntry,
    limit_use,
    locked_instance::{LiveRun, LockedInstance},
    proposal_rows::select_proposals,
    proposals, run_results, runs, spend, tasks,
    transaction::Tx,
};
use crate::{
    db::{self, params},
    error::Result,
    model::{ProposalQuery, RunClockSwitch, RunFacts, RunRule, RunStep, SpendFacts},
    time::{Now, StoreTime},
};

/// Reads the facts, calls `decide` and applies its step; returns the applied step.
pub(crate) fn settle_run(tx: &Tx<'_>, run: RunId, decide: &RunRule, now: Now) -> Result<RunStep> {
    let (mut locked, number) = LockedInstance::lock_run(tx, run)?;
    let Some(live) = locked.live_run_if_any().filter(|live| live.number == number).cloned() else {
        return Ok(RunStep::Stay);
    };
    let facts = load_facts(&locked, &live, now)?;
    let step = decide(&facts);
    let applied = apply_step(&mut locked, &live, &step, now)?;
    let clock_changed = update_clock(&locked, &facts, now)?;
    if applied || clock_changed {
        locked.save()?;
    }
    Ok(if applied { step } else { RunStep::Stay })
}

/// Starts or stops the time that counts for the wall limit, as the facts require. Returns true if that changed
/// something.
fn update_clock(locked: &LockedInstance<'_>, facts: &RunFacts, now: Now) -> Result<bool> {
    let Some(live) = locked.live_run_if_any() else { return Ok(false) };
    let counts = facts.counts_time(&live.state);
    if live.state == facts.state && counts == facts.clock.since.is_some() {
        return Ok(false);
    }
    if counts {
        locked.start_clock(now)?;
    } else {
        locked.stop_clock(now)?;
    }
    Ok(true)
}

/// Stops the time that counts for the wall limit of a live run, or starts that of a run that can work.
pub(crate) fn switch_clock(
    tx: &Tx<'_>,
    run: RunId,
    switch: RunClockSwitch,
    now: Now,
) -> Result<()> {
    let (locked, number) = LockedInstance::lock_run(tx, run)?;
    let live = locked.live_run_if_any().filter(|live| live.number == number);
    let Some(live) = live else { return Ok(()) };
    match switch {
        RunClockSwitch::Start if live.state.can_work() => locked.start_clock(now)?,
        // The next settlement starts the time of a paused run.
        RunClockSwitch::Start => return Ok(()),
        RunClockSwitch::Stop => locked.stop_clock(now)?,
    }
    locked.save()
}

/// Applies a step to the live run; returns false if the run stays as it is.
fn apply_step(
    locked: &mut LockedInstance<'_>,
    live: &LiveRun,
    step: &RunStep,
    now: Now,
) -> Result<bool> {
    match (step, &live.state) {
        (RunStep::Pause(cause), state) if state.wakes_agents() => {
            locked.pause_run(cause.clone(), &Sender::System, now)?;
        }
        (RunStep::Pause(cause), RunState::Paused { cause: before }) if cause != before => {
            locked.pause_run(cause.clone(), &Sender::System, now)?;
        }
        (RunStep::Resume, RunState::Paused { .. }) => {
            runs::continue_run(locked, &Sender::System, now)?;
        }
        (RunStep::End { outcome, why, error }, _) => {
            end_run(locked, live, *outcome, why, error.as_ref(), now)?;
        }
        (RunStep::Stay | RunStep::Pause(_) | RunStep::Resume, _) => return Ok(false),
    }
    Ok(true)
}

pub(crate) const FACTS_SQL: &str = delivery_sql!("SELECT r.mode, r.limits, r.store_since, r.turns,
        (SELECT count(*) FROM agent a CROSS JOIN delivery d INDEXED BY delivery_open
          WHERE a.workflow = ?1 AND a.stopped IS NULL
          AND d.workflow = ?1 AND d.state IN " UNFINISHED " AND d.state <= " LAST_OPEN " AND d.agent = a.name AND d.wakes = 1),
        (SELECT count(*) FROM agent a CROSS JOIN delivery d INDEXED BY delivery_open
          WHERE a.workflow = ?1 AND a.stopped IS NOT NULL
          AND d.workflow = ?1 AND d.state = " PENDING " AND d.state <= " LAST_OPEN " AND d.agent = a.name AND d.wakes = 1),
        (SELECT count(*) FROM agent WHERE workflow = ?1 AND live IS NOT NULL),
        (SELECT count(*) FROM delivery INDEXED BY delivery_failed
          WHERE workflow = ?1 AND run = ?2 AND state = " DEAD " AND state IN " FAILED "),
        (SELECT count(*) FROM delivery INDEXED BY delivery_failed
          WHERE workflow = ?1 AND run = ?2 AND state = " DROPPED " AND state IN " FAILED "),
        (SELECT count(*) FROM proposal INDEXED BY proposal_active WHERE workflow = ?1 AND active = 1),
        (SELECT count(*) FROM question q INDEXED BY question_open
          JOIN agent a ON a.workflow = q.workflow AND a.name = q.agent AND a.run = q.run
          WHERE q.workflow = ?1 AND q.run = ?2 AND q.answer IS NULL),
        (SELECT count(*) FROM agent a WHERE a.workflow = ?1 AND a.live IS NOT NULL AND EXISTS (
          SELECT 1 FROM approval p INDEXED BY approval_unused WHERE p.workflow = ?1 AND p.agent = a.name
          AND p.used IS NULL AND p.epoch = a.epoch AND p.answer IS NULL AND p.holds = 1)),
        r.counted_ms, r.counting_since
        FROM run r WHERE r.workflow = ?1 AND r.id = ?2");

/// Reads the facts. It reads only rows that are open or failed, so its cost does not grow with the instance's
/// history, and starts from the agents: most of the open deliveries may be copies that wake no agent.
fn load_facts(locked: &LockedInstance<'_>, live: &LiveRun, now: Now) -> Result<RunFacts> {
    let mut facts = locked.tx.prepare_cached(FACTS_SQL)?.query_row(
        [locked.workflow.get(), live.number.0],
        |row| {
            Ok(RunFacts {
                state: live.state.clone(),
                mode: columns::word(row, 0)?,
                limits: columns::json(row, 1)?,
                since: columns::store_time(row, 2)?,
                clock: columns::run_clock(row, 12)?,
                turns: row.get(3)?,
                turns_today: 0,
                turn_expires: None,
                spend: SpendFacts::default(),
                waking: row.get(4)?,
                all_wait_until: None,
                stranded: row.get(5)?,
                attempts: row.get(6)?,
                dead: row.get(7)?,
                dropped: row.get(8)?,
                proposals: row.get(9)?,
                person_votes: 0,
                questions: row.get(10)?,
                awaiting_approval: row.get(11)?,
                awaiting_approval_deliveries: 0,
                verdict: None,
            })
        },
    )?;
    if facts.limits.spend != SpendLimits::NONE {
        facts.spend = spend::load_of_team(locked.tx, live.id, now)?;
    }
    facts.verdict = run_results::stored_verdict(locked.tx, locked.workflow, live.number)?;
    let key = (locked.workflow, live.number);
    facts.turns_today = limit_use::turns_today(locked.tx, key, &facts.limits, now)?;
    let taken = (facts.turns_today, facts.attempts);
    facts.turn_expires = limit_use::turn_expires(locked.tx, key, &facts.limits, taken)?;
    if facts.proposals > 0 {
        let open = select_proposals(locked.tx, locked.workflow, ProposalQuery::Active)?;
        let of_people = open.iter().filter(|stored| stored.proposal.waits_only_for_people());
        facts.person_votes = u32::try_from(of_people.count()).unwrap_or(u32::MAX);
    }
    if facts.awaiting_approval > 0 {
        let of = [locked.workflow.get()];
        facts.awaiting_approval_deliveries = locked
            .tx
            .prepare_cached(AWAITING_APPROVAL_DELIVERIES_SQL)?
            .query_row(of, |row| row.get(0))?;
    }
    if facts.waking > 0 && facts.attempts == 0 {
        facts.all_wait_until = all_wait_until(locked, live)?;
    }
    Ok(facts)
}

pub(crate) const AWAITING_APPROVAL_DELIVERIES_SQL: &str = delivery_sql!("SELECT count(*) FROM agent a CROSS JOIN delivery d INDEXED BY delivery_open
        WHERE a.workflow = ?1 AND a.stopped IS NULL AND a.live IS NOT NULL AND EXISTS (
          SELECT 1 FROM approval p INDEXED BY approval_unused WHERE p.workflow = ?1 AND p.agent = a.name
          AND p.used IS NULL AND p.epoch = a.epoch AND p.answer IS NULL AND p.holds = 1)
        AND d.workflow = ?1 AND d.state IN " UNFINISHED " AND d.state <= " LAST_OPEN " AND d.agent = a.name AND d.wakes = 1");

pub(crate) const ALL_WAIT_UNTIL_SQL: &str = delivery_sql!("SELECT CASE WHEN count(*) = count(a.not_before) THEN min(a.not_before) END FROM agent a
        WHERE a.workflow = ?1 AND a.run = ?2 AND a.stopped IS NULL AND EXISTS (
          SELECT 1 FROM delivery d INDEXED BY delivery_open
          WHERE d.workflow = ?1 AND d.state = " PENDING " AND d.state <= " LAST_OPEN " AND d.agent = a.name AND d.wakes = 1)");

/// Returns the earliest instant that an agent with waking mail waits for, if none of these agents is free now.
fn all_wait_until(locked: &LockedInstance<'_>, live: &LiveRun) -> Result<Option<StoreTime>> {
    Ok(locked
        .tx
        .prepare_cached(ALL_WAIT_UNTIL_SQL)?
        .query_row([locked.workflow.get(), live.number.0], |row| {
            columns::optional(row, 0, columns::store_time)
        })?)
}

/// Fences off every live attempt, drops the open deliveries and releases the instance.
fn end_run(
    locked: &mut LockedInstance<'_>,
    live: &LiveRun,
    outcome: Outcome,
    why: &str,
    error: Option<&RunError>,
    now: Now,
) -> Result<()> {
    proposals::cancel_active_proposals(locked, why, now)?;
    for (agent, attempt) in end_live_attempts(locked, now)? {
        let data = AttemptEndedData { end: AttemptEnd::Stopped, deliveries: None };
        let cause = data.end.to_string();
        let entry = EventEntry::new(EventBody::AttemptEnded(data)).agent(&agent);
        locked.append_event(&entry.attempt(attempt).cause(cause), now)?;
    }
    let mut dropped = match outcome {
        // These messages made the run fail, so they have their own reason.
        Outcome::Failed => drop_deliveries_of_stopped_agents(locked)?,
        Outcome::Done | Outcome::Stopped => Vec::new(),
    };
    let others = drop_open_deliveries(locked, why)?;
    dropped.extend(others.into_iter().map(|(seq, agent)| (seq, agent, why.to_owned())));
    dropped.sort();
    for (seq, agent, why) in &dropped {
        let body = EventBody::DeliveryDropped(DeliveryData { seq: *seq });
        let entry = EventEntry::new(body).agent(agent).cause(why.clone());
        locked.append_event(&entry, now)?;
    }
    for agent in dropped.iter().map(|(_, agent, _)| agent).collect::<BTreeSet<_>>() {
        effects::clear_if_settled(locked.tx, locked.workflow, agent)?;
    }
    tasks::stop_running(locked, live.number, why, now)?;
    if let Some(error) = error {
        let error = serde_json::to_string(error)?;
        runs::set_text_column(locked.tx, (locked.workflow, live.number), "error", Some(&error))?;
    }
    let body = EventBody::RunEnded(RunEndedData { outcome, error: error.cloned() });
    locked.append_event(&EventEntry::new(body).cause(why.to_owned()), now)?;
    locked.set_run_state(RunState::Ended { outcome }, now)
}

/// Ends every live attempt: an agent without a live attempt no longer passes the fence.
fn end_live_attempts(locked: &LockedInstance<'_>, now: Now) -> Result<Vec<(AgentName, AttemptId)>> {
    let attempts = locked
        .tx
        .prepare_cached("SELECT name, live FROM agent WHERE workflow = ?1 AND live IS NOT NULL")?
        .query_map([locked.workflow.get()], |row| {
            Ok((columns::parse(row, 0)?, columns::attempt_id(row, 1)?))
        })?
        .collect::<db::Result<Vec<_>>>()?;
    let how = serde_json::to_string(&AttemptEnd::Stopped)?;
    for (_, attempt) in &attempts {
        attempts::update_attempt(locked.tx, *attempt, || {
            locked
                .tx
                .prepare_cached(
                    "UPDATE attempt SET ended = ?2, how = ?3, store_ended = ?4 WHERE id = ?1",
                )?
                .execute(params![attempt.get().as_bytes(), now.wall.get(), how, now.store.get()])?;
            Ok(())
        })?;
    }
    locked.tx
        .prepare_cached(
            "UPDATE agent SET live = NULL, live_since = NULL, not_before = NULL, wait = NULL, why = NULL
             WHERE workflow = ?1",
        )?
        .execute([locked.workflow.get()])?;
    Ok(attempts)
}

pub(crate) const DROP_OPEN_SQL: &str = delivery_sql!("UPDATE delivery INDEXED BY delivery_open SET state = " DROPPED ", why = ?2
        WHERE workflow = ?1 AND state IN " UNFINISHED " AND state <= " LAST_OPEN " RETURNING seq, agent");

const DROP_OPEN_OF_AGENT_SQL: &str = delivery_sql!("UPDATE delivery INDEXED BY delivery_open SET state = " DROPPED ", why = ?3
        WHERE workflow = ?1 AND state IN " UNFINISHED " AND state <= " LAST_OPEN " AND agent = ?2 RETURNING seq");

/// Drops the pending deliveries of one agent.
pub(crate) fn drop_open_deliveries_of(
    locked: &LockedInstance<'_>,
    agent: &AgentName,
    why: &str,
) -> Result<Vec<Seq>> {
    let mut dropped = locked
        .tx
        .prepare_cached(DROP_OPEN_OF_AGENT_SQL)?
        .query_map(params![locked.workflow.get(), agent.as_str(), why], |row| columns::seq(row, 0))?
        .collect::<db::Result<Vec<Seq>>>()?;
    dropped.sort();
    Ok(dropped)
}

/// Drops the pending deliveries of every stopped agent, each with the reason of the stop.
fn drop_deliveries_of_stopped_agents(
    locked: &LockedInstance<'_>,
) -> Result<Vec<(Seq, AgentName, String)>> {
    let stopped = locked
        .tx
        .prepare_cached(
            "SELECT name, stopped FROM agent WHERE workflow = ?1 AND stopped IS NOT NULL",
        )?
        .query_map([locked.workflow.get()], |row| Ok((columns::parse(row, 0)?, row.get(1)?)))?
        .collect::<db::Result<Vec<(AgentName, String)>>>()?;
    let mut dropped = Vec::new();
    for (agent, reason) in stopped {
        let why = match reason.strip_prefix("stopped ") {
            Some(by) => format!("the agent was stopped {by}"),
            None => format!("the agent is stopped: {reason}"),
        };
        let seqs = drop_open_deliveries_of(locked, &agent, &why)?;
        dropped.extend(seqs.into_iter().map(|seq| (seq, agent.clone(), why.clone())));
    }
    Ok(dropped)
}

/// Drops the pending and leased deliveries, in the order in which they were written. Dead letters stay dead.
fn drop_open_deliveries(locked: &LockedInstance<'_>, why: &str) -> Result<Vec<(Seq, AgentName)>> {
    let mut dropped = locked
        .tx
        .prepare_cached(DROP_OPEN_SQL)?
        .query_map(params![locked.workflow.get(), why], |row| {
            Ok((columns::seq(row, 0)?, columns::parse(row, 1)?))
        })?
        .collect::<db::Result<Vec<(Seq, AgentName)>>>()?;
    dropped.sort();
    Ok(dropped)
}
