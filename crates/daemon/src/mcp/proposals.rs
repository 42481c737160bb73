//! Proposals, votes, and questions to a person, as tools.

use agent_worker_kernel::{Ballots, Kernel, Principal};
use agent_worker_protocol::{
    ProposalId,
    api::{AskRequest, CancelRequest, ProposalRequest, VoteRequest},
};
use serde::Deserialize;
use serde_json::json;

use super::call::{Call, Given, give};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vote {
    proposal: ProposalId,
    choice: String,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Status {
    proposal: Option<ProposalId>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cancel {
    proposal: ProposalId,
}

/// `proposal_create`
pub(super) async fn create(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let request: ProposalRequest = call.args()?;
    let request = ProposalRequest { target: call.place.target, project: None, ..request };
    give(kernel.propose(who, call.key, request).await)
}

/// `vote`
pub(super) async fn vote(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Vote { proposal, choice, reason } = call.args()?;
    let request = VoteRequest { target: call.place.target, project: None, choice, reason };
    give(kernel.vote(who, call.key, proposal, request).await)
}

/// `proposal_status`: one, or all that are voted on.
pub(super) async fn status(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Status { proposal } = call.args()?;
    match proposal {
        Some(id) => {
            let one = kernel.proposal(who, &call.place, id).await;
            give(one.map(|one| json!({ "proposals": [one] })))
        }
        None => give(kernel.proposals(who, &call.place, Ballots::Open).await),
    }
}

/// `proposal_cancel`
pub(super) async fn cancel(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let Cancel { proposal } = call.args()?;
    let request = CancelRequest { target: call.place.target, ..CancelRequest::default() };
    give(kernel.proposal_cancel(who, call.key, proposal, request).await)
}

/// `ask_human`
pub(super) async fn ask(kernel: &Kernel, who: &Principal, mut call: Call) -> Given {
    let request: AskRequest = call.args()?;
    give(kernel.ask_human(who, call.key, request).await)
}
