//! A person's actions on a delivery: redrive a dead letter, drop a delivery.

use agent_worker_protocol::{AgentName, DeliveryData, DeliveryState, EventBody, Seq, WorkflowId};

use super::{
    columns::{self, RunNo},
    delivery_states::{self, delivery_sql},
    effects::{self, once},
    events::EventEntry,
    locked_instance::LockedInstance,
    transaction::Tx,
};
use crate::{
    db::{self, OptionalExtension, params},
    error::{Error, Result},
    model::WriteContext,
    time::Now,
};

/// The state of a stored delivery.
struct DeliveryRecord {
    agent: AgentName,
    state: DeliveryState,
    run: RunNo,
}

/// Makes a dead letter pending again, alone, with its counts reset. It belongs to the live run from then on.
pub(crate) fn redrive(
    tx: &Tx<'_>,
    by: &WriteContext,
    workflow: WorkflowId,
    agent: &AgentName,
    seq: Seq,
    now: Now,
) -> Result<()> {
    once(LockedInstance::lock(tx, workflow)?, by, now, |locked, author| {
        let run = locked.live_run()?.number;
        let found = find_delivery(locked, agent, seq)?;
        if found.state != DeliveryState::Dead {
            return Err(Error::WrongDeliveryState(found.state));
        }
        let name = locked.find_agent(agent)?;
        tx.prepare_cached(
            delivery_sql!("UPDATE delivery SET state = " PENDING ", run = ?4, agent = ?3, alone = 1, failures = 0, uncounted = 0, epoch = NULL, why = NULL
             WHERE workflow = ?1 AND seq = ?2 AND agent = ?3"),
        )?
        .execute(params![workflow.get(), seq.get(), name.as_str(), run.0])?;
        let body = EventBody::DeliveryPending(DeliveryData { seq });
        let entry = EventEntry::new(body).agent(&name).by(&author.sender());
        locked.append_event(&entry, now)
    })
    .map(drop)
}

/// Drops a delivery that no attempt works on.
pub(crate) fn drop_delivery(
    tx: &Tx<'_>,
    by: &WriteContext,
    workflow: WorkflowId,
    agent: &AgentName,
    seq: Seq,
    why: &str,
    now: Now,
) -> Result<()> {
    once(LockedInstance::lock(tx, workflow)?, by, now, |locked, author| {
        let found = find_delivery(locked, agent, seq)?;
        match found.state {
            DeliveryState::Pending | DeliveryState::Dead => {}
            DeliveryState::Leased | DeliveryState::Acted | DeliveryState::Dropped => {
                return Err(Error::WrongDeliveryState(found.state));
            }
        }
        let because = format!("{why} by {}", author.sender());
        tx.prepare_cached(
            delivery_sql!("UPDATE delivery SET state = " DROPPED ", why = ?4 WHERE workflow = ?1 AND seq = ?2 AND agent = ?3"),
        )?
        .execute(params![workflow.get(), seq.get(), found.agent.as_str(), because])?;
        let body = EventBody::DeliveryDropped(DeliveryData { seq });
        let entry = EventEntry::new(body).run(found.run).agent(&found.agent);
        locked.append_event(&entry.cause(because).by(&author.sender()), now)
    })
    .map(drop)
}

/// Drops the deliveries of a message that no agent acted on, because another message takes its place. They are no failure
/// any more.
pub(crate) fn drop_unanswered(
    locked: &mut LockedInstance<'_>,
    seq: Seq,
    why: &str,
    now: Now,
) -> Result<()> {
    let which = [locked.workflow.get(), seq.get()];
    let is_leased = locked
        .tx
        .prepare_cached(
            delivery_sql!("SELECT 1 FROM delivery WHERE workflow = ?1 AND seq = ?2 AND state = " LEASED),
        )?
        .exists(which)?;
    if is_leased {
        return Err(Error::WrongDeliveryState(DeliveryState::Leased));
    }
    // These were dropped before, with an event.
    locked
        .tx
        .prepare_cached(
            delivery_sql!("UPDATE delivery SET state = " UNNEEDED " WHERE workflow = ?1 AND seq = ?2 AND state = " DROPPED),
        )?
        .execute(which)?;
    let mut dropped = locked
        .tx
        .prepare_cached(
            delivery_sql!("UPDATE delivery SET state = " UNNEEDED ", why = ?3
             WHERE workflow = ?1 AND seq = ?2 AND (state = " PENDING " OR state = " DEAD ") RETURNING agent"),
        )?
        .query_map(params![locked.workflow.get(), seq.get(), why], |row| columns::parse(row, 0))?
        .collect::<db::Result<Vec<AgentName>>>()?;
    dropped.sort();
    for agent in &dropped {
        let entry = EventEntry::new(EventBody::DeliveryDropped(DeliveryData { seq })).agent(agent);
        locked.append_event(&entry.cause(why.to_owned()), now)?;
        effects::clear_if_settled(locked.tx, locked.workflow, agent)?;
    }
    Ok(())
}

fn find_delivery(
    locked: &LockedInstance<'_>,
    agent: &AgentName,
    seq: Seq,
) -> Result<DeliveryRecord> {
    let sql =
        "SELECT agent, state, run FROM delivery WHERE workflow = ?1 AND seq = ?2 AND agent = ?3";
    locked
        .tx
        .prepare_cached(sql)?
        .query_row(params![locked.workflow.get(), seq.get(), agent.as_str()], |row| {
            Ok(DeliveryRecord {
                agent: columns::parse(row, 0)?,
                state: delivery_states::read(row, 1)?,
                run: RunNo(row.get(2)?),
            })
        })
        .optional()?
        .ok_or(Error::NotFound("delivery"))
}
