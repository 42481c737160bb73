//! The worker's own MCP server on loopback, the only server that its program gets.
//!
//! The server keeps no session and forwards tool calls to the daemon, with the attempt's token and a key for every
//! call. A restart of the daemon is therefore invisible to the program, no configuration contains the attempt's
//! token, and the server knows if the program has listed its tools. Access requires the server's token and a process
//! below this worker (`peer_listener.rs`). `/gate` is a second server with a token of its own: there the program itself asks for the permission of a call
//! (`approval_gate.rs`).

mod peer_listener;

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

pub(crate) use agent_worker_backends::TEAM_SERVER_NAME;
use agent_worker_protocol::mcp_wire::{
    INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, McpRpcErrorBody, McpRpcErrorReply,
    McpRpcReply,
};
use axum::{
    Json, Router,
    extract::{ConnectInfo, DefaultBodyLimit, Request, State},
    http::{StatusCode, Uri, header::AUTHORIZATION},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response, Sse},
    routing::post,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    approval_gate::{self, ToolApprovalGate},
    model::{ModelToolCall, ToolResult},
    tool_set::ToolSet,
};
use peer_listener::{PeerListener, PeerPlace};

/// Supported revisions, the newest first. All of them begin with `initialize`.
const PROTOCOL_REVISIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
const TEAM_PATH: &str = "/mcp";
const GATE_PATH: &str = "/gate";
/// Maximum size of a request body, larger than any document or resource.
const MAX_BODY_BYTES: usize = 68 * 1024 * 1024;

/// A server with an open port.
pub(crate) struct ToolServer {
    listener: TcpListener,
    pub(crate) endpoint: ToolServerEndpoint,
    /// The endpoint for permission requests of the program.
    pub(crate) gate_endpoint: ToolServerEndpoint,
    state: ToolServerState,
}

/// Address of a server and the token for it.
#[derive(Clone, Debug)]
pub(crate) struct ToolServerEndpoint {
    pub(crate) url: String,
    /// The program gets the token in its environment or in a private file; every user can read arguments.
    pub(crate) token: String,
}

impl ToolServerEndpoint {
    /// Returns the port of the server.
    pub(crate) fn port(&self) -> Option<u16> {
        self.url.parse::<Uri>().ok()?.port_u16()
    }
}

/// The shared state of the server.
#[derive(Clone)]
struct ToolServerState(Arc<ToolServerInner>);

struct ToolServerInner {
    authorization: String,
    gate_authorization: String,
    gate: ToolApprovalGate,
    tools: ToolSet,
    /// The tools, as `tools/list` returns them.
    tool_list: Vec<Value>,
    /// True once a client has listed the tools.
    has_listed_tools: AtomicBool,
    /// Number of tool calls so far.
    call_count: AtomicU32,
    /// Cancels the calls when the work that they serve ends.
    closing: CancellationToken,
    calls: TaskTracker,
}

/// A request, or a notification if the id is missing.
#[derive(Deserialize)]
struct ToolServerMessage {
    id: Option<Value>,
    method: Option<String>,
    #[serde(default)]
    params: Map<String, Value>,
}

#[derive(Deserialize)]
struct ToolServerCallParams {
    name: String,
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
}

