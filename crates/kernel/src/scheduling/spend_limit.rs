//! The limits of cost and tokens: the decision before a turn and before a call of a model, and the time of the next room. Pure.
//!
//! A `run` counts its whole life, a `start` the last 24 hours. A call without a report counts with the most that it can have
//! used, so the words about it say "at most".

use agent_worker_protocol::{LimitKind, PauseCause, RunMode, SpendLimits, api::usd_text};
use agent_worker_store::{
    LeaseFacts, LimitScope, LimitUse, Now, ReserveFacts, ReserveStep, RunFacts, RunRow, RunSpend,
    SpendFacts, StoreTime,
};

/// The limits of spend, and what counts for them now.
pub(crate) struct SpendCount<'a> {
    pub(crate) mode: RunMode,
    pub(crate) limits: SpendLimits,
    pub(crate) scope: LimitScope,
    pub(crate) spend: &'a SpendFacts,
    pub(crate) now: Now,
}

impl<'a> SpendCount<'a> {
    pub(crate) fn of_lease(facts: &'a LeaseFacts) -> Self {
        let LeaseFacts { mode, limits, limit_scope: scope, spend, now, .. } = facts;
        Self { mode: *mode, limits: limits.spend, scope: *scope, spend, now: *now }
    }

    pub(crate) fn of_run(facts: &'a RunFacts, now: Now) -> Self {
        let RunFacts { mode, limits, spend, .. } = facts;
        Self { mode: *mode, limits: limits.spend, scope: LimitScope::Team, spend, now }
    }

    pub(crate) fn of_use(run: &RunRow, used: &'a LimitUse, now: Now) -> Self {
        let (mode, limits, scope) = (run.mode, run.limits.spend, LimitScope::Team);
        Self { mode, limits, scope, spend: &used.spend, now }
    }

    /// Returns the cause of a pause if the spend has reached a limit.
    pub(crate) fn limit_cause(&self) -> Option<PauseCause> {
        let reached =
            |kind: &LimitKind| self.limit(*kind).is_some_and(|most| self.spent(*kind) >= most);
        let kind = [LimitKind::Cost, LimitKind::Tokens].into_iter().find(reached)?;
        Some(self.cause(kind, None))
    }

    /// Decides about a call that may use `call`.
    fn step(&self, call: RunSpend) -> ReserveStep {
        let mut step = ReserveStep::Reserve;
        for kind in [LimitKind::Cost, LimitKind::Tokens] {
            let Some(limit) = self.limit(kind) else { continue };
            let needed = self.spent(kind).saturating_add(amount(kind, call));
            if needed > limit {
                return ReserveStep::Refuse(self.cause(kind, Some(amount(kind, call))));
            }
            if needed.saturating_add(amount(kind, self.spend.reserved)) > limit {
                step = ReserveStep::Wait;
            }
        }
        step
    }

    /// Returns the time from which the limit has room for a turn whose first call may use `call`: now, when older spend stops
    /// counting, or never.
    pub(crate) fn room_at(&self, kind: LimitKind, call: u64) -> Option<StoreTime> {
        let Some(limit) = self.limit(kind) else { return Some(self.now.store) };
        let has_room = |spent: u64| spent < limit && spent.saturating_add(call) <= limit;
        let mut spent = self.spent(kind);
        if has_room(spent) {
            return Some(self.now.store);
        }
        let mut parts = self.spend.expiring.iter();
        let part = parts.find(|part| {
            spent = spent.saturating_sub(amount(kind, part.spend));
            has_room(spent)
        });
        part.map(|part| part.at)
    }

    /// Returns a limit that has room, also for the calls under way: twice the larger of `before` and what is needed.
    pub(crate) fn enough(&self, kind: LimitKind, before: u64, call: u64) -> u64 {
        let under_way = amount(kind, self.spend.reserved);
        let needed = self.spent(kind).saturating_add(under_way).saturating_add(call);
        before.max(needed).saturating_mul(2).max(1)
    }

    fn cause(&self, limit: LimitKind, next_call: Option<u64>) -> PauseCause {
        let room_at = match (self.mode, self.scope) {
            (RunMode::Start, LimitScope::Team) => {
                self.room_at(limit, next_call.unwrap_or_default())
            }
            // Only a person continues a `run`, or a standalone agent.
            (RunMode::Run, _) | (_, LimitScope::Standalone) => None,
        };
        PauseCause::Limit {
            limit,
            detail: self.detail(limit, next_call),
            room_at: room_at.map(|at| self.now.wall_at(at)),
            next_call,
        }
    }

