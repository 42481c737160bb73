//! The agents that a proposal wakes, and the words for what its decision has changed. Pure.

use agent_worker_protocol::{AgentName, Proposal, Sender};
use agent_worker_store::BindingEffect;

/// Lists the agents that a new proposal wakes: its electorate. The creator is woken too, unless it votes in the turn that
/// created the proposal: a ballot drops the notice that its voter has not been shown.
pub(crate) fn voters_to_wake(proposal: &Proposal) -> Vec<AgentName> {
    proposal.voting_agents().cloned().collect()
}

/// Lists the agents that the end of a proposal wakes: the agent that was assigned a message it has been shown before, and
/// the creator, unless the creator ended it.
pub(crate) fn agents_to_wake_at_end(
    proposal: &Proposal,
    actor: Option<&Sender>,
    assigned: Option<&AgentName>,
) -> Vec<AgentName> {
    let knows = actor == Some(&proposal.created_by);
    assigned.into_iter().chain(creator(proposal).filter(|_| !knows)).cloned().collect()
}

fn creator(proposal: &Proposal) -> Option<&AgentName> {
    match &proposal.created_by {
        Sender::Agent(creator) => Some(creator),
        Sender::User | Sender::System | Sender::Client(_) => None,
    }
}

/// Words the change that a binding decision has made.
pub(crate) fn effect_text(effect: &BindingEffect) -> String {
    match effect {
        BindingEffect::GateOpened(gate) => format!("gate {gate} is open"),
        BindingEffect::GateUnchanged(gate) => format!("gate {gate} stays as it was"),
        BindingEffect::NoSuchAgent(name) => {
            format!("{name} is no longer in the team: nothing was changed")
        }
        BindingEffect::RoleAssigned(agent, role) => format!("{agent} is {role}"),
        BindingEffect::MessageAssigned(seq, agent) => format!("message #{seq} is {agent}'s"),
        BindingEffect::MessageMissing(seq) => format!("message #{seq} no longer exists"),
    }
}
