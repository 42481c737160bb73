//! Tools for content that is too long for a message.

use agent_worker_kernel::{Kernel, Principal};
use agent_worker_protocol::ResourceId;
use serde::Deserialize;

use super::call::{McpToolCall, McpToolResult, to_tool_result};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourceCreateArgs {
    content: String,
    r#type: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourceReadArgs {
    id: ResourceId,
    range: Option<(u64, u64)>,
}

/// Implements the `resource_create` tool: equal content gets the same resource, whatever its key.
pub(super) async fn create(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let ResourceCreateArgs { content, r#type } = call.args()?;
    to_tool_result(kernel.resources().create(who, &call.place, r#type, content).await)
}

/// Implements the `resource_read` tool.
pub(super) async fn read(kernel: &Kernel, who: &Principal, mut call: McpToolCall) -> McpToolResult {
    let ResourceReadArgs { id, range } = call.args()?;
    let range = range.map(|(start, end)| start..end);
    to_tool_result(kernel.resources().read(who, &call.place, id, range).await)
}