impl ToolServer {
    /// Opens the server at a free port.
    pub(crate) async fn open(
        tools: ToolSet,
        gate: ToolApprovalGate,
        mut schemas: Vec<Value>,
    ) -> std::io::Result<Self> {
        for tool in schemas.iter_mut().filter_map(Value::as_object_mut) {
            // Only a program that validates results would read the schema.
            tool.remove("outputSchema");
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let at = |path: &str| -> std::io::Result<ToolServerEndpoint> {
            Ok(ToolServerEndpoint {
                url: format!("http://{address}{path}"),
                token: generate_token()?,
            })
        };
        let (endpoint, gate_endpoint) = (at(TEAM_PATH)?, at(GATE_PATH)?);
        let inner = ToolServerInner {
            authorization: format!("Bearer {}", endpoint.token),
            gate_authorization: format!("Bearer {}", gate_endpoint.token),
            gate,
            tools,
            tool_list: schemas,
            has_listed_tools: AtomicBool::default(),
            call_count: AtomicU32::default(),
            closing: CancellationToken::new(),
            calls: TaskTracker::new(),
        };
        Ok(Self { listener, endpoint, gate_endpoint, state: ToolServerState(Arc::new(inner)) })
    }

    /// Serves requests while `work` runs. Returns after the last call has ended.
    ///
    /// Returns the result of the work, and true if a client listed the tools meanwhile.
    pub(crate) async fn serve<T>(self, work: impl Future<Output = T>) -> (T, bool) {
        let Self { listener, state, .. } = self;
        let router = Router::new()
            .route(TEAM_PATH, post(handle_team_request))
            .route(GATE_PATH, post(handle_gate_request))
            .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
            .layer(from_fn_with_state(state.clone(), authenticate))
            .with_state(state.clone())
            .into_make_service_with_connect_info::<PeerPlace>();
        let listener = PeerListener::new(listener);
        let done = tokio::select! {
            done = work => done,
            // The server cannot recover from its own error; the program soon shows the effect.
            never = async { let _ = axum::serve(listener, router).await; std::future::pending().await } => never,
        };
        state.0.closing.cancel();
        state.0.calls.close();
        state.0.calls.wait().await;
        (done, state.0.has_listed_tools.load(Ordering::Relaxed))
    }
}

/// Generates an unguessable token.
fn generate_token() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// Checks the token before any other part of a request is read. Each endpoint has its own token.
async fn authenticate(
    State(state): State<ToolServerState>,
    ConnectInfo(place): ConnectInfo<PeerPlace>,
    request: Request,
    next: Next,
) -> Response {
    let password = match request.uri().path() {
        GATE_PATH => state.0.gate_authorization.as_str(),
        _ => state.0.authorization.as_str(),
    };
    if request.headers().get(AUTHORIZATION).is_none_or(|given| given != password) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    place.keep();
    next.run(request).await
}

async fn handle_team_request(
    State(state): State<ToolServerState>,
    Json(message): Json<Value>,
) -> Response {
    match parse_request(message) {
        Ok(ToolServerRequest { id, method, params }) => {
            rpc_response(&id, state.handle_method(&method, params).await)
        }
        Err(refused) => *refused,
    }
}

async fn handle_gate_request(
    State(state): State<ToolServerState>,
    Json(message): Json<Value>,
) -> Response {
    let ToolServerRequest { id, method, params } = match parse_request(message) {
        Ok(asked) => asked,
        Err(refused) => return *refused,
    };
    match method.as_str() {
        "initialize" => {
            rpc_response(&id, Ok(initialize_result(approval_gate::GATE_SERVER_NAME, &params)))
        }
        "ping" => rpc_response(&id, Ok(json!({}))),
        "tools/list" => rpc_response(&id, Ok(ToolApprovalGate::list_tools_result())),
        "tools/call"
            if params.get("name").is_some_and(|name| name == approval_gate::APPROVE_TOOL_NAME) =>
        {
            let (tell, told) = approval_gate::approval_event_channel();
            let ToolServerInner { gate, closing, calls, .. } = &*state.0;
            let answer = gate.clone().handle_approve_call(id, params, tell);
            let closing = closing.clone();
            calls.spawn(async move { closing.run_until_cancelled(answer).await });
            Sse::new(told).into_response()
        }
        "tools/call" => {
            rpc_response(&id, Err(McpRpcErrorBody::new(INVALID_PARAMS, "there is no such tool")))
        }
        _ => rpc_response(
            &id,
            Err(McpRpcErrorBody::new(METHOD_NOT_FOUND, format!("unknown method `{method}`"))),
        ),
    }
}

/// A request that expects a response.
struct ToolServerRequest {
    id: Value,
    method: String,
    params: Map<String, Value>,
}

fn parse_request(message: Value) -> Result<ToolServerRequest, Box<Response>> {
    let Ok(ToolServerMessage { id, method: Some(method), params }) =
        serde_json::from_value(message)
    else {
        let refusal = McpRpcErrorBody::new(INVALID_REQUEST, "the body must be a single request");
        let refusal = (StatusCode::BAD_REQUEST, Json(McpRpcErrorReply::new(Value::Null, refusal)));
        return Err(Box::new(refusal.into_response()));
    };
    // A notification gets no response.
    let id = id.ok_or_else(|| Box::new(StatusCode::ACCEPTED.into_response()))?;
    Ok(ToolServerRequest { id, method, params })
}

fn rpc_response(id: &Value, answer: Result<Value, McpRpcErrorBody>) -> Response {
    match answer {
        Ok(result) => Json(McpRpcReply::new(id, result)).into_response(),
        // Clients of the next protocol generation first send another request, and take this error for an older
        // server.
        Err(refusal) if refusal.code == METHOD_NOT_FOUND => {
            (StatusCode::BAD_REQUEST, Json(McpRpcErrorReply::new(id, refusal))).into_response()
        }
        Err(refusal) => Json(McpRpcErrorReply::new(id, refusal)).into_response(),
    }
}

impl ToolServerState {
    async fn handle_method(
        &self,
        method: &str,
        params: Map<String, Value>,
    ) -> Result<Value, McpRpcErrorBody> {
        match method {
            "initialize" => Ok(initialize_result(TEAM_SERVER_NAME, &params)),
            "ping" => Ok(json!({})),
            "tools/list" => Ok(self.list_tools_result()),
            "tools/call" => self.call_tool(params).await,
            _ => Err(McpRpcErrorBody::new(METHOD_NOT_FOUND, format!("unknown method `{method}`"))),
        }
    }

    fn list_tools_result(&self) -> Value {
        self.0.has_listed_tools.store(true, Ordering::Relaxed);
        json!({"tools": self.0.tool_list})
    }

    async fn call_tool(&self, params: Map<String, Value>) -> Result<Value, McpRpcErrorBody> {
        let ToolServerCallParams { name, arguments } =
            serde_json::from_value(Value::Object(params))
                .map_err(|error| McpRpcErrorBody::new(INVALID_PARAMS, error.to_string()))?;
        let ToolServerInner { tools, call_count: called, closing, calls, .. } = &*self.0;
        let id = format!("{TEAM_SERVER_NAME}-{}", called.fetch_add(1, Ordering::Relaxed) + 1);
        let call = ModelToolCall { id, tool: name, args: arguments.unwrap_or_default() };
        let result = closing.run_until_cancelled(tools.call(&call));
        let result = calls.track_future(result).await;
        let result = result.unwrap_or_else(|| ToolResult::Failed("the turn has ended".to_owned()));
        Ok(json!({
            "content": [{"type": "text", "text": result.text()}],
            "isError": !result.is_done(),
        }))
    }
}

/// Builds the response to `initialize`: the requested revision, or the newest supported one.
fn initialize_result(server: &str, params: &Map<String, Value>) -> Value {
    let wanted = params.get("protocolVersion").and_then(Value::as_str);
    let revision = PROTOCOL_REVISIONS.into_iter().find(|revision| Some(*revision) == wanted);
    json!({
        "protocolVersion": revision.unwrap_or(PROTOCOL_REVISIONS[0]),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": server, "version": env!("CARGO_PKG_VERSION")},
    })
}
