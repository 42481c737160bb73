//! The MCP door at `/mcp`: the same kernel functions as HTTP's, as tools.
//!
//! Both eras: a 2026-07-28 client sends single requests, an older one begins with `initialize`. Neither has a session, so
//! nothing is held per client and there is nothing to hijack or to lose in a restart; only an older client that asks for a
//! stream gets one (`sessions`).

mod address;
mod agents;
mod call;
mod changes;
mod channel;
mod completion;
mod documents;
mod door;
mod era;
mod feedback;
#[cfg(debug_assertions)]
mod fixtures;
mod held;
mod listening;
mod perform;
mod progress;
mod prompts;
mod proposals;
mod quick;
mod resources;
mod rpc;
mod runs;
mod schema;
mod seat;
mod server;
mod sessions;
mod shelf;
mod table;
mod tools;

use std::sync::Arc;

use agent_worker_protocol::{Code, Problem};
use axum::{
    Json, Router,
    body::to_bytes,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::any,
};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
};

use crate::http::{BODY_LIMIT, Doors, own_origins};
use door::Door;
use server::Server;
use sessions::Sessions;

/// More than any complaint of the protocol's own is long.
const COMPLAINT: usize = 16 * 1024;

/// The route, for the daemon behind `doors`.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(doors: &Doors) -> Router<S> {
    // The gate has checked all of this before; this door does not rely on it.
    let settings = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(BODY_LIMIT)
        .with_allowed_origins(own_origins(doors.health.address))
        .enforce_origin_validation();
    let server = server(doors);
    let alone = server.clone();
    let sessions = Sessions::new(server, settings.clone(), doors);
    let never = Arc::new(NeverSessionManager::default());
    let alone = StreamableHttpService::new(move || Ok(alone.clone()), never, settings);
    let door = Arc::new(Door::new(doors, alone, sessions));
    Router::new().route("/mcp", any(door::answer).with_state(door))
}

#[cfg(not(debug_assertions))]
fn server(doors: &Doors) -> Server {
    Server::new(doors.kernel.clone(), doors.shutdown.clone())
}

#[cfg(debug_assertions)]
fn server(doors: &Doors) -> Server {
    let server = Server::new(doors.kernel.clone(), doors.shutdown.clone());
    if doors.fixtures { server.with_fixtures() } else { server }
}

/// Complaints about the transport come as plain text; everywhere else here an error is a `Problem`.
async fn in_our_words(response: Response) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error || response.headers().contains_key(CONTENT_TYPE) {
        return response;
    }
    let text = to_bytes(response.into_body(), COMPLAINT).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let (status, code) = match status {
        StatusCode::FORBIDDEN => (status, Code::Forbidden),
        StatusCode::NOT_FOUND => (status, Code::NotFound),
        StatusCode::PAYLOAD_TOO_LARGE => (status, Code::TooLarge),
        StatusCode::METHOD_NOT_ALLOWED => (status, Code::BadRequest),
        _ if status.is_server_error() => {
            tracing::error!(%status, text, "the MCP transport failed");
            (status, Code::Internal)
        }
        // What does not parse is called an unsupported media type there.
        _ => (StatusCode::BAD_REQUEST, Code::BadRequest),
    };
    (status, Json(Problem::new(code, text))).into_response()
}
