//! Limits of a run: hops, turns, cost and tokens. Pure.

use crate::scheduling::wall_limit;
use agent_worker_protocol::{
    LimitKind, Limits, PauseCause, RunMode, RunState, Seq, Span, SpendLimits,
    api::{ResumeRequest, usd_text},
};
use agent_worker_store::{
    AgentRow, LeaseFacts, LeaseStep, LimitScope, RunFacts, RunRow, RunSpend, StoreTime,
};

/// Returns the hops of a message: one more than the message it answers, else than the maximum that the attempt was
/// shown.
pub(crate) fn hop_count(shown: &[(Seq, u32)], reply_to: Option<Seq>) -> u32 {
    let answered = shown.iter().find(|(seq, _)| Some(*seq) == reply_to).map(|(_, hops)| *hops);
    let most = shown.iter().map(|(_, hops)| *hops).max();
    answered.or(most).map_or(0, |hops| hops.saturating_add(1))
}

/// Returns the cause of a pause if a message exceeds the hop limit.
pub(crate) fn hop_limit_cause(hops: u32, limits: &Limits) -> Option<PauseCause> {
    (hops > limits.hops).then(|| PauseCause::Limit {
        limit: LimitKind::Hops,
        detail: format!("a chain of {hops} messages, {} allowed", limits.hops),
    })
}

/// Decides whether one more attempt may start. At the limit a team pauses; a standalone agent is stopped
/// individually.
pub(crate) fn lease_step(facts: &LeaseFacts) -> LeaseStep {
    let cause = turn_limit_cause(facts).or_else(|| spend_limit_cause(&facts.limits, facts.spent));
    match (cause, facts.limit_scope) {
        (None, _) => LeaseStep::Start,
        (Some(cause), LimitScope::Team) => LeaseStep::Pause(cause),
        (Some(cause), LimitScope::Standalone) => LeaseStep::Stop(cause.to_string()),
    }
}

/// Returns the cause of a pause if one more attempt would exceed the turn limit; live attempts count as turns.
fn turn_limit_cause(facts: &LeaseFacts) -> Option<PauseCause> {
    let most = facts.limits.turns?;
    let (taken, when) = match facts.mode {
        RunMode::Run => (facts.turns, ""),
        RunMode::Start => (facts.turns_today, " in the last 24 hours"),
    };
    (taken + facts.attempts >= most).then(|| PauseCause::Limit {
        limit: LimitKind::Turns,
        detail: match facts.attempts {
            0 => format!("{taken} turns taken{when}, {most} allowed"),
            live => format!("{taken} turns taken{when} and {live} under way, {most} allowed"),
        },
    })
}

/// Returns the cause of a pause if the reported work of the models has reached a limit.
pub(crate) fn spend_limit_cause(limits: &Limits, spent: RunSpend) -> Option<PauseCause> {
    let SpendLimits { cost_micros, tokens } = limits.spend;
    let is_spent = |limit: Option<u64>, spent: u64| limit.is_some_and(|limit| spent >= limit);
    if is_spent(cost_micros, spent.cost_micros) {
        let detail = format!("${} spent", usd_text(spent.cost_micros));
        return Some(spend_cause(limits, LimitKind::Cost, &detail));
    }
    is_spent(tokens, spent.tokens)
        .then(|| spend_cause(limits, LimitKind::Tokens, &format!("{} tokens used", spent.tokens)))
}

fn spend_cause(limits: &Limits, limit: LimitKind, detail: &str) -> PauseCause {
    let allowed = match limit {
        LimitKind::Cost => limits.spend.cost_micros.map(|micros| format!("${}", usd_text(micros))),
        LimitKind::Tokens => limits.spend.tokens.map(|tokens| tokens.to_string()),
        LimitKind::Hops | LimitKind::Turns | LimitKind::Wall => None,
    };
    let detail = format!("{detail}, {} allowed", allowed.unwrap_or_default());
    PauseCause::Limit { limit, detail }
}

/// A decision about a call of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SpendStep {
    /// The call stays within the limits.
    Reserve,
    /// The call exceeds a limit only if the reserved calls of other agents use all that they may.
    Wait,
    /// The call could exceed a limit.
    Refuse(PauseCause),
}

/// Decides about a call of a model that may use `call`, while the calls of other agents may use `reserved`.
pub(crate) fn spend_step(
    limits: &Limits,
    spent: RunSpend,
    reserved: RunSpend,
    call: RunSpend,
) -> SpendStep {
    let SpendLimits { cost_micros, tokens } = limits.spend;
    let mut step = SpendStep::Reserve;
    for (kind, limit, spent, reserved, call) in [
        (LimitKind::Cost, cost_micros, spent.cost_micros, reserved.cost_micros, call.cost_micros),
        (LimitKind::Tokens, tokens, spent.tokens, reserved.tokens, call.tokens),
    ] {
        let Some(limit) = limit else { continue };
        if spent.saturating_add(call) > limit {
            let detail = match kind {
                LimitKind::Cost => format!(
                    "${} spent and up to ${} for the next call",
                    usd_text(spent),
                    usd_text(call)
                ),
                _ => format!("{spent} tokens used and up to {call} for the next call"),
            };
            return SpendStep::Refuse(spend_cause(limits, kind, &detail));
        }
        if spent.saturating_add(reserved).saturating_add(call) > limit {
            step = SpendStep::Wait;
        }
    }
    step
}

