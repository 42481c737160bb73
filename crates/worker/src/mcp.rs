//! Tool calls over MCP, as a client of the daemon's `/mcp`.
//!
//! Revision 2026-07-28: no handshake and no session; every request says by itself what it is, in its
//! headers and in `_meta`. So it does not matter which daemon answers, or how often it restarted.

use agent_worker_host::{Daemon, DialError};
use agent_worker_protocol::{Code, Problem};
use bytes::Bytes;
use hyper::{
    Request, Response,
    header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::model::ToolResult;

const REVISION: &str = "2026-07-28";
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// One request, one answer: there is nothing to tell apart.
const REQUEST_ID: u32 = 1;

/// The daemon's tools, in the name of the attempt's token.
pub(crate) struct McpClient(Daemon);

/// Why a call has no result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// The daemon is not there, broke off, or cannot store anything now: it may be tried again with the same key.
    Away(String),
    /// It will not be otherwise next time.
    Refused(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult {
    #[serde(default)]
    content: Vec<Value>,
    structured_content: Option<Value>,
    #[serde(default)]
    is_error: bool,
    result_type: Option<String>,
}

impl McpClient {
    pub(crate) fn new(daemon: Daemon) -> Self {
        Self(daemon)
    }

    /// Calls a tool once. A tool that says it failed has a result all the same.
    pub(crate) async fn call(
        &self,
        tool: &str,
        args: &Map<String, Value>,
    ) -> Result<ToolResult, CallError> {
        let name = HeaderValue::from_str(tool)
            .map_err(|_| CallError::Refused("there is no tool of this name".to_owned()))?;
        let mut request = request("tools/call", json!({"name": tool, "arguments": args}))?;
        request.headers_mut().insert(NAME, name);
        meaning(self.ask(request).await?)
    }

    /// The tools there are, as the daemon describes them.
    pub(crate) async fn tools(&self) -> Result<Vec<Value>, CallError> {
        let mut result = self.ask(request("tools/list", json!({}))?).await?;
        serde_json::from_value(result["tools"].take()).map_err(|error| not_understood(&error))
    }

    async fn ask(&self, request: Request<Bytes>) -> Result<Value, CallError> {
        let answer = self.0.exchange(request).await;
        result(&answer.map_err(|error| match error {
            DialError::Absent { .. } | DialError::Lost { .. } => CallError::Away(error.to_string()),
            DialError::Impostor { .. }
            | DialError::Refused(_)
            | DialError::Garbled { .. }
            | DialError::PathTooLong { .. } => CallError::Refused(error.to_string()),
        })?)
    }
}

fn request(method: &'static str, mut params: Value) -> Result<Request<Bytes>, CallError> {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": {
            "name": "agent-worker", "version": env!("CARGO_PKG_VERSION"),
        },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({"jsonrpc": "2.0", "id": REQUEST_ID, "method": method, "params": params});
    Request::post("/mcp")
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, text/event-stream")
        .header("MCP-Protocol-Version", REVISION)
        .header("Mcp-Method", method)
        .body(body.to_string().into())
        .map_err(|error| CallError::Refused(error.to_string()))
}

/// The result in an answer, whatever its status and form.
fn result(answer: &Response<Bytes>) -> Result<Value, CallError> {
    let is_stream = answer
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let reply = if is_stream {
        last_reply(&String::from_utf8_lossy(answer.body()))
    } else {
        serde_json::from_slice(answer.body()).ok()
    };
    let Some(mut reply) = reply.filter(|reply: &Value| reply.get("jsonrpc").is_some()) else {
        return Err(refused(answer));
    };
    if let Some(message) = reply.pointer("/error/message") {
        return Err(CallError::Refused(message.as_str().unwrap_or("it failed").to_owned()));
    }
    Ok(reply["result"].take())
}

/// What the result of a call means.
fn meaning(result: Value) -> Result<ToolResult, CallError> {
    match serde_json::from_value::<CallResult>(result) {
        Ok(result) => match result.unavailable() {
            Some(why) => Err(CallError::Away(why)),
            None => Ok(result.meaning()),
        },
        Err(error) => Err(not_understood(&error)),
    }
}

fn not_understood(error: &serde_json::Error) -> CallError {
    CallError::Refused(format!("the answer was not understood: {error}"))
}

/// An answer that is no JSON-RPC: the door's own.
fn refused(answer: &Response<Bytes>) -> CallError {
    match serde_json::from_slice::<Problem>(answer.body()) {
        Ok(problem) if is_daemons_reason(problem.code) => CallError::Away(problem.message),
        Ok(problem) => CallError::Refused(problem.message),
        Err(_) => {
            let text = String::from_utf8_lossy(answer.body());
            let start: String = text.chars().take(200).collect();
            CallError::Refused(format!("status {}: {start}", answer.status().as_u16()))
        }
    }
}

/// Whether a refusal comes from the state of the daemon and not from the call.
fn is_daemons_reason(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::ReadOnly)
}

