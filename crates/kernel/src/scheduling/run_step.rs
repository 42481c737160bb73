//! Decides whether a run continues, pauses or ends. Pure; called inside the store's transaction.

use agent_worker_protocol::{LimitKind, Outcome, PauseCause, RunMode, RunState};
use agent_worker_store::{Now, RunFacts, RunStep};

use crate::scheduling::limits;

/// The presence of a person who follows a run and can answer its questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HumanPresence {
    Present,
    Absent,
}

/// Decides about a run from its current facts.
pub(crate) fn decide_run_step(facts: &RunFacts, person: HumanPresence, now: Now) -> RunStep {
    match &facts.state {
        RunState::Running => {}
        RunState::Paused { cause: PauseCause::Limit { limit: LimitKind::Turns, .. } }
            if limits::has_turns_left(facts) =>
        {
            return RunStep::Resume;
        }
        // New work arrived, no request for a person is left, or a person is present. After the wall limit, presence
        // alone does not resume the run: it would only change the cause of the pause.
        RunState::Paused { cause: PauseCause::Human }
            if !waits_only_for_people(facts)
                || person == HumanPresence::Present && wall_limit_cause(facts, now).is_none() =>
        {
            return RunStep::Resume;
        }
        // The live turns have finished and no work is left, so the run has nothing to wait for.
        RunState::Paused { cause: PauseCause::Limit { .. } }
            if facts.mode == RunMode::Run && is_idle(facts) =>
        {
            return end_step(facts);
        }
        RunState::Setup | RunState::Electing | RunState::Paused { .. } | RunState::Ended { .. } => {
            return RunStep::Stay;
        }
    }
    match facts.mode {
        RunMode::Run if is_idle(facts) => return end_step(facts),
        RunMode::Run if waits_only_for_people(facts) && person == HumanPresence::Absent => {
            return RunStep::Pause(PauseCause::Human);
        }
        RunMode::Run | RunMode::Start => {}
    }
    wall_limit_cause(facts, now).map_or(RunStep::Stay, RunStep::Pause)
}

/// Returns true if no agent is busy or has work, and the run waits for no person.
fn is_idle(facts: &RunFacts) -> bool {
    is_quiet(facts) && !waits_for_people(facts)
}

/// Returns true if the run waits only for answers of a person.
fn waits_only_for_people(facts: &RunFacts) -> bool {
    is_quiet(facts) && waits_for_people(facts)
}

fn waits_for_people(facts: &RunFacts) -> bool {
    facts.questions > 0 || facts.awaiting_approval > 0
}