/// Returns true if a run that is paused at its turn limit may continue: turns of a `start` count for one day.
pub(crate) fn has_turns_left(facts: &RunFacts) -> bool {
    let RunFacts { mode, turns, turns_today, attempts, limits, spent, .. } = *facts;
    let whose = LimitScope::Team;
    let limited = turn_limit_cause(&LeaseFacts {
        mode,
        turns,
        turns_today,
        attempts,
        limits,
        spent,
        limit_scope: whose,
    });
    mode == RunMode::Start && limited.is_none()
}

/// Returns the limits to raise if a paused run would pause again at once with `limits`. `today` is the number of
/// turns that count for a `start`, including live attempts.
pub(crate) fn missing_limits(
    run: &RunRow,
    agents: &[AgentRow],
    today: u32,
    limits: &Limits,
    now: StoreTime,
) -> Option<ResumeRequest> {
    let RunState::Paused { cause: PauseCause::Limit { limit, .. } } = &run.state else {
        return None;
    };
    let twice = |number: u32| Some(number.saturating_mul(2).max(1));
    let nothing = ResumeRequest::default();
    match limit {
        LimitKind::Hops => {
            let (enough, before) = (limits.hops, run.limits.hops);
            (enough <= before).then(|| ResumeRequest { hops: twice(before), ..nothing })
        }
        LimitKind::Turns => {
            let (enough, before) = (limits.turns?, run.limits.turns?);
            let taken = match run.mode {
                RunMode::Run => {
                    let live = agents.iter().filter(|agent| agent.live.is_some()).count();
                    run.turns.saturating_add(u32::try_from(live).unwrap_or(u32::MAX))
                }
                RunMode::Start => today,
            };
            let more = twice(before.max(taken));
            (enough <= taken).then_some(ResumeRequest { turns: more, ..nothing })
        }
        LimitKind::Cost => {
            let (enough, before) = (limits.spend.cost_micros?, run.limits.spend.cost_micros?);
            let spent = run.usage.cost_micros.unwrap_or_default();
            let more = Some(before.max(spent).saturating_mul(2).max(1));
            (enough <= before).then_some(ResumeRequest { cost_micros: more, ..nothing })
        }
        LimitKind::Tokens => {
            let (enough, before) = (limits.spend.tokens?, run.limits.spend.tokens?);
            let used = run.usage.input_tokens.saturating_add(run.usage.output_tokens);
            let more = Some(before.max(used).saturating_mul(2).max(1));
            (enough <= before).then_some(ResumeRequest { tokens: more, ..nothing })
        }
        LimitKind::Wall => {
            let wall = limits.wall?;
            let lasts = wall_limit::needed_time(run.clock, earliest_wait(agents), now);
            let hours = lasts.as_secs().div_ceil(3600) + 1;
            let more = Some(Span::from_secs(hours.saturating_mul(3600)));
            (lasts >= wall.duration()).then_some(ResumeRequest { wall: more, ..nothing })
        }
    }
}

