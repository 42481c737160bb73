//! What the protocol asks of a server: who it is, which tools it has, and to call one.

use std::time::Duration;

use agent_worker_kernel::{Kernel, Principal};
use agent_worker_protocol::{Code, Problem, ToolName};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    call::{Call, Failure, Given},
    era::{Era, REVISIONS},
    rpc::{Fault, JsonObject, Message},
    tools::{self, Tool},
};

/// Clients give up after a minute; an answer must come before that.
const PATIENCE: Duration = Duration::from_secs(50);

/// What is answered.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Answer {
    /// Who we are.
    Facts(Value),
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
    tools: &'static [Tool],
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

/// Answers one question.
pub(super) async fn serve(
    kernel: &Kernel,
    who: &Principal,
    era: Era,
    message: Message,
) -> Result<Answer, Fault> {
    match (message.method.as_str(), era) {
        ("initialize", _) => greet(&message.params),
        ("server/discover", _) => Ok(Answer::Facts(discovered())),
        ("ping", Era::Initialized) => Ok(Answer::Facts(json!({}))),
        ("tools/list", _) => Ok(Answer::Tools(listed(who, era))),
        ("tools/call", _) => call_tool(kernel, who, era, message.params).await,
        (other, Era::Initialized) => Err(Fault::new(StatusCode::OK, Fault::NO_SUCH_METHOD, other)),
        (other, Era::Requests) => {
            Err(Fault::new(StatusCode::NOT_FOUND, Fault::NO_SUCH_METHOD, other))
        }
    }
}

fn greet(params: &JsonObject) -> Result<Answer, Fault> {
    let Some(wanted) = params.get("protocolVersion").and_then(Value::as_str) else {
        return Err(malformed("`protocolVersion` is missing"));
    };
    Ok(Answer::Facts(json!({
        "protocolVersion": Era::agreed(wanted),
        "capabilities": capabilities(),
        "serverInfo": about_us(),
    })))
}

fn discovered() -> Value {
    json!({
        "resultType": COMPLETE,
        "supportedVersions": REVISIONS,
        "capabilities": capabilities(),
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": { format!("{}serverInfo", Message::META): about_us() },
    })
}

fn capabilities() -> Value {
    json!({ "tools": {} })
}

fn about_us() -> Value {
    json!({ "name": "agent-worker", "version": env!("CARGO_PKG_VERSION") })
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
    let (structured_content, is_error) = match call(kernel, who, &name, arguments).await {
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

async fn call(
    kernel: &Kernel,
    who: &Principal,
    name: &str,
    arguments: Option<JsonObject>,
) -> Given {
    let Some(tool) = ToolName::find(name) else {
        return Err(Failure::Malformed(unknown(name, who)));
    };
    let call = Call::new(tool.word(), arguments.unwrap_or_default())?;
    in_time(tools::call(tool, kernel, who, call)).await
}

/// The answer, or that there was none in time.
async fn in_time(given: impl Future<Output = Given>) -> Given {
    match tokio::time::timeout(PATIENCE, given).await {
        Ok(given) => given,
        Err(_) => Err(Failure::Refused(late())),
    }
}

fn late() -> Problem {
    let message = format!("this took more than {PATIENCE:?} and may or may not have happened");
    Problem::new(Code::Unavailable, message).hint("ask again with the same idempotency_key")
}

fn unknown(word: &str, who: &Principal) -> String {
    let listed = tools::list(who);
    let near = tools::near(word, listed);
    if near.is_empty() {
        let all: Vec<_> = listed.iter().map(|tool| tool.name).collect();
        return format!("there is no such tool; there are {}", all.join(", "));
    }
    format!("there is no such tool; did you mean {}?", near.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_call_outlasts_a_clients_patience() {
        let begun = tokio::time::Instant::now();
        let Err(Failure::Refused(problem)) = in_time(std::future::pending()).await else {
            panic!("it waited for ever")
        };
        assert_eq!((problem.code, begun.elapsed()), (Code::Unavailable, PATIENCE));
        assert!(in_time(async { Ok(true.into()) }).await.is_ok());
    }
}
