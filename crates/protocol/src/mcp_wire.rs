//! The Model Context Protocol as far as this program writes it by hand: revisions, headers and JSON-RPC messages.
//!
//! The daemon answers in these shapes, the worker and the command line ask in them. Transport is not here.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The path of the MCP endpoint.
pub const MCP_PATH: &str = "/mcp";
/// The media types that a client has to accept.
pub const ACCEPTED_TYPES: &str = "application/json, text/event-stream";
/// The media type of a stream of messages.
pub const EVENT_STREAM_TYPE: &str = "text/event-stream";

/// The revisions in which a client begins with `initialize`, oldest first.
pub const INITIALIZED_REVISIONS: [&str; 4] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The first revision without `initialize`. The names of revisions sort by age.
pub const STATELESS_REVISION: &str = "2026-07-28";

/// The header that names the revision.
pub const REVISION_HEADER: &str = "mcp-protocol-version";
/// The header that repeats the method of the message.
pub const METHOD_HEADER: &str = "mcp-method";
/// The header that repeats the name of the tool, prompt or resource.
pub const NAME_HEADER: &str = "mcp-name";
/// The header with the percent-encoded path of the caller's folder, which the bridge sends. Instances of that folder
/// come first if a target fits several.
pub const PROJECT_HEADER: &str = "agent-worker-project";
/// The header that names the session.
pub const SESSION_HEADER: &str = "mcp-session-id";

/// The prefix of the protocol's own keys in `_meta`.
pub const META_PREFIX: &str = "io.modelcontextprotocol/";
/// The key in `_meta` that names the revision of a message.
pub const META_REVISION: &str = "io.modelcontextprotocol/protocolVersion";
/// The experimental capability of a client that holds a stream open.
pub const STREAM_CAPABILITY: &str = "agent-worker/stream";
/// The argument of a tool call that makes its effect happen once.
pub const IDEMPOTENCY_KEY_ARGUMENT: &str = "idempotency_key";

/// The body is not JSON.
pub const PARSE_ERROR: i32 = -32700;
/// The body is JSON and not a message.
pub const INVALID_REQUEST: i32 = -32600;
/// The method does not exist.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// The parameters do not fit the method.
pub const INVALID_PARAMS: i32 = -32602;
/// Error code of the protocol: the server failed.
pub const INTERNAL_ERROR: i32 = -32603;
/// The server failed.
pub const SERVER_ERROR: i32 = -32000;
/// The headers contradict the body.
pub const HEADER_MISMATCH: i32 = -32020;
/// The revision is not spoken here.
pub const UNKNOWN_REVISION: i32 = -32022;

/// A request, or a notification if it has no id.
#[derive(Debug, Deserialize)]
pub struct McpRpcRequest {
    #[serde(rename = "jsonrpc")]
    _version: JsonRpcVersion,
    /// A notification has none, and gets no response.
    pub id: Option<McpRequestId>,
    /// The method that is asked for.
    pub method: String,
    /// The parameters of the method.
    #[serde(default)]
    pub params: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
enum JsonRpcVersion {
    #[serde(rename = "2.0")]
    Second,
}

impl McpRpcRequest {
    /// The value of one of the protocol's own keys in `_meta`.
    pub fn meta(&self, name: &str) -> Option<&Value> {
        self.params.get("_meta")?.get(format!("{META_PREFIX}{name}"))
    }
}

/// The id by which a client knows the response to its request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum McpRequestId {
    /// A number, as most clients send.
    Number(i64),
    /// A text, as some clients send.
    Text(String),
}

/// The error of a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct McpRpcErrorBody {
    /// One of the codes above.
    pub code: i32,
    /// A sentence for people.
    pub message: String,
    /// Facts for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl McpRpcErrorBody {
    /// An error without data.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

/// A response with a result.
#[derive(Debug, Serialize)]
pub struct McpRpcReply<I, T> {
    jsonrpc: &'static str,
    id: I,
    result: T,
}

impl<I, T> McpRpcReply<I, T> {
    /// The response to the request `id`.
    pub const fn new(id: I, result: T) -> Self {
        Self { jsonrpc: "2.0", id, result }
    }
}

/// A response with an error.
#[derive(Debug, Serialize)]
pub struct McpRpcErrorReply<I> {
    jsonrpc: &'static str,
    id: I,
    error: McpRpcErrorBody,
}

impl<I> McpRpcErrorReply<I> {
    /// The response to the request `id`.
    pub const fn new(id: I, error: McpRpcErrorBody) -> Self {
        Self { jsonrpc: "2.0", id, error }
    }
}

/// A request as JSON.
pub fn request_json(id: &Value, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A notification as JSON.
pub fn notification_json(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// `_meta` of a request in [`STATELESS_REVISION`] whose sender has no capabilities.
pub fn stateless_meta(client: &str, version: &str) -> Value {
    json!({
        META_REVISION: STATELESS_REVISION,
        format!("{META_PREFIX}clientInfo"): {"name": client, "version": version},
        format!("{META_PREFIX}clientCapabilities"): {},
    })
}