    fn detail(&self, kind: LimitKind, next_call: Option<u64>) -> String {
        let number = |amount: u64| match kind {
            LimitKind::Cost => format!("${}", usd_text(amount)),
            _ => amount.to_string(),
        };
        let verb = if kind == LimitKind::Cost { "spent" } else { "tokens used" };
        let when = window_text(self.mode);
        let spent = number(self.spent(kind));
        let spent = match amount(kind, self.spend.unreported) {
            0 => format!("{spent} {verb}{when}"),
            unreported => format!(
                "at most {spent} {verb}{when}, {} of it by calls without a report",
                number(unreported)
            ),
        };
        let next = next_call.map(|call| format!(" and up to {} for the next call", number(call)));
        let allowed = self.limit(kind).map(number);
        format!("{spent}{}, {} allowed", next.unwrap_or_default(), allowed.unwrap_or_default())
    }

    fn limit(&self, kind: LimitKind) -> Option<u64> {
        match kind {
            LimitKind::Cost => self.limits.cost_micros,
            LimitKind::Tokens => self.limits.tokens,
            LimitKind::Hops | LimitKind::Turns | LimitKind::Wall => None,
        }
    }

    fn spent(&self, kind: LimitKind) -> u64 {
        amount(kind, self.spend.spent)
    }
}

/// Decides about a call of a model.
pub(crate) fn reserve_step(facts: &ReserveFacts) -> ReserveStep {
    let ReserveFacts { mode, limits, limit_scope, spend, call, now } = facts;
    let (limits, scope) = (limits.spend, *limit_scope);
    SpendCount { mode: *mode, limits, scope, spend, now: *now }.step(*call)
}

/// Returns the words for the time in which turns and spend count.
pub(crate) fn window_text(mode: RunMode) -> &'static str {
    match mode {
        RunMode::Run => "",
        RunMode::Start => " in the last 24 hours",
    }
}

