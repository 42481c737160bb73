//! Answers self-contained requests that list or call tools, without the library, because almost all requests are of
//! this kind. A test compares the responses with those of the library.

use std::path::PathBuf;

use agent_worker_kernel::{Kernel, Principal};
use agent_worker_protocol::{
    Code, Problem,
    mcp_wire::{INTERNAL_ERROR, INVALID_PARAMS, McpRpcRequest},
};
use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header::ACCEPT},
    response::Response,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    call::McpFailure,
    era::{EraError, ProtocolEra},
    hint::problem_body,
    rpc::{self, JsonObject, McpRpcError},
    tool_execution,
    tools::{self, McpTool},
};
use crate::{
    http::{ProblemResponse, client_problem},
    input,
};

/// The media types that a client must accept, also if the response uses only the first.
const REQUIRED_ACCEPT_TYPES: [&str; 2] = ["application/json", "text/event-stream"];

/// The result of a request.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ToolsReply {
    /// The list of tools.
    Tools(ToolListReply),
    /// The result of a tool, or its refusal.
    Call(ToolCallReply),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolListReply {
    #[serde(flatten)]
    freshness: Option<Freshness>,
    tools: Vec<&'static McpTool>,
}

/// Result fields of the revision 2026-07-28: the result is complete, and may or may not be cached.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Freshness {
    result_type: &'static str,
    ttl_ms: u32,
    cache_scope: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCallReply {
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<&'static str>,
    content: [ToolTextContent; 1],
    structured_content: Value,
    is_error: bool,
}

#[derive(Serialize)]
struct ToolTextContent {
    r#type: &'static str,
    text: String,
}

#[derive(Deserialize)]
struct CallParams {
    name: String,
    arguments: Option<JsonObject>,
}

const COMPLETE: &str = "complete";

/// Parses a request that the fast path answers; returns none for all others.
pub(super) fn parse_request(body: &[u8]) -> Option<McpRpcRequest> {
    let message = rpc::parse_request(body).ok().filter(|message| message.id.is_some())?;
    // A client that asks for progress gets more than one message.
    let wants_progress =
        message.params.get("_meta").is_some_and(|meta| meta.get("progressToken").is_some());
    let ours = matches!(message.method.as_str(), "tools/list" | "tools/call");
    (ours && !wants_progress).then_some(message)
}

/// Answers a request of the fast path.
pub(super) async fn handle_request(
    kernel: &Kernel,
    who: &Principal,
    headers: &HeaderMap,
    mut message: McpRpcRequest,
) -> Result<Response, ProblemResponse> {
    check_accept_header(headers)?;
    let era = ProtocolEra::of(headers, &message);
    let id = message.id.take();
    match era {
        Err(EraError::Problem(problem)) => Err(problem.into()),
        Err(EraError::RpcError(fault)) => Ok(rpc::error_response(id, fault)),
        Ok(era) => {
            let folder = tool_execution::caller_folder(headers);
            let outcome = execute_method(kernel, who, era, message, folder).await;
            Ok(rpc::outcome_response(id, outcome))
        }
    }
}

fn check_accept_header(headers: &HeaderMap) -> Result<(), Problem> {
    let accept = headers.get(ACCEPT).and_then(|value: &HeaderValue| value.to_str().ok());
    if accept.is_some_and(|accept| REQUIRED_ACCEPT_TYPES.iter().all(|kind| accept.contains(kind))) {
        return Ok(());
    }
    let message = format!("`Accept` must name {}", REQUIRED_ACCEPT_TYPES.join(" and "));
    Err(Problem::new(Code::BadRequest, message))
}

async fn execute_method(
    kernel: &Kernel,
    who: &Principal,
    era: ProtocolEra,
    message: McpRpcRequest,
    folder: Option<PathBuf>,
) -> Result<ToolsReply, McpRpcError> {
    match message.method.as_str() {
        "tools/list" => tool_list_reply(kernel, who, era).await.map(ToolsReply::Tools),
        _ => call_tool(kernel, who, era, message.params, folder).await,
    }
}

async fn tool_list_reply(
    kernel: &Kernel,
    who: &Principal,
    era: ProtocolEra,
) -> Result<ToolListReply, McpRpcError> {
    let freshness = match era {
        ProtocolEra::Initialized => None,
        ProtocolEra::Stateless => {
            Some(Freshness { result_type: COMPLETE, ttl_ms: 0, cache_scope: "private" })
        }
    };
    let tools = tools::list_for(kernel, who).await.map_err(|error| {
        McpRpcError::new(StatusCode::OK, INTERNAL_ERROR, client_problem(&error).message)
    })?;
    Ok(ToolListReply { freshness, tools })
}

async fn call_tool(
    kernel: &Kernel,
    who: &Principal,
    era: ProtocolEra,
    params: JsonObject,
    folder: Option<PathBuf>,
) -> Result<ToolsReply, McpRpcError> {
    let params = input::from_value(Value::Object(params), &[]);
    let CallParams { name, arguments } = params.map_err(malformed)?;
    let (structured_content, is_error) =
        match tool_execution::call_tool_by_name(kernel, who, &name, arguments, folder).await {
            Ok(given) => (given, false),
            Err(McpFailure::Refused(problem)) => {
                (serde_json::to_value(problem_body(problem)).unwrap_or_default(), true)
            }
            Err(McpFailure::Malformed(why)) => return Err(malformed(format!("{name}: {why}"))),
        };
    let content = [ToolTextContent { r#type: "text", text: structured_content.to_string() }];
    let result_type = (era == ProtocolEra::Stateless).then_some(COMPLETE);
    Ok(ToolsReply::Call(ToolCallReply { result_type, content, structured_content, is_error }))
}

fn malformed(why: impl Into<String>) -> McpRpcError {
    McpRpcError::new(StatusCode::OK, INVALID_PARAMS, why)
}
