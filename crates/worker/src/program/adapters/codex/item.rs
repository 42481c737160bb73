//! Items of a thread: messages of the model, and calls of tools with their results.

use serde::Deserialize;
use serde_json::{Value, json};

use super::message::CodexErrorMessage;
use crate::{model::ToolResult, program::ProgramEvent};

/// The program's own tools, as events name them.
const SHELL_TOOL_NAME: &str = "shell";
const PATCH_TOOL_NAME: &str = "apply_patch";
const SEARCH_TOOL_NAME: &str = "web_search";

#[derive(Clone, Debug, Deserialize)]
pub(super) struct CodexItem {
    pub(super) id: String,
    #[serde(flatten)]
    pub(super) kind: CodexItemKind,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum CodexItemKind {
    /// The prompt, or a message to the running turn, which has a client id.
    UserMessage {
        client_id: Option<String>,
    },
    AgentMessage {
        text: String,
    },
    CommandExecution {
        command: String,
        #[serde(default)]
        status: String,
        aggregated_output: Option<String>,
        exit_code: Option<i64>,
    },
    FileChange {
        #[serde(default)]
        changes: Value,
        #[serde(default)]
        status: String,
    },
    WebSearch {
        #[serde(default)]
        query: String,
    },
    /// A call to the team's server or to a server of the user.
    McpToolCall {
        server: String,
        tool: String,
        #[serde(default)]
        arguments: Value,
        result: Option<Value>,
        error: Option<CodexErrorMessage>,
    },
    #[serde(other)]
    Other,
}

impl CodexItem {
    /// Reports the start of a call.
    pub(super) fn tool_call_event(&self) -> Option<ProgramEvent> {
        let (tool, args) = match &self.kind {
            CodexItemKind::CommandExecution { command, .. } => {
                (SHELL_TOOL_NAME.to_owned(), json!({"command": command}))
            }
            CodexItemKind::FileChange { changes, .. } => {
                (PATCH_TOOL_NAME.to_owned(), json!({"changes": changes}))
            }
            CodexItemKind::WebSearch { query } => {
                (SEARCH_TOOL_NAME.to_owned(), json!({"query": query}))
            }
            CodexItemKind::McpToolCall { server, tool, arguments, .. } => {
                (mcp_tool_name(server, tool), arguments.clone())
            }
            CodexItemKind::UserMessage { .. }
            | CodexItemKind::AgentMessage { .. }
            | CodexItemKind::Other => return None,
        };
        Some(ProgramEvent::ToolCalled { id: self.id.clone(), tool, args })
    }

    /// Reports the end of a call.
    pub(super) fn tool_result_event(self) -> Option<ProgramEvent> {
        let Self { id, kind } = self;
        let (tool, result) = kind.tool_result()?;
        Some(ProgramEvent::ToolAnswered { id, tool, result })
    }
}

impl CodexItemKind {
    /// Returns the tool's name and its result.
    fn tool_result(self) -> Option<(String, ToolResult)> {
        let judged = |is_done, text| {
            if is_done { ToolResult::Done(text) } else { ToolResult::Failed(text) }
        };
        Some(match self {
            Self::CommandExecution { aggregated_output, exit_code, status, .. } => {
                let is_done = exit_code == Some(0);
                let output = aggregated_output.filter(|output| !output.is_empty());
                // A declined command has no output.
                let text = output.unwrap_or(if is_done { String::new() } else { status });
                (SHELL_TOOL_NAME.to_owned(), judged(is_done, text))
            }
            Self::FileChange { status, .. } => {
                (PATCH_TOOL_NAME.to_owned(), judged(status == "completed", status))
            }
            Self::WebSearch { .. } => {
                (SEARCH_TOOL_NAME.to_owned(), ToolResult::Done(String::new()))
            }
            Self::McpToolCall { server, tool, result, error, .. } => {
                let result = match error {
                    Some(CodexErrorMessage { message }) => ToolResult::Failed(message),
                    None => ToolResult::Done(result.unwrap_or_default().to_string()),
                };
                (mcp_tool_name(&server, &tool), result)
            }
            Self::UserMessage { .. } | Self::AgentMessage { .. } | Self::Other => return None,
        })
    }
}

/// Returns the name of an MCP tool in Claude's spelling, so that all events of a team use one form.
fn mcp_tool_name(server: &str, tool: &str) -> String {
    format!("mcp__{server}__{tool}")
}
