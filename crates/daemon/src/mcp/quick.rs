//! Tools, listed and called by requests that stand by themselves: almost everything that is ever asked, and therefore
//! answered here, without the library. What that makes of the same requests is held against this in a test.

use agent_worker_kernel::{Kernel, Principal};
use agent_worker_protocol::{Code, Problem};
use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header::ACCEPT},
    response::Response,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    call::Failure,
    era::{Era, Objection},
    perform,
    rpc::{self, Fault, JsonObject, Message},
    tools::{self, Tool},
};
use crate::http::Refusal;

/// What a client must be ready to read, also where it gets only the first.
const READ: [&str; 2] = ["application/json", "text/event-stream"];

/// What is answered.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Answer {
    /// What can be called.
    Tools(Listed),
    /// What a tool gave, or why it did not.
    Called(Called),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Listed {
    #[serde(flatten)]
    freshness: Option<Freshness>,
    tools: Vec<&'static Tool>,
}

/// What a client of 2026-07-28 wants to know of an answer: that it is whole, and whether it may be kept.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Freshness {
    result_type: &'static str,
    ttl_ms: u32,
    cache_scope: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Called {
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<&'static str>,
    content: [Text; 1],
    structured_content: Value,
    is_error: bool,
}

#[derive(Serialize)]
struct Text {
    r#type: &'static str,
    text: String,
}

#[derive(Deserialize)]
struct CallParams {
    name: String,
    arguments: Option<JsonObject>,
}

const COMPLETE: &str = "complete";

/// A request that is answered here; none of the others.
pub(super) fn read(body: &[u8]) -> Option<Message> {
    let message = rpc::read(body).ok().filter(|message| message.id.is_some())?;
    // Whoever wants to hear how far it is gets more than one message.
    let wants_progress =
        message.params.get("_meta").is_some_and(|meta| meta.get("progressToken").is_some());
    let ours = matches!(message.method.as_str(), "tools/list" | "tools/call");
    (ours && !wants_progress).then_some(message)
}

/// Answers it.
pub(super) async fn answer(
    kernel: &Kernel,
    who: &Principal,
    headers: &HeaderMap,
    mut message: Message,
) -> Result<Response, Refusal> {
    reads_both(headers)?;
    let era = Era::of(headers, &message);
    let id = message.id.take();
    match era {
        Err(Objection::Problem(problem)) => Err(problem.into()),
        Err(Objection::Fault(fault)) => Ok(rpc::refuse(id, fault)),
        Ok(era) => Ok(rpc::answer(id, serve(kernel, who, era, message).await)),
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

async fn serve(
    kernel: &Kernel,
    who: &Principal,
    era: Era,
    message: Message,
) -> Result<Answer, Fault> {
    match message.method.as_str() {
        "tools/list" => Ok(Answer::Tools(listed(who, era))),
        _ => call_tool(kernel, who, era, message.params).await,
    }
}

fn listed(who: &Principal, era: Era) -> Listed {
    let freshness = match era {
        Era::Initialized => None,
        Era::Requests => {
            Some(Freshness { result_type: COMPLETE, ttl_ms: 0, cache_scope: "private" })
        }
    };
    Listed { freshness, tools: tools::list(who) }
}

async fn call_tool(
    kernel: &Kernel,
    who: &Principal,
    era: Era,
    params: JsonObject,
) -> Result<Answer, Fault> {
    let params = serde_json::from_value(Value::Object(params));
    let CallParams { name, arguments } = params.map_err(|error| malformed(error.to_string()))?;
    let (structured_content, is_error) = match perform::call(kernel, who, &name, arguments).await {
        Ok(given) => (given, false),
        Err(Failure::Refused(problem)) => (serde_json::to_value(problem).unwrap_or_default(), true),
        Err(Failure::Malformed(why)) => return Err(malformed(format!("{name}: {why}"))),
    };
    let content = [Text { r#type: "text", text: structured_content.to_string() }];
    let result_type = (era == Era::Requests).then_some(COMPLETE);
    Ok(Answer::Called(Called { result_type, content, structured_content, is_error }))
}

fn malformed(why: impl Into<String>) -> Fault {
    Fault::new(StatusCode::OK, Fault::INVALID_PARAMS, why)
}
