//! Tools for runs and workflows.

use std::path::PathBuf;

use agent_worker_kernel::{Kernel, ListingScope, Principal};
use agent_worker_protocol::{
    Code, Problem, RunId, RunMode, Span, Tag,
    api::{ResumeRequest, RunRequest},
};
use serde::Deserialize;
use serde_json::json;

use super::call::{McpFailure, McpToolCall, McpToolResult, pairs, to_tool_result};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunToolNoArgs {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunStartArgs {
    file: PathBuf,
    tag: Option<Tag>,
    cwd: Option<PathBuf>,
    #[serde(default)]
    params: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunIdArgs {
    run: RunId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunResumeArgs {
    run: RunId,
    turns: Option<u32>,
    hops: Option<u32>,
    wall: Option<Span>,
}

/// Implements the `workflow_list` tool.
pub(super) async fn workflows(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let RunToolNoArgs {} = call.args()?;
    let list = kernel.instances().list(who, &call.place, ListingScope::All).await;
    to_tool_result(list.map(|workflows| json!({ "workflows": workflows })))
}

/// Implements the `run_list` tool.
pub(super) async fn list(kernel: &Kernel, who: &Principal, mut call: McpToolCall) -> McpToolResult {
    let RunToolNoArgs {} = call.args()?;
    let list = kernel.runs().list(who, &call.place, ListingScope::All).await;
    to_tool_result(list.map(|runs| json!({ "runs": runs })))
}

/// Implements the `run_status` tool.
pub(super) async fn status(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let RunIdArgs { run } = call.args()?;
    to_tool_result(kernel.runs().view(who, run).await)
}

/// Implements the `run_start` tool.
pub(super) async fn start(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let RunStartArgs { file, tag, cwd, params, env } = call.args()?;
    if call.key.is_some() {
        let message = "run_start takes no idempotency_key: every call starts a run, and a second one is refused while the first is live";
        return Err(McpFailure::Refused(Problem::new(Code::BadRequest, message)));
    }
    let cwd = cwd.or_else(|| file.parent().map(PathBuf::from)).unwrap_or_default();
    let (params, env, mode) = (pairs(&params)?, pairs(&env)?, RunMode::Run);
    let request = RunRequest { file, cwd, tag, mode, params, env, replace: false };
    to_tool_result(kernel.runs().create(who, request).await)
}

/// Implements the `run_stop` tool.
pub(super) async fn stop(kernel: &Kernel, who: &Principal, mut call: McpToolCall) -> McpToolResult {
    let RunIdArgs { run } = call.args()?;
    to_tool_result(kernel.runs().stop(who, run).await)
}

/// Implements the `run_resume` tool.
pub(super) async fn resume(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let RunResumeArgs { run, turns, hops, wall } = call.args()?;
    to_tool_result(
        kernel.runs().resume(who, call.key, run, ResumeRequest { hops, turns, wall }).await,
    )
}
