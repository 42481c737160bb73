//! Runs: created, started, read. `run_settlement` decides about them.

use std::cmp::Reverse;

use agent_worker_protocol::{
    EventBody, InstanceRef, Keyword as _, Limits, ProposalId, Receipt, RunElectingData, RunId,
    RunRunningData, RunSetupData, RunState, Sender, WorkflowId,
};
use serde::{Deserialize, Serialize};

use super::{
    author::Author,
    checksum::RUN,
    columns::{self, RunNo},
    delivery_states::delivery_sql,
    effects::once,
    events::EventEntry,
    locked_instance::LockedInstance,
    messages, proposals, roles,
    transaction::Tx,
};
use crate::{
    damage::{self, ListPart},
    db::{self, Connection, OptionalExtension, Params, Row, params},
    error::{Error, Result},
    model::{
        ListRange, NewMessage, NewProposal, NewRun, RunBlockers, RunKey, RunQuery, RunRow,
        WriteContext,
    },
    time::Now,
};

/// Continues a paused run, within these limits.
pub(crate) fn resume(
    tx: &Tx<'_>,
    by: &WriteContext,
    run: RunId,
    limits: &Limits,
    now: Now,
) -> Result<()> {
    let (locked, number) = LockedInstance::lock_run(tx, run)?;
    once(locked, by, now, |locked, author| {
        let live = locked.live_run()?;
        match &live.state {
            RunState::Paused { .. } if live.number == number => {}
            _ if live.number != number => return Err(Error::NoRun),
            other => return Err(Error::WrongRunState(other.clone())),
        }
        let limits = serde_json::to_string(limits)?;
        set_text_column(tx, (locked.workflow, number), "limits", Some(&limits))?;
        continue_run(locked, &author.sender(), now)
    })
    .map(drop)
}

/// Sets one text column of a run.
pub(crate) fn set_text_column(
    tx: &Tx<'_>,
    (workflow, run): (WorkflowId, RunNo),
    column: &'static str,
    text: Option<&str>,
) -> Result<()> {
    let key = params![workflow.get(), run.0];
    RUN.update(tx, "r.workflow = ?1 AND r.id = ?2", key, || {
        tx.prepare_cached(&format!(
            "UPDATE run SET {column} = ?3 WHERE workflow = ?1 AND id = ?2"
        ))?
        .execute(params![workflow.get(), run.0, text])?;
        Ok(())
    })
}

pub(crate) fn create(tx: &Tx<'_>, workflow: WorkflowId, new: &NewRun, now: Now) -> Result<()> {
    let mut locked = LockedInstance::lock(tx, workflow)?;
    if let Some(live) = locked.live_run_if_any() {
        return Err(Error::RunLive(live.id));
    }
    let (state, detail) = columns::state_columns(&RunState::Setup)?;
    let run = locked.start_run(new.id, |number, after| {
        tx.prepare_cached(
            "INSERT INTO run (workflow, id, uuid, mode, state, detail, limits, keep, started, since, after_seq, script,
             store_started, store_since, counting_since, uuid_checksum, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11, ?12, ?12, ?12, row_checksum('run', ?1, ?2, ?3),
             row_checksum('run', ?1, ?2, ?3, row_checksum('run', ?1, ?2, ?3), ?4, ?8, ?9, ?10, ?11, ?7, NULL, NULL))",
        )?
        .execute(params![
            workflow.get(),
            number.0,
            new.id.get().as_bytes(),
            new.mode.word(),
            state,
            detail,
            serde_json::to_string(&new.limits)?,
            new.retention.word(),
            now.wall.get(),
            after.get(),
            new.script,
            now.store.get()
        ])?;
        Ok(())
    })?;
    set_participants(tx, workflow, run, new, now)?;
    for (role, agent) in &new.roles {
        roles::assign_role(&locked, *role, agent)?;
    }
    let body = EventBody::RunSetup(RunSetupData { mode: new.mode });
    locked.append_event(&EventEntry::new(body), now)?;
    locked.save()
}

/// Makes exactly these agents the participants. A former participant stays a row of an older run, for its epoch.
fn set_participants(
    tx: &Tx<'_>,
    workflow: WorkflowId,
    run: RunNo,
    new: &NewRun,
    now: Now,
) -> Result<()> {
    for (place, agent) in (0_i64..).zip(&new.agents) {
        tx.prepare_cached(
            "INSERT INTO agent (workflow, name, run, place, settings, since, store_since) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (workflow, name) DO UPDATE SET name = excluded.name, run = excluded.run,
             place = excluded.place, settings = excluded.settings, since = excluded.since,
             store_since = excluded.store_since, live = NULL, live_since = NULL, stopped = NULL, not_before = NULL, wait = NULL, why = NULL, turns = 0, messages = 0,
             input_tokens = 0, output_tokens = 0, cost_micros = NULL, cost_how = 0, session = NULL",
        )?
        .execute(params![
            workflow.get(),
            agent.name.as_str(),
            run.0,
            place,
            agent.settings,
            now.wall.get(),
            now.store.get()
        ])?;
    }
    Ok(())
}

