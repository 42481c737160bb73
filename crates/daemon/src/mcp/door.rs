//! Which way a request is answered: by itself, as almost all are, or as part of a session.

use std::sync::Arc;

use agent_worker_kernel::{Kernel, Principal};
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
    in_our_words,
    listening::Begun,
    quick,
    rpc::Message,
    server::Server,
    sessions::{Owner, SESSION, Sessions},
};
use crate::http::{BODY_LIMIT, Doors};

/// The first revision without sessions.
const STATELESS: &str = "2026-07-28";
const VERSION: &str = "mcp-protocol-version";
/// An `initialize` is not longer than this.
const INTRODUCTION: usize = 64 * 1024;
/// A client that wants to be told things, and cannot be asked any, says so with this among its experimental capabilities.
const STREAM: &str = "agent-worker/stream";

/// The ways there are.
pub(super) struct Door {
    kernel: Kernel,
    alone: StreamableHttpService<Server, NeverSessionManager>,
    sessions: Sessions,
    #[cfg(debug_assertions)]
    fixtures: bool,
}

impl Door {
    pub(super) fn new(
        doors: &Doors,
        alone: StreamableHttpService<Server, NeverSessionManager>,
        sessions: Sessions,
    ) -> Self {
        Self {
            kernel: doors.kernel.clone(),
            alone,
            sessions,
            #[cfg(debug_assertions)]
            fixtures: doors.fixtures,
        }
    }

    /// A request that is answered without the library; with the suite's fixtures none is.
    fn quick(&self, method: &Method, body: &[u8]) -> Option<Message> {
        #[cfg(debug_assertions)]
        if self.fixtures {
            return None;
        }
        if method == Method::POST { quick::read(body) } else { None }
    }
}

/// Answers everything that comes to `/mcp`.
pub(super) async fn answer(State(door): State<Arc<Door>>, request: Request) -> Response {
    let who = request.extensions().get().cloned().unwrap_or(Principal::Nobody);
    let is_stateless = is_stateless(request.headers());
    let session = request.headers().get(SESSION).filter(|_| !is_stateless);
    if let Some(id) = session.map(|id| id.to_str().unwrap_or_default().to_owned()) {
        let owner = Owner::of(&who, request.headers());
        return in_our_words(door.sessions.answer(&id, owner.as_ref(), request).await).await;
    }
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_LIMIT).await else {
        return in_our_words(StatusCode::BAD_REQUEST.into_response()).await;
    };
    if let Some(message) = door.quick(&head.method, &body) {
        return quick::answer(&door.kernel, &who, &head.headers, message).await.into_response();
    }
    let wants = !is_stateless && head.method == Method::POST && wants_session(&body);
    let owner = Owner::of(&who, &head.headers).filter(|_| wants);
    let begun = Begun::of(&door.kernel, &who, &body).await;
    let mut request = Request::from_parts(head, Body::from(body));
    if let Some(begun) = begun {
        request.extensions_mut().insert(begun);
    }
    let request = match owner {
        Some(owner) => match door.sessions.begin(who, owner, request).await {
            Ok(response) => return in_our_words(response).await,
            Err(request) => request,
        },
        None => request,
    };
    in_our_words(door.alone.handle(request).await.map(Body::new)).await
}

fn is_stateless(headers: &HeaderMap) -> bool {
    headers.get(VERSION).is_some_and(|version| version.as_bytes() >= STATELESS.as_bytes())
}

/// An `initialize`, as far as it matters here.
#[derive(Deserialize)]
struct Introduction {
    method: String,
    params: Params,
}

#[derive(Deserialize)]
struct Params {
    capabilities: Capabilities,
}

#[derive(Deserialize)]
struct Capabilities {
    sampling: Option<Value>,
    elicitation: Option<Value>,
    #[serde(default)]
    experimental: Value,
}

/// Whether this is how a client begins that can be asked something, or wants to be told.
fn wants_session(body: &Bytes) -> bool {
    if body.len() > INTRODUCTION {
        return false;
    }
    let Ok(Introduction { method, params }) = serde_json::from_slice(body) else { return false };
    let Capabilities { sampling, elicitation, experimental } = params.capabilities;
    method == "initialize"
        && (sampling.is_some() || elicitation.is_some() || experimental.get(STREAM).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_client_that_can_be_asked_or_wants_to_be_told_gets_a_session() {
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
            (begins("initialize", json!({"experimental": {STREAM: {}}})), true),
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
