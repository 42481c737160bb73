//! The hint of a problem in the words of the MCP interface: tools and their arguments.

use agent_worker_kernel::{AgentExplanation, WakeCondition};
use agent_worker_protocol::{Problem, ProblemBody, ProblemDetails, Target, api::AgentView};
use serde_json::{Value, json};

use crate::{
    hint::{is_agent, limit_hint, limits_json, neutral_hint},
    next_step::StepCalls,
};

/// The tool calls that the next step after a run names.
pub(crate) const MCP_CALLS: StepCalls = StepCalls {
    answer: |id, run| {
        let target = Target::instance(&run.instance);
        format!(
            "question_answer with {}",
            json!({ "target": target, "question": id, "answer": "…" })
        )
    },
    decide: |id, run| {
        let target = Target::instance(&run.instance);
        format!(
            "approval_answer with {}",
            json!({ "target": target, "approval": id, "allow": true })
        )
    },
    resume_run: |run| {
        let mut args = json!({ "run": run.run });
        let needs = serde_json::to_value(run.needs).unwrap_or_default();
        if let (Value::Object(args), Value::Object(needs)) = (&mut args, needs) {
            args.extend(needs);
        }
        format!("run_resume with {args}")
    },
    resume_agent: |target| format!("agent_resume with {}", json!({ "target": target })),
    start: "run_start",
    add_agent: "agent_new",
};

/// The problem as an MCP client and its model read it.
pub(super) fn problem_body(problem: Problem) -> ProblemBody {
    let hint = hint(&problem);
    problem.into_body(hint)
}

/// The next tool call to try.
fn hint(problem: &Problem) -> Option<String> {
    let details = problem.details.as_deref()?;
    let hint = match details {
        ProblemDetails::UnknownTarget { suggestion: None, wanted } if is_agent(wanted) => {
            "workflow_agents lists the agents".to_owned()
        }
        ProblemDetails::UnknownTarget { suggestion: None, .. } => {
            "workflow_list lists the instances".to_owned()
        }
        ProblemDetails::UnknownAgent { suggestion: None, .. } => {
            "workflow_agents lists the agents".to_owned()
        }
        ProblemDetails::NoRun { instance } if instance.is_global() => {
            "add a standalone agent with agent_new".to_owned()
        }
        ProblemDetails::NoRun { .. } => "start it again with run_start".to_owned(),
        ProblemDetails::AlreadyRunning { .. } => {
            "stop the run with run_stop, or use another `tag` for a second instance".to_owned()
        }
        ProblemDetails::WrongRunState { .. } => "run_status shows its state".to_owned(),
        ProblemDetails::PermanentRun => {
            "workflow_agents lists its agents, agent_remove removes one".to_owned()
        }
        ProblemDetails::LimitReached { needs, room_at, .. } => {
            limit_hint(needs, *room_at, &format!("run_resume with {}", limits_json(needs)))
        }
        ProblemDetails::AgentExists { .. } => {
            "choose another name, or remove that agent with agent_remove".to_owned()
        }
        ProblemDetails::NoDeadLetter { .. } => "dead_list lists the dead letters".to_owned(),
        ProblemDetails::TextTooLarge { .. } => {
            "put the rest into a resource with resource_create".to_owned()
        }
        // Only an agent has a last read, so the revision is the way for every caller.
        ProblemDetails::StaleRevision { .. } | ProblemDetails::RevisionNotRead { .. } => {
            "read it with document_read, then document_write with its revision as base_revision"
                .to_owned()
        }
        ProblemDetails::NotOwner { owner } => {
            format!("suggest the change to @{owner} with document_suggest")
        }
        ProblemDetails::SuggestionNotNeeded => {
            "write it with document_write or document_append".to_owned()
        }
        ProblemDetails::NoVote { .. } => {
            "the electorate was fixed when the proposal was made: proposal_status shows it"
                .to_owned()
        }
        ProblemDetails::OtherDatabase { .. } => {
            "restore `context.config.db`, or ask the user to delete the instance".to_owned()
        }
        ProblemDetails::OutcomeUnknown => {
            "repeat the call with the same idempotency_key: it then takes effect only once"
                .to_owned()
        }
        ProblemDetails::DamagedRow => "everything else can be read and exported".to_owned(),
        ProblemDetails::KeyReused => "use a new idempotency_key for a new call".to_owned(),
        ProblemDetails::RunContinues { .. } => "query the run later with run_status".to_owned(),
        other => return neutral_hint(other),
    };
    Some(hint)
}

/// Completes the sentence "it wakes when …", with the tool that wakes the agent.
pub(super) fn wakes_when(agent: &AgentExplanation) -> String {
    let AgentView { name, instance, .. } = &agent.view;
    match &agent.wakes_when {
        WakeCondition::NewRun => format!("a new run of @{instance}"),
        WakeCondition::SetupDone => "its run's setup is done".to_owned(),
        WakeCondition::OwnerElected => "its team has elected an owner".to_owned(),
        WakeCondition::Approval(id) => format!("the user approves or denies request #{id}"),
        WakeCondition::Answer(Some(id)) => format!("the user answers question #{id}"),
        WakeCondition::Answer(None) => "the user answers".to_owned(),
        WakeCondition::RunResumed { needs, room_at } => {
            let limits = (!needs.is_empty()).then(|| format!(" and {}", limits_json(needs)));
            let call = format!("run_resume{}", limits.unwrap_or_default());
            match room_at {
                Some(at) => format!("it is {at}, or at once with {call}"),
                None => format!("its run is resumed with {call}"),
            }
        }
        WakeCondition::AgentResumed => "it is resumed with agent_resume".to_owned(),
        WakeCondition::ProcessesEnded => {
            "its processes are gone and it is resumed with agent_resume".to_owned()
        }
        WakeCondition::Time(until) => format!("it is {until}, or at once with agent_resume"),
        WakeCondition::NextTurn => {
            "it is already working; new messages are shown in its next turn".to_owned()
        }
        WakeCondition::HoldReleased => {
            "the user starts the daemon again, or a client gives an agent work".to_owned()
        }
        WakeCondition::FreeSlot => "a worker slot is free".to_owned(),
        WakeCondition::Mention => format!("a message mentions @{name}"),
    }
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
