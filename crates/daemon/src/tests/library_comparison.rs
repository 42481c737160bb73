//! Compares our responses with those of the protocol's own library for the same requests.

use std::sync::Arc;

use axum::http::Request;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use serde_json::{Value, json};

use super::fixture::{DaemonFixture, TestRequest};

/// A server of the library that returns the results of our own server.
#[derive(Clone)]
struct LibraryServer(Value);

impl ServerHandler for LibraryServer {
    fn get_info(&self) -> ServerConfig {
        let able = serde_json::from_value(self.0["capabilities"].clone());
        let able = able.unwrap_or_else(|_| ServerCapabilities::builder().enable_tools().build());
        let mut info = ServerConfig::new(able);
        info.server_info = Implementation::new("agent-worker", env!("CARGO_PKG_VERSION"));
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = serde_json::from_value(self.0["tools"].clone()).unwrap();
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let given = self.0["structuredContent"].clone();
        match (request.name.as_ref(), &self.0["isError"]) {
            ("frobnicate", _) => Err(ErrorData::invalid_params("there is no such tool", None)),
            (_, Value::Bool(true)) => Ok(CallToolResult::structured_error(given).into()),
            _ => Ok(CallToolResult::structured(given).into()),
        }
    }
}

/// A response as a client interprets it.
#[derive(Debug, PartialEq)]
enum ObservedReply {
    Result(Value),
    /// An error; its text may differ.
    Error(u16, Value, Value),
    Accepted,
    /// The request was refused before its method was considered.
    Complaint,
}

fn observe_reply(status: u16, body: &[u8]) -> ObservedReply {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    match (status, body.get("result"), body.get("error")) {
        (200, Some(result), None) => ObservedReply::Result(result.clone()),
        (202, None, None) => ObservedReply::Accepted,
        (_, None, Some(error)) => {
            ObservedReply::Error(status, error["code"].clone(), error["data"].clone())
        }
        (400 | 406 | 415, None, None) => ObservedReply::Complaint,
        other => panic!("{other:?}"),
    }
}

/// One request: its headers in addition to those of every client, and its body.
type McpRequestParts = (Vec<(&'static str, &'static str)>, Value);

async fn replies_of_both(
    fixture: &DaemonFixture,
    (headers, body): &McpRequestParts,
) -> (ObservedReply, ObservedReply) {
    let all = [("Accept", "application/json, text/event-stream")];
    let all = || all.iter().chain(headers);
    let ours = all().fold(
        TestRequest::post("/mcp", body.to_string()).token(&fixture.job.token),
        |question, (name, value)| question.header(name, value),
    );
    let ours = fixture.as_user(ours).await;
    let given = serde_json::from_str::<Value>(&ours.body).unwrap_or_default();
    let library_server = LibraryServer(given["result"].clone());
    let settings = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true);
    let sessions = Arc::new(NeverSessionManager::default());
    let library =
        StreamableHttpService::new(move || Ok(library_server.clone()), sessions, settings);
    let theirs = Request::post("/mcp").header("host", "localhost");
    let theirs = theirs.header("content-type", "application/json");
    let theirs = all().fold(theirs, |request, (name, value)| request.header(*name, *value));
    let theirs = theirs.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let theirs = library.handle(theirs).await;
    let status = theirs.status().as_u16();
    let theirs = theirs.into_body().collect().await.unwrap().to_bytes();
    (observe_reply(ours.status, ours.body.as_bytes()), observe_reply(status, &theirs))
}

const META: &str = "io.modelcontextprotocol/";

fn rpc_request(method: &str, params: impl Into<Value>) -> Value {
    let params: Value = params.into();
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// Builds a request of a client of `version` that puts all metadata into the body.
fn self_contained_request(version: &str, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        format!("{META}protocolVersion"): version,
        format!("{META}clientCapabilities"): {},
    });
    rpc_request(method, params)
}

fn initialize(version: &str) -> Value {
    let client = json!({"name": "test", "version": "1"});
    rpc_request(
        "initialize",
        json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client}),
    )
}

