//! Calls a tool by its name, with a timeout.

use std::{path::PathBuf, time::Duration};

use agent_worker_kernel::{Kernel, Principal};
use agent_worker_protocol::{
    Code, Keyword as _, Problem, ProblemDetails, ToolName, mcp_wire::PROJECT_HEADER,
};
use agent_worker_store::{DamagedRow, observe_damage};
use axum::http::HeaderMap;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::{
    call::{McpFailure, McpToolCall, McpToolResult},
    rpc::JsonObject,
    tools,
};

/// Timeout of a call: clients give up after a minute, so a response must come earlier.
const TOOL_CALL_TIMEOUT: Duration = Duration::from_secs(50);

/// Returns the folder of the caller, as its bridge states it.
pub(super) fn caller_folder(headers: &HeaderMap) -> Option<PathBuf> {
    let path = headers.get(PROJECT_HEADER)?.to_str().ok()?;
    let path = percent_decode_str(path).decode_utf8().ok()?;
    Some(PathBuf::from(path.as_ref()))
}

/// Calls the tool `name`; `folder` is the folder of the caller's connection.
pub(super) async fn call_tool_by_name(
    kernel: &Kernel,
    who: &Principal,
    name: &str,
    arguments: Option<JsonObject>,
    folder: Option<PathBuf>,
) -> McpToolResult {
    let Some(tool) = ToolName::find(name) else {
        return Err(McpFailure::Malformed(unknown_tool_message(name, kernel, who).await));
    };
    let mut call = McpToolCall::new(tool.word(), arguments.unwrap_or_default(), folder)?;
    let tool = call.modernize(name, tool)?;
    let called = Box::pin(with_timeout(tools::call_tool(tool, kernel, who, call)));
    let (given, left_out) = observe_damage(called).await;
    given.map(|answer| with_damage(answer, &left_out))
}

/// Adds the names of the damaged rows that the answer had to leave out.
fn with_damage(mut answer: Value, left_out: &[DamagedRow]) -> Value {
    if let (Value::Object(fields), false) = (&mut answer, left_out.is_empty()) {
        let named: Vec<String> = left_out.iter().map(ToString::to_string).collect();
        fields.insert("damaged".to_owned(), named.into());
    }
    answer
}

/// Returns the result, or a refusal after the timeout.
async fn with_timeout(given: impl Future<Output = McpToolResult>) -> McpToolResult {
    match tokio::time::timeout(TOOL_CALL_TIMEOUT, given).await {
        Ok(given) => given,
        Err(_) => Err(McpFailure::Refused(timeout_problem())),
    }
}

fn timeout_problem() -> Problem {
    let message = format!(
        "the call timed out after {TOOL_CALL_TIMEOUT:?} and may or may not have taken effect"
    );
    Problem::new(Code::Unavailable, message).with_details(ProblemDetails::OutcomeUnknown)
}

async fn unknown_tool_message(word: &str, kernel: &Kernel, who: &Principal) -> String {
    let listed = tools::list_for(kernel, who).await.unwrap_or_default();
    let near = tools::similar_names(word, &listed);
    if near.is_empty() {
        let all: Vec<_> = listed.iter().map(|tool| tool.name).collect();
        return format!("there is no such tool; the tools are {}", all.join(", "));
    }
    format!("there is no such tool; did you mean {}?", near.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_call_outlasts_a_clients_timeout() {
        let begun = tokio::time::Instant::now();
        let Err(McpFailure::Refused(problem)) = with_timeout(std::future::pending()).await else {
            panic!("it waited for ever")
        };
        assert_eq!((problem.code, begun.elapsed()), (Code::Unavailable, TOOL_CALL_TIMEOUT));
        assert!(with_timeout(async { Ok(true.into()) }).await.is_ok());
    }
}
