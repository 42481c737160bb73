//! The hint of a problem in terms of the command line: the command to type next.

use agent_worker_protocol::{Millis, Problem, ProblemDetails, Target, api::ResumeRequest};

use crate::output::next_steps::limit_step;

/// Returns the command to type next.
pub(crate) fn hint(problem: &Problem) -> Option<String> {
    let hint = match problem.details.as_deref()? {
        ProblemDetails::UnknownAgent { suggestion: Some(name), .. } => {
            format!("did you mean `{name}`?")
        }
        ProblemDetails::UnknownTarget { suggestion: Some(target), .. } => {
            format!("did you mean `{target}`?")
        }
        ProblemDetails::InvalidAgent { correction } => correction.clone(),
        ProblemDetails::LimitReached { instance, needs, room_at, .. } => {
            limit_hint(&Target::instance(instance), needs, *room_at)
        }
        ProblemDetails::AgentExists { target } => {
            format!(
                "choose another name, or end the existing agent: agent-worker agent end {target}"
            )
        }
        ProblemDetails::GateClosed { gate, .. } => {
            format!("a binding proposal with gate `{gate}` opens the gate when `approve` wins")
        }
        ProblemDetails::NoDeadLetter { instance, .. } => {
            format!("`agent-worker dead @{instance}` lists the dead letters")
        }
        ProblemDetails::AlreadyRunning { instance } => format!(
            "end it with `agent-worker stop @{instance}`, replace it with --replace, or start another instance with --tag NAME"
        ),
        ProblemDetails::NoRun { instance } if !instance.is_global() => {
            format!("restart it: agent-worker restart @{instance}")
        }
        ProblemDetails::NotOwner { owner } => {
            format!("@{owner} owns the documents: send @{owner} the change")
        }
        ProblemDetails::RunContinues { run } => {
            format!("the run continues with the next daemon: agent-worker attach {run}")
        }
        other => return fixed_hint(other).or_else(|| document_hint(other)).map(str::to_owned),
    };
    Some(hint)
}

/// Returns the hint at a limit: the command that raises it, and the time from which the run continues by itself.
fn limit_hint(target: &Target, needs: &ResumeRequest, room_at: Option<Millis>) -> String {
    match needs {
        ResumeRequest { wall: Some(_), .. } => {
            let typed = needs.to_command(target);
            format!("raise the time limit; pauses and waiting for a person do not count: {typed}")
        }
        _ => limit_step(target, needs, room_at),
    }
}

/// Returns a hint that is the same for every problem of its kind.
fn fixed_hint(details: &ProblemDetails) -> Option<&'static str> {
    let hint = match details {
        ProblemDetails::UnknownTarget { .. } => "`agent-worker ls --all` lists every agent",
        ProblemDetails::UnknownAgent { .. } => "`agent-worker ls` lists the agents",
        ProblemDetails::AmbiguousTarget { same_instance: true, .. } => {
            "change to the folder of the one you mean"
        }
        ProblemDetails::AmbiguousTarget { target: Some(_), .. } => {
            "use the full name: agent@workflow:tag"
        }
        ProblemDetails::AmbiguousTarget { target: None, .. } => {
            "name the one you mean: @workflow:tag"
        }
        ProblemDetails::NoRun { .. } => {
            "create a standalone agent: agent-worker new -b mock --say \"Hello.\""
        }
        ProblemDetails::WrongRunState { .. } => "`agent-worker runs` shows its state",
        ProblemDetails::PermanentRun => {
            "`agent-worker ls @global` lists the standalone agents, `agent-worker agent end NAME` ends one"
        }
        ProblemDetails::HopLimit => "end this turn; a message from a person resets the hop count",
        ProblemDetails::TextTooLarge { .. } => {
            "put the rest into a resource: agent-worker resource create"
        }
        ProblemDetails::BodyTooLarge { .. } => {
            "a resource holds up to 64 MiB; send the content in parts"
        }
        ProblemDetails::OtherDatabase { .. } => {
            "restore the previous `context.config.db`, or delete the instance: agent-worker rm"
        }
        ProblemDetails::DatabaseTaken { .. } => "give the team another `context.config.db`",
        ProblemDetails::DiskFull => {
            "free some disk space; writes then work again without a restart"
        }
        ProblemDetails::OutcomeUnknown => {
            "the request may or may not have taken effect: check before you retry"
        }
        ProblemDetails::DamagedRow => {
            "everything else can be read and exported; `agent-worker doctor` lists every damaged row"
        }
        ProblemDetails::KeyReused => "use a new idempotency key for a new request",
        ProblemDetails::TokenMissing => "the user creates a token: agent-worker token create NAME",
        ProblemDetails::OtherDaemon => {
            "an agent talks to the daemon that started it; leave AGENT_WORKER_HOME as it is"
        }
        ProblemDetails::UnknownHost { .. } => "use the host name `localhost`",
        ProblemDetails::InvalidRange { .. } => "write the range as `0..65536` or `65536..`",
        ProblemDetails::UnknownSession => {
            "start a new session with `initialize`; a session ends with the daemon"
        }
        _ => return None,
    };
    Some(hint)
}

