//! The failure class of an agent's error: by its code, by the name of its kind, or by the status that the agent states.

use agent_worker_protocol::FailureClass;
use serde_json::Value;

use super::super::{MAX_FAILURE_DETAIL_BYTES, adapters::gemini::has_reason, class_of_status};
use crate::{truncation::truncate, turn::TurnFailure};

/// The protocol's code for "authentication required".
const AUTH_REQUIRED: i64 = -32000;

/// Converts a JSON-RPC error to a failure.
pub(super) fn failure_from_error(error: &Value) -> TurnFailure {
    let said = error["message"].as_str().unwrap_or_default();
    let detail = detail(error).filter(|detail| !said.contains(detail));
    let why = match (said, detail) {
        ("", None) => error.to_string(),
        ("", Some(detail)) => detail.to_owned(),
        (said, None) => said.to_owned(),
        (said, Some(detail)) => format!("{said}: {detail}"),
    };
    TurnFailure::new(failure_class(error, said), why)
}

/// Returns the reason beside a general message such as `Internal error`.
fn detail(error: &Value) -> Option<&str> {
    let data = &error["data"];
    let detail = data["details"].as_str().or(data["message"].as_str()).or(data.as_str());
    detail.map(str::trim).filter(|detail| !detail.is_empty())
}

/// Words of the agents before the status of a failed request.
const STATUS_PREFIXES: [&str; 6] =
    ["", "Error: ", "unexpected status ", "last status: ", "Last error: ", "(HTTP "];

/// Returns the status that an agent states in its own words about a failure: `401 invalid key`.
fn stated_status(detail: &str) -> Option<u64> {
    let status_after = |prefix: &&str| {
        let rest = if prefix.is_empty() { detail } else { detail.split_once(*prefix)?.1 };
        let status = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
        (400..600).contains(&status).then_some(status)
    };
    STATUS_PREFIXES.iter().find_map(status_after)
}

/// Returns the class of a failure that an agent describes in its own words.
fn stated_class(detail: &str) -> Option<FailureClass> {
    // A response that broke off has no status.
    let is_broken = ["stream disconnected before completion", "Failed native model HTTP request"]
        .iter()
        .any(|words| detail.contains(words));
    match stated_status(detail) {
        Some(status) => Some(class_of_status(status)),
        None => is_broken.then_some(FailureClass::Transient),
    }
}

fn failure_class(error: &Value, said: &str) -> FailureClass {
    let code = error["code"].as_i64().unwrap_or_default();
    if code == AUTH_REQUIRED {
        return FailureClass::Auth;
    }
    match error["data"]["errorKind"].as_str() {
        Some("authentication_failed") => return FailureClass::Auth,
        Some("billing_error") => return FailureClass::Billing,
        Some("rate_limit") => return FailureClass::RateLimited,
        Some("server_error") => return FailureClass::Transient,
        // Includes `unknown`, which means a broken connection but also a bad request, and a bad request must not be
        // retried forever.
        Some(_) | None => {}
    }
    // Google returns 400 for an unknown key. The message may contain its response.
    let answer = serde_json::from_str::<Value>(said).ok();
    if answer.is_some_and(|answer| has_reason(&answer, "API_KEY_INVALID")) {
        return FailureClass::Auth;
    }
    if let Some(status) = provider_status(&error["data"]) {
        return class_of_status(status);
    }
    if let Some(class) = detail(error).and_then(stated_class) {
        return class;
    }
    // JSON-RPC's own codes are negative, so a code in the range of HTTP statuses is the provider's status.
    u64::try_from(code)
        .ok()
        .filter(|code| (400..600).contains(code))
        .map_or(FailureClass::Fatal, class_of_status)
}

/// Returns the failure of a turn without a whole answer: by the status of the provider, if the agent reported it. Some
/// agents put the reason into the last text of the answer.
pub(super) fn incomplete_turn(
    provider_status: Option<u64>,
    text: &str,
    last_text: &str,
) -> TurnFailure {
    let class = provider_status.map(class_of_status).or_else(|| stated_class(last_text));
    let class = class.unwrap_or(FailureClass::Crash);
    let detail = truncate(text.trim(), MAX_FAILURE_DETAIL_BYTES);
    let why = if detail.is_empty() {
        "the model completed no answer".to_owned()
    } else {
        format!("the model completed no answer: {detail}")
    };
    TurnFailure::new(class, why)
}

/// Finds the status of a failed request in the metadata of an agent.
pub(super) fn provider_status(meta: &Value) -> Option<u64> {
    match meta {
        Value::Object(fields) => fields.iter().find_map(|(name, value)| match name.as_str() {
            "httpStatusCode" | "http_status_code" => value.as_u64(),
            _ => provider_status(value),
        }),
        Value::Array(items) => items.iter().find_map(provider_status),
        _ => None,
    }
}

/// The state of a conversation, which Codex reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcpThreadState {
    Working,
    /// The last request to the provider failed.
    Failed,
}

impl AcpThreadState {
    /// Finds the state in the metadata of an agent.
    pub(super) fn find(meta: &Value) -> Option<Self> {
        let status = meta.pointer("/codex/threadStatus/type")?;
        Some(if status == "systemError" { Self::Failed } else { Self::Working })
    }
}

/// Returns the failure of a turn that ended because a request was denied.
pub(super) fn stopped_after_refusal() -> TurnFailure {
    TurnFailure::new(FailureClass::Permission, "the agent stopped because a request was denied")
}