fn amount(kind: LimitKind, spend: RunSpend) -> u64 {
    match kind {
        LimitKind::Cost => spend.cost_micros,
        LimitKind::Tokens => spend.tokens,
        LimitKind::Hops | LimitKind::Turns | LimitKind::Wall => 0,
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::Millis;
    use agent_worker_store::ExpiringSpend;

    use super::*;

    const NOW: Now = Now { store: StoreTime::new(1_000), wall: Millis::new(0) };

    fn spend(cost_micros: u64, tokens: u64) -> RunSpend {
        RunSpend { cost_micros, tokens }
    }

    fn count(mode: RunMode, limits: SpendLimits, spend: &SpendFacts) -> SpendCount<'_> {
        SpendCount { mode, limits, scope: LimitScope::Team, spend, now: NOW }
    }

    fn limits(cost_micros: Option<u64>, tokens: Option<u64>) -> SpendLimits {
        SpendLimits { cost_micros, tokens }
    }

    #[test]
    fn a_call_is_reserved_waits_or_is_refused_by_what_it_could_use() {
        let cost = limits(Some(1_000_000), None);
        let tokens = limits(None, Some(100));
        for (limits, spent, reserved, call, expected) in [
            (cost, spend(0, 0), spend(0, 0), spend(1_000_000, 9_999), "reserve"),
            (cost, spend(1, 0), spend(0, 0), spend(1_000_000, 0), "refuse"),
            (cost, spend(500_000, 0), spend(400_000, 0), spend(100_000, 0), "reserve"),
            (cost, spend(500_000, 0), spend(400_001, 0), spend(100_000, 0), "wait"),
            (tokens, spend(u64::MAX, 50), spend(0, 30), spend(u64::MAX, 20), "reserve"),
            (tokens, spend(0, 50), spend(0, 31), spend(0, 20), "wait"),
            (tokens, spend(0, 81), spend(0, 0), spend(0, 20), "refuse"),
            (SpendLimits::NONE, spend(9, 9), spend(9, 9), spend(u64::MAX, 9), "reserve"),
        ] {
            let facts = SpendFacts { spent, reserved, ..SpendFacts::default() };
            let step = match count(RunMode::Run, limits, &facts).step(call) {
                ReserveStep::Reserve => "reserve",
                ReserveStep::Wait => "wait",
                ReserveStep::Refuse(_) => "refuse",
            };
            assert_eq!(step, expected, "{spent:?} {reserved:?} {call:?}");
        }
    }

    #[test]
    fn a_limit_of_spend_says_what_counts_when_and_how_exactly_it_is_known() {
        let cost = limits(Some(1_000_000), None);
        let tokens = limits(None, Some(100));
        let facts = |spent, unreported| SpendFacts { spent, unreported, ..SpendFacts::default() };
        let known = facts(spend(1_000_000, 100), spend(0, 0));
        let partly = facts(spend(1_000_000, 100), spend(200_000, 30));
        for (mode, limits, facts, expected) in [
            (RunMode::Run, cost, &known, "cost limit ($1 spent, $1 allowed)"),
            (
                RunMode::Start,
                cost,
                &known,
                "cost limit ($1 spent in the last 24 hours, $1 allowed)",
            ),
            (
                RunMode::Start,
                cost,
                &partly,
                "cost limit (at most $1 spent in the last 24 hours, $0.2 of it by calls without a report, $1 allowed)",
            ),
            (RunMode::Run, tokens, &known, "token limit (100 tokens used, 100 allowed)"),
            (
                RunMode::Run,
                tokens,
                &partly,
                "token limit (at most 100 tokens used, 30 of it by calls without a report, 100 allowed)",
            ),
        ] {
            let cause = count(mode, limits, facts).limit_cause().unwrap();
            assert_eq!(cause.to_string(), expected);
        }
        let below = facts(spend(999_999, 99), spend(0, 0));
        let both = limits(Some(1_000_000), Some(100));
        assert_eq!(count(RunMode::Run, both, &below).limit_cause(), None);
        let step = count(RunMode::Run, cost, &below).step(spend(2_000, 0));
        let ReserveStep::Refuse(cause) = step else { panic!("{step:?}") };
        let expected =
            "cost limit ($0.999999 spent and up to $0.002 for the next call, $1 allowed)";
        assert_eq!(cause.to_string(), expected);
    }

    /// Returns the facts of a day in which $0.3, $0.5 and $0.2 were spent.
    fn day() -> SpendFacts {
        let part = |at, cost| ExpiringSpend { at: StoreTime::new(at), spend: spend(cost, 0) };
        let expiring = vec![part(2_000, 300_000), part(3_000, 500_000), part(4_000, 200_000)];
        SpendFacts { spent: spend(1_000_000, 0), expiring, ..SpendFacts::default() }
    }

    #[test]
    fn room_comes_when_enough_of_the_day_stops_counting() {
        let facts = day();
        for (limit, call, expected) in [
            (1_000_001, 0, Some(1_000)),
            (1_000_000, 0, Some(2_000)),
            (1_000_000, 300_000, Some(2_000)),
            (1_000_000, 300_001, Some(3_000)),
            (1_000_000, 1_000_000, Some(4_000)),
            // The call never fits.
            (1_000_000, 1_000_001, None),
            (700_000, 0, Some(3_000)),
        ] {
            let count = count(RunMode::Start, limits(Some(limit), None), &facts);
            let room = count.room_at(LimitKind::Cost, call).map(StoreTime::get);
            assert_eq!(room, expected, "{limit} {call}");
        }
    }

    #[test]
    fn only_the_start_of_a_team_continues_by_itself() {
        let facts = day();
        let room_of = |mode, scope| {
            let limits = limits(Some(1_000_000), None);
            let cause = SpendCount { scope, ..count(mode, limits, &facts) }.limit_cause();
            let Some(PauseCause::Limit { room_at, .. }) = cause else { panic!("{cause:?}") };
            room_at.map(Millis::get)
        };
        assert_eq!(room_of(RunMode::Start, LimitScope::Team), Some(1_000), "on the wall clock");
        assert_eq!(room_of(RunMode::Start, LimitScope::Standalone), None);
        assert_eq!(room_of(RunMode::Run, LimitScope::Team), None);
    }

    #[test]
    fn the_suggested_limit_has_room_for_everything_that_counts() {
        let reserved = spend(300_000, 0);
        let facts = SpendFacts { spent: spend(900_000, 0), reserved, ..SpendFacts::default() };
        for (before, call) in
            [(1_000_000, 200_000), (100_000, 200_000), (100_000, 900_000), (5_000_000, 0)]
        {
            let old = count(RunMode::Run, limits(Some(before), None), &facts);
            let enough = old.enough(LimitKind::Cost, before, call);
            assert!(enough >= before * 2, "{enough}");
            let raised = count(RunMode::Run, limits(Some(enough), None), &facts);
            assert_eq!(raised.step(spend(call, 0)), ReserveStep::Reserve, "{before} {call}");
        }
    }
}
