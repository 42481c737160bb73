//! Tools for proposals, votes, and questions to a person.

use agent_worker_kernel::{InstanceSelector, Kernel, PageRequest, Principal, ProposalFilter};
use agent_worker_protocol::{
    ProposalId,
    api::{AskRequest, CancelRequest, ProposalRequest, ProposalsReply, VoteRequest},
};
use serde::Deserialize;
use serde_json::json;

use super::call::{McpToolCall, McpToolResult, to_tool_result};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProposalVoteArgs {
    proposal: ProposalId,
    choice: String,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProposalStatusArgs {
    proposal: Option<ProposalId>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProposalCancelArgs {
    proposal: ProposalId,
    why: Option<String>,
}

/// Implements the `proposal_create` tool.
pub(super) async fn create(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let request: ProposalRequest = call.args()?;
    let InstanceSelector { target, project } = call.place;
    let request = ProposalRequest { target, project, ..request };
    to_tool_result(kernel.proposals().create(who, call.key, request).await)
}

/// Implements the `vote` tool.
pub(super) async fn vote(kernel: &Kernel, who: &Principal, mut call: McpToolCall) -> McpToolResult {
    let ProposalVoteArgs { proposal, choice, reason } = call.args()?;
    let InstanceSelector { target, project } = call.place;
    let request = VoteRequest { target, project, choice, reason };
    to_tool_result(kernel.proposals().vote(who, call.key, proposal, request).await)
}

/// Implements the `proposal_status` tool: returns one proposal, or all open ones.
pub(super) async fn status(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let ProposalStatusArgs { proposal } = call.args()?;
    if let Some(id) = proposal {
        let one = kernel.proposals().get(who, &call.place, id).await;
        return to_tool_result(one.map(|one| json!({ "proposals": [one] })));
    }
    let (open, whole) = (ProposalFilter::Open, PageRequest::whole());
    let list = kernel.proposals().list(who, &call.place, open, &whole).await;
    let result =
        |list: ProposalsReply| json!({ "instance": list.instance, "proposals": list.items });
    to_tool_result(list.map(result))
}

/// Implements the `proposal_cancel` tool.
pub(super) async fn cancel(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let ProposalCancelArgs { proposal, why } = call.args()?;
    let InstanceSelector { target, project } = call.place;
    let request = CancelRequest { target, project, why };
    to_tool_result(kernel.proposals().cancel(who, call.key, proposal, request).await)
}

/// Implements the `ask_human` tool.
pub(super) async fn ask_human(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let request: AskRequest = call.args()?;
    to_tool_result(kernel.questions().ask(who, call.key, request).await)
}
