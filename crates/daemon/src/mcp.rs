//! The MCP interface at `/mcp`: the same kernel functions as HTTP, as tools.
//!
//! It serves both eras: a 2026-07-28 client sends single requests, an older one starts with `initialize`. Neither
//! has a session, so the daemon keeps no state per client, and there is no session to hijack or to lose in a
//! restart; only an older client that asks for a stream gets one (`session_registry`).

mod agents;
mod attention;
mod call;
mod channel;
mod completion;
mod dispatcher;
mod documents;
mod era;
mod fast_path;
mod feedback;
mod fixtures;
mod hint;
mod legacy_arguments;
mod progress;
mod prompts;
mod proposals;
mod resource_catalog;
mod resource_changes;
mod resource_uri;
mod resources;
mod rpc;
mod runs;
mod server;
mod session;
mod session_registry;
mod subscription;
mod tool_execution;
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

use crate::http::{AppState, BODY_LIMIT, own_origins};
use dispatcher::McpDispatcher;
pub(crate) use fixtures::SharedFixtures;
pub use fixtures::{FixtureReply, McpFixtures};
#[cfg(test)]
pub(crate) use hint::MCP_CALLS;
use server::McpServer;
use session_registry::SessionRegistry;
#[cfg(test)]
pub(crate) use tools::tool_permission;

/// Maximum size of a transport error; every text of the library is shorter.
const MAX_TRANSPORT_ERROR_BYTES: usize = 16 * 1024;

/// Returns the `/mcp` route for the daemon state `app`.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(app: &AppState) -> Router<S> {
    // Admission has checked all of this; this interface does not rely on it.
    let settings = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(BODY_LIMIT)
        .with_allowed_origins(own_origins(app.health.address))
        .enforce_origin_validation();
    let server = McpServer::new(app.kernel.clone(), app.shutdown.clone(), app.fixtures.clone());
    let stateless = server.clone();
    let sessions = SessionRegistry::new(server, settings.clone(), app);
    let never = Arc::new(NeverSessionManager::default());
    let stateless = StreamableHttpService::new(move || Ok(stateless.clone()), never, settings);
    let dispatcher = Arc::new(McpDispatcher::new(app, stateless, sessions));
    Router::new().route("/mcp", any(dispatcher::handle_request).with_state(dispatcher))
}

/// Converts an error of the transport, which is plain text, to a `Problem` like every other error.
async fn as_problem_response(response: Response) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error || response.headers().contains_key(CONTENT_TYPE) {
        return response;
    }
    let text = to_bytes(response.into_body(), MAX_TRANSPORT_ERROR_BYTES).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let (status, code) = match status {
        StatusCode::FORBIDDEN => (status, Code::Forbidden),
        StatusCode::NOT_FOUND => (status, Code::NotFound),
        StatusCode::PAYLOAD_TOO_LARGE => (status, Code::TooLarge),
        StatusCode::METHOD_NOT_ALLOWED => (status, Code::MethodNotAllowed),
        _ if status.is_server_error() => {
            tracing::error!(%status, text, "the MCP transport failed");
            (status, Code::Internal)
        }
        // The library reports a body that does not parse as an unsupported media type.
        _ => (StatusCode::BAD_REQUEST, Code::BadRequest),
    };
    (status, Json(Problem::new(code, text).into_body(None))).into_response()
}
