//! The MCP door at `/mcp`: the same kernel functions as HTTP's, as tools.
//!
//! Both eras, stateless: a 2026-07-28 client sends single requests, an older one begins with
//! `initialize` and gets no session. Nothing is held per client, so there is nothing to hijack or to
//! lose in a restart. The server has nothing to say by itself, so every answer is one JSON document.

mod call;
mod channel;
mod documents;
mod era;
mod feedback;
mod resources;
mod rpc;
mod schema;
mod server;
mod table;
mod tools;

use agent_worker_kernel::{Kernel, Principal};
use agent_worker_protocol::{Code, Problem};
use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header::ACCEPT},
    response::{IntoResponse as _, Response},
    routing::post,
};

use crate::http::{BODY_LIMIT, Refusal};
use era::{Era, Objection};

/// What a client must be ready to read, also where it gets only the first.
const READ: [&str; 2] = ["application/json", "text/event-stream"];

/// The route.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(kernel: Kernel) -> Router<S> {
    Router::new().route("/mcp", post(answer).with_state(kernel))
}

/// `POST /mcp`
async fn answer(
    State(kernel): State<Kernel>,
    Extension(who): Extension<Principal>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    reads_both(&headers)?;
    // The gate has read it already, as far as it was not too long.
    let body = to_bytes(body, BODY_LIMIT).await;
    let body = body.map_err(|error| Problem::new(Code::BadRequest, error.to_string()))?;
    let mut message = rpc::read(&body)?;
    let era = Era::of(&headers, &message);
    let id = message.id.take();
    match (era, &id) {
        (Err(Objection::Problem(problem)), _) => Err(problem.into()),
        (Err(Objection::Fault(fault)), _) => Ok(rpc::refuse(id, fault)),
        (Ok(_), None) => Ok(StatusCode::ACCEPTED.into_response()),
        (Ok(era), Some(_)) => Ok(rpc::answer(id, server::serve(&kernel, &who, era, message).await)),
    }
}

fn reads_both(headers: &HeaderMap) -> Result<(), Problem> {
    let accept = headers.get(ACCEPT).and_then(|value: &HeaderValue| value.to_str().ok());
    if accept.is_some_and(|accept| READ.iter().all(|kind| accept.contains(kind))) {
        return Ok(());
    }
    let message = format!("`Accept` must name {}", READ.join(" and "));
    Err(Problem::new(Code::BadRequest, message))
}
