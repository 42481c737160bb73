//! The hint of a problem in terms of the command line: the command to type next.

use agent_worker_protocol::{
    InstanceRef, Problem, ProblemDetails, RunMode, Target, api::ResumeRequest,
};

/// Returns the command to type next.
pub(crate) fn hint(problem: &Problem) -> Option<String> {
    let hint = match problem.details.as_deref()? {
        ProblemDetails::UnknownAgent { suggestion: Some(name), .. } => {
            format!("did you mean `{name}`?")
        }
        ProblemDetails::InvalidAgent { correction } => correction.clone(),
        ProblemDetails::LimitReached { instance, mode, needs } => {
            limit_hint(instance, *mode, needs)
        }
        ProblemDetails::AgentExists { target } => {
            format!("give it another name, or end that one: agent-worker agent end {target}")
        }
        ProblemDetails::GateClosed { gate, .. } => {
            format!("a binding proposal with gate `{gate}` opens it when `approve` wins")
        }
        ProblemDetails::NoDeadLetter { instance, .. } => {
            format!("`agent-worker dead @{instance}` lists what there is")
        }
        ProblemDetails::AlreadyRunning { instance } => format!(
            "`agent-worker stop @{instance}` ends it, --replace does so first, --tag NAME starts another one beside it"
        ),
        ProblemDetails::NoRun { instance } if !instance.is_global() => {
            format!("begin it again: agent-worker restart @{instance}")
        }
        ProblemDetails::NotOwner { owner } => {
            format!("@{owner} owns the documents: send @{owner} the change")
        }
        ProblemDetails::RunContinues { run } => {
            format!("it continues with the next daemon: agent-worker attach {run}")
        }
        other => return fixed_hint(other).or_else(|| document_hint(other)).map(str::to_owned),
    };
    Some(hint)
}

/// Returns the hint at a limit: the command that raises it.
fn limit_hint(instance: &InstanceRef, mode: RunMode, needs: &ResumeRequest) -> String {
    let typed = needs.to_command(&Target::instance(instance));
    match (mode, needs) {
        (RunMode::Start, ResumeRequest { turns: Some(_), .. }) => {
            format!("it continues by itself within a day; to continue now: {typed}")
        }
        (_, ResumeRequest { wall: Some(_), .. }) => {
            format!("allow more time, counted from its beginning: {typed}")
        }
        (RunMode::Run | RunMode::Start, _) => format!("allow more: {typed}"),
    }
}

/// Returns a hint that is the same for every problem of its kind.
fn fixed_hint(details: &ProblemDetails) -> Option<&'static str> {
    let hint = match details {
        ProblemDetails::UnknownTarget { .. } => "`agent-worker ls --all` shows what there is",
        ProblemDetails::UnknownAgent { .. } => "`agent-worker ls` shows who is there",
        ProblemDetails::AmbiguousTarget { target: Some(_), .. } => {
            "name it whole, agent@workflow:tag, or go to the folder of the one you mean"
        }
        ProblemDetails::AmbiguousTarget { target: None, .. } => {
            "name the one you mean: @workflow:tag"
        }
        ProblemDetails::NoRun { .. } => {
            "make a standalone agent: agent-worker new -b mock --say \"Hello.\""
        }
        ProblemDetails::WrongRunState { .. } => "`agent-worker runs` shows how it stands",
        ProblemDetails::PermanentRun => {
            "`agent-worker ls @global` lists them, `agent-worker agent end NAME` ends one"
        }
        ProblemDetails::HopLimit => "end this turn; a message from a person starts the count again",
        ProblemDetails::TextTooLarge { .. } => {
            "put the rest into a resource: agent-worker resource create"
        }
        ProblemDetails::BodyTooLarge { .. } => "a resource holds 64 MiB; send it in parts",
        ProblemDetails::OtherDatabase { .. } => {
            "put `context.config.db` back as it was, or delete what is there: agent-worker rm"
        }
        ProblemDetails::DatabaseTaken { .. } => "give the team another `context.config.db`",
        ProblemDetails::DiskFull => {
            "free some space; writes work again as soon as there is room, without a restart"
        }
        ProblemDetails::OutcomeUnknown => {
            "it may or may not have happened: look before you try it again"
        }
        ProblemDetails::DamagedRow => {
            "everything else can be read and exported; `agent-worker doctor` lists every damaged row"
        }
        ProblemDetails::KeyReused => "use a new idempotency key for a new request",
        ProblemDetails::TokenMissing => "the user makes a token: agent-worker token create NAME",
        ProblemDetails::OtherDaemon => {
            "an agent talks to the daemon that started it; leave AGENT_WORKER_HOME as it is"
        }
        ProblemDetails::UnknownHost { .. } => "ask it as `localhost`",
        ProblemDetails::InvalidRange { .. } => "write it as `0..65536` or `65536..`",
        ProblemDetails::UnknownSession => {
            "begin a new one with `initialize`; a session ends with the daemon"
        }
        _ => return None,
    };
    Some(hint)
}

