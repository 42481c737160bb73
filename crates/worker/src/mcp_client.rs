//! Tool calls over MCP, as a client of the daemon's `/mcp`.
//!
//! Revision 2026-07-28: no handshake and no session; every request describes itself in its headers and in `_meta`.
//! Any daemon can therefore answer, also after any number of restarts.

use agent_worker_host::{DaemonSocket, DialError};
use agent_worker_protocol::{Code, Problem, mcp_wire};
use bytes::Bytes;
use hyper::{
    Request, Response,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::model::ToolResult;

const MCP_NAME_HEADER: HeaderName = HeaderName::from_static(mcp_wire::NAME_HEADER);
/// Constant id: a connection carries one request and one response, so no response needs to be matched.
const REQUEST_ID: u32 = 1;

/// Client of the daemon's tools, with the token of the attempt.
#[derive(Clone)]
pub(crate) struct McpClient(DaemonSocket);

/// Failure of a call that has no result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DaemonCallError {
    /// The daemon is absent, broke off, or cannot store anything now: the caller may retry with the same key.
    Unavailable(String),
    /// A permanent refusal: a retry gives the same.
    Refused(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DaemonCallResult {
    #[serde(default)]
    content: Vec<Value>,
    structured_content: Option<Value>,
    #[serde(default)]
    is_error: bool,
    result_type: Option<String>,
}

impl McpClient {
    pub(crate) fn new(daemon: DaemonSocket) -> Self {
        Self(daemon)
    }

    /// Calls a tool once. A tool that reports a failure still has a result.
    pub(crate) async fn call(
        &self,
        tool: &str,
        args: &Map<String, Value>,
    ) -> Result<ToolResult, DaemonCallError> {
        let name = HeaderValue::from_str(tool)
            .map_err(|_| DaemonCallError::Refused("there is no tool of this name".to_owned()))?;
        let mut request = build_request("tools/call", json!({"name": tool, "arguments": args}))?;
        request.headers_mut().insert(MCP_NAME_HEADER, name);
        parse_tool_result(self.send_request(request).await?)
    }

    /// Returns the tools with the daemon's descriptions.
    pub(crate) async fn list_tools(&self) -> Result<Vec<Value>, DaemonCallError> {
        let mut result = self.send_request(build_request("tools/list", json!({}))?).await?;
        serde_json::from_value(result["tools"].take()).map_err(|error| invalid_response(&error))
    }

    async fn send_request(&self, request: Request<Bytes>) -> Result<Value, DaemonCallError> {
        let answer = self.0.exchange(request).await;
        parse_response(&answer.map_err(|error| match error {
            DialError::Absent { .. } | DialError::Lost { .. } => {
                DaemonCallError::Unavailable(error.to_string())
            }
            DialError::Impostor { .. }
            | DialError::Refused(_)
            | DialError::Garbled { .. }
            | DialError::PathTooLong { .. } => DaemonCallError::Refused(error.to_string()),
        })?)
    }
}

fn build_request(
    method: &'static str,
    mut params: Value,
) -> Result<Request<Bytes>, DaemonCallError> {
    params["_meta"] = mcp_wire::stateless_meta("agent-worker", env!("CARGO_PKG_VERSION"));
    let body = mcp_wire::request_json(&REQUEST_ID.into(), method, &params);
    Request::post(mcp_wire::MCP_PATH)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, mcp_wire::ACCEPTED_TYPES)
        .header(mcp_wire::REVISION_HEADER, mcp_wire::STATELESS_REVISION)
        .header(mcp_wire::METHOD_HEADER, method)
        .body(body.to_string().into())
        .map_err(|error| DaemonCallError::Refused(error.to_string()))
}

/// Parses the result of a response, whatever its status and form.
fn parse_response(answer: &Response<Bytes>) -> Result<Value, DaemonCallError> {
    let is_stream = answer
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let reply = if is_stream {
        last_response(&String::from_utf8_lossy(answer.body()))
    } else {
        serde_json::from_slice(answer.body()).ok()
    };
    let Some(mut reply) = reply.filter(|reply: &Value| reply.get("jsonrpc").is_some()) else {
        return Err(error_from_response(answer));
    };
    if let Some(message) = reply.pointer("/error/message") {
        return Err(DaemonCallError::Refused(
            message.as_str().unwrap_or("the daemon returned an error without a message").to_owned(),
        ));
    }
    Ok(reply["result"].take())
}

/// Parses the result of a tool call.
fn parse_tool_result(result: Value) -> Result<ToolResult, DaemonCallError> {
    match serde_json::from_value::<DaemonCallResult>(result) {
        Ok(result) => match result.unavailable_reason() {
            Some(why) => Err(DaemonCallError::Unavailable(why)),
            None => Ok(result.into_tool_result()),
        },
        Err(error) => Err(invalid_response(&error)),
    }
}

fn invalid_response(error: &serde_json::Error) -> DaemonCallError {
    DaemonCallError::Refused(format!("the daemon's response is invalid: {error}"))
}

/// Maps a response without JSON-RPC, which comes from the HTTP layer of the daemon.
fn error_from_response(answer: &Response<Bytes>) -> DaemonCallError {
    match serde_json::from_slice::<Problem>(answer.body()) {
        Ok(problem) if is_daemon_unavailable(problem.code) => {
            DaemonCallError::Unavailable(problem.message)
        }
        Ok(problem) => DaemonCallError::Refused(problem.message),
        Err(_) => {
            let text = String::from_utf8_lossy(answer.body());
            let start: String = text.chars().take(200).collect();
            DaemonCallError::Refused(format!("status {}: {start}", answer.status().as_u16()))
        }
    }
}

/// Returns true if the state of the daemon, not the call, caused a refusal.
fn is_daemon_unavailable(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::ReadOnly)
}

