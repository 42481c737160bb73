//! Limits of a run: hops and turns, the time of the next room, and the limits to raise. `spend_limit` has cost and tokens. Pure.

use crate::scheduling::{
    spend_limit::{SpendCount, window_text},
    wall_limit,
};
use agent_worker_protocol::{
    LimitKind, Limits, PauseCause, RunMode, RunState, Seq, Span, api::ResumeRequest,
};
use agent_worker_store::{
    AgentRow, LeaseFacts, LeaseStep, LimitScope, LimitUse, Now, RunFacts, RunRow, StoreTime,
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
    (hops > limits.hops).then(|| {
        let detail = format!("a chain of {hops} messages, {} allowed", limits.hops);
        PauseCause::limit(LimitKind::Hops, detail)
    })
}

/// The turns that count for the limit of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnCount {
    mode: RunMode,
    most: Option<u32>,
    taken: u32,
    /// Live attempts, which become turns.
    live: u32,
    /// Time at which the limit has room again.
    expires: Option<StoreTime>,
}

impl TurnCount {
    fn of_lease(facts: &LeaseFacts) -> Self {
        let LeaseFacts { mode, limits, turns, turns_today, attempts, turn_expires, .. } = facts;
        let taken = counted_turns(*mode, *turns, *turns_today);
        Self { mode: *mode, most: limits.turns, taken, live: *attempts, expires: *turn_expires }
    }

    pub(crate) fn of_run(facts: &RunFacts) -> Self {
        let RunFacts { mode, limits, turns, turns_today, attempts, turn_expires, .. } = facts;
        let taken = counted_turns(*mode, *turns, *turns_today);
        Self { mode: *mode, most: limits.turns, taken, live: *attempts, expires: *turn_expires }
    }

    pub(crate) fn of_use(run: &RunRow, used: &LimitUse) -> Self {
        let LimitUse { turns: taken, attempts: live, turn_expires: expires, .. } = *used;
        Self { mode: run.mode, most: run.limits.turns, taken, live, expires }
    }

    fn sum(&self) -> u32 {
        self.taken.saturating_add(self.live)
    }

    /// Returns the cause of a pause if one more attempt would exceed the limit.
    fn limit_cause(&self, now: Now) -> Option<PauseCause> {
        let most = self.most.filter(|most| self.sum() >= *most)?;
        let (taken, when) = (self.taken, window_text(self.mode));
        let detail = match self.live {
            0 => format!("{taken} turns taken{when}, {most} allowed"),
            live => format!("{taken} turns taken{when} and {live} under way, {most} allowed"),
        };
        let expires = self.expires.filter(|_| self.mode == RunMode::Start);
        let room_at = expires.map(|at| now.wall_at(at));
        Some(PauseCause::Limit { limit: LimitKind::Turns, detail, room_at, next_call: None })
    }
}

fn counted_turns(mode: RunMode, turns: u32, turns_today: u32) -> u32 {
    match mode {
        RunMode::Run => turns,
        RunMode::Start => turns_today,
    }
}

/// Decides whether one more attempt may start. At the limit a team pauses; a standalone agent is stopped
/// individually.
pub(crate) fn lease_step(facts: &LeaseFacts) -> LeaseStep {
    let by_turns = TurnCount::of_lease(facts).limit_cause(facts.now);
    let cause = by_turns.or_else(|| SpendCount::of_lease(facts).limit_cause());
    match (cause, facts.limit_scope) {
        (None, _) => LeaseStep::Start,
        (Some(cause), LimitScope::Team) => LeaseStep::Pause(cause),
        (Some(cause), LimitScope::Standalone) => LeaseStep::Stop(cause.to_string()),
    }
}

/// Returns the time at which a `start` that is paused at a limit of the last 24 hours continues by itself.
pub(crate) fn resume_at(
    state: &RunState,
    turns: &TurnCount,
    spend: &SpendCount<'_>,
) -> Option<StoreTime> {
    let RunState::Paused { cause: PauseCause::Limit { limit, next_call, .. } } = state else {
        return None;
    };
    match (turns.mode, limit) {
        (RunMode::Run, _) | (RunMode::Start, LimitKind::Hops | LimitKind::Wall) => None,
        (RunMode::Start, LimitKind::Turns) => {
            let is_full = turns.most.is_some_and(|most| turns.sum() >= most);
            if is_full { turns.expires } else { Some(spend.now.store) }
        }
        (RunMode::Start, LimitKind::Cost | LimitKind::Tokens) => {
            spend.room_at(*limit, next_call.unwrap_or_default())
        }
    }
}

