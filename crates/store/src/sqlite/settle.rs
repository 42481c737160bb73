//! Deciding about a run: the facts, the step, and what an end does to everything that is open.

use std::collections::BTreeSet;

use agent_worker_protocol::{
    AgentName, AttemptEnd, AttemptId, EventKind, Outcome, RunId, RunMode, RunState, Sender, Seq,
    api::RunError,
};
use rusqlite::params;
use serde_json::json;

use super::{
    attempts, columns, effects,
    events::Entry,
    head::{Head, LiveRun},
    proposals, runs,
    writer::Tx,
};
use crate::{
    error::Result,
    model::{Decide, RunFacts, RunStep},
    time::{Now, StoreTime},
};

/// Reads the facts, asks, and carries out the step; answers with what was carried out.
pub(super) fn settle(tx: &Tx<'_>, run: RunId, decide: &Decide, now: Now) -> Result<RunStep> {
    let (mut head, number) = Head::lock_run(tx, run)?;
    let Some(live) = head.live_if_any().filter(|live| live.number == number).cloned() else {
        return Ok(RunStep::Stay);
    };
    let step = decide(&facts(&head, &live, now)?);
    match (&step, &live.state) {
        (RunStep::Pause(cause), state) if state.wakes() => {
            head.pause(cause.clone(), &Sender::System, now)?;
        }
        (RunStep::Pause(cause), RunState::Paused { cause: before }) if cause != before => {
            head.pause(cause.clone(), &Sender::System, now)?;
        }
        (RunStep::Resume, RunState::Paused { .. }) => {
            runs::go_on(&mut head, &Sender::System, now)?;
        }
        (RunStep::End { outcome, why, error }, _) => {
            end(&mut head, &live, *outcome, why, error.as_ref(), now)?;
        }
        (RunStep::Stay | RunStep::Pause(_) | RunStep::Resume, _) => return Ok(RunStep::Stay),
    }
    head.save()?;
    Ok(step)
}

pub(super) const FACTS: &str = "SELECT r.mode, r.limits, r.store_started, r.turns,
        (SELECT count(*) FROM agent a CROSS JOIN delivery d INDEXED BY delivery_open
          WHERE a.workflow = ?1 AND a.stopped IS NULL
          AND d.workflow = ?1 AND d.state IN (0, 1) AND d.state <= 2 AND d.agent = a.name AND d.wakes = 1),
        (SELECT count(*) FROM agent a CROSS JOIN delivery d INDEXED BY delivery_open
          WHERE a.workflow = ?1 AND a.stopped IS NOT NULL
          AND d.workflow = ?1 AND d.state = 0 AND d.state <= 2 AND d.agent = a.name AND d.wakes = 1),
        (SELECT count(*) FROM agent WHERE workflow = ?1 AND live IS NOT NULL),
        (SELECT count(*) FROM delivery INDEXED BY delivery_failed
          WHERE workflow = ?1 AND run = ?2 AND state = 2 AND state IN (2, 4)),
        (SELECT count(*) FROM delivery INDEXED BY delivery_failed
          WHERE workflow = ?1 AND run = ?2 AND state = 4 AND state IN (2, 4)),
        (SELECT count(*) FROM proposal INDEXED BY proposal_active WHERE workflow = ?1 AND active = 1),
        (SELECT count(*) FROM question q INDEXED BY question_open
          JOIN agent a ON a.workflow = q.workflow AND a.name = q.agent AND a.run = q.run
          WHERE q.workflow = ?1 AND q.run = ?2 AND q.answer IS NULL),
        (SELECT count(*) FROM agent a WHERE a.workflow = ?1 AND a.live IS NOT NULL AND EXISTS (
          SELECT 1 FROM approval p INDEXED BY approval_unused WHERE p.workflow = ?1 AND p.agent = a.name
          AND p.used IS NULL AND p.epoch = a.epoch AND p.answer IS NULL AND p.holds = 1))
        FROM run r WHERE r.workflow = ?1 AND r.id = ?2";

/// Reads only what is open or failed, so its cost does not grow with the instance's history. It starts from the agents:
/// of what is open, most may be copies that wake nobody.
fn facts(head: &Head<'_>, live: &LiveRun, now: Now) -> Result<RunFacts> {
    let mut facts =
        head.tx.prepare_cached(FACTS)?.query_row([head.workflow.get(), live.number.0], |row| {
            Ok(RunFacts {
                state: live.state.clone(),
                mode: columns::word(row, 0, RunMode::from_word)?,
                limits: columns::json(row, 1)?,
                started: columns::store_time(row, 2)?,
                turns: row.get(3)?,
                turns_today: 0,
                waking: row.get(4)?,
                all_wait_until: None,
                stranded: row.get(5)?,
                attempts: row.get(6)?,
                dead: row.get(7)?,
                dropped: row.get(8)?,
                proposals: row.get(9)?,
                questions: row.get(10)?,
                held: row.get(11)?,
                held_mail: 0,
            })
        })?;
    facts.turns_today = runs::turns_today(head, live, &facts.limits, now)?;
    if facts.held > 0 {
        let of = [head.workflow.get()];
        facts.held_mail = head.tx.prepare_cached(HELD_MAIL)?.query_row(of, |row| row.get(0))?;
    }
    if facts.waking > 0 && facts.attempts == 0 {
        facts.all_wait_until = all_wait_until(head, live)?;
    }
    Ok(facts)
}

