//! Tools for runs and workflows.

use std::path::PathBuf;

use agent_worker_kernel::{Kernel, ListingScope, PageRequest, Principal};
use agent_worker_protocol::{
    Code, Permission, Problem, RunId, RunMode, Span, Tag,
    api::{FinishRequest, ResumeRequest, RunRequest, RunView},
};
use serde::Deserialize;
use serde_json::json;

use super::{
    call::{McpFailure, McpToolCall, McpToolResult, kernel_refusal, pairs, to_tool_result},
    hint::MCP_CALLS,
};
use crate::next_step::run_hint;

/// The arguments of a tool that lists something.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListArgs {
    limit: Option<u32>,
    after: Option<String>,
}

impl ListArgs {
    pub(super) fn page(self) -> Result<PageRequest, McpFailure> {
        PageRequest::new(self.limit, self.after).map_err(kernel_refusal)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunStartArgs {
    file: PathBuf,
    tag: Option<Tag>,
    cwd: Option<PathBuf>,
    #[serde(default)]
    mode: RunMode,
    #[serde(default)]
    params: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunIdArgs {
    run: Option<RunId>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunResumeArgs {
    run: Option<RunId>,
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
    let page = call.args::<ListArgs>()?.page()?;
    let list = kernel.instances().list(who, &call.list_place(), ListingScope::All, &page).await;
    to_tool_result(list.map(|page| json!({ "workflows": page.items, "next": page.next })))
}

/// Implements the `run_finish` tool.
pub(super) async fn finish(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let request: FinishRequest = call.args()?;
    to_tool_result(kernel.runs().finish(who, call.key, request).await)
}

/// Implements the `run_list` tool.
pub(super) async fn list(kernel: &Kernel, who: &Principal, mut call: McpToolCall) -> McpToolResult {
    let page = call.args::<ListArgs>()?.page()?;
    let list = kernel.runs().list(who, &call.list_place(), ListingScope::All, &page).await;
    to_tool_result(list.map(|page| json!({ "runs": page.items, "next": page.next })))
}

/// Implements the `run_status` tool.
pub(super) async fn status(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let RunIdArgs { run } = call.args()?;
    let run = selected_run(kernel, who, &call, run, Permission::Read).await?;
    let view = kernel.runs().view(who, run).await;
    to_tool_result(view.map(|view| RunView { hint: run_hint(&view, &MCP_CALLS), ..view }))
}

/// Implements the `run_start` tool.
pub(super) async fn start(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let RunStartArgs { file, tag, cwd, mode, params, env } = call.args()?;
    if call.key.is_some() {
        let message = "run_start takes no idempotency_key: every call starts a run, and a second one is refused while the first is live";
        return Err(McpFailure::Refused(Problem::new(Code::BadRequest, message)));
    }
    let cwd = cwd.or_else(|| file.parent().map(PathBuf::from)).unwrap_or_default();
    let (params, env) = (pairs(&params)?, pairs(&env)?);
    let request = RunRequest {
        file,
        source: None,
        cwd,
        tag,
        mode,
        params,
        env,
        replace: false,
        defaults: None,
    };
    to_tool_result(kernel.runs().create(who, request).await)
}

/// Implements the `run_stop` tool.
pub(super) async fn stop(kernel: &Kernel, who: &Principal, mut call: McpToolCall) -> McpToolResult {
    let RunIdArgs { run } = call.args()?;
    if let Some(agent) = call.place.target.as_ref().and_then(|target| target.agent.as_ref()) {
        let message = format!(
            "run_stop ends a whole run, and the target names the agent `{agent}`: stop the agent with agent_stop, or name \
             the run as @workflow"
        );
        return Err(McpFailure::Refused(Problem::new(Code::BadRequest, message)));
    }
    let run = selected_run(kernel, who, &call, run, Permission::Run).await?;
    to_tool_result(kernel.runs().stop(who, run).await)
}

/// Implements the `run_resume` tool.
pub(super) async fn resume(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let RunResumeArgs { run, turns, hops, wall } = call.args()?;
    let run = selected_run(kernel, who, &call, run, Permission::Run).await?;
    to_tool_result(
        kernel
            .runs()
            .resume(who, call.key, run, ResumeRequest { hops, turns, wall, ..Default::default() })
            .await,
    )
}

/// Returns the run that a call names, by its id or as the live, else the last, run of its target.
async fn selected_run(
    kernel: &Kernel,
    who: &Principal,
    call: &McpToolCall,
    run: Option<RunId>,
    permission: Permission,
) -> Result<RunId, McpFailure> {
    match (run, &call.place.target) {
        (Some(run), None) => Ok(run),
        (None, Some(_)) => {
            let found = kernel.runs().find(who, &call.place, permission).await;
            found.map_err(kernel_refusal)
        }
        (None, None) | (Some(_), Some(_)) => {
            let message = "name the run with `run` or with `target`";
            Err(McpFailure::Refused(Problem::new(Code::BadRequest, message)))
        }
    }
}