/// Returns true if no agent has any work except waiting for a person, and no vote can create some.
fn is_quiet(facts: &RunFacts) -> bool {
    facts.waking == facts.awaiting_approval_deliveries
        && facts.attempts == facts.awaiting_approval
        && facts.proposals == 0
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

fn end_step(facts: &RunFacts) -> RunStep {
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
    let (outcome, why) = if wrong.is_empty() {
        (Outcome::Done, "no agent has anything left to do".to_owned())
    } else {
        (Outcome::Failed, wrong.join(", "))
    };
    RunStep::End { outcome, why, error: None }
}

fn wall_limit_cause(facts: &RunFacts, now: Now) -> Option<PauseCause> {
    let wall = facts.limits.wall?;
    let end = facts.started.plus(wall.duration());
    let detail = match facts.all_wait_until {
        _ if now.store >= end => format!("{wall} allowed"),
        Some(until) if until > end => {
            format!("all agents wait until {}, {wall} allowed", now.wall_at(until))
        }
        Some(_) | None => return None,
    };
    Some(PauseCause::Limit { limit: LimitKind::Wall, detail })
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{Limits, Millis, Span};
    use agent_worker_store::StoreTime;

    use super::*;

    /// The lead of the wall clock over the store's clock.
    const HOUR: i64 = 3_600_000;

    fn facts() -> RunFacts {
        RunFacts {
            state: RunState::Running,
            mode: RunMode::Run,
            limits: Limits { hops: 50, turns: None, wall: Some(Span::from_secs(100)) },
            started: StoreTime::new(0),
            waking: 0,
            all_wait_until: None,
            stranded: 0,
            attempts: 0,
            turns: 1,
            turns_today: 1,
            dead: 0,
            dropped: 0,
            proposals: 0,
            questions: 0,
            awaiting_approval: 0,
            awaiting_approval_deliveries: 0,
        }
    }

    fn step_text(facts: &RunFacts, now: i64) -> String {
        step_text_with(HumanPresence::Absent, facts, now)
    }

    fn step_text_with(person: HumanPresence, facts: &RunFacts, now: i64) -> String {
        match decide_run_step(
            facts,
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
        let cause = PauseCause::Limit { limit: LimitKind::Wall, detail: "enough".into() };
        let limited = RunFacts { state: RunState::Paused { cause }, ..facts() };
        for (facts, expected) in [
            (facts(), done),
            (RunFacts { waking: 1, ..facts() }, "stay"),
            (RunFacts { attempts: 1, ..facts() }, "stay"),
            (RunFacts { proposals: 1, ..facts() }, "stay"),
            (RunFacts { mode: RunMode::Start, ..facts() }, "stay"),
            (RunFacts { state: RunState::Setup, ..facts() }, "stay"),
            (RunFacts { state: paused, ..facts() }, "stay"),
            (limited.clone(), done),
            (RunFacts { waking: 1, ..limited.clone() }, "stay"),
            (RunFacts { attempts: 1, ..limited.clone() }, "stay"),
            (RunFacts { mode: RunMode::Start, ..limited.clone() }, "stay"),
            (RunFacts { dead: 1, ..limited }, "failed: 1 dead letter"),
            (RunFacts { dead: 2, ..facts() }, "failed: 2 dead letters"),
            (RunFacts { dropped: 1, ..facts() }, "failed: 1 message dropped"),
            (RunFacts { stranded: 1, ..facts() }, "failed: 1 message for a stopped agent"),
        ] {
            assert_eq!(step_text(&facts, 1), expected, "{facts:?}");
        }
    }

    #[test]
    fn a_person_pauses_what_works_or_waits_and_nothing_else() {
        let limit = PauseCause::Limit { limit: LimitKind::Turns, detail: "enough".into() };
        for (state, pauses) in [
            (RunState::Running, true),
            (RunState::Electing, true),
            (RunState::Paused { cause: limit }, true),
            (RunState::Setup, false),
            (RunState::Ended { outcome: Outcome::Done }, false),
        ] {
            let step = pause_step(&RunFacts { state, ..facts() });
            let expected = if pauses { RunStep::Pause(PauseCause::User) } else { RunStep::Stay };
            assert_eq!(step, expected);
        }
    }

    #[test]
    fn a_run_in_which_only_people_can_go_on_waits_for_them_and_no_longer() {
        let asked = RunFacts { questions: 1, ..facts() };
        let waits = RunState::Paused { cause: PauseCause::Human };
        let waiting = RunFacts { state: waits, ..asked.clone() };
        let held = RunFacts {
            waking: 2,
            attempts: 1,
            awaiting_approval: 1,
            awaiting_approval_deliveries: 2,
            ..facts()
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
        let asked = RunFacts { questions: 1, ..facts() };
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
            (facts(), 1, "done: no agent has anything left to do"),
        ] {
            assert_eq!(step_text_with(HumanPresence::Present, &facts, now), expected, "{facts:?}");
        }
    }

    #[test]
    fn only_a_start_that_waits_at_its_turn_limit_goes_on_by_itself_once_a_day_has_passed() {
        let limited = |limit| PauseCause::Limit { limit, detail: "enough".into() };
        let limits = Limits { hops: 50, turns: Some(3), wall: None };
        let by_turns = limited(LimitKind::Turns);
        for (mode, cause, turns, turns_today, attempts, expected) in [
            (RunMode::Start, &by_turns, 9, 3, 0, "stay"),
            (RunMode::Start, &by_turns, 9, 2, 1, "stay"),
            (RunMode::Start, &by_turns, 9, 2, 0, "resume"),
            // The live attempt was interrupted and counts as no turn: a person decides.
            (RunMode::Run, &by_turns, 2, 2, 0, "stay"),
            (RunMode::Start, &limited(LimitKind::Hops), 0, 0, 0, "stay"),
            (RunMode::Start, &limited(LimitKind::Wall), 0, 0, 0, "stay"),
            (RunMode::Start, &PauseCause::User, 0, 0, 0, "stay"),
            (RunMode::Start, &PauseCause::Interrupted, 0, 0, 0, "stay"),
        ] {
            let state = RunState::Paused { cause: cause.clone() };
            let facts = RunFacts {
                state,
                mode,
                limits,
                turns,
                turns_today,
                attempts,
                waking: 1,
                ..facts()
            };
            assert_eq!(step_text(&facts, 1), expected, "{facts:?}");
        }
    }

    #[test]
    fn the_wall_limit_pauses_and_a_wait_beyond_it_does_so_at_once() {
        let busy = RunFacts { waking: 1, ..facts() };
        let parked =
            |until| RunFacts { all_wait_until: Some(StoreTime::new(until)), ..busy.clone() };
        assert_eq!(step_text(&busy, 99_999), "stay");
        assert_eq!(step_text(&busy, 100_000), "wall limit (100s allowed)");
        assert_eq!(step_text(&parked(100_000), 5), "stay");
        let until = "wall limit (all agents wait until 1970-01-01T01:01:40.001Z, 100s allowed)";
        assert_eq!(step_text(&parked(100_001), 5), until, "on the wall clock");
        assert_eq!(step_text(&facts(), 100_000), "done: no agent has anything left to do");
    }
}
