//! The next step after a run that waits or failed, with the calls of one interface. Pure.

use agent_worker_protocol::{
    AgentName, AgentState, ApprovalId, FailureClass, Outcome, PauseCause, QuestionId, RunState,
    Target,
    api::{AgentFailure, AgentView, LastFailure, RunView},
};

use crate::hint::limit_hint;

/// The calls of an interface that a next step names.
pub(crate) struct StepCalls {
    /// Answers a question.
    pub(crate) answer: fn(QuestionId, &RunView) -> String,
    /// Approves or denies a request.
    pub(crate) decide: fn(ApprovalId, &RunView) -> String,
    /// Resumes the run, with the limits that it needs.
    pub(crate) resume_run: fn(&RunView) -> String,
    /// Lets a stopped agent try again.
    pub(crate) resume_agent: fn(&Target) -> String,
    /// Starts a run from its file.
    pub(crate) start: &'static str,
    /// Adds an agent to a run without a file.
    pub(crate) add_agent: &'static str,
}

/// Returns the next step for a client, if the run needs one.
pub(crate) fn run_hint(run: &RunView, calls: &StepCalls) -> Option<String> {
    let mut steps: Vec<String> =
        run.agents.iter().flat_map(|agent| request_steps(agent, run, calls)).collect();
    let room_at = match &run.state {
        RunState::Paused { cause: PauseCause::Limit { room_at, .. } } => Some(*room_at),
        _ => None,
    };
    let is_at_limit = room_at.is_some();
    if let Some(room_at) = room_at.filter(|_| !run.needs.is_empty()) {
        steps.push(limit_hint(&run.needs, room_at, &(calls.resume_run)(run)));
    }
    let fixes = run.unrecovered_failures().filter(|failed| match failed.failure.class {
        // The provider may accept requests again by then.
        FailureClass::RateLimited | FailureClass::Transient => !is_at_limit,
        _ => true,
    });
    match &run.state {
        RunState::Ended { outcome: Outcome::Done | Outcome::Stopped } => return None,
        RunState::Ended { outcome: Outcome::Failed } => {
            let mut fixes: Vec<_> = fixes.map(fix).collect();
            fixes.dedup();
            if fixes.is_empty() {
                fixes.push("fix the cause".to_owned());
            }
            steps.push(format!("{}; then {}", fixes.join("; "), restart(run, calls)));
        }
        RunState::Setup | RunState::Electing | RunState::Running | RunState::Paused { .. } => {
            steps.extend(fixes.map(|failed| {
                let target = Target::agent(failed.agent.clone(), &run.instance);
                format!("{}; then {}", fix(failed), (calls.resume_agent)(&target))
            }));
        }
    }
    if steps.is_empty() && matches!(run.state, RunState::Paused { .. }) {
        steps.push(format!("continue the run: {}", (calls.resume_run)(run)));
    }
    (!steps.is_empty()).then(|| steps.join("; "))
}

fn request_steps(agent: &AgentView, run: &RunView, calls: &StepCalls) -> Vec<String> {
    let AgentState::Waiting { questions, approvals, .. } = &agent.state else { return Vec::new() };
    let name = &agent.name;
    let approvals = approvals
        .iter()
        .map(|id| format!("approve or deny request {id} of {name}: {}", (calls.decide)(*id, run)));
    let questions = questions
        .iter()
        .map(|id| format!("answer question {id} of {name}: {}", (calls.answer)(*id, run)));
    approvals.chain(questions).collect()
}

fn restart(run: &RunView, calls: &StepCalls) -> String {
    match &run.file {
        Some(_) => format!("start the run again: {}", calls.start),
        None => format!("add its agents again: {}", calls.add_agent),
    }
}

/// Words the fix of a failure.
fn fix(failed: &AgentFailure) -> String {
    let AgentFailure { agent, failure } = failed;
    match failure.class {
        FailureClass::Auth => format!("give {agent} a valid key, or log in to its program"),
        FailureClass::Billing => format!("add credit to the account of {agent}"),
        FailureClass::RateLimited => {
            format!("wait until the provider of {agent} accepts requests")
        }
        FailureClass::Transient => format!("check that the provider of {agent} can be reached"),
        FailureClass::Permission => format!("allow the call in `permissions` of {agent}"),
        FailureClass::Timeout => format!("raise `timeout` or `silence` of {agent}"),
        FailureClass::ContextOverflow => format!("shorten the messages for {agent}"),
        FailureClass::Output => {
            format!("relax `output_schema` of {agent}, or describe the answer in its prompt")
        }
        FailureClass::MissingProgram => program_fix(agent, failure),
        FailureClass::OutdatedProgram => format!("update the program of {agent}"),
        FailureClass::Crash | FailureClass::Fatal => {
            format!("fix the cause of the failure of {agent}")
        }
    }
}