pub(super) const HELD_MAIL: &str = "SELECT count(*) FROM agent a CROSS JOIN delivery d INDEXED BY delivery_open
        WHERE a.workflow = ?1 AND a.stopped IS NULL AND a.live IS NOT NULL AND EXISTS (
          SELECT 1 FROM approval p INDEXED BY approval_unused WHERE p.workflow = ?1 AND p.agent = a.name
          AND p.used IS NULL AND p.epoch = a.epoch AND p.answer IS NULL AND p.holds = 1)
        AND d.workflow = ?1 AND d.state IN (0, 1) AND d.state <= 2 AND d.agent = a.name AND d.wakes = 1";

pub(super) const ALL_WAIT_UNTIL: &str = "SELECT iif(count(*) = count(a.not_before), min(a.not_before), NULL) FROM agent a
        WHERE a.workflow = ?1 AND a.run = ?2 AND a.stopped IS NULL AND EXISTS (
          SELECT 1 FROM delivery d INDEXED BY delivery_open
          WHERE d.workflow = ?1 AND d.state = 0 AND d.state <= 2 AND d.agent = a.name AND d.wakes = 1)";

/// The earliest instant any agent with waking mail waits for, when none of them is free now.
fn all_wait_until(head: &Head<'_>, live: &LiveRun) -> Result<Option<StoreTime>> {
    Ok(head
        .tx
        .prepare_cached(ALL_WAIT_UNTIL)?
        .query_row([head.workflow.get(), live.number.0], |row| {
            columns::if_any(row, 0, columns::store_time)
        })?)
}

/// Shuts out every live attempt, drops what is open, lets go of the instance.
fn end(
    head: &mut Head<'_>,
    live: &LiveRun,
    outcome: Outcome,
    why: &str,
    error: Option<&RunError>,
    now: Now,
) -> Result<()> {
    proposals::close(head, why, now)?;
    for (agent, attempt) in shut_out(head, now)? {
        let end = AttemptEnd::Stopped;
        let entry = Entry::of(EventKind::AttemptEnded).agent(&agent).attempt(attempt);
        let entry = entry.cause(end.to_string()).data(serde_json::to_value(&end)?);
        head.event(&entry, now)?;
    }
    let dropped = drop_open(head, why)?;
    for (seq, agent) in &dropped {
        let entry = Entry::of(EventKind::DeliveryDropped).agent(agent).seq(*seq);
        head.event(&entry.cause(why.to_owned()).data(json!({ "seq": seq })), now)?;
    }
    for agent in dropped.iter().map(|(_, agent)| agent).collect::<BTreeSet<_>>() {
        effects::clear_unless_open(head.tx, head.workflow, agent)?;
    }
    if let Some(error) = error {
        let error = serde_json::to_string(error)?;
        runs::set(head.tx, (head.workflow, live.number), "error", Some(&error))?;
    }
    let state = RunState::Ended { outcome };
    let mut data = serde_json::to_value(&state)?;
    if let Some(error) = error {
        data["error"] = serde_json::to_value(error)?;
    }
    let entry = Entry::of(EventKind::RunEnded).cause(why.to_owned()).data(data);
    head.event(&entry, now)?;
    head.enter(state, now)
}

/// Ends every live attempt: with none in hand, its agent's fence no longer passes.
fn shut_out(head: &Head<'_>, now: Now) -> Result<Vec<(AgentName, AttemptId)>> {
    let attempts = head
        .tx
        .prepare_cached("SELECT name, live FROM agent WHERE workflow = ?1 AND live IS NOT NULL")?
        .query_map([head.workflow.get()], |row| {
            Ok((columns::parsed(row, 0)?, columns::attempt_id(row, 1)?))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let how = serde_json::to_string(&AttemptEnd::Stopped)?;
    for (_, attempt) in &attempts {
        attempts::update(head.tx, *attempt, || {
            head.tx
                .prepare_cached(
                    "UPDATE attempt SET ended = ?2, how = ?3, store_ended = ?4 WHERE id = ?1",
                )?
                .execute(params![attempt.get().as_bytes(), now.wall.get(), how, now.store.get()])?;
            Ok(())
        })?;
    }
    head.tx
        .prepare_cached(
            "UPDATE agent SET live = NULL, live_since = NULL, not_before = NULL, wait = NULL, why = NULL
             WHERE workflow = ?1",
        )?
        .execute([head.workflow.get()])?;
    Ok(attempts)
}

pub(super) const DROP_OPEN: &str =
    "UPDATE delivery INDEXED BY delivery_open SET state = 4, why = ?2
        WHERE workflow = ?1 AND state IN (0, 1) AND state <= 2 RETURNING seq, agent";

const DROP_OPEN_OF: &str = "UPDATE delivery INDEXED BY delivery_open SET state = 4, why = ?3
        WHERE workflow = ?1 AND state IN (0, 1) AND state <= 2 AND agent = ?2 RETURNING seq";

/// Drops what is pending for one agent.
pub(super) fn drop_open_of(head: &Head<'_>, agent: &AgentName, why: &str) -> Result<Vec<Seq>> {
    let mut dropped = head
        .tx
        .prepare_cached(DROP_OPEN_OF)?
        .query_map(params![head.workflow.get(), agent.as_str(), why], |row| columns::seq(row, 0))?
        .collect::<rusqlite::Result<Vec<Seq>>>()?;
    dropped.sort();
    Ok(dropped)
}

/// Drops what is pending or leased, in the order in which it was written. Dead letters stay dead.
fn drop_open(head: &Head<'_>, why: &str) -> Result<Vec<(Seq, AgentName)>> {
    let mut dropped = head
        .tx
        .prepare_cached(DROP_OPEN)?
        .query_map(params![head.workflow.get(), why], |row| {
            Ok((columns::seq(row, 0)?, columns::parsed(row, 1)?))
        })?
        .collect::<rusqlite::Result<Vec<(Seq, AgentName)>>>()?;
    dropped.sort();
    Ok(dropped)
}
