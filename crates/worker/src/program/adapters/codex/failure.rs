//! Failures of the provider: their classes, and pauses that are too long for a turn.

use std::time::Duration;

use agent_worker_protocol::FailureClass;
use serde_json::Value;

use super::message::CodexTurnError;
use crate::{
    clocks::time_of_day,
    program::{ProgramEvent, class_of_status},
    turn::TurnFailure,
};

/// Error for a response that broke off.
const STREAM_DISCONNECTED: &str = "stream disconnected before completion";
/// Maximum pause before a retry of the program. The worker takes over longer pauses.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);

impl CodexTurnError {
    /// Returns the failure of a turn that ended with this error.
    pub(super) fn turn_failure(self) -> TurnFailure {
        TurnFailure::new(self.class(), self.message)
    }

    /// Reports a retry, or gives up if the retry is futile. Rate limits also give up, because the program would wait as
    /// long as the provider demands, even an hour, without reporting the duration.
    pub(super) fn retry_event(self) -> ProgramEvent {
        let class = self.class();
        let why = self.additional_details.unwrap_or(self.message);
        match class {
            FailureClass::Auth | FailureClass::Billing | FailureClass::RateLimited => {
                ProgramEvent::GaveUp(TurnFailure::new(class, why))
            }
            _ => ProgramEvent::Retry(why),
        }
    }

    /// Returns the class by the provider's code, by the program's word or by the provider's status, never by a message.
    fn class(&self) -> FailureClass {
        let body: Option<Value> = serde_json::from_str(&self.message).ok();
        let code = body.as_ref().and_then(|body| body.pointer("/error/code")?.as_str());
        match code {
            Some("context_length_exceeded") => return FailureClass::ContextOverflow,
            Some("insufficient_quota") => return FailureClass::Billing,
            Some(_) | None => {}
        }
        match self.codex_error_info.as_str() {
            Some("contextWindowExceeded") => return FailureClass::ContextOverflow,
            Some("unauthorized") => return FailureClass::Auth,
            // The limit of a plan, or an account without credit.
            Some("usageLimitExceeded" | "rateLimitExceeded") => return FailureClass::RateLimited,
            Some("serverOverloaded" | "internalServerError") => return FailureClass::Transient,
            Some(_) | None => {}
        }
        let infos = self.codex_error_info.as_object();
        let mut statuses =
            infos.into_iter().flatten().filter_map(|(_, info)| info["httpStatusCode"].as_u64());
        match statuses.next() {
            Some(status) => class_of_status(status),
            // The program has no word for a response that broke off for the last time.
            None if self.is_disconnection() => FailureClass::Transient,
            None => FailureClass::Fatal,
        }
    }

    fn is_disconnection(&self) -> bool {
        self.codex_error_info.get("responseStreamDisconnected").is_some()
            || self.message.starts_with(STREAM_DISCONNECTED)
    }
}

/// Returns a failure if the provider demands a longer pause than the program may wait, because the program would
/// wait silently.
/// `method=POST url=… status=503 Service Unavailable headers={"retry-after": "600", …} version=HTTP/1.1`
pub(super) fn long_pause_failure(answered: &str) -> Option<TurnFailure> {
    let (_, status) = answered.split_once(" status=")?;
    let status: u64 = status.split(' ').next()?.parse().ok()?;
    let class = class_of_status(status);
    let (_, after) = answered.split_once("\"retry-after\": \"")?;
    let after = Duration::from_secs(after.split('"').next()?.parse().ok()?);
    let may_wait = matches!(class, FailureClass::Transient | FailureClass::RateLimited);
    let is_long = may_wait && after > MAX_RETRY_DELAY;
    is_long.then(|| {
        let why = format!("status {status}, retry after {} s", after.as_secs());
        let retry_at = Some(time_of_day().plus(after));
        TurnFailure { retry_at, ..TurnFailure::new(class, why) }
    })
}
