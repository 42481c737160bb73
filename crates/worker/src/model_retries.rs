//! Retries of a request to a model within the turn. Pure.
//!
//! The worker waits in place for a short delay that the provider asks for. A long one, or the third in a row, ends the turn, so that
//! the worker does not hold its slot.

use std::time::Duration;

use agent_worker_models::ModelFailure;
use agent_worker_protocol::FailureClass;

/// Longest delay that a worker waits for in place.
const MAX_DELAY_IN_PLACE: Duration = Duration::from_mins(1);
/// Maximum number of retries in a row.
const MAX_RETRIES: u32 = 2;
/// Delay before the first retry, if the provider names none.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Delay of a rate limit whose provider names none.
pub(crate) const DEFAULT_LIMIT_DELAY: Duration = Duration::from_secs(30);

/// The next step after a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryStep {
    /// Ask again after this delay.
    Wait(Duration),
    /// End the turn with the failure.
    GiveUp,
}

/// Returns the next step after a failure; `failed` is the number of failures before it in a row.
pub(crate) fn next_retry(failure: &ModelFailure, failed: u32) -> RetryStep {
    let usual = match failure.class {
        FailureClass::Transient => FIRST_DELAY * 4_u32.pow(failed.min(MAX_RETRIES)),
        FailureClass::RateLimited => DEFAULT_LIMIT_DELAY,
        FailureClass::Crash
        | FailureClass::Timeout
        | FailureClass::ContextOverflow
        | FailureClass::Permission
        | FailureClass::Output
        | FailureClass::MissingProgram
        | FailureClass::OutdatedProgram
        | FailureClass::Fatal
        | FailureClass::Auth
        | FailureClass::Billing => return RetryStep::GiveUp,
    };
    let delay = failure.retry_after.unwrap_or(usual);
    if failed >= MAX_RETRIES || delay > MAX_DELAY_IN_PLACE {
        return RetryStep::GiveUp;
    }
    RetryStep::Wait(delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_delay_is_waited_for_twice_in_a_row_and_a_long_one_never() {
        let secs = Duration::from_secs;
        for (class, after, failed, expected) in [
            (FailureClass::RateLimited, Some(60), 0, RetryStep::Wait(secs(60))),
            (FailureClass::RateLimited, Some(61), 0, RetryStep::GiveUp),
            (FailureClass::RateLimited, Some(1), 1, RetryStep::Wait(secs(1))),
            (FailureClass::RateLimited, Some(1), 2, RetryStep::GiveUp),
            (FailureClass::RateLimited, None, 0, RetryStep::Wait(secs(30))),
            (FailureClass::Transient, None, 0, RetryStep::Wait(secs(1))),
            (FailureClass::Transient, None, 1, RetryStep::Wait(secs(4))),
            (FailureClass::Transient, None, 2, RetryStep::GiveUp),
            (FailureClass::Transient, Some(90), 0, RetryStep::GiveUp),
            (FailureClass::Transient, Some(0), 0, RetryStep::Wait(secs(0))),
            (FailureClass::Auth, None, 0, RetryStep::GiveUp),
            (FailureClass::Billing, Some(1), 0, RetryStep::GiveUp),
            (FailureClass::ContextOverflow, None, 0, RetryStep::GiveUp),
            (FailureClass::Fatal, None, 0, RetryStep::GiveUp),
        ] {
            let retry_after = after.map(secs);
            let failure = ModelFailure { class, why: String::new(), retry_after };
            assert_eq!(next_retry(&failure, failed), expected, "{class} {after:?} {failed}");
        }
    }
}
