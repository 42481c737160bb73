//! The wall limit of a run: the pause at the limit, and the stop of live turns after the grace period. Pure.
//!
//! Time counts while the run can work: not while it is paused, and not while only answers and votes of people are missing
//! (`RunFacts::counts_time`). At a limit of hops or turns it counts for the live turns that do not wait for a person.
//! `counted_time` takes out the time in which no daemon ran. A run that reached its wall limit stays paused until a person
//! raises the limit or stops the run.

use std::time::Duration;

use agent_worker_protocol::{LimitKind, Limits, PauseCause, RunState};
use agent_worker_store::{Now, RunClock, RunFacts, StoreTime};

use crate::procedure::ProcedureState;

/// The next action of the wall limit on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WallStep {
    /// The limit does nothing before the run changes.
    Wait,
    /// The limit or the end of the grace period is at this instant.
    Due(StoreTime),
    /// The grace period is over: the live turns and the commands of tasks are stopped.
    StopTurns,
}

/// Returns the cause of a pause if the limit is reached, or if no agent can work before it.
pub(crate) fn wall_limit_cause(facts: &RunFacts, now: Now) -> Option<PauseCause> {
    let wall = facts.limits.wall?;
    let left = wall.duration().saturating_sub(facts.clock.elapsed(now.store));
    match facts.all_wait_until {
        Some(until) if !left.is_zero() && until > now.store.plus(left) => {
            let detail = format!("the next retry, {}, is after {wall}", now.wall_at(until));
            Some(PauseCause::limit(LimitKind::Wall, detail))
        }
        Some(_) | None => wall_limit_reached(facts, now.store),
    }
}

/// Returns the cause of a pause if the limit is reached.
pub(crate) fn wall_limit_reached(facts: &RunFacts, now: StoreTime) -> Option<PauseCause> {
    let wall = facts.limits.wall.filter(|wall| facts.clock.elapsed(now) >= wall.duration())?;
    Some(PauseCause::limit(LimitKind::Wall, format!("{wall} allowed")))
}

/// Returns the next action of the wall limit. A task that works counts like a live turn.
pub(crate) fn wall_step(facts: &RunFacts, procedure: &ProcedureState, now: StoreTime) -> WallStep {
    let Some(wall) = facts.limits.wall else { return WallStep::Wait };
    if facts.counts_time(&facts.state) {
        return facts.clock.reaches(wall.duration()).map_or(WallStep::Wait, WallStep::Due);
    }
    let grace = grace_end(&facts.state, &facts.limits, facts.clock, facts.since);
    match grace.filter(|_| facts.attempts > 0 || procedure.is_working()) {
        Some(end) if end <= now => WallStep::StopTurns,
        Some(end) => WallStep::Due(end),
        None => WallStep::Wait,
    }
}

/// Returns the end of the grace period of a paused run whose time is up; `since` is the start of the pause.
pub(crate) fn grace_end(
    state: &RunState,
    limits: &Limits,
    clock: RunClock,
    since: StoreTime,
) -> Option<StoreTime> {
    let RunState::Paused { .. } = state else { return None };
    let is_up = clock.counted >= limits.wall?.duration();
    is_up.then(|| since.plus(limits.wall_grace.duration()))
}

