//! Texts of the HTTP interface for a person at a terminal: the commands that deal with an item or wake an agent.

use agent_worker_kernel::{AgentExplanation, Attention, AttentionNeed, WakeCondition};
use agent_worker_protocol::Target;

/// The command that deals with an item that needs a person.
pub(super) fn attention_hint(item: &Attention) -> String {
    let target = Target::instance(&item.instance);
    match &item.need {
        AttentionNeed::Resume(needs) => needs.to_command(&target),
        AttentionNeed::AnyApproval => format!("agent-worker pending --target {target}"),
        AttentionNeed::AnyAnswer => format!("agent-worker answer NUMBER TEXT --target {target}"),
        AttentionNeed::Answer(id) => format!("agent-worker answer {id} TEXT --target {target}"),
        AttentionNeed::Approval(id) => format!(
            "agent-worker approve {id} --target {target}, or agent-worker deny {id} --target {target}"
        ),
        AttentionNeed::Vote(id) => format!("agent-worker vote {id} OPTION --target {target}"),
        AttentionNeed::Redrive(seq) => format!("agent-worker dead redrive {seq} {target}"),
        AttentionNeed::ResumeAgent => {
            let agent = item.agent.clone().map(|name| Target::agent(name, &item.instance));
            format!("agent-worker resume {}", agent.unwrap_or(target))
        }
        AttentionNeed::MergeFile(file) => {
            format!("merge {file} into the document, then delete it")
        }
    }
}

/// Completes the sentence "it wakes when …", with the command that wakes the agent.
pub(super) fn wakes_when(agent: &AgentExplanation) -> String {
    let own = Target::agent(agent.view.name.clone(), &agent.view.instance);
    let team = Target::instance(&agent.view.instance);
    match &agent.wakes_when {
        WakeCondition::NewRun => format!("a new run of {team}"),
        WakeCondition::SetupDone => "its run's setup is done".to_owned(),
        WakeCondition::OwnerElected => "its team has elected an owner".to_owned(),
        WakeCondition::Approval(id) => {
            format!("a person approves or denies: agent-worker approve {id} --target {team}")
        }
        WakeCondition::Answer(id) => {
            let id = id.map(|id| id.to_string()).unwrap_or_default();
            format!("a person answers: agent-worker answer {id} TEXT --target {team}")
        }
        WakeCondition::RunResumed { needs, room_at: Some(at) } => {
            format!("it is {at}, or at once with {}", needs.to_command(&team))
        }
        WakeCondition::RunResumed { needs, room_at: None } => {
            format!("its run continues: {}", needs.to_command(&team))
        }
        WakeCondition::AgentResumed => format!("it is resumed: agent-worker resume {own}"),
        WakeCondition::ProcessesEnded => {
            format!("its processes are gone and it is resumed: agent-worker resume {own}")
        }
        WakeCondition::Time(until) => {
            format!("it is {until}, or at once with agent-worker resume {own}")
        }
        WakeCondition::NextTurn => {
            "it is already working; new messages are shown in its next turn".to_owned()
        }
        WakeCondition::HoldReleased => "the hold ends: agent-worker daemon start".to_owned(),
        WakeCondition::FreeSlot => "a worker slot is free".to_owned(),
        WakeCondition::Mention => format!("a message mentions @{}", agent.view.name),
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{
        AgentState, ApprovalId, Millis, QuestionId, RunId, RunState, Seq, Usage,
        api::{AgentView, ResumeRequest},
    };

    use super::*;

    const MORE: ResumeRequest =
        ResumeRequest { hops: Some(2), turns: None, wall: None, cost_micros: None, tokens: None };

    #[test]
    fn an_item_that_needs_a_person_has_the_command_that_deals_with_it() {
        for (need, expected) in [
            (AttentionNeed::Resume(MORE), "agent-worker resume @team --hops 2"),
            (AttentionNeed::AnyApproval, "agent-worker pending --target @team"),
            (AttentionNeed::AnyAnswer, "agent-worker answer NUMBER TEXT --target @team"),
            (
                AttentionNeed::Answer(QuestionId::new(1)),
                "agent-worker answer 1 TEXT --target @team",
            ),
            (
                AttentionNeed::Approval(ApprovalId::new(1)),
                "agent-worker approve 1 --target @team, or agent-worker deny 1 --target @team",
            ),
            (AttentionNeed::Redrive(Seq::new(7)), "agent-worker dead redrive 7 @team"),
            (AttentionNeed::ResumeAgent, "agent-worker resume lead@team"),
            (
                AttentionNeed::MergeFile("a.md.conflict".into()),
                "merge a.md.conflict into the document, then delete it",
            ),
        ] {
            let item = Attention {
                instance: "team".parse().unwrap(),
                project: "/p".into(),
                run: RunId::new(uuid::Uuid::nil()),
                agent: Some("lead".parse().unwrap()),
                what: String::new(),
                need,
            };
            assert_eq!(attention_hint(&item), expected);
        }
    }

    #[test]
    fn an_agent_is_shown_with_the_command_that_wakes_it() {
        for (wakes, expected) in [
            (WakeCondition::NewRun, "a new run of @team"),
            (
                WakeCondition::Approval(ApprovalId::new(1)),
                "a person approves or denies: agent-worker approve 1 --target @team",
            ),
            (
                WakeCondition::Answer(Some(QuestionId::new(1))),
                "a person answers: agent-worker answer 1 TEXT --target @team",
            ),
            (
                WakeCondition::RunResumed { needs: MORE, room_at: None },
                "its run continues: agent-worker resume @team --hops 2",
            ),
            (
                WakeCondition::RunResumed { needs: MORE, room_at: Some(Millis::new(0)) },
                "it is 1970-01-01T00:00:00.000Z, or at once with agent-worker resume @team --hops 2",
            ),
            (WakeCondition::AgentResumed, "it is resumed: agent-worker resume coder@team"),
            (
                WakeCondition::ProcessesEnded,
                "its processes are gone and it is resumed: agent-worker resume coder@team",
            ),
            (
                WakeCondition::Time(Millis::new(0)),
                "it is 1970-01-01T00:00:00.000Z, or at once with agent-worker resume coder@team",
            ),
            (WakeCondition::Mention, "a message mentions @coder"),
        ] {
            let agent = AgentExplanation {
                conversation: Vec::new(),
                mock_tools: Vec::new(),
                view: AgentView {
                    name: "coder".parse().unwrap(),
                    instance: "team".parse().unwrap(),
                    project: "/p".into(),
                    backend: "mock".into(),
                    model: None,
                    state: AgentState::Idle,
                    waiting: 0,
                    turns: 0,
                    messages: 0,
                    usage: Usage::default(),
                    started: Millis::new(0),
                    last_failure: None,
                },
                run: RunId::new(uuid::Uuid::nil()),
                run_state: RunState::Running,
                state_since: None,
                system: None,
                session: None,
                inbox: Vec::new(),
                attempts: Vec::new(),
                wakes_when: wakes,
            };
            assert_eq!(wakes_when(&agent), expected);
        }
    }
}
