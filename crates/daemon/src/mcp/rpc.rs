//! JSON-RPC as MCP uses it: one message per request, and one response to it.

use agent_worker_protocol::{
    Code, Problem,
    mcp_wire::{McpRequestId, McpRpcErrorBody, McpRpcErrorReply, McpRpcReply, McpRpcRequest},
};
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use serde::Serialize;
use serde_json::{Map, Value};

/// An object of JSON values.
pub(super) type JsonObject = Map<String, Value>;

/// An error of the protocol, with the HTTP status that it is sent with.
#[derive(Debug)]
pub(super) struct McpRpcError {
    pub(super) status: StatusCode,
    pub(super) error: McpRpcErrorBody,
}

impl McpRpcError {
    pub(super) fn new(status: StatusCode, code: i32, message: impl Into<String>) -> Self {
        Self { status, error: McpRpcErrorBody::new(code, message) }
    }

    pub(super) fn data(mut self, data: Value) -> Self {
        self.error.data = Some(data);
        self
    }
}

/// Parses one request. A response is refused: this interface sends no requests.
pub(super) fn parse_request(body: &[u8]) -> Result<McpRpcRequest, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        Problem::new(
            Code::BadRequest,
            format!("the body is not a request of the protocol: {error}"),
        )
    })
}

/// Builds the response to the request `id`.
pub(super) fn outcome_response(
    id: Option<McpRequestId>,
    outcome: Result<impl Serialize, McpRpcError>,
) -> Response {
    match outcome {
        Ok(result) => Json(McpRpcReply::new(id, result)).into_response(),
        Err(fault) => error_response(id, fault),
    }
}

/// Builds the error response to the request `id`.
pub(super) fn error_response(
    id: Option<McpRequestId>,
    McpRpcError { status, error }: McpRpcError,
) -> Response {
    (status, Json(McpRpcErrorReply::new(id, error))).into_response()
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