#[tokio::test]
async fn a_client_that_begins_with_initialize_gets_the_same_answers_as_from_the_library() {
    let fixture = DaemonFixture::open().await;
    let old = || vec![("MCP-Protocol-Version", "2025-11-25")];
    let call = |name: &str, args: Value| {
        rpc_request("tools/call", json!({"name": name, "arguments": args}))
    };
    for asked in [
        (vec![], initialize("2024-11-05")),
        (vec![], initialize("2025-11-25")),
        (vec![], initialize("2026-07-28")),
        (vec![], initialize("1999-01-01")),
        (old(), initialize("2025-11-25")),
        (old(), initialize("2025-06-18")),
        (vec![("MCP-Protocol-Version", "2026-07-28")], initialize("2026-07-28")),
        (
            vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/list")],
            initialize("2026-07-28"),
        ),
        (vec![], rpc_request("ping", json!({}))),
        (old(), rpc_request("ping", json!({}))),
        (vec![], rpc_request("tools/list", json!({}))),
        (old(), rpc_request("tools/list", json!({}))),
        (old(), json!({"jsonrpc": "2.0", "id": "x", "method": "tools/list"})),
        (vec![("MCP-Protocol-Version", "1999-01-01")], rpc_request("tools/list", json!({}))),
        (old(), call("channel_send", json!({"message": "hello"}))),
        (old(), call("channel_send", json!({"message": "hello", "to": "ghost"}))),
        (old(), call("frobnicate", json!({}))),
        (old(), rpc_request("logging/setLevel", json!({"level": "info"}))),
        (old(), rpc_request("frobnicate", json!({}))),
        (old(), self_contained_request("2025-11-25", "tools/list", json!({}))),
        (old(), json!({"jsonrpc": "2.0", "method": "notifications/initialized"})),
        (old(), json!({"jsonrpc": "2.0", "method": "frobnicated", "params": {"a": 1}})),
        (old(), json!({"jsonrpc": "1.0", "id": 1, "method": "ping"})),
        (old(), json!([])),
    ] {
        let (ours, theirs) = replies_of_both(&fixture, &asked).await;
        assert_eq!(ours, theirs, "{asked:?}");
    }
}

#[tokio::test]
async fn a_client_with_self_contained_requests_gets_the_same_answers_as_from_the_library() {
    const NEW: &str = "2026-07-28";
    let fixture = DaemonFixture::open().await;
    let head = |version, method, name| {
        vec![("MCP-Protocol-Version", version), ("Mcp-Method", method), ("Mcp-Name", name)]
    };
    let send = || {
        self_contained_request(
            NEW,
            "tools/call",
            json!({"name": "channel_send", "arguments": {"message": "hello"}}),
        )
    };
    let nameless = |version| vec![("MCP-Protocol-Version", version), ("Mcp-Method", "tools/list")];
    let mut incapable = self_contained_request(NEW, "tools/list", json!({}));
    incapable["params"]["_meta"] = json!({format!("{META}protocolVersion"): NEW});
    for asked in [
        (
            head(NEW, "server/discover", ""),
            self_contained_request(NEW, "server/discover", json!({})),
        ),
        (vec![], rpc_request("server/discover", json!({}))),
        (nameless(NEW), self_contained_request(NEW, "tools/list", json!({}))),
        (nameless(NEW), rpc_request("tools/list", json!({}))),
        (nameless(NEW), incapable),
        (vec![], self_contained_request(NEW, "tools/list", json!({}))),
        (nameless("2025-11-25"), self_contained_request(NEW, "tools/list", json!({}))),
        (nameless("2030-01-01"), self_contained_request("2030-01-01", "tools/list", json!({}))),
        (nameless("1999-01-01"), self_contained_request("1999-01-01", "tools/list", json!({}))),
        (nameless(NEW), self_contained_request(NEW, "ping", json!({}))),
        (head(NEW, "ping", ""), self_contained_request(NEW, "ping", json!({}))),
        (head(NEW, "frobnicate", ""), self_contained_request(NEW, "frobnicate", json!({}))),
        (head(NEW, "tools/call", "channel_send"), send()),
        (head(NEW, "tools/call", "=?base64?Y2hhbm5lbF9zZW5k?="), send()),
        (head(NEW, "tools/call", "=?base64?!?="), send()),
        (head(NEW, "tools/call", "channel_read"), send()),
        (head(NEW, "tools/list", "channel_send"), send()),
        (vec![("MCP-Protocol-Version", NEW), ("Mcp-Method", "tools/call")], send()),
        (vec![("MCP-Protocol-Version", NEW), ("Mcp-Name", "channel_send")], send()),
        (
            head(NEW, "tools/call", "frobnicate"),
            self_contained_request(
                NEW,
                "tools/call",
                json!({"name": "frobnicate", "arguments": {}}),
            ),
        ),
        (
            head(NEW, "notifications/cancelled", ""),
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
        ),
        (
            vec![("MCP-Protocol-Version", NEW)],
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
        ),
    ] {
        let (ours, theirs) = replies_of_both(&fixture, &asked).await;
        assert_eq!(ours, theirs, "{asked:?}");
    }
}