/// Locks the instance of a run and returns it if the run is still in setup.
fn lock_run_in_setup<'a>(tx: &'a Tx<'a>, run: RunId) -> Result<Option<LockedInstance<'a>>> {
    let (locked, number) = LockedInstance::lock_run(tx, run)?;
    let live = locked.live_run()?;
    if live.number != number {
        return Err(Error::NoRun);
    }
    let is_setup = live.state == RunState::Setup;
    Ok(is_setup.then_some(locked))
}

/// Starts a run that is in setup. A started run stays as it is, so that a daemon killed right after the commit may
/// repeat the call without a second kickoff.
pub(crate) fn start(tx: &Tx<'_>, run: RunId, kickoff: Option<&NewMessage>, now: Now) -> Result<()> {
    let Some(mut locked) = lock_run_in_setup(tx, run)? else { return Ok(()) };
    locked.set_run_state(RunState::Running, now)?;
    locked.append_event(&EventEntry::new(EventBody::RunRunning(RunRunningData {})), now)?;
    if let Some(kickoff) = kickoff {
        locked.append_message(&Author::Other(Sender::User), kickoff, now)?;
    }
    locked.save()
}

/// A kickoff that waits for the end of an election.
#[derive(Serialize, Deserialize)]
struct PendingKickoff {
    election: ProposalId,
    kickoff: Option<NewMessage>,
}

/// Starts with an election in a run that is in setup; the transaction that ends the election writes the kickoff.
pub(crate) fn start_election(
    tx: &Tx<'_>,
    run: RunId,
    election: &NewProposal,
    kickoff: Option<NewMessage>,
    now: Now,
) -> Result<()> {
    let Some(mut locked) = lock_run_in_setup(tx, run)? else { return Ok(()) };
    locked.set_run_state(RunState::Electing, now)?;
    locked.append_event(&EventEntry::new(EventBody::RunElecting(RunElectingData {})), now)?;
    let election =
        proposals::open_proposal(&mut locked, &Author::Other(Sender::System), election, now)?;
    let waiting = serde_json::to_string(&PendingKickoff { election, kickoff })?;
    set_text_column(tx, (locked.workflow, locked.live_run()?.number), "kickoff", Some(&waiting))?;
    locked.save()
}

/// Writes the kickoff that waited for this proposal, if there is one. A paused run stays paused.
pub(crate) fn write_kickoff(
    locked: &mut LockedInstance<'_>,
    over: ProposalId,
    now: Now,
) -> Result<()> {
    let Some(PendingKickoff { election, kickoff }) = pending_kickoff(locked)? else {
        return Ok(());
    };
    if election != over {
        return Ok(());
    }
    let run = locked.live_run()?.clone();
    set_text_column(locked.tx, (locked.workflow, run.number), "kickoff", None)?;
    if run.state == RunState::Electing {
        locked.set_run_state(RunState::Running, now)?;
        locked.append_event(&EventEntry::new(EventBody::RunRunning(RunRunningData {})), now)?;
    }
    let Some(mut kickoff) = kickoff else { return Ok(()) };
    // Agents that left in the meantime get no delivery.
    let mut recipients = Vec::new();
    for recipient in kickoff.recipients {
        if locked.has_agent(&recipient.agent)? {
            recipients.push(recipient);
        }
    }
    kickoff.recipients = recipients;
    locked.append_message(&Author::Other(Sender::User), &kickoff, now).map(drop)
}

fn pending_kickoff(locked: &LockedInstance<'_>) -> Result<Option<PendingKickoff>> {
    let run = locked.live_run()?.number;
    let sql =
        format!("SELECT r.kickoff, {} FROM run r WHERE r.workflow = ?1 AND r.id = ?2", RUN.check);
    Ok(locked.tx.prepare_cached(&sql)?.query_row([locked.workflow.get(), run.0], |row| {
        RUN.verify(row, 1)?;
        columns::optional(row, 0, columns::json)
    })?)
}

