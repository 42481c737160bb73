//! JSON-RPC, as this protocol uses it: one message in each request, and one answer to it.

use agent_worker_protocol::{Code, Problem};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A JSON object.
pub(super) type JsonObject = Map<String, Value>;

/// What a client says.
#[derive(Debug, Deserialize)]
pub(super) struct McpRpcRequest {
    #[serde(rename = "jsonrpc")]
    _version: Version,
    /// A notification has none, and gets no answer.
    pub(super) id: Option<McpRequestId>,
    /// What is asked for.
    pub(super) method: String,
    /// With what.
    #[serde(default)]
    pub(super) params: JsonObject,
}

impl McpRpcRequest {
    /// What the names of the protocol's own facts begin with.
    pub(super) const META_PREFIX: &str = "io.modelcontextprotocol/";

    /// What the message says of itself.
    pub(super) fn meta(&self, name: &str) -> Option<&Value> {
        self.params.get("_meta")?.get(format!("{}{name}", Self::META_PREFIX))
    }
}

#[derive(Debug, Deserialize)]
enum Version {
    #[serde(rename = "2.0")]
    Second,
}

/// How a client knows the answer to its question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum McpRequestId {
    /// Most count.
    Number(i64),
    /// Some do not.
    Text(String),
}

/// Why a question has no result.
#[derive(Debug)]
pub(super) struct McpRpcError {
    pub(super) status: StatusCode,
    pub(super) error: McpRpcErrorBody,
}

/// The same, as it is written.
#[derive(Debug, Serialize)]
pub(super) struct McpRpcErrorBody {
    pub(super) code: i32,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<Value>,
}

impl McpRpcError {
    pub(super) const INVALID_PARAMS: i32 = -32602;
    pub(super) const HEADER_MISMATCH: i32 = -32020;
    pub(super) const UNKNOWN_REVISION: i32 = -32022;

    pub(super) fn new(status: StatusCode, code: i32, message: impl Into<String>) -> Self {
        let error = McpRpcErrorBody { code, message: message.into(), data: None };
        Self { status, error }
    }

    pub(super) fn data(mut self, data: Value) -> Self {
        self.error.data = Some(data);
        self
    }
}

/// Reads one message. Answers to questions of ours are none: we ask nothing.
pub(super) fn parse_request(body: &[u8]) -> Result<McpRpcRequest, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        Problem::new(Code::BadRequest, format!("this is no request of the protocol: {error}"))
    })
}

/// Writes the answer to the question `id`.
pub(super) fn outcome_response(
    id: Option<McpRequestId>,
    outcome: Result<impl Serialize, McpRpcError>,
) -> Response {
    match outcome {
        Ok(result) => Json(McpRpcReply { jsonrpc: "2.0", id, result }).into_response(),
        Err(fault) => error_response(id, fault),
    }
}

/// Says why there is none.
pub(super) fn error_response(
    id: Option<McpRequestId>,
    McpRpcError { status, error }: McpRpcError,
) -> Response {
    (status, Json(McpRpcErrorReply { jsonrpc: "2.0", id, error })).into_response()
}

#[derive(Serialize)]
struct McpRpcReply<T> {
    jsonrpc: &'static str,
    id: Option<McpRequestId>,
    result: T,
}

#[derive(Serialize)]
struct McpRpcErrorReply {
    jsonrpc: &'static str,
    id: Option<McpRequestId>,
    error: McpRpcErrorBody,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_an_id_and_a_notification_none() {
        for (body, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, Some(Some(McpRequestId::Number(7)))),
            (
                r#"{"jsonrpc":"2.0","id":"a","method":"ping","params":{}}"#,
                Some(Some(McpRequestId::Text("a".into()))),
            ),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, Some(None)),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, None),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, None),
            (r#"{"id":1,"method":"ping"}"#, None),
            (r#"{"jsonrpc":"2.0","id":1}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, None),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, None),
            ("", None),
        ] {
            assert_eq!(
                parse_request(body.as_bytes()).ok().map(|message| message.id),
                expected,
                "{body}"
            );
        }
    }
}