/// Returns the time that a paused run needs in all until an agent can work: `until` is the instant that all agents
/// wait for.
pub(crate) fn needed_time(clock: RunClock, until: Option<StoreTime>, now: StoreTime) -> Duration {
    clock.elapsed(now) + until.map_or(Duration::ZERO, |until| until.since(now))
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::Span;

    use super::*;
    use crate::scheduling::run_step::sample_facts;

    const LIMIT: Duration = Duration::from_secs(100);

    fn clock(counted: u64, since: Option<i64>) -> RunClock {
        let counted = Duration::from_millis(counted);
        RunClock { counted, since: since.map(StoreTime::new) }
    }

    fn paused(cause: PauseCause) -> RunState {
        RunState::Paused { cause }
    }

    #[test]
    fn the_limit_is_due_when_the_counted_time_reaches_it_and_the_stop_after_the_grace_period() {
        let limit = || PauseCause::limit(LimitKind::Wall, "100s".to_owned());
        let hops = || PauseCause::limit(LimitKind::Hops, "50".to_owned());
        let due = |at| WallStep::Due(StoreTime::new(at));
        for (state, clock, attempts, now, expected) in [
            (RunState::Running, clock(0, Some(7)), 1, 10, due(100_007)),
            (RunState::Setup, clock(0, Some(7)), 0, 10, due(100_007)),
            (RunState::Running, clock(40_000, Some(500_000)), 0, 500_001, due(560_000)),
            (RunState::Running, clock(200_000, Some(500_000)), 0, 500_001, due(500_000)),
            // Only answers of a person are missing.
            (RunState::Running, clock(40_000, None), 0, 500_001, WallStep::Wait),
            (paused(limit()), clock(100_000, None), 1, 129_999, due(130_000)),
            (paused(limit()), clock(100_000, None), 1, 130_000, WallStep::StopTurns),
            (paused(limit()), clock(100_000, None), 0, 130_000, WallStep::Wait),
            // At another limit the time of a live turn counts.
            (paused(hops()), clock(40_000, Some(500_000)), 1, 500_001, due(560_000)),
            (paused(hops()), clock(40_000, None), 1, 500_001, WallStep::Wait),
            (paused(hops()), clock(40_000, Some(500_000)), 0, 500_001, WallStep::Wait),
            // A person who pauses the run at its limit does not lift the limit.
            (paused(PauseCause::User), clock(100_000, None), 1, 130_000, WallStep::StopTurns),
            (paused(PauseCause::User), clock(99_999, None), 1, 900_000, WallStep::Wait),
        ] {
            let since = StoreTime::new(100_000);
            let facts = RunFacts { state, clock, attempts, since, ..sample_facts() };
            assert_eq!(
                wall_step(&facts, &ProcedureState::Absent, StoreTime::new(now)),
                expected,
                "{facts:?}"
            );
        }
        let (state, clock) = (paused(limit()), clock(100_000, None));
        let facts = RunFacts {
            state,
            clock,
            attempts: 0,
            since: StoreTime::new(100_000),
            ..sample_facts()
        };
        let step = wall_step(&facts, &ProcedureState::OPEN, StoreTime::new(130_000));
        assert_eq!(step, WallStep::StopTurns, "a command of a task is live");
        let limits = Limits { wall: None, ..sample_facts().limits };
        let unlimited = RunFacts { limits, attempts: 1, ..sample_facts() };
        assert_eq!(
            wall_step(&unlimited, &ProcedureState::Absent, StoreTime::NEVER),
            WallStep::Wait
        );
    }

    #[test]
    fn time_counts_only_while_the_clock_runs() {
        let stopped = clock(40_000, None);
        assert_eq!(stopped.elapsed(StoreTime::new(i64::MAX)), Duration::from_secs(40));
        assert_eq!(stopped.reaches(LIMIT), None);
        let running = clock(40_000, Some(1_000));
        assert_eq!(running.elapsed(StoreTime::new(3_000)), Duration::from_secs(42));
        assert_eq!(running.elapsed(StoreTime::new(0)), Duration::from_secs(40));
        let needed = needed_time(running, Some(StoreTime::new(9_000)), StoreTime::new(3_000));
        assert_eq!(needed, Duration::from_secs(48));
    }

    #[test]
    fn the_grace_period_is_the_one_of_the_file() {
        let limits = Limits { wall_grace: Span::from_secs(5), ..sample_facts().limits };
        let state = paused(PauseCause::User);
        let end = grace_end(&state, &limits, clock(100_000, None), StoreTime::new(7));
        assert_eq!(end, Some(StoreTime::new(5_007)));
    }
}
