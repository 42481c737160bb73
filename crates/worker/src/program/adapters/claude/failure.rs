//! Failures of Claude Code and their classes: by the fields of its events, never by their texts.

use std::time::Duration;

use agent_worker_protocol::FailureClass;
use serde_json::Value;

use super::ClaudeResult;
use crate::{
    clocks::time_of_day,
    program::{ProgramEvent, class_of_status},
    turn::TurnFailure,
};

/// Maximum pause before a retry of the program. The worker takes over longer pauses, so that no process only
/// sleeps.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);

impl ClaudeResult {
    pub(super) fn into_failure(self, error: Option<&str>) -> TurnFailure {
        let reason = self.terminal_reason.as_deref();
        let class = match (reason, error, self.api_error_status) {
            (Some("prompt_too_long"), _, _) => FailureClass::ContextOverflow,
            (_, Some("authentication_failed"), _) => FailureClass::Auth,
            (_, Some("billing_error"), _) => FailureClass::Billing,
            (_, Some("rate_limit"), _) => FailureClass::RateLimited,
            (_, _, Some(status)) => class_of_status(status),
            (_, Some("server_error"), None) => FailureClass::Transient,
            (_, _, None) => FailureClass::Fatal,
        };
        if self.subtype == "error_max_turns" {
            let why = format!(
                "the model still called tools after {} steps (max_steps)",
                self.num_turns.saturating_sub(1)
            );
            return TurnFailure::new(FailureClass::Fatal, why);
        }
        let said = self.result.into_iter().chain(self.errors).collect::<Vec<_>>().join("; ");
        let why = if said.is_empty() { self.subtype } else { said };
        TurnFailure::new(class, why)
    }
}

/// Reports a retry of the program, or gives up if the retry is futile or too late.
pub(super) fn retry_event(
    status: Option<u64>,
    error: Option<&Value>,
    delay_ms: f64,
) -> ProgramEvent {
    let what = error.and_then(Value::as_str).unwrap_or("the provider cannot be reached");
    let why = match status {
        Some(status) => format!("{what} (status {status})"),
        None => what.to_owned(),
    };
    let class = status.map_or(FailureClass::Transient, class_of_status);
    let pause = Duration::from_secs_f64((delay_ms / 1000.0).clamp(0.0, 1e9));
    match class {
        FailureClass::Auth | FailureClass::Billing => {
            ProgramEvent::GaveUp(TurnFailure::new(class, why))
        }
        FailureClass::RateLimited | FailureClass::Transient if pause > MAX_RETRY_DELAY => {
            let retry_at = Some(time_of_day().plus(pause));
            ProgramEvent::GaveUp(TurnFailure { retry_at, ..TurnFailure::new(class, why) })
        }
        _ => ProgramEvent::Retry(why),
    }
}
