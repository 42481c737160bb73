//! Inboxes: what waits for an agent, what an attempt was shown of it, and what joins its turn.

use agent_worker_protocol::{AgentName, Seq, WorkflowId};
use rusqlite::{Connection, params};

use super::{
    attempts,
    author::Live,
    checksum::RunIds,
    columns,
    head::Head,
    messages::{self, COLUMNS_READ},
    writer::Tx,
};
use crate::{
    damage,
    error::Result,
    model::{Fence, ShownMessage},
};

pub(super) fn pending(
    db: &Connection,
    workflow: WorkflowId,
    agent: &AgentName,
    limit: u32,
) -> Result<Vec<ShownMessage>> {
    let mut mail = pending_of(db, workflow, agent, Which::All, limit)?;
    messages::recipients(db, workflow, mail.iter_mut().map(|shown| &mut shown.message))?;
    Ok(mail)
}

/// Which of an agent's pending mail.
#[derive(Clone, Copy)]
pub(super) enum Which {
    All,
    One(Seq),
    /// What need not be tried by itself.
    NotAlone,
}

/// Reads pending mail in the order of an inbox: waking first, urgent first, then by age.
/// Whom each message went to is not filled in.
pub(super) fn pending_of(
    db: &Connection,
    workflow: WorkflowId,
    agent: &AgentName,
    which: Which,
    limit: u32,
) -> Result<Vec<ShownMessage>> {
    let seq = match which {
        Which::All | Which::NotAlone => None,
        Which::One(seq) => Some(seq.get()),
    };
    let runs = RunIds::of(db);
    let mut statement = db.prepare_cached(&pending_sql(which))?;
    let mail = statement.query_map(params![workflow.get(), agent.as_str(), limit, seq], |row| {
        Ok(ShownMessage { message: messages::message(row, &runs)?, wakes: row.get(COLUMNS_READ)? })
    })?;
    match which {
        Which::All | Which::NotAlone => damage::intact(mail),
        Which::One(_) => Ok(mail.collect::<rusqlite::Result<_>>()?),
    }
}

pub(super) fn pending_sql(which: Which) -> String {
    let (index, condition) = match which {
        Which::All => ("INDEXED BY delivery_open", "?4 IS NULL"),
        Which::One(_) => ("NOT INDEXED", "d.seq = ?4"),
        Which::NotAlone => ("INDEXED BY delivery_open", "d.alone = 0 AND ?4 IS NULL"),
    };
    format!(
        "SELECT {}, d.wakes FROM delivery d {index}
         JOIN message m ON m.workflow = d.workflow AND m.seq = d.seq
         WHERE d.workflow = ?1 AND d.state = 0 AND d.state <= 2 AND d.agent = ?2 AND {condition}
         ORDER BY d.wakes DESC, d.prio DESC, d.seq LIMIT ?3",
        messages::columns_read()
    )
}

/// Reads an attempt's inbox and remembers what it was shown: on the deliveries, so that it may ack them, and on the
/// attempt, whose journal goes to whoever is shown the same again.
pub(super) fn show(tx: &Tx<'_>, fence: &Fence, limit: u32) -> Result<Vec<ShownMessage>> {
    let head = Head::lock(tx, fence.workflow)?;
    let live = Live::pass(tx, fence)?;
    let mail = pending(tx, fence.workflow, &live.agent, limit)?;
    let mut mark = tx.prepare_cached(
        "UPDATE delivery SET shown = ?4, first_epoch = coalesce(first_epoch, ?4)
         WHERE workflow = ?1 AND seq = ?2 AND agent = ?3",
    )?;
    for shown in &mail {
        mark.execute(params![
            fence.workflow.get(),
            shown.message.seq.get(),
            live.agent.as_str(),
            fence.epoch.get()
        ])?;
    }
    let mut list = attempts::get(tx, live.id)?.shown;
    for shown in &mail {
        let entry = (shown.message.seq, shown.message.hops);
        if !list.contains(&entry) {
            list.push(entry);
        }
    }
    attempts::update(tx, live.id, || {
        tx.prepare_cached("UPDATE attempt SET shown = ?2 WHERE id = ?1")?
            .execute(params![live.id.get().as_bytes(), serde_json::to_string(&list)?])?;
        Ok(())
    })?;
    head.save()?;
    Ok(mail)
}

pub(super) const ACK: &str =
    "UPDATE delivery INDEXED BY delivery_open SET state = 1, epoch = ?3, joined = 1
        WHERE workflow = ?1 AND state = 0 AND state <= 2 AND agent = ?2 AND shown = ?3 AND seq <= ?4
        RETURNING seq";

/// Leases shown mail to the attempt that was shown it: acted when it succeeds, pending again when not.
pub(super) fn ack(tx: &Tx<'_>, fence: &Fence, until: Seq) -> Result<Vec<Seq>> {
    let head = Head::lock(tx, fence.workflow)?;
    let live = Live::pass(tx, fence)?;
    let mut joined = tx
        .prepare_cached(ACK)?
        .query_map(
            params![fence.workflow.get(), live.agent.as_str(), fence.epoch.get(), until.get()],
            |row| columns::seq(row, 0),
        )?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    joined.sort();
    head.save()?;
    Ok(joined)
}