/// Names the correction of a program that cannot start, with which the worker's message ends.
fn program_fix(agent: &AgentName, failure: &LastFailure) -> String {
    match failure.message.split_once("; ") {
        Some((_, correction)) => format!("correct the program of {agent}: {correction}"),
        None => format!("install the program of {agent}, or correct its `command`"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{http::HTTP_CALLS, mcp::MCP_CALLS};

    const RUN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    fn run(more: &Value) -> RunView {
        let mut view = json!({
            "run": RUN, "instance": "review:pr-1", "project": "/p", "file": "/p/review.yaml", "cwd": "/p",
            "limits": {"hops": 50}, "mode": "run", "started": "2026-01-01T00:00:00.000Z",
            "state_since": "2026-01-01T00:00:00.000Z", "turns": 1, "messages": 1,
            "usage": {"input_tokens": 0, "output_tokens": 0}, "dead_letters": [], "dropped": [], "agents": [],
        });
        view.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(view).unwrap()
    }

    fn failure(class: &str, message: &str) -> Value {
        json!({
            "agent": "coder", "class": class, "message": message, "at": "2026-01-01T00:00:00.000Z",
            "attempt": RUN, "recovered": false,
        })
    }

    fn waiting() -> Value {
        json!({
            "name": "coder", "instance": "review:pr-1", "project": "/p", "backend": "mock", "state": "waiting",
            "questions": [2], "approvals": [1], "asked": "2026-01-01T00:00:00.000Z", "waiting": 0, "turns": 0,
            "messages": 0, "usage": {"input_tokens": 0, "output_tokens": 0}, "started": "2026-01-01T00:00:00.000Z",
        })
    }

    fn check(more: &Value, http: Option<&str>, mcp: Option<&str>) {
        let run = run(more);
        assert_eq!(run_hint(&run, &HTTP_CALLS).as_deref(), http, "{more}");
        assert_eq!(run_hint(&run, &MCP_CALLS).as_deref(), mcp, "{more}");
    }

    #[test]
    fn a_paused_run_is_continued_by_the_calls_of_each_interface() {
        let limit = json!({"cause": "limit", "limit": "turns", "detail": "1 of 1"});
        let again = "2026-01-02T00:00:00.000Z";
        let room =
            json!({"cause": "limit", "limit": "cost", "detail": "20 of 20", "room_at": again});
        let wait =
            format!("wait until {again}, when the run resumes by itself, or raise the limit: ");
        for (more, http, mcp) in [
            (json!({"state": "ended", "outcome": "done"}), None, None),
            (json!({"state": "running"}), None, None),
            (
                json!({"state": "paused", "cause": limit, "needs": {"turns": 2}}),
                Some(format!("raise the limit: `POST /runs/{RUN}/resume` with {{\"turns\":2}}")),
                Some(format!("raise the limit: run_resume with {{\"run\":\"{RUN}\",\"turns\":2}}")),
            ),
            (
                json!({"state": "paused", "cause": room, "needs": {"cost_micros": 40}}),
                Some(format!("{wait}`POST /runs/{RUN}/resume` with {{\"cost_micros\":40}}")),
                Some(format!("{wait}run_resume with {{\"cost_micros\":40,\"run\":\"{RUN}\"}}")),
            ),
            (
                json!({"state": "paused", "cause": {"cause": "user"}}),
                Some(format!("continue the run: `POST /runs/{RUN}/resume` with {{}}")),
                Some(format!("continue the run: run_resume with {{\"run\":\"{RUN}\"}}")),
            ),
            (
                json!({"state": "paused", "cause": {"cause": "human"}, "agents": [waiting()]}),
                Some(
                    "approve or deny request 1 of coder: `POST /approvals/1/approve` or `POST /approvals/1/deny` \
                     with {\"target\":\"@review:pr-1\"}; answer question 2 of coder: `POST /questions/2/answer` \
                     with {\"answer\":\"…\",\"target\":\"@review:pr-1\"}"
                        .to_owned(),
                ),
                Some(
                    "approve or deny request 1 of coder: approval_answer with \
                     {\"allow\":true,\"approval\":1,\"target\":\"@review:pr-1\"}; answer question 2 of coder: \
                     question_answer with {\"answer\":\"…\",\"question\":2,\"target\":\"@review:pr-1\"}"
                        .to_owned(),
                ),
            ),
        ] {
            check(&more, http.as_deref(), mcp.as_deref());
        }
    }

    #[test]
    fn a_failure_is_fixed_and_tried_again_by_the_calls_of_each_interface() {
        let failed =
            |last: Value| json!({"state": "ended", "outcome": "failed", "last_failures": last});
        for (more, http, mcp) in [
            (
                failed(json!([failure("auth", "401 bad key")])),
                Some(
                    "give coder a valid key, or log in to its program; then start the run again: `POST /runs`"
                        .to_owned(),
                ),
                Some(
                    "give coder a valid key, or log in to its program; then start the run again: run_start"
                        .to_owned(),
                ),
            ),
            (
                failed(json!([])),
                Some("fix the cause; then start the run again: `POST /runs`".to_owned()),
                Some("fix the cause; then start the run again: run_start".to_owned()),
            ),
            (
                json!({"state": "running", "last_failures": [failure("missing_program", "no `x`; install it: get x")]}),
                Some(
                    "correct the program of coder: install it: get x; then `POST /agents/coder@review:pr-1/resume`"
                        .to_owned(),
                ),
                Some(
                    "correct the program of coder: install it: get x; then agent_resume with \
                     {\"target\":\"coder@review:pr-1\"}"
                        .to_owned(),
                ),
            ),
        ] {
            check(&more, http.as_deref(), mcp.as_deref());
        }
    }
}
