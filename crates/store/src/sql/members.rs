//! A person's actions on an agent of a live run: add, stop, resume, remove.

use agent_worker_protocol::{AgentName, DeliveryData, EventBody, RunId, Sender, WorkflowId};

use super::{
    effects, effects::once, events::EventEntry, grants, locked_instance::LockedInstance, roles,
    run_settlement, spend_slots, transaction::Tx,
};
use crate::{
    db::{OptionalExtension, params},
    error::{Error, Result},
    model::{NewAgent, Once, WriteContext},
    time::Now,
};

/// Adds an agent. If it took part before, its epoch continues.
pub(crate) fn add(
    tx: &Tx<'_>,
    by: &WriteContext,
    run: RunId,
    new: &NewAgent,
    now: Now,
) -> Result<AgentName> {
    let (locked, number) = LockedInstance::lock_run(tx, run)?;
    once(locked, by, now, |locked, author| {
        if locked.live_run()?.number != number {
            return Err(Error::NoRun);
        }
        let values = params![
            locked.workflow.get(),
            new.name.as_str(),
            number.0,
            new.settings,
            now.wall.get(),
            now.store.get()
        ];
        let added = tx
            .prepare_cached(
                "INSERT INTO agent (workflow, name, run, place, settings, since, store_since)
                 SELECT ?1, ?2, ?3, 1 + coalesce(max(place), -1), ?4, ?5, ?6 FROM agent WHERE workflow = ?1 AND run = ?3
                 ON CONFLICT (workflow, name) DO UPDATE SET name = excluded.name, run = excluded.run,
                 place = excluded.place, settings = excluded.settings, since = excluded.since,
                 store_since = excluded.store_since, live = NULL, live_since = NULL,
                 stopped = NULL, not_before = NULL, wait = NULL, why = NULL, turns = 0, messages = 0,
                 input_tokens = 0, output_tokens = 0, cost_micros = NULL, cost_how = 0, session = NULL WHERE agent.run <> excluded.run",
            )?
            .execute_counted(values)?;
        if added == 0 {
            return Err(Error::Exists("agent"));
        }
        spend_slots::reset(tx, locked.workflow, new.name.as_str())?;
        let entry = EventEntry::new(EventBody::AgentAdded).agent(&new.name).by(&author.sender());
        locked.append_event(&entry, now)?;
        Ok(new.name.clone())
    })
    .map(Once::value)
}

pub(crate) fn stop(
    tx: &Tx<'_>,
    by: &WriteContext,
    workflow: WorkflowId,
    agent: &AgentName,
    why: &str,
    now: Now,
) -> Result<()> {
    once(LockedInstance::lock(tx, workflow)?, by, now, |locked, author| {
        let name = locked.find_agent(agent)?;
        mark_stopped(locked, &name, why, &author.sender(), now)
    })
    .map(drop)
}

/// Stops an agent and appends the event: it is woken no more.
pub(crate) fn mark_stopped(
    locked: &mut LockedInstance<'_>,
    agent: &AgentName,
    why: &str,
    by: &Sender,
    now: Now,
) -> Result<()> {
    locked
        .tx
        .prepare_cached(
            "UPDATE agent SET since = CASE WHEN stopped IS NULL THEN ?4 ELSE since END,
             store_since = CASE WHEN stopped IS NULL THEN ?5 ELSE store_since END,
             stopped = ?3 WHERE workflow = ?1 AND name = ?2",
        )?
        .execute(params![
            locked.workflow.get(),
            agent.as_str(),
            why,
            now.wall.get(),
            now.store.get()
        ])?;
    let entry = EventEntry::new(EventBody::AgentStopped).agent(agent).cause(why.to_owned());
    locked.append_event(&entry.by(by), now)
}

/// Resumes a stopped agent; one in backoff or with a rate limit waits no longer.
pub(crate) fn resume(
    tx: &Tx<'_>,
    by: &WriteContext,
    workflow: WorkflowId,
    agent: &AgentName,
    now: Now,
) -> Result<()> {
    once(LockedInstance::lock(tx, workflow)?, by, now, |locked, author| {
        let name = locked.find_agent(agent)?;
        let is_stopped = tx
            .prepare_cached(
                "SELECT 1 FROM agent WHERE workflow = ?1 AND name = ?2 AND stopped IS NOT NULL",
            )?
            .exists(params![workflow.get(), name.as_str()])?;
        if is_stopped {
            spend_slots::reset(tx, workflow, name.as_str())?;
        }
        tx.prepare_cached(
            "UPDATE agent SET since = CASE WHEN stopped IS NOT NULL OR not_before > ?4 THEN ?3 ELSE since END,
             store_since = CASE WHEN stopped IS NOT NULL OR not_before > ?4 THEN ?4 ELSE store_since END,
             stopped = NULL, not_before = NULL, wait = NULL, why = NULL WHERE workflow = ?1 AND name = ?2",
        )?
        .execute(params![workflow.get(), name.as_str(), now.wall.get(), now.store.get()])?;
        let entry = EventEntry::new(EventBody::AgentResumed).agent(&name).by(&author.sender());
        locked.append_event(&entry, now)
    })
    .map(drop)
}

/// Replaces the settings of an agent whose script changed.
pub(crate) fn set_mock(
    tx: &Tx<'_>,
    by: &WriteContext,
    workflow: WorkflowId,
    agent: &NewAgent,
    now: Now,
) -> Result<()> {
    once(LockedInstance::lock(tx, workflow)?, by, now, |locked, author| {
        let name = locked.find_agent(&agent.name)?;
        tx.prepare_cached("UPDATE agent SET settings = ?3 WHERE workflow = ?1 AND name = ?2")?
            .execute(params![workflow.get(), name.as_str(), agent.settings])?;
        let entry = EventEntry::new(EventBody::AgentMockChanged).agent(&name).by(&author.sender());
        locked.append_event(&entry, now)
    })
    .map(drop)
}

/// Removes an agent from the run. Its row stays, without a run, for its epoch.
pub(crate) fn remove(
    tx: &Tx<'_>,
    by: &WriteContext,
    workflow: WorkflowId,
    agent: &AgentName,
    now: Now,
) -> Result<()> {
    once(LockedInstance::lock(tx, workflow)?, by, now, |locked, author| {
        let name = locked.find_agent(agent)?;
        let busy = tx
            .prepare_cached(
                "SELECT 1 FROM agent WHERE workflow = ?1 AND name = ?2 AND live IS NOT NULL",
            )?
            .query_row(params![workflow.get(), name.as_str()], |_| Ok(()))
            .optional()?;
        if busy.is_some() {
            return Err(Error::AgentBusy);
        }
        let why = format!("{name} was removed");
        for seq in run_settlement::drop_open_deliveries_of(locked, &name, &why)? {
            let body = EventBody::DeliveryDropped(DeliveryData { seq });
            let entry = EventEntry::new(body).agent(&name).cause(why.clone());
            locked.append_event(&entry, now)?;
        }
        effects::clear_if_settled(tx, workflow, &name)?;
        tx.prepare_cached("UPDATE agent SET run = 0 WHERE workflow = ?1 AND name = ?2")?
            .execute(params![workflow.get(), name.as_str()])?;
        roles::remove_roles(locked, &name)?;
        grants::revoke_all_of(locked, &name, &author.sender(), now)?;
        let entry = EventEntry::new(EventBody::AgentRemoved).agent(&name).by(&author.sender());
        locked.append_event(&entry, now)
    })
    .map(drop)
}
