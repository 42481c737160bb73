//! What a binding decision changes, in the step that makes it: a role, whose work a message is, a gate.

use agent_worker_protocol::{
    APPROVE, AgentName, DeliveryState, Proposal, ProposalState, RunId, Seq, Terms,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::{columns, head::Head, notices, roles};
use crate::{
    error::{Error, Result},
    time::Now,
};

/// What was done.
#[derive(Default)]
pub(super) struct Bound {
    /// In words.
    pub(super) effect: Option<String>,
    /// Who has to be told, beside whoever made the proposal.
    pub(super) wakes: Option<AgentName>,
}

impl Bound {
    fn to(effect: String) -> Self {
        Self { effect: Some(effect), wakes: None }
    }
}

/// Carries out what a proposal that ends like this binds.
pub(super) fn enforce(
    head: &mut Head<'_>,
    proposal: &Proposal,
    state: &ProposalState,
    now: Now,
) -> Result<Bound> {
    let Terms { binding, role, work, gate, .. } = &proposal.terms;
    let (true, Some(decided)) = (*binding, state.decided()) else { return Ok(Bound::default()) };
    if let Some(gate) = gate {
        return open_gate(head, proposal, state, gate);
    }
    if role.is_none() && work.is_none() {
        return Ok(Bound::default());
    }
    let chosen = decided.parse().ok().map(|name: AgentName| head.agent(&name)).transpose();
    let chosen = match chosen {
        Ok(Some(chosen)) => chosen,
        Ok(None) | Err(Error::NotFound(_)) => {
            return Ok(Bound::to(format!("{decided} takes no part any more: nothing was changed")));
        }
        Err(error) => return Err(error),
    };
    if let Some(role) = role {
        roles::give(head, *role, &chosen)?;
        return Ok(Bound::to(format!("{chosen} is {role}")));
    }
    match work {
        Some(seq) => assign(head, *seq, chosen, now),
        None => Ok(Bound::default()),
    }
}

/// Only a vote opens a gate: one whose time was up keeps it shut, whatever its fallback.
fn open_gate(
    head: &Head<'_>,
    proposal: &Proposal,
    state: &ProposalState,
    gate: &str,
) -> Result<Bound> {
    let approved =
        matches!(state, ProposalState::Resolved { .. }) && state.decided() == Some(APPROVE);
    if !approved {
        return Ok(Bound::to(format!("gate {gate} stays as it was")));
    }
    let run = head.live()?.number;
    head.tx
        .prepare_cached(
            "INSERT OR IGNORE INTO gate (workflow, run, name, proposal) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![head.workflow.get(), run.0, gate, proposal.id.get()])?;
    Ok(Bound::to(format!("gate {gate} is open")))
}

/// The gates of a run that are open.
pub(super) fn gates(db: &Connection, run: RunId) -> Result<Vec<String>> {
    let sql = "SELECT g.name FROM gate g JOIN run r ON r.workflow = g.workflow AND r.id = g.run
        WHERE r.uuid = ?1 ORDER BY g.name";
    let gates = db
        .prepare_cached(sql)?
        .query_map([run.get().as_bytes()], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(gates)
}

/// Makes a message the work of one agent. What somebody works on already is finished by them.
fn assign(head: &mut Head<'_>, work: Seq, winner: AgentName, now: Now) -> Result<Bound> {
    let why = format!("assigned to {winner}");
    notices::spare(head, work, Some(&winner), &why, now)?;
    let effect = format!("message #{work} is {winner}'s");
    let key = params![head.workflow.get(), work.get(), winner.as_str()];
    let before = head
        .tx
        .prepare_cached(
            "SELECT state FROM delivery WHERE workflow = ?1 AND seq = ?2 AND agent = ?3",
        )?
        .query_row(key, |row| columns::delivery(row, 0))
        .optional()?;
    match before {
        // It was shown the message, or is being shown it, before it was its own: it is told.
        Some(DeliveryState::Leased | DeliveryState::Acted) => {
            return Ok(Bound { effect: Some(effect), wakes: Some(winner) });
        }
        None | Some(DeliveryState::Pending | DeliveryState::Dead | DeliveryState::Dropped) => {}
    }
    let run = head.live()?.number;
    let given = head
        .tx
        .prepare_cached(
            "INSERT INTO delivery (workflow, seq, agent, run, wakes, alone, prio)
             SELECT ?1, ?2, ?3, ?4, 1, 0, priority FROM message WHERE workflow = ?1 AND seq = ?2
             ON CONFLICT (workflow, seq, agent) DO UPDATE SET state = 0, run = ?4, wakes = 1,
             failures = 0, uncounted = 0, epoch = NULL, why = NULL",
        )?
        .execute(params![head.workflow.get(), work.get(), winner.as_str(), run.0])?;
    if given == 0 {
        return Ok(Bound::to(format!("message #{work} is not there any more")));
    }
    Ok(Bound::to(effect))
}
