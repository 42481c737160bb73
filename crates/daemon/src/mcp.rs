//! The MCP door at `/mcp`: the same kernel functions as HTTP's, as tools.
//!
//! Both eras, stateless: a 2026-07-28 client sends single requests, an older one begins with
//! `initialize` and gets no session. Nothing is held per client, so there is nothing to hijack or to
//! lose in a restart.

mod call;
mod channel;
mod documents;
mod feedback;
mod resources;
mod schema;
mod server;
mod table;
mod tools;

use std::{net::SocketAddr, sync::Arc};

use agent_worker_kernel::Kernel;
use agent_worker_protocol::{Code, Problem};
use axum::{
    Json, Router,
    body::to_bytes,
    http::{StatusCode, header::CONTENT_TYPE},
    middleware::map_response,
    response::{IntoResponse, Response},
};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
};

use crate::http::{BODY_LIMIT, own_origins};
use server::Server;

/// More than any complaint of the protocol's own is long.
const COMPLAINT: usize = 16 * 1024;

/// The route, for a daemon that listens at `address`.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(
    kernel: Kernel,
    address: Option<SocketAddr>,
) -> Router<S> {
    // The gate has checked all of this before; this door does not rely on it.
    let settings = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(BODY_LIMIT)
        .with_allowed_origins(own_origins(address))
        .enforce_origin_validation();
    let server = Server::new(kernel);
    let sessions = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, settings);
    Router::new().route_service("/mcp", service).layer(map_response(in_our_words))
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
