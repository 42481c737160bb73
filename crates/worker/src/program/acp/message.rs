//! The messages of an agent, as far as the client reads them.

use serde::Deserialize;
use serde_json::Value;

use super::call::AcpToolCall;

/// A message of either side.
#[derive(Deserialize)]
pub(super) struct AcpMessage {
    pub(super) id: Option<Value>,
    pub(super) method: Option<String>,
    #[serde(default)]
    pub(super) params: Value,
    pub(super) result: Option<Value>,
    pub(super) error: Option<Value>,
}

/// An update of a session.
#[derive(Deserialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub(super) enum AcpUpdate {
    AgentMessageChunk {
        content: Value,
    },
    #[serde(rename = "tool_call", alias = "tool_call_update")]
    ToolCall(Box<AcpToolCall>),
    #[serde(rename = "usage_update")]
    UsageUpdate {
        cost: Option<Value>,
    },
    #[serde(rename = "session_info_update")]
    SessionInfo {
        #[serde(rename = "_meta", default)]
        meta: Value,
    },
    #[serde(other)]
    Other,
}
