//! Decides whether a run continues, pauses or ends. Pure; called inside the store's transaction.

use agent_worker_protocol::{
    LimitKind, Outcome, PauseCause, RunMode, RunState, VerdictOutcome,
    api::{RunError, RunErrorCode, TeamVerdict},
};
use agent_worker_store::{Now, RunFacts, RunStep, StoreTime, StoredVerdict};

use crate::procedure::ProcedureState;
use crate::scheduling::{
    limits::{self, TurnCount},
    spend_limit::SpendCount,
    wall_limit::{wall_limit_cause, wall_limit_reached},
};

/// The presence of a person who follows a run and can answer its questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HumanPresence {
    Present,
    Absent,
}

/// Decides about a run from its current facts.
pub(crate) fn decide_run_step(
    facts: &RunFacts,
    procedure: &ProcedureState,
    person: HumanPresence,
    now: Now,
) -> RunStep {
    match &facts.state {
        RunState::Running => {}
        RunState::Electing => {
            return wall_limit_cause(facts, now).map_or(RunStep::Stay, RunStep::Pause);
        }
        RunState::Paused { .. } if resume_at(facts, now).is_some_and(|at| at <= now.store) => {
            return RunStep::Resume;
        }
        // New work arrived, no request for a person is left, or a person is present. After the wall limit, presence
        // alone does not resume the run: it would only change the cause of the pause.
        RunState::Paused { cause: PauseCause::Human }
            if !facts.waits_only_for_people()
                || person == HumanPresence::Present && wall_limit_cause(facts, now).is_none() =>
        {
            return RunStep::Resume;
        }
        state if state.refuses_work() => return limited_step(facts, procedure, now),
        RunState::Setup | RunState::Paused { .. } | RunState::Ended { .. } => {
            return RunStep::Stay;
        }
    }
    if let Some(cause) = wall_limit_cause(facts, now) {
        return RunStep::Pause(cause);
    }
    // Live turns finish. An idle run has nothing left that a limit refuses.
    let is_over = facts.is_idle() && procedure.is_over();
    let has_work = facts.mode == RunMode::Start || !is_over;
    if has_work && let Some(cause) = SpendCount::of_run(facts, now).limit_cause() {
        return RunStep::Pause(cause);
    }
    match facts.mode {
        RunMode::Run if is_over => end_step(facts, procedure),
        RunMode::Run
            if facts.waits_only_for_people()
                && !procedure.is_working()
                && person == HumanPresence::Absent =>
        {
            RunStep::Pause(PauseCause::Human)
        }
        RunMode::Run | RunMode::Start => RunStep::Stay,
    }
}

/// Returns the time at which a paused run continues by itself.
pub(crate) fn resume_at(facts: &RunFacts, now: Now) -> Option<StoreTime> {
    let (turns, spend) = (TurnCount::of_run(facts), SpendCount::of_run(facts, now));
    limits::resume_at(&facts.state, &turns, &spend)
}

/// Decides about a run that is paused at a limit that refuses work. The time of its live turns counts for the wall limit,
/// also if they have finished since the last decision, so a run whose time is up does not end as done.
fn limited_step(facts: &RunFacts, procedure: &ProcedureState, now: Now) -> RunStep {
    if let Some(cause) = wall_limit_reached(facts, now.store) {
        return RunStep::Pause(cause);
    }
    // The limit refused no work: the live turns have finished, and nothing is left.
    match facts.mode {
        RunMode::Run if facts.is_idle() && procedure.is_over() => end_step(facts, procedure),
        RunMode::Run | RunMode::Start => RunStep::Stay,
    }
}

/// Returns the part of a step that a stopping daemon carries out: only the wall limit acts on its live turns.
pub(crate) fn draining_step(step: RunStep) -> RunStep {
    match step {
        RunStep::Pause(PauseCause::Limit { limit: LimitKind::Wall, .. }) => step,
        RunStep::Stay | RunStep::Pause(_) | RunStep::Resume | RunStep::End { .. } => RunStep::Stay,
    }
}

/// Returns the step that ends a run on request of a person.
pub(crate) fn stop_step(facts: &RunFacts, by: &str) -> RunStep {
    match facts.state {
        RunState::Ended { .. } => RunStep::Stay,
        RunState::Setup | RunState::Electing | RunState::Running | RunState::Paused { .. } => {
            RunStep::End { outcome: Outcome::Stopped, why: format!("stopped by {by}"), error: None }
        }
    }
}