/// The answer in a stream of events: the last one that is a response and no notification.
fn last_reply(stream: &str) -> Option<Value> {
    let stream = stream.replace("\r\n", "\n");
    let replies = stream.split("\n\n").filter_map(|entry| {
        let data = entry.lines().filter_map(|line| line.strip_prefix("data:"));
        serde_json::from_str::<Value>(&data.collect::<Vec<_>>().join("\n")).ok()
    });
    replies.filter(|reply| reply.get("result").or(reply.get("error")).is_some()).last()
}

impl CallResult {
    /// The message of a refusal that comes from the state of the daemon.
    fn unavailable(&self) -> Option<String> {
        let content = self.structured_content.as_ref().filter(|_| self.is_error)?;
        let problem = Problem::deserialize(content).ok()?;
        is_daemons_reason(problem.code).then_some(problem.message)
    }

    fn meaning(self) -> ToolResult {
        if let Some(other) = self.result_type.filter(|kind| kind != "complete") {
            return ToolResult::Failed(format!("it wants `{other}`, which a worker cannot give"));
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

    fn answer(status: u16, kind: &str, body: &str) -> Result<ToolResult, CallError> {
        let answer = Response::builder().status(status).header(CONTENT_TYPE, kind);
        meaning(result(&answer.body(Bytes::from(body.to_owned())).unwrap())?)
    }

    #[test]
    fn an_answer_means_the_same_in_every_form() {
        let done = |text: &str| Ok(ToolResult::Done(text.to_owned()));
        let failed = |text: &str| Ok(ToolResult::Failed(text.to_owned()));
        let refused = |text: &str| Err(CallError::Refused(text.to_owned()));
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
                failed("it wants `input_required`, which a worker cannot give"),
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
                Err(CallError::Away("starting".to_owned())),
            ),
            (502, "text/html", "<html>", refused("status 502: <html>")),
        ] {
            assert_eq!(answer(status, kind, body), expected, "{body}");
        }
    }

    #[test]
    fn a_refusal_for_reasons_of_the_daemon_may_be_tried_again() {
        let away = |why: &str| Err(CallError::Away(why.to_owned()));
        let tool = |code: &str| {
            let problem = json!({"code": code, "message": "why"});
            let content = json!([{"type": "text", "text": "no"}]);
            let result = json!({"isError": true, "content": content, "structuredContent": problem});
            json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string()
        };
        let door = |code: &str| json!({"code": code, "message": "why"}).to_string();
        for (status, body, expected) in [
            (503, door("unavailable"), away("why")),
            (503, door("read_only"), away("why")),
            (200, tool("unavailable"), away("why")),
            (200, tool("read_only"), away("why")),
            (200, tool("conflict"), Ok(ToolResult::Failed("no".to_owned()))),
            (200, tool("internal"), Ok(ToolResult::Failed("no".to_owned()))),
        ] {
            assert_eq!(answer(status, "application/json", &body), expected, "{body}");
        }
    }

    #[tokio::test]
    async fn a_name_that_fits_no_header_is_no_tool() {
        let daemon = McpClient::new(Daemon::at("/nowhere".into()));
        let refused = daemon.call("a\nb", &Map::new()).await.unwrap_err();
        assert_eq!(refused, CallError::Refused("there is no tool of this name".to_owned()));
    }
}
