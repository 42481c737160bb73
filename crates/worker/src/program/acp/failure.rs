//! The failure class of an agent's error, by its code or by the name of its kind, never by its message.

use agent_worker_protocol::FailureClass;
use serde_json::Value;

use super::super::{adapters::gemini::has_reason, class_of_status};
use crate::turn::TurnFailure;

/// The protocol's code for "authentication required".
const AUTH_REQUIRED: i64 = -32000;

/// Converts a JSON-RPC error to a failure.
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
        // Includes `unknown`, which means a broken connection but also a bad request, and a bad request must not be
        // retried forever.
        Some(_) | None => {}
    }
    // Google returns 400 for an unknown key. The message may contain its response.
    let answer = serde_json::from_str::<Value>(said).ok();
    if answer.is_some_and(|answer| has_reason(&answer, "API_KEY_INVALID")) {
        return FailureClass::Auth;
    }
    // JSON-RPC's own codes are negative, so a code in the range of HTTP statuses is the provider's status.
    u64::try_from(code)
        .ok()
        .filter(|code| (400..600).contains(code))
        .map_or(FailureClass::Fatal, class_of_status)
}