/// Finds the response in an event stream: the last message that is no notification.
fn last_response(stream: &str) -> Option<Value> {
    let stream = stream.replace("\r\n", "\n");
    let replies = stream.split("\n\n").filter_map(|entry| {
        let data = entry.lines().filter_map(|line| line.strip_prefix("data:"));
        serde_json::from_str::<Value>(&data.collect::<Vec<_>>().join("\n")).ok()
    });
    replies.filter(|reply| reply.get("result").or(reply.get("error")).is_some()).last()
}

impl DaemonCallResult {
    /// Returns the message of a refusal that the state of the daemon caused.
    fn unavailable_reason(&self) -> Option<String> {
        let content = self.structured_content.as_ref().filter(|_| self.is_error)?;
        let problem = Problem::deserialize(content).ok()?;
        is_daemon_unavailable(problem.code).then_some(problem.message)
    }

    fn into_tool_result(self) -> ToolResult {
        if let Some(other) = self.result_type.filter(|kind| kind != "complete") {
            return ToolResult::Failed(format!(
                "the tool returned `{other}`, which a worker cannot handle"
            ));
        }
        let texts = self.content.iter().filter_map(|block| block.get("text")?.as_str());
        let mut text = texts.collect::<Vec<_>>().join("\n");
        if text.is_empty() {
            text = self.structured_content.map(|value| value.to_string()).unwrap_or_default();
        }
        if self.is_error { ToolResult::Failed(text) } else { ToolResult::Done(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_answer(status: u16, kind: &str, body: &str) -> Result<ToolResult, DaemonCallError> {
        let answer = Response::builder().status(status).header(CONTENT_TYPE, kind);
        parse_tool_result(parse_response(&answer.body(Bytes::from(body.to_owned())).unwrap())?)
    }

    #[test]
    fn an_answer_means_the_same_in_every_form() {
        let done = |text: &str| Ok(ToolResult::Done(text.to_owned()));
        let failed = |text: &str| Ok(ToolResult::Failed(text.to_owned()));
        let refused = |text: &str| Err(DaemonCallError::Refused(text.to_owned()));
        let json = "application/json";
        for (status, kind, body, expected) in [
            (
                200,
                json,
                r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete",
                    "content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]}}"#,
                done("a\nb"),
            ),
            (
                200,
                "text/event-stream; charset=utf-8",
                "id: 0\ndata:\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n\
                 data: {\"jsonrpc\":\"2.0\",\"id\":1,\ndata: \"result\":{\"content\":[],\"structuredContent\":{\"n\":1}}}\n\n",
                done(r#"{"n":1}"#),
            ),
            (
                200,
                json,
                r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"no"}],"isError":true}}"#,
                failed("no"),
            ),
            (
                200,
                json,
                r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}"#,
                failed("the tool returned `input_required`, which a worker cannot handle"),
            ),
            (
                400,
                json,
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"tool not found"}}"#,
                refused("tool not found"),
            ),
            (401, json, r#"{"code":"unauthorized","message":"who?"}"#, refused("who?")),
            (
                503,
                json,
                r#"{"code":"unavailable","message":"starting"}"#,
                Err(DaemonCallError::Unavailable("starting".to_owned())),
            ),
            (502, "text/html", "<html>", refused("status 502: <html>")),
        ] {
            assert_eq!(parse_answer(status, kind, body), expected, "{body}");
        }
    }

    #[test]
    fn a_refusal_for_reasons_of_the_daemon_may_be_tried_again() {
        let away = |why: &str| Err(DaemonCallError::Unavailable(why.to_owned()));
        let tool = |code: &str| {
            let problem = json!({"code": code, "message": "why"});
            let content = json!([{"type": "text", "text": "no"}]);
            let result = json!({"isError": true, "content": content, "structuredContent": problem});
            json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string()
        };
        let http_problem = |code: &str| json!({"code": code, "message": "why"}).to_string();
        for (status, body, expected) in [
            (503, http_problem("unavailable"), away("why")),
            (503, http_problem("read_only"), away("why")),
            (200, tool("unavailable"), away("why")),
            (200, tool("read_only"), away("why")),
            (200, tool("conflict"), Ok(ToolResult::Failed("no".to_owned()))),
            (200, tool("internal"), Ok(ToolResult::Failed("no".to_owned()))),
        ] {
            assert_eq!(parse_answer(status, "application/json", &body), expected, "{body}");
        }
    }

    #[tokio::test]
    async fn a_name_that_fits_no_header_is_no_tool() {
        let daemon = McpClient::new(DaemonSocket::at("/nowhere".into()));
        let refused = daemon.call("a\nb", &Map::new()).await.unwrap_err();
        assert_eq!(refused, DaemonCallError::Refused("there is no tool of this name".to_owned()));
    }
}
