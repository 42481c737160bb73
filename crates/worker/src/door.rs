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
    gate::{self, Gate},
    model::{Call, ToolResult},
    report::Report,
    toolbox::Toolbox,
};

/// What programs call this server.
pub(crate) const SERVER: &str = "team";
/// The revisions it speaks, the newest first. All of them begin with `initialize`.
const REVISIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
const TEAM: &str = "/mcp";
const GATE: &str = "/gate";
/// More than a document or a resource may have.
const MOST_BYTES: usize = 68 * 1024 * 1024;
const INVALID_REQUEST: i64 = -32600;
const NO_METHOD: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// An open door.
pub(crate) struct Door {
    listener: TcpListener,
    pub(crate) entrance: Entrance,
    /// Where the program asks whether it may.
    pub(crate) gate: Entrance,
    hall: Hall,
}

/// Where it is, and what opens it.
#[derive(Clone, Debug)]
pub(crate) struct Entrance {
    pub(crate) url: String,
    /// Goes to the program by its environment or a file of its own; arguments are for everybody to read.
    pub(crate) token: String,
}

/// What is behind it. Clones share it.
#[derive(Clone)]
struct Hall(Arc<Inside>);

struct Inside {
    password: String,
    gate_password: String,
    gate: Gate,
    tools: Toolbox,
    /// The tools, as they are shown.
    listed: Vec<Value>,
    report: Report,
    /// Somebody has asked which tools there are.
    is_known: AtomicBool,
    /// How many calls there were.
    called: AtomicU32,
    /// Calls end with the work they are for.
    closing: CancellationToken,
    calls: TaskTracker,
}

/// A request, or a notification if it has no id.
#[derive(Deserialize)]
struct Message {
    id: Option<Value>,
    method: Option<String>,
    #[serde(default)]
    params: Map<String, Value>,
}

#[derive(Deserialize)]
struct Called {
    name: String,
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
}

struct Refusal {
    code: i64,
    message: String,
}

