//! Texts for the states of agents and runs, with times relative to now. Pure.

use agent_worker_protocol::{AgentState, Millis, RunState, Usage, api::RunView};

use crate::output::{
    clock,
    text::{self, one_line},
};

/// Describes the state of an agent.
pub(crate) fn agent_state_text(state: &AgentState, now: Millis) -> String {
    one_line(&match state {
        AgentState::Running { since, .. } => {
            format!("running for {}", text::format_age(now.since(*since)))
        }
        AgentState::BackingOff { until, why } if *until <= now => format!("retrying now: {why}"),
        AgentState::BackingOff { until, why } => {
            format!("retrying in {}: {why}", text::format_delay(until.since(now)))
        }
        AgentState::Parked { until, why } => {
            format!("rate-limited until {}: {why}", clock::format_local_time(*until, now))
        }
        // The reason already contains the word "stopped".
        AgentState::Stopped { why } if why.starts_with("stopped ") => why.clone(),
        AgentState::Idle
        | AgentState::Queued
        | AgentState::Waiting { .. }
        | AgentState::Paused { .. }
        | AgentState::Stopping
        | AgentState::Stopped { .. } => state.to_string(),
    })
}

/// Describes the state of a run, with its cause if the state does not name it.
pub(crate) fn run_state_text(run: &RunView) -> String {
    let why = match (&run.state, &run.error, run.dead_letters.first().or(run.dropped.first())) {
        (RunState::Ended { .. }, Some(error), _) => Some(error.message.clone()),
        (RunState::Ended { .. }, None, Some(first)) if !is_stopped(run) => {
            let why = first.why.as_deref().unwrap_or("no reason given");
            Some(format!("#{} for {} is {}: {why}", first.seq, first.agent, first.state))
        }
        _ => None,
    };
    match why {
        Some(why) => one_line(&format!("{}: {why}", run.state)),
        None => one_line(&run.state.to_string()),
    }
}

fn is_stopped(run: &RunView) -> bool {
    use agent_worker_protocol::Outcome;
    matches!(run.state, RunState::Ended { outcome: Outcome::Stopped })
}

/// Formats the time since `at`: `3m ago`.
pub(crate) fn time_ago(at: Millis, now: Millis) -> String {
    format!("{} ago", text::format_age(now.since(at)))
}

/// Formats the usage: `1234 tokens in, 56 out, $0.02`.
pub(crate) fn usage_text(usage: &Usage) -> String {
    let tokens = format!("{} tokens in, {} out", usage.input_tokens, usage.output_tokens);
    match cost_text(usage) {
        Some(cost) if usage.has_unknown_cost() => format!("{tokens}, cost {cost}"),
        Some(cost) => format!("{tokens}, {cost}"),
        None => tokens,
    }
}

/// Formats the cost: `$0.02`; `~$0.02` if a part was estimated from a price list; `unknown`. Returns `None` if no model
/// was called.
pub(crate) fn cost_text(usage: &Usage) -> Option<String> {
    match usage.cost_micros {
        Some(micros) if usage.cost_reckoned => Some(format!("~{}", format_dollars(micros))),
        Some(micros) => Some(format_dollars(micros)),
        None => usage.has_tokens().then(|| "unknown".to_owned()),
    }
}

/// Formats a price in dollars, with two decimals unless they would hide a part of it.
fn format_dollars(micros: u64) -> String {
    match micros % 10_000 {
        1..100 if micros < 100 => "<$0.0001".to_owned(),
        0 => format!("${}.{:02}", micros / 1_000_000, micros / 10_000 % 100),
        _ => format!("${}.{:04}", micros / 1_000_000, micros / 100 % 10_000),
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{
        AttemptId, DeliveryState, LimitKind, Outcome, PauseCause, Receipt,
        api::{RunError, RunErrorCode},
    };

    use super::*;
    use crate::output::samples::{self, at};

    #[test]
    fn an_agents_word_tells_its_times_from_now() {
        let attempt = AttemptId::new(uuid::Uuid::nil());
        let limit = PauseCause::Limit { limit: LimitKind::Hops, detail: "51 of 50".into() };
        let why = "503 from\nthe provider".to_owned();
        for (state, expected) in [
            (AgentState::Idle, "idle"),
            (AgentState::Queued, "queued"),
            (AgentState::Running { attempt, since: at(48) }, "running for 12s"),
            (
                AgentState::BackingOff { until: at(62), why: why.clone() },
                "retrying in 2 s: 503 from the provider",
            ),
            (AgentState::BackingOff { until: at(60), why }, "retrying now: 503 from the provider"),
            (AgentState::Paused { why: limit.to_string() }, "paused: hop limit (51 of 50)"),
            (AgentState::Stopping, "stopping"),
            (AgentState::Stopped { why: "auth: 401".into() }, "stopped: auth: 401"),
            (AgentState::Stopped { why: "stopped by the user".into() }, "stopped by the user"),
        ] {
            assert_eq!(agent_state_text(&state, at(60)), expected);
        }
        let parked = AgentState::Parked { until: at(120), why: "429".into() };
        let clock = clock::format_local_time(at(120), at(60));
        assert_eq!(agent_state_text(&parked, at(60)), format!("rate-limited until {clock}: 429"));
    }

    #[test]
    fn a_runs_word_says_what_made_it_so() {
        let ended = |outcome| RunView { state: RunState::Ended { outcome }, ..samples::run() };
        let dead = Receipt {
            why: Some("it crashed".into()),
            ..samples::receipt(7, "coder", DeliveryState::Dead)
        };
        let error = RunError { code: RunErrorCode::SetupFailed, message: "`x` exited".into() };
        for (view, expected) in [
            (samples::run(), "done"),
            (ended(Outcome::Failed), "failed"),
            (
                RunView { dead_letters: vec![dead.clone()], ..ended(Outcome::Failed) },
                "failed: #7 for coder is dead: it crashed",
            ),
            (RunView { dropped: vec![dead], ..ended(Outcome::Stopped) }, "stopped"),
            (RunView { error: Some(error), ..ended(Outcome::Failed) }, "failed: `x` exited"),
        ] {
            assert_eq!(run_state_text(&view), expected);
        }
    }

    #[test]
    fn a_price_is_in_cents_unless_that_hides_it() {
        for (micros, expected) in [
            (0, "$0.00"),
            (1_250_000, "$1.25"),
            (1_234_500, "$1.2345"),
            (100, "$0.0001"),
            (45, "<$0.0001"),
        ] {
            assert_eq!(format_dollars(micros), expected);
        }
    }

    #[test]
    fn a_cost_says_how_well_it_is_known_and_is_never_zero_because_it_is_not() {
        let used = |cost_micros, cost_reckoned| Usage {
            input_tokens: 12,
            output_tokens: 3,
            cost_micros,
            cost_reckoned,
        };
        for (used, expected) in [
            (used(Some(20_000), false), "12 tokens in, 3 out, $0.02"),
            (used(Some(20_000), true), "12 tokens in, 3 out, ~$0.02"),
            (used(None, false), "12 tokens in, 3 out, cost unknown"),
            (Usage::default(), "0 tokens in, 0 out"),
        ] {
            assert_eq!(usage_text(&used), expected);
        }
    }
}
