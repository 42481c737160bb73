//! What a binding decision changes, in the step that makes it: a role, whose work a message is, a gate.

use agent_worker_protocol::{
    APPROVE, AgentName, DeliveryState, Proposal, ProposalState, RunId, Seq, Terms,
};

use super::{
    delivery_states::{self, delivery_sql},
    locked_instance::LockedInstance,
    notices, roles,
};
use crate::{
    db::{self, Connection, OptionalExtension, params},
    error::{Error, Result},
    time::Now,
};

/// What was done.
#[derive(Default)]
pub(crate) struct BindingEffect {
    /// In words.
    pub(crate) effect: Option<String>,
    /// Who has to be told, beside whoever made the proposal.
    pub(crate) wakes: Option<AgentName>,
}

impl BindingEffect {
    fn with_effect(effect: String) -> Self {
        Self { effect: Some(effect), wakes: None }
    }
}

/// Carries out what a proposal that ends like this binds.
pub(crate) fn enforce_decision(
    locked: &mut LockedInstance<'_>,
    proposal: &Proposal,
    state: &ProposalState,
    now: Now,
) -> Result<BindingEffect> {
    let Terms { binding, role, work, gate, .. } = &proposal.terms;
    let (true, Some(decided)) = (*binding, state.decided_option()) else {
        return Ok(BindingEffect::default());
    };
    if let Some(gate) = gate {
        return open_gate(locked, proposal, state, gate);
    }
    if role.is_none() && work.is_none() {
        return Ok(BindingEffect::default());
    }
    let chosen = decided.parse().ok().map(|name: AgentName| locked.find_agent(&name)).transpose();
    let chosen = match chosen {
        Ok(Some(chosen)) => chosen,
        Ok(None) | Err(Error::NotFound(_)) => {
            return Ok(BindingEffect::with_effect(format!(
                "{decided} takes no part any more: nothing was changed"
            )));
        }
        Err(error) => return Err(error),
    };
    if let Some(role) = role {
        roles::assign_role(locked, *role, &chosen)?;
        return Ok(BindingEffect::with_effect(format!("{chosen} is {role}")));
    }
    match work {
        Some(seq) => assign_message(locked, *seq, chosen, now),
        None => Ok(BindingEffect::default()),
    }
}

/// Only a vote opens a gate: one whose time was up keeps it shut, whatever its fallback.
fn open_gate(
    locked: &LockedInstance<'_>,
    proposal: &Proposal,
    state: &ProposalState,
    gate: &str,
) -> Result<BindingEffect> {
    let approved =
        matches!(state, ProposalState::Resolved { .. }) && state.decided_option() == Some(APPROVE);
    if !approved {
        return Ok(BindingEffect::with_effect(format!("gate {gate} stays as it was")));
    }
    let run = locked.live_run()?.number;
    locked
        .tx
        .prepare_cached(
            "INSERT INTO gate (workflow, run, name, proposal) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
        )?
        .execute(params![locked.workflow.get(), run.0, gate, proposal.id.get()])?;
    Ok(BindingEffect::with_effect(format!("gate {gate} is open")))
}

/// The gates of a run that are open.
pub(crate) fn list_open_gates(db: &Connection, run: RunId) -> Result<Vec<String>> {
    let sql = "SELECT g.name FROM gate g JOIN run r ON r.workflow = g.workflow AND r.id = g.run
        WHERE r.uuid = ?1 ORDER BY g.name";
    let gates = db
        .prepare_cached(sql)?
        .query_map([run.get().as_bytes()], |row| row.get(0))?
        .collect::<db::Result<_>>()?;
    Ok(gates)
}

/// Makes a message the work of one agent. What somebody works on already is finished by them.
fn assign_message(
    locked: &mut LockedInstance<'_>,
    work: Seq,
    winner: AgentName,
    now: Now,
) -> Result<BindingEffect> {
    let why = format!("assigned to {winner}");
    notices::drop_unneeded(locked, work, Some(&winner), &why, now)?;
    let effect = format!("message #{work} is {winner}'s");
    let key = params![locked.workflow.get(), work.get(), winner.as_str()];
    let before = locked
        .tx
        .prepare_cached(
            "SELECT state FROM delivery WHERE workflow = ?1 AND seq = ?2 AND agent = ?3",
        )?
        .query_row(key, |row| delivery_states::read(row, 0))
        .optional()?;
    match before {
        // It was shown the message, or is being shown it, before it was its own: it is told.
        Some(DeliveryState::Leased | DeliveryState::Acted) => {
            return Ok(BindingEffect { effect: Some(effect), wakes: Some(winner) });
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
        return Ok(BindingEffect::with_effect(format!("message #{work} is not there any more")));
    }
    Ok(BindingEffect::with_effect(effect))
}
