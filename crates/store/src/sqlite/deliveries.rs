//! What a person does with a delivery: trying a dead letter again, giving one up.

use agent_worker_protocol::{AgentName, DeliveryState, EventKind, Seq, WorkflowId};
use rusqlite::{OptionalExtension, params};

use super::{
    columns::{self, RunNo},
    effects::once,
    events::Entry,
    head::Head,
    writer::Tx,
};
use crate::{
    error::{Error, Result},
    model::By,
    time::Now,
};

/// Where a delivery stands.
struct Standing {
    agent: AgentName,
    state: DeliveryState,
    run: RunNo,
}

/// Makes a dead letter pending again, alone, its counts anew. It belongs to the live run from then on.
pub(super) fn redrive(
    tx: &Tx<'_>,
    by: &By,
    workflow: WorkflowId,
    agent: &AgentName,
    seq: Seq,
    now: Now,
) -> Result<()> {
    once(Head::lock(tx, workflow)?, by, now, |head, author| {
        let run = head.live()?.number;
        let found = find(head, agent, seq)?;
        if found.state != DeliveryState::Dead {
            return Err(Error::WrongState(found.state));
        }
        let name = head.agent(agent)?;
        tx.prepare_cached(
            "UPDATE delivery SET state = 0, run = ?4, agent = ?3, alone = 1, failures = 0, uncounted = 0, epoch = NULL, why = NULL
             WHERE workflow = ?1 AND seq = ?2 AND agent = ?3",
        )?
        .execute(params![workflow.get(), seq.get(), name.as_str(), run.0])?;
        let entry =
            Entry::of(EventKind::DeliveryPending).agent(&name).seq(seq).by(&author.sender());
        head.event(&entry.data(serde_json::json!({ "seq": seq })), now)
    })
    .map(drop)
}

/// Gives up a delivery that nobody is working on.
pub(super) fn give_up(
    tx: &Tx<'_>,
    by: &By,
    workflow: WorkflowId,
    agent: &AgentName,
    seq: Seq,
    why: &str,
    now: Now,
) -> Result<()> {
    once(Head::lock(tx, workflow)?, by, now, |head, author| {
        let found = find(head, agent, seq)?;
        match found.state {
            DeliveryState::Pending | DeliveryState::Dead => {}
            DeliveryState::Leased | DeliveryState::Acted | DeliveryState::Dropped => {
                return Err(Error::WrongState(found.state));
            }
        }
        let because = format!("{why} by {}", author.sender());
        tx.prepare_cached(
            "UPDATE delivery SET state = 4, why = ?4 WHERE workflow = ?1 AND seq = ?2 AND agent = ?3",
        )?
        .execute(params![workflow.get(), seq.get(), found.agent.as_str(), because])?;
        let entry = Entry::of(EventKind::DeliveryDropped).run(found.run).agent(&found.agent);
        let entry = entry.seq(seq).cause(because).by(&author.sender());
        head.event(&entry.data(serde_json::json!({ "seq": seq })), now)
    })
    .map(drop)
}

fn find(head: &Head<'_>, agent: &AgentName, seq: Seq) -> Result<Standing> {
    let sql =
        "SELECT agent, state, run FROM delivery WHERE workflow = ?1 AND seq = ?2 AND agent = ?3";
    head.tx
        .prepare_cached(sql)?
        .query_row(params![head.workflow.get(), seq.get(), agent.as_str()], |row| {
            Ok(Standing {
                agent: columns::parsed(row, 0)?,
                state: columns::delivery(row, 1)?,
                run: RunNo(row.get(2)?),
            })
        })
        .optional()?
        .ok_or(Error::NotFound("delivery"))
}
