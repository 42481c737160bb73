//! The hint of a problem in the words of the HTTP interface: routes, headers and fields.

use agent_worker_protocol::{Problem, ProblemDetails};

use crate::hint::{limit_hint, limits_json, neutral_hint};

/// The next thing an HTTP client can try.
pub(crate) fn hint(problem: &Problem) -> Option<String> {
    let hint = match problem.details.as_deref()? {
        ProblemDetails::WrongRunState { instance } => {
            format!("`GET /runs?target=@{instance}` shows its state")
        }
        ProblemDetails::LimitReached { mode, needs, .. } => {
            let resume = format!("`POST /runs/{{id}}/resume` with {}", limits_json(needs));
            limit_hint(*mode, needs, &resume)
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
        ProblemDetails::StaleRevision { .. } => {
            "read it, then write with its revision as `base_revision`"
        }
        ProblemDetails::RevisionNotRead { .. } => "read it first, then write again",
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
    fn every_reason_has_a_hint() {
        let samples: Vec<ProblemDetails> = serde_json::from_str(ProblemDetails::SAMPLES).unwrap();
        for details in samples {
            let problem = Problem::new(Code::Conflict, "no").with_details(details.clone());
            assert!(hint(&problem).is_some_and(|hint| !hint.is_empty()), "{details:?}");
        }
    }
}