/// Returns the limits to raise if a paused run would pause again at once with `limits`.
pub(crate) fn missing_limits(
    run: &RunRow,
    agents: &[AgentRow],
    used: &LimitUse,
    limits: &Limits,
    now: Now,
) -> Option<ResumeRequest> {
    let RunState::Paused { cause: PauseCause::Limit { limit, next_call, .. } } = &run.state else {
        return None;
    };
    let twice = |number: u32| Some(number.saturating_mul(2).max(1));
    let call = next_call.unwrap_or_default();
    let spend = SpendCount { limits: limits.spend, ..SpendCount::of_use(run, used, now) };
    let is_full = || spend.room_at(*limit, call).is_none_or(|at| at > now.store);
    let nothing = ResumeRequest::default();
    match limit {
        LimitKind::Hops => {
            let (enough, before) = (limits.hops, run.limits.hops);
            (enough <= before).then(|| ResumeRequest { hops: twice(before), ..nothing })
        }
        LimitKind::Turns => {
            let (enough, before) = (limits.turns?, run.limits.turns?);
            let taken = TurnCount::of_use(run, used).sum();
            let more = twice(before.max(taken));
            (enough <= taken).then_some(ResumeRequest { turns: more, ..nothing })
        }
        LimitKind::Cost => {
            let more = spend.enough(*limit, run.limits.spend.cost_micros?, call);
            is_full().then_some(ResumeRequest { cost_micros: Some(more), ..nothing })
        }
        LimitKind::Tokens => {
            let more = spend.enough(*limit, run.limits.spend.tokens?, call);
            is_full().then_some(ResumeRequest { tokens: Some(more), ..nothing })
        }
        LimitKind::Wall => {
            let wall = limits.wall?;
            let lasts = wall_limit::needed_time(run.clock, earliest_wait(agents), now.store);
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
    use agent_worker_protocol::Millis;

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

    const NOW: Now = Now { store: StoreTime::new(3_600_000), wall: Millis::new(0) };

    fn turns(mode: RunMode, taken: u32, live: u32) -> TurnCount {
        TurnCount { mode, most: Some(3), taken, live, expires: Some(StoreTime::new(90_000_000)) }
    }

    #[test]
    fn attempts_that_live_count_as_turns_to_come() {
        for (taken, live, stops) in
            [(0, 0, false), (2, 0, false), (2, 1, true), (3, 0, true), (1, 2, true)]
        {
            let count = turns(RunMode::Run, taken, live);
            assert_eq!(count.limit_cause(NOW).is_some(), stops, "{count:?}");
        }
        let unlimited = TurnCount { most: None, ..turns(RunMode::Run, 9, 9) };
        assert_eq!(unlimited.limit_cause(NOW), None);
    }

    #[test]
    fn the_turn_limit_names_its_window_and_the_time_of_the_next_turn() {
        let again = "room again at 1970-01-02T00:00:00.000Z";
        let start = "turn limit (3 turns taken in the last 24 hours, 3 allowed)";
        let live = "turn limit (2 turns taken in the last 24 hours and 1 under way, 3 allowed)";
        for (mode, taken, live, expected) in [
            (RunMode::Run, 3, 0, Some("turn limit (3 turns taken, 3 allowed)".to_owned())),
            (RunMode::Run, 2, 0, None),
            (RunMode::Start, 2, 0, None),
            (RunMode::Start, 3, 0, Some(format!("{start}, {again}"))),
            (RunMode::Start, 2, 1, Some(format!("{live}, {again}"))),
        ] {
            let limit = turns(mode, taken, live).limit_cause(NOW).map(|cause| cause.to_string());
            assert_eq!(limit, expected, "{mode} {taken} {live}");
        }
    }
}
