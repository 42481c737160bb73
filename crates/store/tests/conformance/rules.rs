//! Rules that the kernel passes to the store, in a form that is sufficient for these tests.

use std::cmp::Reverse;

use agent_worker_protocol::{
    AgentName, AttemptEnd, Proposal, QuestionId, ResolvedBy, Sender, VoteOutcome,
};
use agent_worker_store::{
    BindingEffect, Blame, DeadlineStatus, DeliveryFailureCounts, DeliveryVerdict, LeaseRule,
    LeaseStep, LeasedDelivery, NewQuestion, ProposalStep, ShownMessage, TallyRule,
};

const MAX_MESSAGES: u32 = 20;

/// Allows every attempt, with at most twenty messages.
pub(crate) const LEASE_RULE: LeaseRule = LeaseRule {
    may_start: |_| LeaseStep::Start,
    max_messages: MAX_MESSAGES,
    select_batch: first_and_others,
};

fn first_and_others(
    mut batch: Vec<ShownMessage>,
    mut others: Vec<ShownMessage>,
) -> Vec<ShownMessage> {
    others.retain(|other| !batch.contains(other));
    batch.append(&mut others);
    batch.truncate(MAX_MESSAGES as usize);
    batch.sort_by_key(|ShownMessage { message, wakes }| {
        (!wakes, Reverse(message.priority), message.seq)
    });
    batch
}

/// Makes a delivery dead after as many failures as its attempt's end allows; joined mail has none.
pub(crate) fn delivery_rule(
    held: &LeasedDelivery,
    end: &AttemptEnd,
    blame: Blame,
) -> DeliveryVerdict {
    let before = held.counts;
    let (counts, count, max) = match blame {
        _ if *end == AttemptEnd::Ok => return DeliveryVerdict::Acted,
        _ if held.joined => return DeliveryVerdict::Pending(before),
        Blame::None => return DeliveryVerdict::Pending(before),
        Blame::Uncounted { max } => {
            let uncounted = before.uncounted + 1;
            (DeliveryFailureCounts { uncounted, ..before }, uncounted, max)
        }
        Blame::Counted { max } => {
            let failures = before.failures + 1;
            (DeliveryFailureCounts { failures, uncounted: 0, alone: true }, failures, max)
        }
    };
    if count >= max { DeliveryVerdict::Dead(counts) } else { DeliveryVerdict::Pending(counts) }
}

/// The tally rule of the cases: two votes win.
pub(crate) const TALLY_RULE: TallyRule =
    TallyRule { tally: two_votes_win, tie_break_seed: 7, recipients: end_recipients, effect_text };

/// Decides for an option with two votes; expires at the deadline.
fn two_votes_win(proposal: &Proposal, _: u64, deadline: DeadlineStatus) -> ProposalStep {
    let won = proposal.vote_counts().into_iter().find(|(_, votes)| *votes == 2);
    match won {
        Some((winner, _)) => ProposalStep::Resolve(
            VoteOutcome::Winner { winner: winner.to_owned() },
            ResolvedBy::Decided,
        ),
        None if deadline == DeadlineStatus::Passed => ProposalStep::Expire,
        None if proposal.missing_voters().is_empty() => {
            ProposalStep::Resolve(VoteOutcome::NoDecision, ResolvedBy::AllVoted)
        }
        None => ProposalStep::Stay,
    }
}

fn creator(proposal: &Proposal) -> Option<&AgentName> {
    match &proposal.created_by {
        Sender::Agent(creator) => Some(creator),
        _ => None,
    }
}

/// Lists the voters that a new proposal wakes, without its creator.
pub(crate) fn voters(proposal: &Proposal) -> Vec<AgentName> {
    proposal.voting_agents().filter(|name| creator(proposal) != Some(*name)).cloned().collect()
}

/// Lists the agents that an end wakes: the one that was assigned a message, and the creator, unless the creator
/// caused the end.
pub(crate) fn end_recipients(
    proposal: &Proposal,
    actor: Option<&Sender>,
    assigned: Option<&AgentName>,
) -> Vec<AgentName> {
    let creator = creator(proposal).filter(|_| actor != Some(&proposal.created_by));
    assigned.into_iter().chain(creator).cloned().collect()
}

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

pub(crate) fn question_text(id: QuestionId, new: &NewQuestion) -> String {
    let options = match &new.options[..] {
        [] => String::new(),
        options => format!("\nOptions: {}", options.join(" | ")),
    };
    format!("[QUESTION] #{id} {}{options}", new.question)
}
