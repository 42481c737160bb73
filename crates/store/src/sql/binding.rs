//! The effects of a binding decision, in the transaction that makes it: a role, the assignment of a message, a gate.

use agent_worker_protocol::{
    APPROVE, AgentName, DeliveryState, Proposal, ProposalState, RunId, Seq, Terms,
};

use super::{
    delivery_states::{self, delivery_sql},
    locked_instance::LockedInstance,
    notices::{self, UnneededBy},
    roles,
};
use crate::{
    db::{self, Connection, OptionalExtension, params},
    error::{Error, Result},
    model::BindingEffect,
    time::Now,
};

/// The change that a decision has made, and the agent that must be notified.
#[derive(Default)]
pub(crate) struct EnforcedDecision {
    pub(crate) effect: Option<BindingEffect>,
    /// An agent that was assigned a message it has been shown before.
    pub(crate) assigned: Option<AgentName>,
}

impl EnforcedDecision {
    fn with_effect(effect: BindingEffect) -> Self {
        Self { effect: Some(effect), assigned: None }
    }
}

/// Applies the binding effect of a proposal that ends like this.
pub(crate) fn enforce_decision(
    locked: &mut LockedInstance<'_>,
    proposal: &Proposal,
    state: &ProposalState,
    now: Now,
) -> Result<EnforcedDecision> {
    let Terms { binding, role, work, gate, .. } = &proposal.terms;
    let (true, Some(decided)) = (*binding, state.decided_option()) else {
        return Ok(EnforcedDecision::default());
    };
    if let Some(gate) = gate {
        return open_gate(locked, proposal, state, gate);
    }
    if role.is_none() && work.is_none() {
        return Ok(EnforcedDecision::default());
    }
    let chosen = decided.parse().ok().map(|name: AgentName| locked.find_agent(&name)).transpose();
    let chosen = match chosen {
        Ok(Some(chosen)) => chosen,
        Ok(None) | Err(Error::NotFound(_)) => {
            return Ok(EnforcedDecision::with_effect(BindingEffect::NoSuchAgent(
                decided.to_owned(),
            )));
        }
        Err(error) => return Err(error),
    };
    if let Some(role) = role {
        roles::assign_role(locked, *role, &chosen)?;
        return Ok(EnforcedDecision::with_effect(BindingEffect::RoleAssigned(chosen, *role)));
    }
    match work {
        Some(seq) => assign_message(locked, *seq, chosen, now),
        None => Ok(EnforcedDecision::default()),
    }
}

/// Opens a gate. Only a vote does: an expired one keeps the gate closed, even with a fallback.
fn open_gate(
    locked: &LockedInstance<'_>,
    proposal: &Proposal,
    state: &ProposalState,
    gate: &str,
) -> Result<EnforcedDecision> {
    let approved =
        matches!(state, ProposalState::Resolved { .. }) && state.decided_option() == Some(APPROVE);
    if !approved {
        return Ok(EnforcedDecision::with_effect(BindingEffect::GateUnchanged(gate.to_owned())));
    }
    let run = locked.live_run()?.number;
    locked
        .tx
        .prepare_cached(
            "INSERT INTO gate (workflow, run, name, proposal) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
        )?
        .execute(params![locked.workflow.get(), run.0, gate, proposal.id.get()])?;
    Ok(EnforcedDecision::with_effect(BindingEffect::GateOpened(gate.to_owned())))
}

/// Lists the open gates of a run.
pub(crate) fn list_open_gates(db: &Connection, run: RunId) -> Result<Vec<String>> {
    let sql = "SELECT g.name FROM gate g JOIN run r ON r.workflow = g.workflow AND r.id = g.run
        WHERE r.uuid = ?1 ORDER BY g.name";
    let gates = db
        .prepare_cached(sql)?
        .query_map([run.get().as_bytes()], |row| row.get(0))?
        .collect::<db::Result<_>>()?;
    Ok(gates)
}

/// Assigns a message to one agent. An agent that works on the message already finishes it.
fn assign_message(
    locked: &mut LockedInstance<'_>,
    work: Seq,
    winner: AgentName,
    now: Now,
) -> Result<EnforcedDecision> {
    let why = format!("assigned to {winner}");
    notices::drop_unneeded(locked, work, UnneededBy::AllExcept(&winner), &why, now)?;
    let effect = BindingEffect::MessageAssigned(work, winner.clone());
    let key = params![locked.workflow.get(), work.get(), winner.as_str()];
    let before = locked
        .tx
        .prepare_cached(
            "SELECT state FROM delivery WHERE workflow = ?1 AND seq = ?2 AND agent = ?3",
        )?
        .query_row(key, |row| delivery_states::read(row, 0))
        .optional()?;
    match before {
        // The agent was shown the message before it was assigned, or is shown it now: it needs a notice.
        Some(DeliveryState::Leased | DeliveryState::Acted) => {
            return Ok(EnforcedDecision { effect: Some(effect), assigned: Some(winner) });
        }
        None | Some(DeliveryState::Pending | DeliveryState::Dead | DeliveryState::Dropped) => {}
    }
    let run = locked.live_run()?.number;
    let given = locked
        .tx
        .prepare_cached(
            delivery_sql!("INSERT INTO delivery (workflow, seq, agent, run, wakes, alone, prio)
             SELECT ?1, ?2, ?3, ?4, 1, 0, priority FROM message WHERE workflow = ?1 AND seq = ?2
             ON CONFLICT (workflow, seq, agent) DO UPDATE SET state = " PENDING ", run = ?4, wakes = 1,
             failures = 0, uncounted = 0, epoch = NULL, why = NULL"),
        )?
        .execute_counted(params![locked.workflow.get(), work.get(), winner.as_str(), run.0])?;
    if given == 0 {
        return Ok(EnforcedDecision::with_effect(BindingEffect::MessageMissing(work)));
    }
    Ok(EnforcedDecision::with_effect(effect))
}