/// Continues a paused run in its former state: with its election, if that is not over.
pub(crate) fn continue_run(locked: &mut LockedInstance<'_>, by: &Sender, now: Now) -> Result<()> {
    let (state, body) = match pending_kickoff(locked)? {
        Some(_) => (RunState::Electing, EventBody::RunElecting(RunElectingData {})),
        None => (RunState::Running, EventBody::RunRunning(RunRunningData {})),
    };
    locked.set_run_state(state, now)?;
    locked.append_event(&EventEntry::new(body).by(by).cause("resumed".to_owned()), now)
}

/// The stopped agents of a run, read with every send to find recipients that will not act on the message.
pub(crate) const STOPPED_AGENTS_SQL: &str = "SELECT name FROM agent INDEXED BY agent_stopped
        WHERE workflow = ?1 AND run = ?2 AND stopped IS NOT NULL ORDER BY place";

pub(crate) fn run_blockers(db: &Connection, run: RunId) -> Result<RunBlockers> {
    let (workflow, number, state) = db
        .prepare_cached("SELECT workflow, id, state, detail FROM run WHERE uuid = ?1")?
        .query_row([run.get().as_bytes()], |row| {
            Ok((row.get::<i64>(0)?, row.get::<i64>(1)?, columns::run_state(row, 2)?))
        })
        .optional()?
        .ok_or(Error::NotFound("run"))?;
    let stopped = db
        .prepare_cached(STOPPED_AGENTS_SQL)?
        .query_map([workflow, number], |row| columns::parse(row, 0))?
        .collect::<db::Result<_>>()?;
    Ok(RunBlockers { state, stopped })
}

fn select_sql(index: &str, condition: &str) -> String {
    format!(
        "SELECT r.uuid, r.workflow, w.name, w.tag, w.project, r.mode, r.state, r.detail, r.error, r.limits, r.script,
    r.keep, r.started, r.ended, r.turns, coalesce(r.last_seq, w.last_seq) - r.after_seq,
    r.since, r.input_tokens, r.output_tokens, r.cost_micros, r.cost_how, {}, r.store_started, r.store_ended,
    r.store_since, r.counted_ms, r.counting_since
    FROM run r {index} JOIN workflow w ON w.id = r.workflow WHERE {condition}",
        RUN.check
    )
}

fn read_run(row: &Row<'_>) -> db::Result<RunRow> {
    RUN.verify(row, 21)?;
    Ok(RunRow {
        id: columns::run_id(row, 0)?,
        workflow: WorkflowId::new(row.get(1)?),
        instance: InstanceRef { name: columns::parse(row, 2)?, tag: columns::parse(row, 3)? },
        project: row.get(4)?,
        mode: columns::word(row, 5)?,
        state: columns::run_state(row, 6)?,
        error: columns::optional(row, 8, columns::json)?,
        limits: columns::json(row, 9)?,
        script: row.get(10)?,
        retention: columns::word(row, 11)?,
        started: columns::millis(row, 12)?,
        ended: columns::optional(row, 13, columns::millis)?,
        turns: row.get(14)?,
        messages: row.get(15)?,
        since: columns::millis(row, 16)?,
        usage: columns::usage(row, 17)?,
        store_started: columns::store_time(row, 22)?,
        store_ended: columns::optional(row, 23, columns::store_time)?,
        store_since: columns::store_time(row, 24)?,
        clock: columns::run_clock(row, 25)?,
    })
}

pub(crate) fn get(db: &Connection, run: RunId) -> Result<RunRow> {
    db.prepare_cached(&select_sql("", "r.uuid = ?1"))?
        .query_row([run.get().as_bytes()], read_run)
        .optional()?
        .ok_or(Error::NotFound("run"))
}

pub(crate) fn list(db: &Connection, which: RunQuery) -> Result<Vec<RunRow>> {
    match which {
        RunQuery::Live => {
            let order = "INDEXED BY run_live";
            select_runs(db, order, "r.ended IS NULL ORDER BY r.started DESC, r.uuid DESC", ())
        }
        // The newest run alone is not treated as a list: if it were skipped as damaged, an older run would take its
        // place, or none.
        RunQuery::OfInstance(workflow, 1) => {
            let sql = select_sql("", "r.workflow = ?1 ORDER BY r.id DESC LIMIT 1");
            let newest =
                db.prepare_cached(&sql)?.query_row([workflow.get()], read_run).optional()?;
            Ok(newest.into_iter().collect())
        }
        RunQuery::OfInstance(workflow, limit) => select_runs(
            db,
            "",
            "r.workflow = ?1 ORDER BY r.id DESC LIMIT ?2",
            params![workflow.get(), limit],
        ),
        RunQuery::Ended(instances, range) => list_ended(db, instances.as_deref(), range),
        RunQuery::EndedSince(time) => {
            let mut statement = db.prepare_cached(&ended_since_sql())?;
            damage::collect_intact(statement.query_map([time.get()], read_run)?)
        }
    }
}

