//! The hint of a problem in the words of the HTTP interface: routes, headers and fields.

use agent_worker_protocol::{Problem, ProblemDetails};

use crate::hint::{limit_hint, limits_json, neutral_hint};

/// The next thing an HTTP client can try.
pub(crate) fn hint(problem: &Problem) -> Option<String> {
    let details = problem.details.as_deref()?;
    let hint = match details {
        ProblemDetails::UnknownTarget { .. } => "`GET /workflows?all=true` lists them".to_owned(),
        ProblemDetails::UnknownAgent { suggestion: None, .. } => {
            "`GET /agents` lists the agents".to_owned()
        }
        ProblemDetails::NoRun { instance } if instance.is_global() => {
            "add a standalone agent with `POST /agents`".to_owned()
        }
        ProblemDetails::NoRun { .. } => "start it again with `POST /runs`".to_owned(),
        ProblemDetails::AlreadyRunning { .. } => {
            "`POST /runs/{id}/stop` ends it, `replace` ends it first, another `tag` starts a second instance"
                .to_owned()
        }
        ProblemDetails::WrongRunState { instance } => {
            format!("`GET /runs?target=@{instance}` shows its state")
        }
        ProblemDetails::PermanentRun => {
            "`GET /agents?target=@global` lists its agents, `DELETE /agents/{target}` removes one"
                .to_owned()
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
        ProblemDetails::TextTooLarge { .. } => {
            "put the rest into a resource with `POST /resources`".to_owned()
        }
        ProblemDetails::StaleRevision { .. } => {
            "read it, then write with its revision as `base_revision`".to_owned()
        }
        ProblemDetails::RevisionNotRead { .. } => "read it first, then write again".to_owned(),
        ProblemDetails::NotOwner { owner } => {
            format!("suggest the change to @{owner} with `POST /suggestions`")
        }
        ProblemDetails::SuggestionNotNeeded => {
            "write it with `POST /documents/{path}`".to_owned()
        }
        ProblemDetails::NoVote { proposal } => format!(
            "the electorate was fixed when the proposal was made: `GET /proposals/{proposal}`"
        ),
        ProblemDetails::OtherDatabase { .. } => {
            "restore `context.config.db`, or delete the instance with `POST /workflows/remove`"
                .to_owned()
        }
        ProblemDetails::OutcomeUnknown => {
            "send it again with the same `Idempotency-Key`: it then happens once".to_owned()
        }
        ProblemDetails::DamagedRow => {
            "everything else can be read and exported; `GET /doctor` lists every damaged row"
                .to_owned()
        }
        ProblemDetails::KeyReused => {
            "use a new `Idempotency-Key` for a new request".to_owned()
        }
        ProblemDetails::RunContinues { run } => format!("ask again later: `GET /runs/{run}`"),
        other => return neutral_hint(other),
    };
    Some(hint)
}
