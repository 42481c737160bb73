//! The built-in tools of an agent with direct access to a model: permission, then the tool host or the page fetcher.
//!
//! Invariant: no call happens before the daemon has allowed exactly these arguments, unless the rules allow every call.

use std::sync::Arc;

use agent_worker_backends::{
    BUILTIN_TOOLS, BuiltinTool, BuiltinToolSpec, builtin_tool, names_same_tool,
};
use agent_worker_models::{ImageData, ToolDefinition};
use agent_worker_protocol::{ArgumentPattern, PermissionAction, Permissions, api::PermitRequest};
use agent_worker_tools::{PageFetcher, ToolImage, ToolOutput};
use serde_json::Value;

use crate::{
    approval_gate::ToolApprovalGate,
    model::{ModelToolCall, ToolResult},
    tool_host::{HostLaunch, ToolHostClient},
    turn::{TurnContext, TurnFailure},
};

/// The built-in tools of an attempt. Clones share the tool host.
#[derive(Clone)]
pub(crate) struct BuiltinTools(Arc<BuiltinToolParts>);

struct BuiltinToolParts {
    offered: Vec<&'static BuiltinToolSpec>,
    permissions: Permissions,
    approvals: ToolApprovalGate,
    fetcher: PageFetcher,
    host: ToolHostClient,
}

impl BuiltinTools {
    /// Prepares the tools with these names, and the sandbox in which they run. Starts no process.
    pub(crate) fn prepare(names: &[String], turn: &TurnContext) -> Result<Self, TurnFailure> {
        let is_offered = |row: &&BuiltinToolSpec| names.iter().any(|name| name == row.name);
        let offered: Vec<_> = BUILTIN_TOOLS.iter().filter(is_offered).collect();
        let has_host = offered.iter().any(|row| row.tool != BuiltinTool::FetchUrl);
        let sandbox = match turn.sandbox.as_ref().filter(|_| has_host) {
            Some(sandbox) => Some(sandbox.prepare_for_tools(turn)?),
            None => None,
        };
        let launch = HostLaunch {
            child_env: turn.child_env.clone(),
            sandbox,
            reporter: turn.reporter.clone(),
            log: turn.log.clone(),
        };
        let listed = listed_servers(&turn.permissions);
        let hosts = turn.sandbox.as_ref().and_then(|sandbox| sandbox.hosts());
        Ok(Self(Arc::new(BuiltinToolParts {
            offered,
            permissions: turn.permissions.clone(),
            approvals: turn.approvals.clone(),
            fetcher: PageFetcher::new(listed.iter().map(String::as_str), hosts),
            host: ToolHostClient::new(launch),
        })))
    }

    /// Returns the definitions for the model.
    pub(crate) fn definitions(&self) -> Vec<ToolDefinition> {
        let definition = |row: &&BuiltinToolSpec| ToolDefinition {
            name: row.name.to_owned(),
            description: row.description.to_owned(),
            schema: serde_json::from_str(row.schema).unwrap_or_default(),
        };
        self.0.offered.iter().map(definition).collect()
    }

    /// Carries out a call; none if the tool is not one of these.
    pub(crate) async fn call(&self, call: &ModelToolCall) -> Option<ToolResult> {
        let row = builtin_tool(&call.tool)?;
        if !self.0.offered.iter().any(|offered| offered.tool == row.tool) {
            return None;
        }
        if let Err(why) = self.request_permit(call).await {
            return Some(ToolResult::Failed(why));
        }
        let args = call.args.clone();
        let output = match row.tool {
            BuiltinTool::FetchUrl => self.0.fetcher.fetch(args).await,
            _ => self.0.host.call(row.name, args).await,
        };
        Some(output.into())
    }

    async fn request_permit(&self, call: &ModelToolCall) -> Result<(), String> {
        if allows_everything(&self.0.permissions) {
            return Ok(());
        }
        let request = PermitRequest {
            call: self.0.approvals.next_call_id(),
            tool: call.tool.clone(),
            args: Value::Object(call.args.clone()),
        };
        self.0.approvals.request_permit(&request).await
    }
}

/// Returns true for rules that allow every call, about which the daemon need not be asked.
pub(crate) fn allows_everything(rules: &Permissions) -> bool {
    let Permissions { default, allow: _, ask, deny, on_ask: _, mode } = rules;
    *default == Some(PermissionAction::Allow) && ask.is_empty() && deny.is_empty() && mode.is_none()
}

/// Returns the URLs that `allow` names in brackets for `fetch_url`.
fn listed_servers(rules: &Permissions) -> Vec<String> {
    let fetch = BUILTIN_TOOLS.iter().find(|row| row.tool == BuiltinTool::FetchUrl);
    let is_fetch = |tool: &str| fetch.is_some_and(|row| names_same_tool(tool, row.name));
    let patterns = rules.allow.iter().filter(|pattern| is_fetch(pattern.tool()));
    let urls = patterns.filter_map(|pattern| match pattern.argument() {
        ArgumentPattern::Exact(url) => Some(url.clone()),
        // Without a path the host or the port may continue.
        ArgumentPattern::Prefix(start) => {
            let (_, rest) = start.split_once("://")?;
            rest.contains('/').then(|| start.clone())
        }
        ArgumentPattern::Any => None,
    });
    urls.collect()
}

impl From<ToolOutput> for ToolResult {
    fn from(output: ToolOutput) -> Self {
        match output {
            ToolOutput::Done(text) => Self::Done(text),
            ToolOutput::Failed(why) => Self::Failed(why),
            ToolOutput::Image(ToolImage { text, media_type, base64 }) => {
                Self::Image(text, ImageData { media_type, base64 })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(json: &str) -> Permissions {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn the_daemon_is_asked_unless_every_call_is_allowed() {
        for (json, expected) in [
            (r#"{"default":"allow"}"#, true),
            (r#"{"default":"allow","allow":["bash"]}"#, true),
            (r#"{"default":"allow","ask":["bash"]}"#, false),
            (r#"{"default":"allow","deny":["bash(rm*)"]}"#, false),
            (r#"{"default":"allow","mode":"plan"}"#, false),
            (r#"{"default":"ask"}"#, false),
            ("{}", false),
        ] {
            assert_eq!(allows_everything(&rules(json)), expected, "{json}");
        }
    }

    #[test]
    fn a_rule_lists_a_server_only_with_its_whole_name() {
        let allow = r#"{"allow":["WebFetch(http://127.0.0.1:8080/*)","fetch_url(http://10.0.0.1/x)",
            "fetch_url(http://10.0.0*)","fetch_url","bash(http://10.0.0.2/*)"]}"#;
        assert_eq!(listed_servers(&rules(allow)), ["http://127.0.0.1:8080/", "http://10.0.0.1/x"]);
    }
}
