//! The mock tools of an agent: calls with results that the workflow file or a person gives.
//!
//! Invariant: a call touches no file, no process and no network. A mock of a built-in tool needs the permission of that tool, so
//! that rules and approvals can be tried out.

use std::sync::Arc;

use agent_worker_backends::builtin_tool;
use agent_worker_models::ToolDefinition;
use agent_worker_protocol::{MockTool, Permissions, api::PermitRequest};
use serde_json::Value;

use crate::{
    approval_gate::ToolApprovalGate,
    builtin_tools::allows_everything,
    model::{ModelToolCall, ToolResult},
    turn::TurnContext,
};

/// The mock tools of an attempt. Clones share them.
#[derive(Clone)]
pub(crate) struct MockTools {
    tools: Arc<[MockTool]>,
    /// None for a script, which calls no built-in tool.
    rules: Option<Arc<(Permissions, ToolApprovalGate)>>,
}

impl MockTools {
    /// Returns the tools for a script.
    pub(crate) fn without_rules(turn: &TurnContext) -> Self {
        Self { tools: turn.mock_tools.clone().into(), rules: None }
    }

    /// Returns the tools for a model, with the agent's rules.
    pub(crate) fn with_rules(turn: &TurnContext) -> Self {
        let rules = Some(Arc::new((turn.permissions.clone(), turn.approvals.clone())));
        Self { rules, ..Self::without_rules(turn) }
    }

    /// Returns the definitions for the model.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = ToolDefinition> {
        self.tools.iter().map(|tool| ToolDefinition {
            name: tool.name.clone(),
            description: tool.description.clone(),
            schema: tool.argument_schema(),
        })
    }

    /// Returns the names that no mock tool replaces.
    pub(crate) fn unreplaced(&self, names: &[String]) -> Vec<String> {
        let is_replaced = |name: &String| self.tools.iter().any(|tool| tool.name == *name);
        names.iter().filter(|name| !is_replaced(name)).cloned().collect()
    }

    /// Returns the result of a call; none if the tool is not one of these.
    pub(crate) async fn call(&self, call: &ModelToolCall) -> Option<ToolResult> {
        let tool = self.tools.iter().find(|tool| tool.name == call.tool)?;
        if let Err(why) = self.request_permit(call).await {
            return Some(ToolResult::Failed(why));
        }
        Some(match tool.call(&call.args) {
            Ok(text) => ToolResult::Done(text),
            Err(why) => ToolResult::Failed(why),
        })
    }

    async fn request_permit(&self, call: &ModelToolCall) -> Result<(), String> {
        let rules = self.rules.as_deref().filter(|_| builtin_tool(&call.tool).is_some());
        let Some((rules, approvals)) = rules else { return Ok(()) };
        if allows_everything(rules) {
            return Ok(());
        }
        let request = PermitRequest {
            call: approvals.next_call_id(),
            tool: call.tool.clone(),
            args: Value::Object(call.args.clone()),
        };
        approvals.request_permit(&request).await
    }
}
