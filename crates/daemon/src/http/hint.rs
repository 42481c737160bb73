//! The hint of a problem in the words of the HTTP interface: routes, headers and fields.

use agent_worker_protocol::{Problem, ProblemDetails, Target};
use serde_json::json;

use crate::{
    hint::{is_agent, limit_hint, limits_json, neutral_hint},
    next_step::StepCalls,
};

/// The requests that the next step after a run names.
pub(crate) const HTTP_CALLS: StepCalls = StepCalls {
    answer: |id, run| {
        let target = Target::instance(&run.instance);
        let body = json!({ "target": target, "answer": "…" });
        format!("`POST /questions/{id}/answer` with {body}")
    },
    decide: |id, run| {
        let body = json!({ "target": Target::instance(&run.instance) });
        format!("`POST /approvals/{id}/approve` or `POST /approvals/{id}/deny` with {body}")
    },
    resume_run: |run| format!("`POST /runs/{}/resume` with {}", run.run, limits_json(&run.needs)),
    resume_agent: |target| format!("`POST /agents/{target}/resume`"),
    start: "`POST /runs`",
    add_agent: "`POST /agents`",
};

/// The next thing an HTTP client can try.
pub(crate) fn hint(problem: &Problem) -> Option<String> {
    let hint = match problem.details.as_deref()? {
        ProblemDetails::WrongRunState { instance } => {
            format!("`GET /runs?target=@{instance}` shows its state")
        }
        ProblemDetails::LimitReached { needs, room_at, .. } => {
            let resume = format!("`POST /runs/{{id}}/resume` with {}", limits_json(needs));
            limit_hint(needs, *room_at, &resume)
        }
        ProblemDetails::AgentExists { target } => {
            format!("choose another name, or remove that agent: `DELETE /agents/{target}`")
        }
        ProblemDetails::NoDeadLetter { instance, .. } => {
            format!("`GET /dead?target=@{instance}` lists the dead letters")
        }
        ProblemDetails::NotOwner { owner } => {
            format!("suggest the change to @{owner} with `POST /suggestions`")
        }
        ProblemDetails::NoVote { proposal } => format!(
            "the electorate was fixed when the proposal was made: `GET /proposals/{proposal}`"
        ),
        ProblemDetails::RunContinues { run } => format!("query the run later: `GET /runs/{run}`"),
        other => {
            return fixed_hint(other).map(str::to_owned).or_else(|| neutral_hint(other));
        }
    };
    Some(hint)
}

/// A hint that is the same for every problem of its kind.
fn fixed_hint(details: &ProblemDetails) -> Option<&'static str> {
    let hint = match details {
        ProblemDetails::UnknownTarget { suggestion: None, wanted } if is_agent(wanted) => {
            "`GET /agents` lists the agents"
        }
        ProblemDetails::UnknownTarget { suggestion: None, .. } => {
            "`GET /workflows` lists the instances"
        }
        ProblemDetails::UnknownAgent { suggestion: None, .. } => "`GET /agents` lists the agents",
        ProblemDetails::NoRun { instance } if instance.is_global() => {
            "add a standalone agent with `POST /agents`"
        }
        ProblemDetails::NoRun { .. } => "start it again with `POST /runs`",
        ProblemDetails::AlreadyRunning { .. } => {
            "stop the run with `POST /runs/{id}/stop`, start with `replace` to stop it first, or use another `tag` for a second instance"
        }
        ProblemDetails::PermanentRun => {
            "`GET /agents?target=@global` lists its agents, `DELETE /agents/{target}` removes one"
        }
        ProblemDetails::TextTooLarge { .. } => {
            "put the rest into a resource with `POST /resources`"
        }
        ProblemDetails::StaleRevision { .. } | ProblemDetails::RevisionNotRead { .. } => {
            "read it, then write with its revision as `base_revision`"
        }
        ProblemDetails::SuggestionNotNeeded => "write it with `POST /documents/{path}`",
        ProblemDetails::OtherDatabase { .. } => {
            "restore `context.config.db`, or delete the instance with `POST /workflows/remove`"
        }
        ProblemDetails::OutcomeUnknown => {
            "repeat the request with the same `Idempotency-Key`: it then takes effect only once"
        }
        ProblemDetails::DamagedRow => {
            "everything else can be read and exported; `GET /doctor` lists every damaged row"
        }
        ProblemDetails::KeyReused => "use a new `Idempotency-Key` for a new request",
        _ => return None,
    };
    Some(hint)
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::Code;

    use super::*;

    #[test]
    fn an_unknown_agent_is_found_in_the_list_of_agents() {
        for (wanted, expected) in [
            ("agent `ghost` in @team", "`GET /agents` lists the agents"),
            ("instance `@ghost`", "`GET /workflows` lists the instances"),
        ] {
            let details = ProblemDetails::UnknownTarget { wanted: wanted.into(), suggestion: None };
            let problem = Problem::new(Code::NotFound, "no").with_details(details);
            assert_eq!(hint(&problem).as_deref(), Some(expected));
        }
    }

    #[test]
    fn every_reason_has_a_hint() {
        let samples: Vec<ProblemDetails> = serde_json::from_str(ProblemDetails::SAMPLES).unwrap();
        for details in samples {
            let problem = Problem::new(Code::Conflict, "no").with_details(details.clone());
            assert!(hint(&problem).is_some_and(|hint| !hint.is_empty()), "{details:?}");
        }
    }
}