/// Returns the earliest time that an agent with mail waits for, if all of them wait.
fn earliest_wait(agents: &[AgentRow]) -> Option<StoreTime> {
    let wanted = agents.iter().filter(|agent| agent.waiting > 0 && agent.stopped.is_none());
    // An agent without a wait sorts first, as `None`.
    wanted.map(|agent| agent.not_before.as_ref().map(|wait| wait.at)).min().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_grow_along_what_is_answered_and_else_along_the_longest_chain() {
        let shown = [(Seq::new(4), 2), (Seq::new(7), 9)];
        for (shown, reply_to, expected) in [
            (&shown[..], None, 10),
            (&shown[..], Some(4), 3),
            (&shown[..], Some(7), 10),
            (&shown[..], Some(1), 10),
            (&[], None, 0),
            (&[], Some(4), 0),
        ] {
            assert_eq!(
                hop_count(shown, reply_to.map(Seq::new)),
                expected,
                "{shown:?} {reply_to:?}"
            );
        }
    }

    #[test]
    fn the_message_after_the_last_allowed_hop_trips_the_limit() {
        let limits = Limits {
            hops: 50,
            turns: None,
            wall: None,
            wall_grace: Limits::WALL_GRACE,
            spend: agent_worker_protocol::SpendLimits::NONE,
        };
        assert!(hop_limit_cause(50, &limits).is_none());
        assert!(hop_limit_cause(51, &limits).is_some());
    }

    #[test]
    fn attempts_that_live_count_as_turns_to_come() {
        let limits = Limits {
            hops: 50,
            turns: Some(3),
            wall: None,
            wall_grace: Limits::WALL_GRACE,
            spend: agent_worker_protocol::SpendLimits::NONE,
        };
        let (mode, turns_today, whose) = (RunMode::Run, 0, LimitScope::Team);
        for (turns, attempts, stops) in
            [(0, 0, false), (2, 0, false), (2, 1, true), (3, 0, true), (1, 2, true)]
        {
            let facts = LeaseFacts {
                mode,
                turns,
                turns_today,
                attempts,
                limits,
                spent: RunSpend::default(),
                limit_scope: whose,
            };
            assert_eq!(turn_limit_cause(&facts).is_some(), stops, "{facts:?}");
        }
        let limits = Limits { turns: None, ..limits };
        let unlimited = LeaseFacts {
            mode,
            turns: 9,
            turns_today,
            attempts: 9,
            limits,
            spent: RunSpend::default(),
            limit_scope: whose,
        };
        assert_eq!(turn_limit_cause(&unlimited), None);
    }

    #[test]
    fn a_run_counts_the_turns_of_its_life_and_a_start_those_of_a_day() {
        let limits = Limits {
            hops: 50,
            turns: Some(3),
            wall: None,
            wall_grace: Limits::WALL_GRACE,
            spend: agent_worker_protocol::SpendLimits::NONE,
        };
        for (mode, turns, turns_today, attempts, expected) in [
            (RunMode::Run, 3, 0, 0, Some("turn limit (3 turns taken, 3 allowed)")),
            (RunMode::Run, 2, 2, 0, None),
            (RunMode::Start, 99, 2, 0, None),
            (
                RunMode::Start,
                99,
                3,
                0,
                Some("turn limit (3 turns taken in the last 24 hours, 3 allowed)"),
            ),
            (
                RunMode::Start,
                99,
                2,
                1,
                Some("turn limit (2 turns taken in the last 24 hours and 1 under way, 3 allowed)"),
            ),
        ] {
            let whose = LimitScope::Team;
            let facts = LeaseFacts {
                mode,
                turns,
                turns_today,
                attempts,
                limits,
                spent: RunSpend::default(),
                limit_scope: whose,
            };
            let limit = turn_limit_cause(&facts).map(|cause| cause.to_string());
            assert_eq!(limit.as_deref(), expected, "{facts:?}");
        }
    }

    #[test]
    fn a_call_is_reserved_waits_or_is_refused_by_what_it_could_use() {
        let spend = |cost_micros, tokens| RunSpend { cost_micros, tokens };
        let limits = |cost_micros, tokens| Limits {
            hops: 50,
            turns: None,
            wall: None,
            wall_grace: Limits::WALL_GRACE,
            spend: SpendLimits { cost_micros, tokens },
        };
        let cost = limits(Some(1_000_000), None);
        let tokens = limits(None, Some(100));
        for (limits, spent, reserved, call, expected) in [
            (&cost, spend(0, 0), spend(0, 0), spend(1_000_000, 9_999), "reserve"),
            (&cost, spend(1, 0), spend(0, 0), spend(1_000_000, 0), "refuse"),
            (&cost, spend(500_000, 0), spend(400_000, 0), spend(100_000, 0), "reserve"),
            (&cost, spend(500_000, 0), spend(400_001, 0), spend(100_000, 0), "wait"),
            (&tokens, spend(u64::MAX, 50), spend(0, 30), spend(u64::MAX, 20), "reserve"),
            (&tokens, spend(0, 50), spend(0, 31), spend(0, 20), "wait"),
            (&tokens, spend(0, 81), spend(0, 0), spend(0, 20), "refuse"),
            (&limits(None, None), spend(9, 9), spend(9, 9), spend(u64::MAX, 9), "reserve"),
        ] {
            let step = match spend_step(limits, spent, reserved, call) {
                SpendStep::Reserve => "reserve",
                SpendStep::Wait => "wait",
                SpendStep::Refuse(_) => "refuse",
            };
            assert_eq!(step, expected, "{spent:?} {reserved:?} {call:?}");
        }
        let refused = spend_step(&cost, spend(999_000, 0), spend(0, 0), spend(2_000, 0));
        let SpendStep::Refuse(cause) = refused else { panic!("{refused:?}") };
        let expected = "cost limit ($0.999 spent and up to $0.002 for the next call, $1 allowed)";
        assert_eq!(cause.to_string(), expected);
    }

    #[test]
    fn no_attempt_starts_once_a_limit_is_spent() {
        let limits = Limits {
            hops: 50,
            turns: None,
            wall: None,
            wall_grace: Limits::WALL_GRACE,
            spend: SpendLimits { cost_micros: Some(10), tokens: Some(100) },
        };
        for (cost_micros, tokens, expected) in [
            (9, 99, None),
            (10, 0, Some("cost limit ($0.00001 spent, $0.00001 allowed)")),
            (0, 100, Some("token limit (100 tokens used, 100 allowed)")),
        ] {
            let cause = spend_limit_cause(&limits, RunSpend { cost_micros, tokens });
            assert_eq!(cause.map(|cause| cause.to_string()).as_deref(), expected);
        }
    }
}
