//! Tools for what waits for a person: approval requests, questions and dead letters; and grants.

use agent_worker_kernel::{DeadLetterAction, InstanceSelector, Kernel, ListingScope, Principal};
use agent_worker_protocol::{
    AgentName, ApprovalId, Consent, ConsentScope, GrantId, QuestionId, Seq, ToolPattern,
    api::{AnswerRequest, ConsentRequest, DeadRequest, RevokeRequest},
};
use serde::Deserialize;

use super::{
    call::{McpToolCall, McpToolResult, to_tool_result},
    runs::ListArgs,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalAnswerArgs {
    #[serde(alias = "id")]
    approval: ApprovalId,
    allow: bool,
    reason: Option<String>,
    #[serde(default, rename = "for")]
    scope: ConsentScope,
    pattern: Option<ToolPattern>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantRevokeArgs {
    #[serde(alias = "id")]
    grant: GrantId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuestionAnswerArgs {
    #[serde(alias = "id")]
    question: QuestionId,
    answer: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeadLetterToolArgs {
    seq: Option<Seq>,
    agent: Option<AgentName>,
    why: Option<String>,
}

/// Implements the `approval_list` tool.
pub(super) async fn approvals(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let page = call.args::<ListArgs>()?.page()?;
    let open = kernel.approvals().list(who, &call.list_place(), ListingScope::All, &page).await;
    to_tool_result(open)
}

/// Implements the `approval_answer` tool.
pub(super) async fn answer_approval(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let ApprovalAnswerArgs { approval, allow, reason, scope, pattern } = call.args()?;
    let consent = if allow { Consent::Approved } else { Consent::Denied };
    let InstanceSelector { target, project } = call.place;
    let request = ConsentRequest { target, project, reason, scope, pattern };
    to_tool_result(kernel.approvals().answer(who, call.key, approval, consent, request).await)
}

/// Implements the `grant_list` tool.
pub(super) async fn grants(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let page = call.args::<ListArgs>()?.page()?;
    let grants = kernel.approvals().grants(who, &call.list_place(), ListingScope::All, &page).await;
    to_tool_result(grants)
}

/// Implements the `grant_revoke` tool.
pub(super) async fn revoke_grant(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let GrantRevokeArgs { grant } = call.args()?;
    let InstanceSelector { target, project } = call.place;
    let request = RevokeRequest { target, project };
    to_tool_result(kernel.approvals().revoke_grant(who, call.key, grant, request).await)
}

/// Implements the `question_list` tool.
pub(super) async fn questions(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let page = call.args::<ListArgs>()?.page()?;
    let open = kernel.questions().list(who, &call.list_place(), ListingScope::All, &page).await;
    to_tool_result(open)
}

/// Implements the `question_answer` tool.
pub(super) async fn answer_question(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let QuestionAnswerArgs { question, answer } = call.args()?;
    let InstanceSelector { target, project } = call.place;
    let request = AnswerRequest { target, project, answer };
    to_tool_result(kernel.questions().answer(who, call.key, question, request).await)
}

/// Implements the `dead_list` tool.
pub(super) async fn dead_letters(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let page = call.args::<ListArgs>()?.page()?;
    let (place, all) = (call.list_place(), ListingScope::All);
    to_tool_result(kernel.attention().dead_letters(who, &place, all, &page).await)
}

/// Implements the tools `dead_redrive` and `dead_drop`.
pub(super) async fn resolve_dead_letters(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
    action: DeadLetterAction,
) -> McpToolResult {
    let DeadLetterToolArgs { seq, agent, why } = call.args()?;
    let InstanceSelector { target, project } = call.place;
    let request = DeadRequest { target, project, seq, agent, why };
    to_tool_result(kernel.attention().resolve_dead_letter(who, call.key, request, action).await)
}