impl Door {
    /// Opens a door at a free port.
    pub(crate) async fn open(
        tools: Toolbox,
        gate: Gate,
        mut listed: Vec<Value>,
        report: Report,
    ) -> std::io::Result<Self> {
        for tool in listed.iter_mut().filter_map(Value::as_object_mut) {
            // Only a program that checks answers would read it.
            tool.remove("outputSchema");
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let at = |path: &str| -> std::io::Result<Entrance> {
            Ok(Entrance { url: format!("http://{address}{path}"), token: secret()? })
        };
        let (entrance, gate_entrance) = (at(TEAM)?, at(GATE)?);
        let inside = Inside {
            password: format!("Bearer {}", entrance.token),
            gate_password: format!("Bearer {}", gate_entrance.token),
            gate,
            tools,
            listed,
            report,
            is_known: AtomicBool::default(),
            called: AtomicU32::default(),
            closing: CancellationToken::new(),
            calls: TaskTracker::new(),
        };
        Ok(Self { listener, entrance, gate: gate_entrance, hall: Hall(Arc::new(inside)) })
    }

    /// Lets a program in for as long as `work` takes. Returns when no call is left either.
    ///
    /// Answers with what came of the work, and whether anybody has looked at the tools meanwhile.
    pub(crate) async fn serve<T>(self, work: impl Future<Output = T>) -> (T, bool) {
        let Self { listener, hall, .. } = self;
        let router = Router::new()
            .route(TEAM, post(receive))
            .route(GATE, post(receive_at_gate))
            .layer(DefaultBodyLimit::max(MOST_BYTES))
            .layer(from_fn_with_state(hall.clone(), known))
            .with_state(hall.clone());
        let done = tokio::select! {
            done = work => done,
            // It ends with an error it can do nothing about: whoever is inside shows that soon enough.
            never = async { let _ = axum::serve(listener, router).await; std::future::pending().await } => never,
        };
        hall.0.closing.cancel();
        hall.0.calls.close();
        hall.0.calls.wait().await;
        (done, hall.0.is_known.load(Ordering::Relaxed))
    }
}

/// What nobody guesses.
fn secret() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// Nothing of a stranger is read but who they say they are. Who knows one entrance does not know the other.
async fn known(State(hall): State<Hall>, request: Request, next: Next) -> Response {
    let password = match request.uri().path() {
        GATE => hall.0.gate_password.as_str(),
        _ => hall.0.password.as_str(),
    };
    if request.headers().get(AUTHORIZATION).is_none_or(|given| given != password) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    next.run(request).await
}

async fn receive(State(hall): State<Hall>, Json(message): Json<Value>) -> Response {
    match asked(message) {
        Ok(Asked { id, method, params }) => reply(&id, hall.answer(&method, params).await),
        Err(refused) => *refused,
    }
}

async fn receive_at_gate(State(hall): State<Hall>, Json(message): Json<Value>) -> Response {
    let Asked { id, method, params } = match asked(message) {
        Ok(asked) => asked,
        Err(refused) => return *refused,
    };
    match method.as_str() {
        "initialize" => reply(&id, Ok(welcome(gate::SERVER, &params))),
        "ping" => reply(&id, Ok(json!({}))),
        "tools/list" => reply(&id, Ok(Gate::tools())),
        "tools/call" if params.get("name").is_some_and(|name| name == gate::TOOL) => {
            let (tell, told) = gate::answering();
            let Inside { gate, closing, calls, .. } = &*hall.0;
            let answer = gate.clone().answer(id, params, tell);
            let closing = closing.clone();
            calls.spawn(async move { closing.run_until_cancelled(answer).await });
            Sse::new(told).into_response()
        }
        "tools/call" => reply(&id, Err(Refusal::new(INVALID_PARAMS, "there is no such tool"))),
        _ => reply(&id, Err(Refusal::new(NO_METHOD, format!("there is no `{method}` here")))),
    }
}

/// A request that wants an answer.
struct Asked {
    id: Value,
    method: String,
    params: Map<String, Value>,
}

fn asked(message: Value) -> Result<Asked, Box<Response>> {
    let Ok(Message { id, method: Some(method), params }) = serde_json::from_value(message) else {
        let refusal = Refusal::new(INVALID_REQUEST, "one request at a time, please");
        let refusal = (StatusCode::BAD_REQUEST, Json(refusal.reply(&Value::Null)));
        return Err(Box::new(refusal.into_response()));
    };
    // Nothing is waited for by whoever wants no answer.
    let id = id.ok_or_else(|| Box::new(StatusCode::ACCEPTED.into_response()))?;
    Ok(Asked { id, method, params })
}

fn reply(id: &Value, answer: Result<Value, Refusal>) -> Response {
    match answer {
        Ok(result) => Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response(),
        // Programs of the next era ask something else first, and take this for an older server.
        Err(refusal) if refusal.code == NO_METHOD => {
            (StatusCode::BAD_REQUEST, Json(refusal.reply(id))).into_response()
        }
        Err(refusal) => Json(refusal.reply(id)).into_response(),
    }
}

impl Hall {
    async fn answer(&self, method: &str, params: Map<String, Value>) -> Result<Value, Refusal> {
        match method {
            "initialize" => Ok(welcome(SERVER, &params)),
            "ping" => Ok(json!({})),
            "tools/list" => Ok(self.list()),
            "tools/call" => self.call(params).await,
            _ => Err(Refusal::new(NO_METHOD, format!("there is no `{method}` here"))),
        }
    }

    fn list(&self) -> Value {
        self.0.is_known.store(true, Ordering::Relaxed);
        json!({"tools": self.0.listed})
    }

    async fn call(&self, params: Map<String, Value>) -> Result<Value, Refusal> {
        let Called { name, arguments } = serde_json::from_value(Value::Object(params))
            .map_err(|error| Refusal::new(INVALID_PARAMS, error.to_string()))?;
        let Inside { tools, report, called, closing, calls, .. } = &*self.0;
        let id = format!("{SERVER}-{}", called.fetch_add(1, Ordering::Relaxed) + 1);
        let call = Call { id, tool: name, args: arguments.unwrap_or_default() };
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
fn welcome(server: &str, params: &Map<String, Value>) -> Value {
    let wanted = params.get("protocolVersion").and_then(Value::as_str);
    let revision = REVISIONS.into_iter().find(|revision| Some(*revision) == wanted);
    json!({
        "protocolVersion": revision.unwrap_or(REVISIONS[0]),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": server, "version": env!("CARGO_PKG_VERSION")},
    })
}

impl Refusal {
    fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    fn reply(self, id: &Value) -> Value {
        let Self { code, message } = self;
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
    }
}
