//! The worker's own MCP server, on loopback: the only one the program it runs gets to see.
//!
//! It keeps no session and passes tools on to the daemon, with the attempt's token and a key for every call. So a daemon
//! that restarts is invisible from here, no token is in anybody's configuration, and whether the program has looked at
//! its tools is seen on the spot. Who may come in is who knows the token. `/gate` is another server with a token of its own:
//! there the program itself asks whether a call may happen (`gate.rs`).

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use agent_worker_protocol::mcp_wire::{
    INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, McpRpcErrorBody, McpRpcErrorReply,
    McpRpcReply,
};
use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Request, State},
    http::{StatusCode, header::AUTHORIZATION},
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
    event_reporter::EventReporter,
    model::{ModelToolCall, ToolResult},
    toolbox::Toolbox,
};

/// What programs call this server.
pub(crate) const TEAM_SERVER_NAME: &str = "team";
/// The revisions it speaks, the newest first. All of them begin with `initialize`.
const PROTOCOL_REVISIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
const TEAM_PATH: &str = "/mcp";
const GATE_PATH: &str = "/gate";
/// More than a document or a resource may have.
const MAX_BODY_BYTES: usize = 68 * 1024 * 1024;

/// An open door.
pub(crate) struct ToolServer {
    listener: TcpListener,
    pub(crate) endpoint: ToolServerEndpoint,
    /// Where the program asks whether it may.
    pub(crate) gate_endpoint: ToolServerEndpoint,
    state: ToolServerState,
}

/// Where it is, and what opens it.
#[derive(Clone, Debug)]
pub(crate) struct ToolServerEndpoint {
    pub(crate) url: String,
    /// Goes to the program by its environment or a file of its own; arguments are for everybody to read.
    pub(crate) token: String,
}

/// What is behind it. Clones share it.
#[derive(Clone)]
struct ToolServerState(Arc<ToolServerInner>);

struct ToolServerInner {
    authorization: String,
    gate_authorization: String,
    gate: ToolApprovalGate,
    tools: Toolbox,
    /// The tools, as they are shown.
    tool_list: Vec<Value>,
    report: EventReporter,
    /// Somebody has asked which tools there are.
    has_listed_tools: AtomicBool,
    /// How many calls there were.
    call_count: AtomicU32,
    /// Calls end with the work they are for.
    closing: CancellationToken,
    calls: TaskTracker,
}

/// A request, or a notification if it has no id.
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
    /// Opens a door at a free port.
    pub(crate) async fn open(
        tools: Toolbox,
        gate: ToolApprovalGate,
        mut listed: Vec<Value>,
        report: EventReporter,
    ) -> std::io::Result<Self> {
        for tool in listed.iter_mut().filter_map(Value::as_object_mut) {
            // Only a program that checks answers would read it.
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
            tool_list: listed,
            report,
            has_listed_tools: AtomicBool::default(),
            call_count: AtomicU32::default(),
            closing: CancellationToken::new(),
            calls: TaskTracker::new(),
        };
        Ok(Self { listener, endpoint, gate_endpoint, state: ToolServerState(Arc::new(inner)) })
    }

    /// Lets a program in for as long as `work` takes. Returns when no call is left either.
    ///
    /// Answers with what came of the work, and whether anybody has looked at the tools meanwhile.
    pub(crate) async fn serve<T>(self, work: impl Future<Output = T>) -> (T, bool) {
        let Self { listener, state, .. } = self;
        let router = Router::new()
            .route(TEAM_PATH, post(handle_team_request))
            .route(GATE_PATH, post(handle_gate_request))
            .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
            .layer(from_fn_with_state(state.clone(), authenticate))
            .with_state(state.clone());
        let done = tokio::select! {
            done = work => done,
            // It ends with an error it can do nothing about: whoever is inside shows that soon enough.
            never = async { let _ = axum::serve(listener, router).await; std::future::pending().await } => never,
        };
        state.0.closing.cancel();
        state.0.calls.close();
        state.0.calls.wait().await;
        (done, state.0.has_listed_tools.load(Ordering::Relaxed))
    }
}

/// What nobody guesses.
fn generate_token() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// Nothing of a stranger is read but who they say they are. Who knows one endpoint does not know the other.
async fn authenticate(
    State(state): State<ToolServerState>,
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
            Err(McpRpcErrorBody::new(METHOD_NOT_FOUND, format!("there is no `{method}` here"))),
        ),
    }
}

/// A request that wants an answer.
struct ToolServerRequest {
    id: Value,
    method: String,
    params: Map<String, Value>,
}

fn parse_request(message: Value) -> Result<ToolServerRequest, Box<Response>> {
    let Ok(ToolServerMessage { id, method: Some(method), params }) =
        serde_json::from_value(message)
    else {
        let refusal = McpRpcErrorBody::new(INVALID_REQUEST, "one request at a time, please");
        let refusal = (StatusCode::BAD_REQUEST, Json(McpRpcErrorReply::new(Value::Null, refusal)));
        return Err(Box::new(refusal.into_response()));
    };
    // Nothing is waited for by whoever wants no answer.
    let id = id.ok_or_else(|| Box::new(StatusCode::ACCEPTED.into_response()))?;
    Ok(ToolServerRequest { id, method, params })
}

fn rpc_response(id: &Value, answer: Result<Value, McpRpcErrorBody>) -> Response {
    match answer {
        Ok(result) => Json(McpRpcReply::new(id, result)).into_response(),
        // Programs of the next era ask something else first, and take this for an older server.
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
            _ => {
                Err(McpRpcErrorBody::new(METHOD_NOT_FOUND, format!("there is no `{method}` here")))
            }
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
        let ToolServerInner { tools, report, call_count: called, closing, calls, .. } = &*self.0;
        let id = format!("{TEAM_SERVER_NAME}-{}", called.fetch_add(1, Ordering::Relaxed) + 1);
        let call = ModelToolCall { id, tool: name, args: arguments.unwrap_or_default() };
        let result = closing.run_until_cancelled(tools.call(&call, report));
        let result = calls.track_future(result).await;
        let result = result.unwrap_or_else(|| ToolResult::Failed("the turn is over".to_owned()));
        Ok(json!({
            "content": [{"type": "text", "text": result.text()}],
            "isError": !result.is_done(),
        }))
    }
}

/// The answer to `initialize`: the revision that was asked for, or the newest that is known here.
fn initialize_result(server: &str, params: &Map<String, Value>) -> Value {
    let wanted = params.get("protocolVersion").and_then(Value::as_str);
    let revision = PROTOCOL_REVISIONS.into_iter().find(|revision| Some(*revision) == wanted);
    json!({
        "protocolVersion": revision.unwrap_or(PROTOCOL_REVISIONS[0]),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": server, "version": env!("CARGO_PKG_VERSION")},
    })
}