/// Returns the step that pauses a run on request of a person, also one that is paused at a limit.
pub(crate) fn pause_step(facts: &RunFacts) -> RunStep {
    match facts.state {
        RunState::Electing | RunState::Running | RunState::Paused { .. } => {
            RunStep::Pause(PauseCause::User)
        }
        RunState::Setup | RunState::Ended { .. } => RunStep::Stay,
    }
}

fn end_step(facts: &RunFacts, procedure: &ProcedureState) -> RunStep {
    if let ProcedureState::Ended { failures } = procedure
        && let [first, others @ ..] = failures.as_slice()
    {
        let why = match others.len() {
            0 => first.clone(),
            more => format!("{first} (and {more} more)"),
        };
        let error = Some(RunError { code: RunErrorCode::TaskFailed, message: failures.join("\n") });
        return RunStep::End { outcome: Outcome::Failed, why, error };
    }
    let count = |n: u32, what: &str, why: &str| {
        let plural = if n == 1 { "" } else { "s" };
        (n > 0).then(|| format!("{n} {what}{plural}{why}"))
    };
    let wrong: Vec<String> = [
        count(facts.dead, "dead letter", ""),
        count(facts.dropped, "message", " dropped"),
        count(facts.stranded, "message", " for a stopped agent"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !wrong.is_empty() {
        return RunStep::End { outcome: Outcome::Failed, why: wrong.join(", "), error: None };
    }
    // The verdict of the team can only make the outcome worse.
    match &facts.verdict {
        Some(StoredVerdict::Intact(TeamVerdict {
            outcome: VerdictOutcome::Failed,
            summary,
            by,
        })) => failed_step(format!("{by} set the verdict `failed`"), summary.clone()),
        Some(StoredVerdict::Damaged) => failed_step(
            "the stored verdict is damaged".to_owned(),
            "the stored verdict of the team is damaged and counts as `failed`".to_owned(),
        ),
        Some(StoredVerdict::Intact(TeamVerdict { outcome: VerdictOutcome::Done, .. })) | None => {
            RunStep::End {
                outcome: Outcome::Done,
                why: "no agent has anything left to do".to_owned(),
                error: None,
            }
        }
    }
}

/// Returns the step that ends a run as failed by the verdict of its team.
fn failed_step(why: String, message: String) -> RunStep {
    let error = Some(RunError { code: RunErrorCode::Verdict, message });
    RunStep::End { outcome: Outcome::Failed, why, error }
}

/// Returns the facts of a running `run` without work, 100 s of wall time and a clock that started at 0.
#[cfg(test)]
pub(crate) fn sample_facts() -> RunFacts {
    use agent_worker_protocol::{Limits, Span};
    use agent_worker_store::RunClock;

    let wall = Some(Span::from_secs(100));
    RunFacts {
        state: RunState::Running,
        mode: RunMode::Run,
        limits: Limits {
            hops: 50,
            turns: None,
            wall,
            wall_grace: Limits::WALL_GRACE,
            spend: agent_worker_protocol::SpendLimits::NONE,
        },
        since: StoreTime::new(0),
        clock: RunClock { since: Some(StoreTime::new(0)), ..RunClock::default() },
        waking: 0,
        all_wait_until: None,
        stranded: 0,
        attempts: 0,
        turns: 1,
        turns_today: 1,
        turn_expires: None,
        spend: agent_worker_store::SpendFacts::default(),
        dead: 0,
        dropped: 0,
        proposals: 0,
        person_votes: 0,
        questions: 0,
        awaiting_approval: 0,
        awaiting_approval_deliveries: 0,
        verdict: None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use agent_worker_protocol::{Limits, Millis, SpendLimits};
    use agent_worker_store::{RunClock, RunSpend, SpendFacts};

    use super::*;

    /// The lead of the wall clock over the store's clock.
    const HOUR: i64 = 3_600_000;

    fn step_text(facts: &RunFacts, now: i64) -> String {
        step_text_with(HumanPresence::Absent, facts, now)
    }

    fn step_text_with(person: HumanPresence, facts: &RunFacts, now: i64) -> String {
        match decide_run_step(
            facts,
            &ProcedureState::Absent,
            person,
            Now { store: StoreTime::new(now), wall: Millis::new(now + HOUR) },
        ) {
            RunStep::Stay => "stay".into(),
            RunStep::Pause(cause) => cause.to_string(),
            RunStep::Resume => "resume".into(),
            RunStep::End { outcome, why, .. } => format!("{outcome}: {why}"),
        }
    }

    #[test]
    fn a_run_ends_when_and_only_when_no_agent_has_work_left() {
        let done = "done: no agent has anything left to do";
        let paused = RunState::Paused { cause: PauseCause::User };
        let limited = |limit| {
            let cause = PauseCause::limit(limit, "enough".to_owned());
            RunFacts { state: RunState::Paused { cause }, ..sample_facts() }
        };
        let at_wall = limited(LimitKind::Wall);
        let limited = limited(LimitKind::Hops);
        for (facts, expected) in [
            (sample_facts(), done),
            (RunFacts { waking: 1, ..sample_facts() }, "stay"),
            (RunFacts { attempts: 1, ..sample_facts() }, "stay"),
            (RunFacts { proposals: 1, ..sample_facts() }, "stay"),
            (RunFacts { mode: RunMode::Start, ..sample_facts() }, "stay"),
            (RunFacts { state: RunState::Setup, ..sample_facts() }, "stay"),
            (RunFacts { state: paused, ..sample_facts() }, "stay"),
            (limited.clone(), done),
            (RunFacts { waking: 1, ..limited.clone() }, "stay"),
            (RunFacts { attempts: 1, ..limited.clone() }, "stay"),
            (RunFacts { mode: RunMode::Start, ..limited.clone() }, "stay"),
            (RunFacts { dead: 1, ..limited }, "failed: 1 dead letter"),
            // A run whose time is up is not done, whatever is left.
            (at_wall.clone(), "stay"),
            (RunFacts { waking: 1, ..at_wall.clone() }, "stay"),
            (RunFacts { dead: 1, ..at_wall }, "stay"),
            (RunFacts { dead: 2, ..sample_facts() }, "failed: 2 dead letters"),
            (
                RunFacts { verdict: Some(StoredVerdict::Damaged), ..sample_facts() },
                "failed: the stored verdict is damaged",
            ),
            (RunFacts { dropped: 1, ..sample_facts() }, "failed: 1 message dropped"),
            (RunFacts { stranded: 1, ..sample_facts() }, "failed: 1 message for a stopped agent"),
        ] {
            assert_eq!(step_text(&facts, 1), expected, "{facts:?}");
        }
    }

    #[test]
    fn a_person_pauses_what_works_or_waits_and_nothing_else() {
        let limit = PauseCause::limit(LimitKind::Turns, "enough".to_owned());
        for (state, pauses) in [
            (RunState::Running, true),
            (RunState::Electing, true),
            (RunState::Paused { cause: limit }, true),
            (RunState::Setup, false),
            (RunState::Ended { outcome: Outcome::Done }, false),
        ] {
            let step = pause_step(&RunFacts { state, ..sample_facts() });
            let expected = if pauses { RunStep::Pause(PauseCause::User) } else { RunStep::Stay };
            assert_eq!(step, expected);
        }
    }

    #[test]
    fn a_run_in_which_only_people_can_go_on_waits_for_them_and_no_longer() {
        let asked = RunFacts { questions: 1, ..sample_facts() };
        let waits = RunState::Paused { cause: PauseCause::Human };
        let waiting = RunFacts { state: waits, ..asked.clone() };
        let held = RunFacts {
            waking: 2,
            attempts: 1,
            awaiting_approval: 1,
            awaiting_approval_deliveries: 2,
            ..sample_facts()
        };
        for (facts, expected) in [
            (asked.clone(), "waiting for a person"),
            (RunFacts { waking: 1, ..asked.clone() }, "stay"),
            (RunFacts { attempts: 1, ..asked.clone() }, "stay"),
            (RunFacts { proposals: 1, ..asked.clone() }, "stay"),
            (RunFacts { mode: RunMode::Start, ..asked }, "stay"),
            (waiting.clone(), "stay"),
            (RunFacts { waking: 1, ..waiting.clone() }, "resume"),
            (RunFacts { questions: 0, ..waiting.clone() }, "resume"),
            // An attempt that waits for approval counts as idle.
            (held.clone(), "waiting for a person"),
            (RunFacts { waking: 3, ..held.clone() }, "stay"),
            (RunFacts { attempts: 2, ..held.clone() }, "stay"),
            (RunFacts { proposals: 1, ..held.clone() }, "stay"),
            (RunFacts { mode: RunMode::Start, ..held.clone() }, "stay"),
            (
                RunFacts { awaiting_approval: 0, awaiting_approval_deliveries: 0, ..held.clone() },
                "stay",
            ),
            (RunFacts { state: waiting.state.clone(), ..held.clone() }, "stay"),
            (
                RunFacts {
                    state: waiting.state,
                    awaiting_approval: 0,
                    awaiting_approval_deliveries: 0,
                    ..held
                },
                "resume",
            ),
        ] {
            assert_eq!(step_text(&facts, 1), expected, "{facts:?}");
        }
    }

    #[test]
    fn a_run_does_not_pause_for_a_person_who_is_there() {
        let asked = RunFacts { questions: 1, ..sample_facts() };
        let waits = RunState::Paused { cause: PauseCause::Human };
        let paused = RunState::Paused { cause: PauseCause::User };
        for (facts, now, expected) in [
            (asked.clone(), 1, "stay"),
            (asked.clone(), 100_000, "wall limit (100s allowed)"),
            (RunFacts { state: waits.clone(), ..asked.clone() }, 1, "resume"),
            // A person who comes late finds the pending question, and not a limit.
            (RunFacts { state: waits.clone(), ..asked.clone() }, 100_000, "stay"),
            (RunFacts { state: waits, waking: 1, ..asked.clone() }, 100_000, "resume"),
            (RunFacts { state: paused, ..asked }, 1, "stay"),
            (sample_facts(), 1, "done: no agent has anything left to do"),
        ] {
            assert_eq!(step_text_with(HumanPresence::Present, &facts, now), expected, "{facts:?}");
        }
    }

    #[test]
    fn only_a_start_at_a_limit_of_the_last_day_goes_on_by_itself_once_it_has_room() {
        let limited = |limit| PauseCause::limit(limit, "enough".into());
        let limits = Limits {
            hops: 50,
            turns: Some(3),
            wall: None,
            wall_grace: Limits::WALL_GRACE,
            spend: SpendLimits { cost_micros: Some(10), tokens: Some(100) },
        };
        let spent = |cost_micros, tokens| {
            let spent = RunSpend { cost_micros, tokens };
            SpendFacts { spent, ..SpendFacts::default() }
        };
        let (turns, cost) = (limited(LimitKind::Turns), limited(LimitKind::Cost));
        let tokens = limited(LimitKind::Tokens);
        let mut call = cost.clone();
        if let PauseCause::Limit { next_call, .. } = &mut call {
            *next_call = Some(4);
        }
        for (mode, cause, turns_today, attempts, spend, expected) in [
            (RunMode::Start, &turns, 3, 0, spent(0, 0), "stay"),
            (RunMode::Start, &turns, 2, 1, spent(0, 0), "stay"),
            (RunMode::Start, &turns, 2, 0, spent(0, 0), "resume"),
            // The live attempt was interrupted and counts as no turn: a person decides.
            (RunMode::Run, &turns, 2, 0, spent(0, 0), "stay"),
            (RunMode::Start, &cost, 0, 0, spent(10, 0), "stay"),
            (RunMode::Start, &cost, 0, 1, spent(9, 0), "resume"),
            (RunMode::Run, &cost, 0, 0, spent(9, 0), "stay"),
            (RunMode::Start, &call, 0, 0, spent(7, 0), "stay"),
            (RunMode::Start, &call, 0, 0, spent(6, 0), "resume"),
            (RunMode::Start, &tokens, 0, 0, spent(0, 100), "stay"),
            (RunMode::Start, &tokens, 0, 0, spent(0, 99), "resume"),
            (RunMode::Start, &limited(LimitKind::Hops), 0, 0, spent(0, 0), "stay"),
            (RunMode::Start, &limited(LimitKind::Wall), 0, 0, spent(0, 0), "stay"),
            (RunMode::Start, &PauseCause::User, 0, 0, spent(0, 0), "stay"),
            (RunMode::Start, &PauseCause::Interrupted, 0, 0, spent(0, 0), "stay"),
        ] {
            let facts = RunFacts {
                state: RunState::Paused { cause: cause.clone() },
                mode,
                limits,
                turns: turns_today,
                turns_today,
                attempts,
                spend,
                waking: 1,
                ..sample_facts()
            };
            assert_eq!(step_text(&facts, 1), expected, "{facts:?}");
        }
    }

    #[test]
    fn the_wall_limit_replaces_another_limit_while_a_live_turn_works() {
        let limited = |limit| {
            let cause = PauseCause::limit(limit, "enough".to_owned());
            RunFacts { state: RunState::Paused { cause }, waking: 1, attempts: 1, ..sample_facts() }
        };
        for limit in [LimitKind::Hops, LimitKind::Turns] {
            let busy = limited(limit);
            assert_eq!(step_text(&busy, 99_999), "stay");
            assert_eq!(step_text(&busy, 100_000), "wall limit (100s allowed)");
            // The turn finished after the limit, before the run was decided on.
            let over = RunFacts { attempts: 0, waking: 0, ..busy.clone() };
            assert_eq!(step_text(&over, 99_999), "done: no agent has anything left to do");
            assert_eq!(step_text(&over, 100_000), "wall limit (100s allowed)");
            assert_eq!(
                step_text(&RunFacts { waking: 1, ..over }, 100_000),
                "wall limit (100s allowed)"
            );
            // Time that did not count: a person was asked, or no turn was live.
            let counted = Duration::from_secs(40);
            let waits = RunFacts { clock: RunClock { counted, since: None }, ..busy };
            let asks = RunFacts { awaiting_approval: 1, ..waits.clone() };
            assert_eq!(step_text(&asks, 100_000), "stay");
            assert_eq!(step_text(&RunFacts { attempts: 0, ..waits.clone() }, 100_000), "stay");
            let parked =
                RunFacts { attempts: 0, all_wait_until: Some(StoreTime::new(900_000)), ..waits };
            assert_eq!(step_text(&parked, 100_000), "stay", "the next retry changes no pause");
        }
        assert_eq!(step_text(&limited(LimitKind::Wall), 100_000), "stay");
    }

    #[test]
    fn a_stopping_daemon_pauses_a_run_at_its_wall_limit_and_does_nothing_else() {
        let now = |store| Now { store: StoreTime::new(store), wall: Millis::new(store) };
        let decide = |facts: &RunFacts, at| {
            let step =
                decide_run_step(facts, &ProcedureState::Absent, HumanPresence::Absent, now(at));
            draining_step(step)
        };
        let busy = RunFacts { waking: 1, attempts: 1, ..sample_facts() };
        assert!(matches!(decide(&busy, 100_000), RunStep::Pause(_)));
        assert_eq!(decide(&busy, 99_999), RunStep::Stay);
        assert_eq!(decide(&sample_facts(), 1), RunStep::Stay, "the next daemon ends the run");
        assert_eq!(decide(&RunFacts { questions: 1, ..sample_facts() }, 1), RunStep::Stay);
    }

    #[test]
    fn the_wall_limit_pauses_and_a_wait_beyond_it_does_so_at_once() {
        let busy = RunFacts { waking: 1, ..sample_facts() };
        let electing = RunFacts { state: RunState::Electing, ..busy.clone() };
        let parked =
            |until| RunFacts { all_wait_until: Some(StoreTime::new(until)), ..busy.clone() };
        assert_eq!(step_text(&busy, 99_999), "stay");
        assert_eq!(step_text(&busy, 100_000), "wall limit (100s allowed)");
        assert_eq!(step_text(&parked(100_000), 5), "stay");
        let until = "wall limit (the next retry, 1970-01-01T01:01:40.001Z, is after 100s)";
        assert_eq!(step_text(&parked(100_001), 5), until, "on the wall clock");
        assert_eq!(step_text(&sample_facts(), 99_999), "done: no agent has anything left to do");
        assert_eq!(step_text(&sample_facts(), 100_000), "wall limit (100s allowed)");
        assert_eq!(step_text(&electing, 99_999), "stay");
        assert_eq!(step_text(&electing, 100_000), "wall limit (100s allowed)");
        // Time that did not count: the clock was stopped for a thousand seconds.
        let (counted, since) = (Duration::from_secs(40), Some(StoreTime::new(1_040_000)));
        let later = RunFacts { clock: RunClock { counted, since }, ..busy.clone() };
        assert_eq!(step_text(&later, 1_099_999), "stay");
        assert_eq!(step_text(&later, 1_100_000), "wall limit (100s allowed)");
        let parked = RunFacts { all_wait_until: Some(StoreTime::new(1_100_000)), ..later.clone() };
        assert_eq!(step_text(&parked, 1_050_000), "stay");
        let parked = RunFacts { all_wait_until: Some(StoreTime::new(1_100_001)), ..later };
        assert!(step_text(&parked, 1_050_000).starts_with("wall limit (the next retry, "));
    }
}
