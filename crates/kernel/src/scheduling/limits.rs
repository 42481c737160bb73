//! Limits of a run: hops and turns. Pure.

use crate::scheduling::wall_limit;
use agent_worker_protocol::{
    LimitKind, Limits, PauseCause, RunMode, RunState, Seq, Span, api::ResumeRequest,
};
use agent_worker_store::{
    AgentRow, LeaseFacts, LeaseStep, LimitScope, RunFacts, RunRow, StoreTime,
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
    match (turn_limit_cause(facts), facts.limit_scope) {
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

/// Returns true if a run that is paused at its turn limit may continue: turns of a `start` count for one day.
pub(crate) fn has_turns_left(facts: &RunFacts) -> bool {
    let RunFacts { mode, turns, turns_today, attempts, limits, .. } = *facts;
    let whose = LimitScope::Team;
    let limited = turn_limit_cause(&LeaseFacts {
        mode,
        turns,
        turns_today,
        attempts,
        limits,
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
        let limits = Limits { hops: 50, turns: None, wall: None, wall_grace: Limits::WALL_GRACE };
        assert!(hop_limit_cause(50, &limits).is_none());
        assert!(hop_limit_cause(51, &limits).is_some());
    }

    #[test]
    fn attempts_that_live_count_as_turns_to_come() {
        let limits =
            Limits { hops: 50, turns: Some(3), wall: None, wall_grace: Limits::WALL_GRACE };
        let (mode, turns_today, whose) = (RunMode::Run, 0, LimitScope::Team);
        for (turns, attempts, stops) in
            [(0, 0, false), (2, 0, false), (2, 1, true), (3, 0, true), (1, 2, true)]
        {
            let facts =
                LeaseFacts { mode, turns, turns_today, attempts, limits, limit_scope: whose };
            assert_eq!(turn_limit_cause(&facts).is_some(), stops, "{facts:?}");
        }
        let limits = Limits { turns: None, ..limits };
        let unlimited =
            LeaseFacts { mode, turns: 9, turns_today, attempts: 9, limits, limit_scope: whose };
        assert_eq!(turn_limit_cause(&unlimited), None);
    }

    #[test]
    fn a_run_counts_the_turns_of_its_life_and_a_start_those_of_a_day() {
        let limits =
            Limits { hops: 50, turns: Some(3), wall: None, wall_grace: Limits::WALL_GRACE };
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
            let facts =
                LeaseFacts { mode, turns, turns_today, attempts, limits, limit_scope: whose };
            let limit = turn_limit_cause(&facts).map(|cause| cause.to_string());
            assert_eq!(limit.as_deref(), expected, "{facts:?}");
        }
    }
}
