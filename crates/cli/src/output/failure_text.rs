//! Describes the failures of agents. Pure; `next_steps` names the step after each of them.

use agent_worker_protocol::{
    Millis,
    api::{AgentFailure, LastFailure, RunView},
};

use crate::output::{state_text, text::one_line};

/// Returns the newest failure that no later attempt of its agent made up for.
pub(crate) fn newest_failure(run: &RunView) -> Option<&AgentFailure> {
    run.unrecovered_failures().max_by_key(|failed| failed.failure.at)
}

/// Describes the last failure of an agent with its time.
pub(crate) fn failure_text(failure: &LastFailure, now: Millis) -> String {
    let LastFailure { class, message, at, recovered, .. } = failure;
    let recovered = if *recovered { " (recovered)" } else { "" };
    format!("{}, {class}: {}{recovered}", state_text::time_ago(*at, now), one_line(message))
}