/// Returns a hint about documents and votes; `None` for the problems that are worded above.
fn document_hint(details: &ProblemDetails) -> Option<&'static str> {
    let hint = match details {
        ProblemDetails::StaleRevision { .. } => {
            "read it with `agent-worker doc read`, then write with its revision as --base"
        }
        ProblemDetails::RevisionNotRead { .. } => {
            "read it first with `agent-worker doc read`, then write again"
        }
        ProblemDetails::SuggestionNotNeeded => {
            "write it with `agent-worker doc write` or `agent-worker doc append`"
        }
        ProblemDetails::PassageNotUnique { .. } => {
            "read the document, and quote a passage that occurs in it exactly once"
        }
        ProblemDetails::PathConflict { .. } => "give it another name",
        ProblemDetails::ProposalClosed { .. } => {
            "a decision is final; make a new proposal to change it"
        }
        ProblemDetails::NoVote { .. } => {
            "the electorate was fixed when the proposal was made: `agent-worker proposals` shows it"
        }
        ProblemDetails::UnknownTarget { .. }
        | ProblemDetails::UnknownAgent { .. }
        | ProblemDetails::AmbiguousTarget { .. }
        | ProblemDetails::NoRun { .. }
        | ProblemDetails::AlreadyRunning { .. }
        | ProblemDetails::WrongRunState { .. }
        | ProblemDetails::PermanentRun
        | ProblemDetails::LimitReached { .. }
        | ProblemDetails::HopLimit
        | ProblemDetails::AgentExists { .. }
        | ProblemDetails::InvalidAgent { .. }
        | ProblemDetails::NoDeadLetter { .. }
        | ProblemDetails::TextTooLarge { .. }
        | ProblemDetails::BodyTooLarge { .. }
        | ProblemDetails::GateClosed { .. }
        | ProblemDetails::NotOwner { .. }
        | ProblemDetails::OtherDatabase { .. }
        | ProblemDetails::DatabaseTaken { .. }
        | ProblemDetails::DiskFull
        | ProblemDetails::OutcomeUnknown
        | ProblemDetails::DamagedRow
        | ProblemDetails::KeyReused
        | ProblemDetails::TokenMissing
        | ProblemDetails::OtherDaemon
        | ProblemDetails::UnknownHost { .. }
        | ProblemDetails::InvalidRange { .. }
        | ProblemDetails::RunContinues { .. }
        | ProblemDetails::UnknownSession => return None,
    };
    Some(hint)
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{Code, Span};

    use super::*;

    fn hint_of(details: ProblemDetails) -> String {
        hint(&Problem::new(Code::Conflict, "no").with_details(details)).unwrap()
    }

    #[test]
    fn a_limit_is_raised_by_a_command_to_type() {
        let limit = |mode, needs| {
            let instance = "team".parse().unwrap();
            hint_of(ProblemDetails::LimitReached { instance, mode, needs })
        };
        let none = ResumeRequest::default();
        let hops = ResumeRequest { hops: Some(10), ..none };
        let turns = ResumeRequest { turns: Some(6), ..none };
        let wall = ResumeRequest { wall: Some(Span::from_secs(10_800)), ..none };
        for (mode, needs, expected) in [
            (RunMode::Run, hops, "allow more: agent-worker resume @team --hops 10"),
            (RunMode::Run, turns, "allow more: agent-worker resume @team --turns 6"),
            (
                RunMode::Start,
                turns,
                "it continues by itself within a day; to continue now: agent-worker resume @team --turns 6",
            ),
            (
                RunMode::Run,
                wall,
                "allow more time, counted from its beginning: agent-worker resume @team --wall 3h",
            ),
        ] {
            assert_eq!(limit(mode, needs), expected);
        }
    }

    #[test]
    fn a_hint_names_what_the_problem_is_about() {
        let instance: InstanceRef = "review:pr-1".parse().unwrap();
        for (details, expected) in [
            (
                ProblemDetails::NoRun { instance: instance.clone() },
                "begin it again: agent-worker restart @review:pr-1",
            ),
            (
                ProblemDetails::NoRun { instance: "global".parse().unwrap() },
                "make a standalone agent: agent-worker new -b mock --say \"Hello.\"",
            ),
            (
                ProblemDetails::NoDeadLetter { instance, seq: None },
                "`agent-worker dead @review:pr-1` lists what there is",
            ),
            (
                ProblemDetails::AgentExists { target: "coder@team".parse().unwrap() },
                "give it another name, or end that one: agent-worker agent end coder@team",
            ),
            (
                ProblemDetails::UnknownAgent { agent: "codr".into(), suggestion: None },
                "`agent-worker ls` shows who is there",
            ),
            (ProblemDetails::KeyReused, "use a new idempotency key for a new request"),
        ] {
            assert_eq!(hint_of(details), expected);
        }
        let suggestion = Some("coder".parse().unwrap());
        let near = ProblemDetails::UnknownAgent { agent: "codr".into(), suggestion };
        assert_eq!(hint_of(near), "did you mean `coder`?");
        assert_eq!(hint(&Problem::new(Code::NotFound, "no")), None);
    }
}
