//! Hints that fit both interfaces of the daemon: they name neither a route nor a tool.
//!
//! `http/hint.rs` and `mcp/hint.rs` word the others, and pass the rest on to here.

use std::fmt::Display;

use agent_worker_protocol::{Millis, ProblemDetails, api::ResumeRequest};

/// The hint that fits every interface. The words for the rest are the interface's own.
pub(crate) fn neutral_hint(details: &ProblemDetails) -> Option<String> {
    let hint = match details {
        ProblemDetails::UnknownAgent { suggestion, .. } => {
            return did_you_mean(suggestion.as_ref());
        }
        ProblemDetails::UnknownTarget { suggestion, .. } => {
            return did_you_mean(suggestion.as_ref());
        }
        ProblemDetails::InvalidAgent { correction } => return Some(correction.clone()),
        ProblemDetails::GateClosed { gate, .. } => return Some(gate_hint(gate)),
        ProblemDetails::AmbiguousTarget { same_instance: true, .. } => {
            "pass `project`, the folder of the one you mean"
        }
        ProblemDetails::AmbiguousTarget { target: Some(_), .. } => {
            "give the full target: agent@workflow:tag"
        }
        ProblemDetails::AmbiguousTarget { target: None, .. } => "name an instance: @workflow:tag",
        ProblemDetails::HopLimit => "end this turn; a message from a person resets the hop count",
        ProblemDetails::PassageNotUnique { .. } => {
            "read the document, and quote a passage that occurs in it exactly once"
        }
        ProblemDetails::ProposalClosed { .. } => {
            "a decision is final; make a new proposal to change it"
        }
        ProblemDetails::NoExactPattern { .. } => "name the calls to allow as `pattern`",
        ProblemDetails::OnceOnly { .. } => "approve this call without `for: run`",
        ProblemDetails::PathConflict { .. } => "choose another name",
        ProblemDetails::DatabaseTaken { .. } => "give the team another `context.config.db`",
        ProblemDetails::DiskFull => "free disk space; writes then work again without a restart",
        ProblemDetails::TokenMissing => {
            "create a token with `agent-worker token create NAME` and send `Authorization: Bearer TOKEN`"
        }
        ProblemDetails::OtherDaemon => {
            "an agent talks to the daemon that started it; leave AGENT_WORKER_HOME as it is"
        }
        ProblemDetails::UnknownHost { .. } => "use `localhost` as the host",
        ProblemDetails::InvalidRange { .. } => "write the range as `0..65536` or `65536..`",
        ProblemDetails::BodyTooLarge { .. } => "a resource holds 64 MiB; send it in parts",
        ProblemDetails::UnknownSession => {
            "start a new session with `initialize`; sessions end when the daemon stops"
        }
        ProblemDetails::NoRun { .. }
        | ProblemDetails::AlreadyRunning { .. }
        | ProblemDetails::WrongRunState { .. }
        | ProblemDetails::PermanentRun
        | ProblemDetails::LimitReached { .. }
        | ProblemDetails::AgentExists { .. }
        | ProblemDetails::NoDeadLetter { .. }
        | ProblemDetails::TextTooLarge { .. }
        | ProblemDetails::StaleRevision { .. }
        | ProblemDetails::RevisionNotRead { .. }
        | ProblemDetails::NotOwner { .. }
        | ProblemDetails::SuggestionNotNeeded
        | ProblemDetails::NoVote { .. }
        | ProblemDetails::OtherDatabase { .. }
        | ProblemDetails::OutcomeUnknown
        | ProblemDetails::DamagedRow
        | ProblemDetails::KeyReused
        | ProblemDetails::RunContinues { .. } => return None,
    };
    Some(hint.to_owned())
}

fn gate_hint(gate: &str) -> String {
    format!("a binding proposal with gate `{gate}` opens it when `approve` wins")
}

fn did_you_mean(suggestion: Option<impl Display>) -> Option<String> {
    suggestion.map(|name| format!("did you mean `{name}`?"))
}

/// Returns true if an unknown target is an agent.
pub(crate) fn is_agent(wanted: &str) -> bool {
    wanted.starts_with("agent ")
}

/// The hint at a limit; `resume` says how this interface raises it.
pub(crate) fn limit_hint(needs: &ResumeRequest, room_at: Option<Millis>, resume: &str) -> String {
    match (room_at, needs) {
        (Some(at), _) => {
            format!("wait until {at}, when the run resumes by itself, or raise the limit: {resume}")
        }
        (None, ResumeRequest { wall: Some(_), .. }) => {
            format!("allow more time; pauses and waiting for a person do not count: {resume}")
        }
        (None, _) => format!("raise the limit: {resume}"),
    }
}

/// The limits to send, as JSON.
pub(crate) fn limits_json(needs: &ResumeRequest) -> String {
    serde_json::to_string(needs).unwrap_or_default()
}
