//! Tools that show, add, stop, interrupt, resume and remove agents.

use std::path::PathBuf;

use agent_worker_kernel::{InstanceSelector, Kernel, Principal};
use agent_worker_protocol::{AgentName, api::AgentRequest};
use serde::Deserialize;

use super::{
    call::{McpToolCall, McpToolResult, pairs, to_tool_result},
    hint::wakes_when,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentToolNoArgs {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentNewArgs {
    name: Option<AgentName>,
    backend: Option<String>,
    #[serde(default)]
    command: Vec<String>,
    agent: Option<String>,
    model: Option<String>,
    system: Option<String>,
    cwd: Option<PathBuf>,
    #[serde(default)]
    env: Vec<String>,
}

/// Implements the `agent_show` tool.
pub(super) async fn show(kernel: &Kernel, who: &Principal, mut call: McpToolCall) -> McpToolResult {
    let AgentToolNoArgs {} = call.args()?;
    let agent = kernel.agents().detail(who, &call.place).await;
    to_tool_result(agent.map(|agent| agent.into_detail(wakes_when)))
}

/// Implements the `agent_new` tool.
pub(super) async fn new(kernel: &Kernel, who: &Principal, mut call: McpToolCall) -> McpToolResult {
    let AgentNewArgs { name, backend, command, agent, model, system, cwd, env } = call.args()?;
    let InstanceSelector { target, project: connection_folder } = call.place;
    let (project, env) = (call.project, pairs(&env)?);
    let rest = AgentRequest::default();
    let request = AgentRequest {
        name,
        backend,
        command,
        agent,
        model,
        system,
        cwd,
        env,
        target,
        project,
        connection_folder,
        ..rest
    };
    to_tool_result(kernel.agents().create(who, call.key, request).await)
}

/// Implements the `agent_stop` tool.
pub(super) async fn stop(kernel: &Kernel, who: &Principal, mut call: McpToolCall) -> McpToolResult {
    let AgentToolNoArgs {} = call.args()?;
    to_tool_result(kernel.agents().stop(who, &call.place).await)
}

/// Implements the `agent_interrupt` tool.
pub(super) async fn interrupt(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let AgentToolNoArgs {} = call.args()?;
    to_tool_result(kernel.agents().interrupt(who, &call.place).await)
}

/// Implements the `agent_resume` tool.
pub(super) async fn resume(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let AgentToolNoArgs {} = call.args()?;
    to_tool_result(kernel.agents().resume(who, &call.place).await)
}

/// Implements the `agent_remove` tool.
pub(super) async fn remove(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let AgentToolNoArgs {} = call.args()?;
    to_tool_result(kernel.agents().remove(who, &call.place).await)
}
