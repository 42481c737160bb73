//! What a person does with an agent of a live run: letting it join, stopping it, waking it again, letting it go.

use agent_worker_protocol::{AgentName, EventKind, RunId, Sender, WorkflowId};
use rusqlite::{OptionalExtension, params};
use serde_json::json;

use super::{effects, effects::once, events::Entry, head::Head, roles, settle, writer::Tx};
use crate::{
    error::{Error, Result},
    model::{By, NewAgent, Once},
    time::Now,
};

/// Lets an agent join. It may have taken part before: its epoch goes on.
pub(super) fn add(tx: &Tx<'_>, by: &By, run: RunId, new: &NewAgent, now: Now) -> Result<AgentName> {
    let (head, number) = Head::lock_run(tx, run)?;
    once(head, by, now, |head, author| {
        if head.live()?.number != number {
            return Err(Error::NoRun);
        }
        let values = params![
            head.workflow.get(),
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
            .execute(values)?;
        if added == 0 {
            return Err(Error::Exists("agent"));
        }
        let entry = Entry::of(EventKind::AgentAdded).agent(&new.name).by(&author.sender());
        head.event(&entry, now)?;
        Ok(new.name.clone())
    })
    .map(Once::value)
}

pub(super) fn stop(
    tx: &Tx<'_>,
    by: &By,
    workflow: WorkflowId,
    agent: &AgentName,
    why: &str,
    now: Now,
) -> Result<()> {
    once(Head::lock(tx, workflow)?, by, now, |head, author| {
        let name = head.agent(agent)?;
        halt(head, &name, why, &author.sender(), now)
    })
    .map(drop)
}

/// Wakes an agent no more, and says so.
pub(super) fn halt(
    head: &mut Head<'_>,
    agent: &AgentName,
    why: &str,
    by: &Sender,
    now: Now,
) -> Result<()> {
    head.tx
        .prepare_cached(
            "UPDATE agent SET since = iif(stopped IS NULL, ?4, since), store_since = iif(stopped IS NULL, ?5, store_since),
             stopped = ?3 WHERE workflow = ?1 AND name = ?2",
        )?
        .execute(params![
            head.workflow.get(),
            agent.as_str(),
            why,
            now.wall.get(),
            now.store.get()
        ])?;
    let entry = Entry::of(EventKind::AgentStopped).agent(agent).cause(why.to_owned());
    head.event(&entry.by(by), now)
}

/// Wakes a stopped agent again; one that backs off or is parked need not wait any longer.
pub(super) fn resume(
    tx: &Tx<'_>,
    by: &By,
    workflow: WorkflowId,
    agent: &AgentName,
    now: Now,
) -> Result<()> {
    once(Head::lock(tx, workflow)?, by, now, |head, author| {
        let name = head.agent(agent)?;
        tx.prepare_cached(
            "UPDATE agent SET since = iif(stopped IS NOT NULL OR not_before > ?4, ?3, since),
             store_since = iif(stopped IS NOT NULL OR not_before > ?4, ?4, store_since),
             stopped = NULL, not_before = NULL, wait = NULL, why = NULL WHERE workflow = ?1 AND name = ?2",
        )?
        .execute(params![workflow.get(), name.as_str(), now.wall.get(), now.store.get()])?;
        let entry = Entry::of(EventKind::AgentResumed).agent(&name).by(&author.sender());
        head.event(&entry, now)
    })
    .map(drop)
}

/// Takes an agent out of the run. Its row stays, of no run, for its epoch.
pub(super) fn remove(
    tx: &Tx<'_>,
    by: &By,
    workflow: WorkflowId,
    agent: &AgentName,
    now: Now,
) -> Result<()> {
    once(Head::lock(tx, workflow)?, by, now, |head, author| {
        let name = head.agent(agent)?;
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
        for seq in settle::drop_open_of(head, &name, &why)? {
            let entry = Entry::of(EventKind::DeliveryDropped).agent(&name).seq(seq);
            head.event(&entry.cause(why.clone()).data(json!({ "seq": seq })), now)?;
        }
        effects::clear_unless_open(tx, workflow, &name)?;
        tx.prepare_cached("UPDATE agent SET run = 0 WHERE workflow = ?1 AND name = ?2")?
            .execute(params![workflow.get(), name.as_str()])?;
        roles::leave(head, &name)?;
        let entry = Entry::of(EventKind::AgentRemoved).agent(&name).by(&author.sender());
        head.event(&entry, now)
    })
    .map(drop)
}
