//! Decides which change of a run comes next by itself. Pure; the view of the run carries the result to its readers.

use agent_worker_protocol::{
    AgentState, LimitKind, PauseCause, RunMode, RunState,
    api::{AgentView, ImminentChange, ResumeRequest, RunView},
};

/// The change that the daemon makes in a moment. `imminent` of the view itself is not read.
pub(crate) fn imminent_change(view: &RunView) -> Option<ImminentChange> {
    let works = |agent: &AgentView| matches!(agent.state, AgentState::Running { .. });
    if is_about_to_end(view) {
        Some(ImminentChange::Ends)
    } else if is_about_to_resume(view.mode, &view.state, &view.needs) {
        Some(ImminentChange::Resumes)
    } else if matches!(view.state, RunState::Paused { .. }) && view.agents.iter().any(works) {
        Some(ImminentChange::TurnEnds)
    } else {
        None
    }
}

/// True if a `start` at a limit of the last 24 hours has room again: older turns and spend no longer count, or the turn under
/// way was cut short and does not count.
fn is_about_to_resume(mode: RunMode, state: &RunState, needs: &ResumeRequest) -> bool {
    let RunState::Paused { cause: PauseCause::Limit { limit, .. } } = state else { return false };
    let has_window = match limit {
        LimitKind::Turns | LimitKind::Cost | LimitKind::Tokens => true,
        LimitKind::Hops | LimitKind::Wall => false,
    };
    has_window && mode == RunMode::Start && needs.is_empty()
}

/// True if it is a `run` in which no agent has anything left to do.
fn is_about_to_end(view: &RunView) -> bool {
    let is_busy = |agent: &AgentView| match agent.state {
        AgentState::Stopped { .. } | AgentState::Stopping => false,
        AgentState::Running { .. } => true,
        AgentState::Idle
        | AgentState::Queued { .. }
        | AgentState::BackingOff { .. }
        | AgentState::Parked { .. }
        | AgentState::Waiting { .. }
        | AgentState::Paused { .. } => agent.waiting > 0,
    };
    let may_end = match &view.state {
        RunState::Running
        | RunState::Paused {
            cause:
                PauseCause::Limit {
                    limit: LimitKind::Hops | LimitKind::Turns | LimitKind::Cost | LimitKind::Tokens,
                    ..
                },
        } => true,
        RunState::Setup
        | RunState::Electing
        | RunState::Paused {
            cause:
                PauseCause::Limit { limit: LimitKind::Wall, .. }
                | PauseCause::Human
                | PauseCause::Interrupted
                | PauseCause::User,
        }
        | RunState::Ended { .. } => false,
    };
    let may_end = may_end && view.mode == RunMode::Run && view.pending == 0;
    may_end && !view.agents.iter().any(is_busy)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn run(mode: &str, state: &Value, agents: &[(Value, u32)]) -> RunView {
        let agent = |(state, waiting): &(Value, u32)| {
            let mut agent = json!({
                "name": "coder", "instance": "review", "project": "/p", "backend": "mock", "waiting": waiting, "turns": 0,
                "messages": 0, "usage": {"input_tokens": 0, "output_tokens": 0}, "started": "2026-01-01T00:00:00.000Z",
            });
            agent.as_object_mut().unwrap().extend(state.as_object().unwrap().clone());
            agent
        };
        let mut view = json!({
            "run": "01890a5d-ac96-774b-bcce-b302099a8057", "instance": "review", "project": "/p", "cwd": "/p",
            "limits": {"hops": 50}, "mode": mode, "started": "2026-01-01T00:00:00.000Z",
            "state_since": "2026-01-01T00:00:00.000Z", "turns": 4, "messages": 9,
            "usage": {"input_tokens": 0, "output_tokens": 0}, "dead_letters": [], "dropped": [],
            "agents": agents.iter().map(agent).collect::<Vec<_>>(),
        });
        view.as_object_mut().unwrap().extend(state.as_object().unwrap().clone());
        let view: RunView = serde_json::from_value(view).unwrap();
        RunView { imminent: imminent_change(&view), ..view }
    }

    #[test]
    fn a_run_is_at_rest_when_nothing_happens_in_it_by_itself_any_more() {
        let limit = json!({"cause": "limit", "limit": "hops", "detail": "51 of 50"});
        let limited = json!({"state": "paused", "cause": limit});
        let wall = json!({"cause": "limit", "limit": "wall", "detail": "2h allowed"});
        let at_wall = json!({"state": "paused", "cause": wall});
        let cut_off = json!({"state": "paused", "cause": {"cause": "interrupted"}});
        let turns = json!({"cause": "limit", "limit": "turns", "detail": "3 of 3"});
        let by_turns = json!({"state": "paused", "cause": turns, "needs": {"turns": 6}});
        let has_turns_again = json!({"state": "paused", "cause": turns});
        let running = json!({"state": "running"});
        let works = (
            json!({"state": "running", "attempt": "01890a5d-ac96-774b-bcce-b302099a8057",
            "since": "2026-01-01T00:00:00.000Z"}),
            0,
        );
        let waits = (json!({"state": "paused", "why": "hops"}), 1);
        let idle = (json!({"state": "paused", "why": "hops"}), 0);
        let stopped = (json!({"state": "stopped", "why": "by the user"}), 1);
        for (mode, state, agents, at_rest, ends) in [
            ("run", &limited, vec![waits.clone()], true, false),
            ("run", &limited, vec![waits.clone(), works.clone()], false, false),
            ("run", &limited, vec![idle.clone()], false, true),
            ("run", &limited, vec![idle.clone(), stopped.clone()], false, true),
            ("start", &limited, vec![idle.clone()], true, false),
            // A run whose time is up is not done, also if nothing is left.
            ("run", &at_wall, vec![idle.clone()], true, false),
            ("run", &at_wall, vec![works.clone()], false, false),
            ("start", &by_turns, vec![waits.clone()], true, false),
            ("start", &has_turns_again, vec![waits.clone()], false, false),
            ("run", &has_turns_again, vec![waits.clone()], true, false),
            ("run", &cut_off, vec![idle.clone()], true, false),
            ("run", &running, vec![stopped.clone()], false, true),
            ("run", &running, vec![stopped, works.clone()], false, false),
            ("start", &running, vec![idle], false, false),
            ("run", &json!({"state": "setup"}), vec![], false, false),
            ("run", &json!({"state": "ended", "outcome": "done"}), vec![works], true, false),
        ] {
            let view = run(mode, state, &agents);
            let is_about_to_end = view.imminent == Some(ImminentChange::Ends);
            assert_eq!((view.is_at_rest(), is_about_to_end), (at_rest, ends), "{view:?}");
            let asks = RunView { pending: 1, ..view };
            assert_ne!(imminent_change(&asks), Some(ImminentChange::Ends), "{asks:?}");
        }
    }
}
