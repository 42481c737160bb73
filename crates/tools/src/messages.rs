//! The lines between a worker and its tool host: requests on stdin, replies on stdout, one JSON value on each line.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::tool_output::ToolOutput;

/// A line of the worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostRequest {
    /// Carries out a call. Several calls run at the same time.
    Call(HostCall),
    /// Ends the call with this id. The host does not reply to it.
    Cancel(u64),
}

/// A call of a tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostCall {
    /// Id of the reply.
    pub id: u64,
    /// Name of the tool.
    pub tool: String,
    /// Arguments of the tool.
    pub args: Map<String, Value>,
}

/// A line of the host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostReply {
    /// Id of the call.
    pub id: u64,
    /// Result of the call.
    pub output: ToolOutput,
}