/// Returns a hint about documents and votes; `None` for the problems that are worded above.
fn document_hint(details: &ProblemDetails) -> Option<&'static str> {
    let hint = match details {
        ProblemDetails::StaleRevision { .. } | ProblemDetails::RevisionNotRead { .. } => {
            "read it with `agent-worker doc read`, then write with its revision as --base"
        }
        ProblemDetails::SuggestionNotNeeded => {
            "write the document with `agent-worker doc write` or `agent-worker doc append`"
        }
        ProblemDetails::PassageNotUnique { .. } => {
            "read the document, and quote a passage that occurs in it exactly once"
        }
        ProblemDetails::PathConflict { .. } => "choose another name",
        ProblemDetails::ProposalClosed { .. } => {
            "a decision is final; make a new proposal to change it"
        }
        ProblemDetails::NoExactPattern { .. } => {
            "name the calls to allow with `--pattern`, or approve this call without `--for-run`"
        }
        ProblemDetails::OnceOnly { .. } => "approve this call without `--for-run`",
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
    use agent_worker_protocol::{Code, InstanceRef, RunMode, Span};

    use super::*;
    use crate::output::{clock, samples};

    fn hint_of(details: ProblemDetails) -> String {
        hint(&Problem::new(Code::Conflict, "no").with_details(details)).unwrap()
    }

    #[test]
    fn every_reason_has_a_hint() {
        let samples: Vec<ProblemDetails> = serde_json::from_str(ProblemDetails::SAMPLES).unwrap();
        for details in samples {
            let problem = Problem::new(Code::Conflict, "no").with_details(details.clone());
            assert!(hint(&problem).is_some_and(|hint| !hint.is_empty()), "{details:?}");
        }
    }

    #[test]
    fn a_limit_is_raised_by_a_command_to_type() {
        let limit = |mode, needs, room_at| {
            let instance = "team".parse().unwrap();
            hint_of(ProblemDetails::LimitReached { instance, mode, needs, room_at })
        };
        let again = samples::at(60);
        let when = clock::format_local_time(again, clock::now());
        let wait = format!(
            "wait until {when}, when the run continues by itself, \
             or raise the limit: agent-worker resume @team --turns 6"
        );
        let none = ResumeRequest::default();
        let hops = ResumeRequest { hops: Some(10), ..none };
        let turns = ResumeRequest { turns: Some(6), ..none };
        let wall = ResumeRequest { wall: Some(Span::from_secs(10_800)), ..none };
        for (mode, needs, room_at, expected) in [
            (RunMode::Run, hops, None, "raise the limit: agent-worker resume @team --hops 10"),
            (RunMode::Run, turns, None, "raise the limit: agent-worker resume @team --turns 6"),
            (RunMode::Start, turns, Some(again), &wait),
            (
                RunMode::Run,
                wall,
                None,
                "raise the time limit; pauses and waiting for a person do not count: agent-worker resume @team --wall 3h",
            ),
        ] {
            assert_eq!(limit(mode, needs, room_at), expected);
        }
    }

    #[test]
    fn a_hint_names_what_the_problem_is_about() {
        let instance: InstanceRef = "review:pr-1".parse().unwrap();
        for (details, expected) in [
            (
                ProblemDetails::NoRun { instance: instance.clone() },
                "restart it: agent-worker restart @review:pr-1",
            ),
            (
                ProblemDetails::AmbiguousTarget {
                    target: Some("@review".into()),
                    candidates: vec!["`@review` in /a".into(), "`@review` in /b".into()],
                    same_instance: true,
                },
                "change to the folder of the one you mean",
            ),
            (
                ProblemDetails::NoRun { instance: "global".parse().unwrap() },
                "create a standalone agent: agent-worker new -b mock --say \"Hello.\"",
            ),
            (
                ProblemDetails::NoDeadLetter { instance, seq: None },
                "`agent-worker dead @review:pr-1` lists the dead letters",
            ),
            (
                ProblemDetails::AgentExists { target: "coder@team".parse().unwrap() },
                "choose another name, or end the existing agent: agent-worker agent end coder@team",
            ),
            (
                ProblemDetails::UnknownAgent { agent: "codr".into(), suggestion: None },
                "`agent-worker ls` lists the agents",
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