pub(crate) fn ended_since_sql() -> String {
    let condition =
        "r.ended IS NOT NULL AND r.store_ended >= ?1 ORDER BY r.started DESC, r.uuid DESC";
    select_sql("INDEXED BY run_end", condition)
}

/// Lists runs that are over. Each instance is read from its own index, so that the runs of other instances cost
/// nothing; only the runs of the range are read as a whole.
fn list_ended(
    db: &Connection,
    instances: Option<&[WorkflowId]>,
    mut range: ListRange<RunKey>,
) -> Result<Vec<RunRow>> {
    damage::fill_list(range.limit, |missing| {
        range.limit = missing;
        let keys = ended_keys(db, instances, range)?;
        let is_last = keys.len() < missing as usize;
        range.after = keys.last().copied();
        let mut items = Vec::new();
        for key in keys {
            let which = "r.uuid = ?1";
            items.extend(select_runs(db, "", which, [key.run.get().as_bytes()])?);
        }
        Ok(ListPart { items, is_last })
    })
}

pub(crate) const ENDED_SQL: &str = "SELECT r.started, r.uuid FROM run r INDEXED BY run_ended
    WHERE r.ended IS NOT NULL AND r.started <= ?1 AND (r.started < ?1 OR r.uuid < ?2)
    ORDER BY r.started DESC, r.uuid DESC LIMIT ?3";
pub(crate) const ENDED_OF_INSTANCE_SQL: &str = "SELECT r.started, r.uuid FROM run r INDEXED BY run_ended_of_instance
    WHERE r.workflow = ?4 AND r.ended IS NOT NULL AND r.started <= ?1 AND (r.started < ?1 OR r.uuid < ?2)
    ORDER BY r.started DESC, r.uuid DESC LIMIT ?3";

/// Returns the keys of the first runs of a range, newest first.
fn ended_keys(
    db: &Connection,
    instances: Option<&[WorkflowId]>,
    range: ListRange<RunKey>,
) -> Result<Vec<RunKey>> {
    let after = range
        .after
        .map_or((i64::MAX, [u8::MAX; 16]), |key| (key.started.get(), *key.run.get().as_bytes()));
    let read = |row: &Row<'_>| {
        Ok(RunKey { started: columns::millis(row, 0)?, run: columns::run_id(row, 1)? })
    };
    let Some(instances) = instances else {
        let mut statement = db.prepare_cached(ENDED_SQL)?;
        let keys = statement.query_map(params![after.0, after.1, range.limit], read)?;
        return Ok(keys.collect::<db::Result<_>>()?);
    };
    let mut keys = Vec::new();
    for workflow in instances {
        let mut statement = db.prepare_cached(ENDED_OF_INSTANCE_SQL)?;
        let values = params![after.0, after.1, range.limit, workflow.get()];
        for key in statement.query_map(values, read)? {
            keys.push(key?);
        }
    }
    keys.sort_by_key(|key| Reverse((key.started, key.run)));
    keys.truncate(range.limit as usize);
    Ok(keys)
}

fn select_runs(
    db: &Connection,
    index: &str,
    which: &str,
    values: impl Params,
) -> Result<Vec<RunRow>> {
    let mut statement = db.prepare_cached(&select_sql(index, which))?;
    damage::collect_intact(statement.query_map(values, read_run)?)
}

pub(crate) const FAILURES_SQL: &str = delivery_sql!("SELECT d.seq, d.agent, d.state, d.failures, d.why, NULL
        FROM run r CROSS JOIN delivery d INDEXED BY delivery_failed
        WHERE r.uuid = ?1 AND d.workflow = r.workflow AND d.run = r.id AND d.state IN " FAILED "
        ORDER BY d.seq, d.agent");

pub(crate) fn failures(db: &Connection, run: RunId) -> Result<Vec<Receipt>> {
    let known =
        db.prepare_cached("SELECT 1 FROM run WHERE uuid = ?1")?.exists([run.get().as_bytes()])?;
    if !known {
        return Err(Error::NotFound("run"));
    }
    let receipts = db
        .prepare_cached(FAILURES_SQL)?
        .query_map([run.get().as_bytes()], messages::read_receipt)?
        .collect::<db::Result<_>>()?;
    Ok(receipts)
}
