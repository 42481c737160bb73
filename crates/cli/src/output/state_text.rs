//! Texts for the states of agents and runs, with times relative to now. Pure.

use std::time::Duration;

use agent_worker_protocol::{
    AgentState, Millis, Outcome, Receipt, RunState, Usage,
    api::{RunError, RunErrorCode, RunView, TeamVerdict, UnheardMention},
};

use crate::output::{
    clock, failure_text,
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
        | AgentState::Queued { .. }
        | AgentState::Waiting { .. }
        | AgentState::Paused { .. }
        | AgentState::Stopping
        | AgentState::Stopped { .. } => state.to_string(),
    })
}

/// Describes a mention whose agent was not messaged.
pub(crate) fn unheard_text(mention: &UnheardMention) -> String {
    let UnheardMention { seq, from, agent, cause } = mention;
    let cause = cause.as_ref().map(|cause| format!(": {}", one_line(cause))).unwrap_or_default();
    format!("#{seq} of {from} mentions {agent}, who was not messaged{cause}")
}

/// Describes the state of a run, with its cause if the state does not name it, and with the newest failure of its agents
/// that is not recovered.
pub(crate) fn run_state_text(run: &RunView) -> String {
    let failed = failure_text::newest_failure(run).map(ToString::to_string);
    let undone = run.dead_letters.first().or(run.dropped.first());
    let whys: Vec<String> = match (&run.state, &run.error) {
        (RunState::Ended { .. }, Some(error)) => vec![run_error_text(run, error)],
        (RunState::Ended { outcome: Outcome::Done }, None) => {
            run.verdict.iter().map(|verdict| verdict_text(verdict, &verdict.summary)).collect()
        }
        (RunState::Ended { outcome: Outcome::Failed }, None) => {
            failed.or_else(|| undone.map(undone_text)).into_iter().collect()
        }
        (RunState::Ended { outcome: Outcome::Stopped }, None) => failed.into_iter().collect(),
        (RunState::Setup | RunState::Electing | RunState::Running | RunState::Paused { .. }, _) => {
            let held = run.held.then(|| "held, because the daemon was stopped".to_owned());
            held.into_iter().chain(failed).collect()
        }
    };
    let state = run.state.to_string();
    if whys.is_empty() {
        return one_line(&state);
    }
    // The state of a paused run names the cause of the pause.
    let separator = if state.contains(": ") { "; " } else { ": " };
    one_line(&format!("{state}{separator}{}", whys.join("; ")))
}

fn undone_text(receipt: &Receipt) -> String {
    let Receipt { seq, agent, state, .. } = receipt;
    let why = receipt.why.as_deref().unwrap_or("no reason given");
    format!("#{seq} for {agent} is {state}: {why}")
}

fn verdict_text(verdict: &TeamVerdict, summary: &str) -> String {
    format!("verdict of {}: {summary}", verdict.by)
}

/// Completes a sentence about a run or an agent with its state: `is running`, `failed: …`.
pub(crate) fn state_sentence(state: &str) -> String {
    if state.starts_with("failed") { state.to_owned() } else { format!("is {state}") }
}

/// Describes the error of a run; the summary of a verdict has an author.
pub(crate) fn run_error_text(run: &RunView, error: &RunError) -> String {
    match (&run.verdict, error.code) {
        (Some(verdict), RunErrorCode::Verdict) => verdict_text(verdict, &error.message),
        _ => error.message.clone(),
    }
}

/// Describes the part of the wall limit that is used: `12m 5s of 2h wall time used`.
pub(crate) fn wall_text(run: &RunView) -> Option<String> {
    let used = text::format_elapsed(Duration::from_millis(run.wall_used_ms));
    run.limits.wall.map(|wall| format!("{used} of {wall} wall time used"))
}

/// Describes the grace period of live turns after the wall limit.
pub(crate) fn grace_text(run: &RunView, now: Millis) -> Option<String> {
    let end = run.grace_ends?;
    Some(format!("may finish until {}", clock::format_local_time(end, now)))
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

/// Formats a price in dollars, rounded to four decimals, with two if they hide no part of it.
pub(crate) fn format_dollars(micros: u64) -> String {
    if (1..100).contains(&micros) {
        return "<$0.0001".to_owned();
    }
    let rounded = (micros + 50) / 100;
    let (dollars, rest) = (rounded / 10_000, rounded % 10_000);
    if rest % 100 == 0 {
        format!("${dollars}.{:02}", rest / 100)
    } else {
        format!("${dollars}.{rest:04}")
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{
        AttemptId, DeliveryState, FailureClass, LimitKind, PauseCause, VerdictOutcome,
    };

    use super::*;
    use crate::output::samples::{self, at};

    #[test]
    fn an_agents_word_tells_its_times_from_now() {
        let attempt = AttemptId::new(uuid::Uuid::nil());
        let limit = PauseCause::limit(LimitKind::Hops, "51 of 50".to_owned());
        let why = "503 from\nthe provider".to_owned();
        for (state, expected) in [
            (AgentState::Idle, "idle"),
            (AgentState::Queued { full: None }, "queued"),
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
        let failures = vec![samples::failure("coder", FailureClass::Auth)];
        let in_state = |state| RunView { state, ..samples::run() };
        let cause = PauseCause::limit(LimitKind::Hops, "51 of 50".to_owned());
        let verdict = TeamVerdict {
            outcome: VerdictOutcome::Done,
            summary: "all tests\npass".into(),
            by: samples::agent_name("coder"),
        };
        for (view, expected) in [
            (samples::run(), "done"),
            (ended(Outcome::Failed), "failed"),
            (
                RunView { dead_letters: vec![dead.clone()], ..ended(Outcome::Failed) },
                "failed: #7 for coder is dead: it crashed",
            ),
            (
                RunView {
                    dropped: vec![dead.clone()],
                    last_failures: vec![samples::failure("coder", FailureClass::Auth)],
                    ..ended(Outcome::Failed)
                },
                "failed: coder failed (auth): 401 bad key",
            ),
            (RunView { dropped: vec![dead], ..ended(Outcome::Stopped) }, "stopped"),
            (
                RunView { last_failures: failures.clone(), ..ended(Outcome::Stopped) },
                "stopped: coder failed (auth): 401 bad key",
            ),
            (
                RunView { last_failures: failures.clone(), ..in_state(RunState::Running) },
                "running: coder failed (auth): 401 bad key",
            ),
            (
                RunView { last_failures: failures, ..in_state(RunState::Paused { cause }) },
                "paused: hop limit (51 of 50); coder failed (auth): 401 bad key",
            ),
            (
                RunView { verdict: Some(verdict), ..samples::run() },
                "done: verdict of coder: all tests pass",
            ),
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
            (1_234_567, "$1.2346"),
            (1_999_990, "$2.00"),
            (149, "$0.0001"),
            (150, "$0.0002"),
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
