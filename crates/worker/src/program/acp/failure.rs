//! What an agent's error stands for: by its code, or by the word its kind has. Never by what it says.

use agent_worker_protocol::FailureClass;
use serde_json::Value;

use super::super::{adapters::gemini::has_reason, class_of_status};
use crate::turn::TurnFailure;

/// The protocol's code for "log in first".
const AUTH_REQUIRED: i64 = -32000;

/// A failure, from an error of JSON-RPC.
pub(super) fn failure_from_error(error: &Value) -> TurnFailure {
    let said = error["message"].as_str().unwrap_or_default();
    let why = if said.is_empty() { error.to_string() } else { said.to_owned() };
    TurnFailure::new(failure_class(error, said), why)
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
        // Also `unknown`: a connection that was cut, but a bad request too, and that must not be tried for ever.
        Some(_) | None => {}
    }
    // Google says 400 of a key it does not know. Its answer may be inside.
    let answer = serde_json::from_str::<Value>(said).ok();
    if answer.is_some_and(|answer| has_reason(&answer, "API_KEY_INVALID")) {
        return FailureClass::Auth;
    }
    // JSON-RPC's own codes are negative: what looks like a provider's status is one.
    u64::try_from(code)
        .ok()
        .filter(|code| (400..600).contains(code))
        .map_or(FailureClass::Fatal, class_of_status)
}
