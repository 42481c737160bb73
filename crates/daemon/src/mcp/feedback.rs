//! The tool for an agent's feedback about the program itself.

use agent_worker_kernel::{Kernel, Principal};
use agent_worker_protocol::api::FeedbackRequest;
use serde_json::json;

use super::call::{McpToolCall, McpToolResult, to_tool_result};

/// Implements the `feedback_submit` tool.
pub(super) async fn submit(
    kernel: &Kernel,
    who: &Principal,
    mut call: McpToolCall,
) -> McpToolResult {
    let request: FeedbackRequest = call.args()?;
    let said = kernel.feedback().submit(who, call.key, request).await;
    to_tool_result(said.map(|said| json!({ "ts": said.ts })))
}
