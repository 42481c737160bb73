//! Dispatches a request: to the stateless path, as for almost all requests, or to a session.

use std::sync::Arc;

use agent_worker_kernel::{Kernel, Principal};
use agent_worker_protocol::mcp_wire::{
    McpRpcRequest, REVISION_HEADER, SESSION_HEADER, STATELESS_REVISION, STREAM_CAPABILITY,
};
use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use rmcp::transport::streamable_http_server::{
    StreamableHttpService, session::never::NeverSessionManager,
};
use serde::Deserialize;
use serde_json::Value;

use super::{
    as_problem_response, fast_path,
    server::McpServer,
    session_registry::{SessionOwner, SessionRegistry},
    subscription::PreparedSubscription,
};
use crate::{
    backpressure::EndlessStream,
    http::{AppState, BODY_LIMIT},
};

/// Maximum size of an `initialize` request.
const MAX_INITIALIZE_BYTES: usize = 64 * 1024;

/// Dispatches MCP requests to the fast path, a session or the library.
pub(super) struct McpDispatcher {
    kernel: Kernel,
    stateless: StreamableHttpService<McpServer, NeverSessionManager>,
    sessions: SessionRegistry,
    has_fixtures: bool,
}

impl McpDispatcher {
    pub(super) fn new(
        app: &AppState,
        stateless: StreamableHttpService<McpServer, NeverSessionManager>,
        sessions: SessionRegistry,
    ) -> Self {
        Self {
            kernel: app.kernel.clone(),
            stateless,
            sessions,
            has_fixtures: app.fixtures.is_some(),
        }
    }

    /// Parses a request that is answered without the library; with the suite's fixtures the library answers all.
    fn parse_fast_request(&self, method: &Method, body: &[u8]) -> Option<McpRpcRequest> {
        if self.has_fixtures {
            return None;
        }
        if method == Method::POST { fast_path::parse_request(body) } else { None }
    }
}

/// Answers every request to `/mcp`.
pub(super) async fn handle_request(
    State(dispatcher): State<Arc<McpDispatcher>>,
    request: Request,
) -> Response {
    let who = request.extensions().get().cloned().unwrap_or(Principal::Anonymous);
    let is_stateless = is_stateless(request.headers());
    let session = request.headers().get(SESSION_HEADER).filter(|_| !is_stateless);
    if let Some(id) = session.map(|id| id.to_str().unwrap_or_default().to_owned()) {
        let owner = SessionOwner::of(&who);
        let is_endless = request.method() == Method::GET;
        let response = dispatcher.sessions.handle_request(&id, owner.as_ref(), request).await;
        let response = as_problem_response(response).await;
        return if is_endless { mark_as_stream(response) } else { response };
    }
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_LIMIT).await else {
        return as_problem_response(StatusCode::BAD_REQUEST.into_response()).await;
    };
    if let Some(message) = dispatcher.parse_fast_request(&head.method, &body) {
        return fast_path::handle_request(&dispatcher.kernel, &who, &head.headers, message)
            .await
            .into_response();
    }
    let wants = !is_stateless && head.method == Method::POST && wants_session(&body);
    let owner = SessionOwner::of(&who).filter(|_| wants);
    let begun = PreparedSubscription::prepare(&dispatcher.kernel, &who, &body).await;
    let is_endless = begun.is_some();
    let mut request = Request::from_parts(head, Body::from(body));
    if let Some(begun) = begun {
        request.extensions_mut().insert(begun);
    }
    let request = match owner {
        Some(owner) => match dispatcher.sessions.open_session(who, owner, request).await {
            Ok(response) => return as_problem_response(response).await,
            Err(request) => request,
        },
        None => request,
    };
    let response = dispatcher.stateless.handle(request).await.map(Body::new);
    let response = as_problem_response(response).await;
    if is_endless { mark_as_stream(response) } else { response }
}

/// Marks a successful response as an endless stream, so that it counts as a stream of its token.
fn mark_as_stream(mut response: Response) -> Response {
    if response.status().is_success() {
        response.extensions_mut().insert(EndlessStream);
    }
    response
}

fn is_stateless(headers: &HeaderMap) -> bool {
    headers
        .get(REVISION_HEADER)
        .is_some_and(|version| version.as_bytes() >= STATELESS_REVISION.as_bytes())
}

/// The parts of an `initialize` request that decide about a session.
#[derive(Deserialize)]
struct InitializeMessage {
    method: String,
    params: InitializeParams,
}

#[derive(Deserialize)]
struct InitializeParams {
    capabilities: ClientCapabilitiesProbe,
}

#[derive(Deserialize)]
struct ClientCapabilitiesProbe {
    sampling: Option<Value>,
    elicitation: Option<Value>,
    #[serde(default)]
    experimental: Value,
}

/// Returns true for an `initialize` of a client that answers requests of the server or wants notifications.
fn wants_session(body: &Bytes) -> bool {
    if body.len() > MAX_INITIALIZE_BYTES {
        return false;
    }
    let Ok(InitializeMessage { method, params }) = serde_json::from_slice(body) else {
        return false;
    };
    let ClientCapabilitiesProbe { sampling, elicitation, experimental } = params.capabilities;
    method == "initialize"
        && (sampling.is_some()
            || elicitation.is_some()
            || experimental.get(STREAM_CAPABILITY).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_client_that_can_be_asked_or_wants_notifications_gets_a_session() {
        let begins = |method: &str, capabilities: Value| {
            json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {
                "protocolVersion": "2025-11-25", "capabilities": capabilities,
                "clientInfo": {"name": "x", "version": "1"},
            }})
        };
        for (message, expected) in [
            (begins("initialize", json!({})), false),
            (begins("initialize", json!({"roots": {"listChanged": true}})), false),
            (begins("initialize", json!({"sampling": {}})), true),
            (begins("initialize", json!({"elicitation": {}})), true),
            (begins("initialize", json!({"experimental": {STREAM_CAPABILITY: {}}})), true),
            (begins("initialize", json!({"experimental": {"other": {}}})), false),
            (begins("tools/list", json!({"sampling": {}})), false),
            (json!({"method": "initialize"}), false),
            (json!([]), false),
        ] {
            let body = Bytes::from(message.to_string());
            assert_eq!(wants_session(&body), expected, "{message}");
        }
    }
}
