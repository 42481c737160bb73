//! The parts of a team that one agent can use: its prompt and its list of tools name no others.

use agent_worker_protocol::{AgentName, ToolName};

use crate::definition::{
    answers::AnswerHandling,
    context::{Documents, Provider},
    workflow::Workflow,
};

/// The parts of a team that an agent can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TeamParts {
    /// The agents share a channel, votes and resources (not with `context: false`).
    pub channel: bool,
    /// The agents share documents.
    pub documents: bool,
    /// The agent may set the verdict of the run.
    pub verdict: bool,
    /// The treatment of the agent's final answer.
    pub answers: AnswerHandling,
}

impl TeamParts {
    /// Every part, for callers that are no agents.
    pub const ALL: Self =
        Self { channel: true, documents: true, verdict: true, answers: AnswerHandling::Deliver };

    /// Returns the parts that an agent of a file can use at the start of a run.
    pub fn of_file(workflow: &Workflow, agent: &AgentName) -> Self {
        Self {
            channel: workflow.context.provider != Provider::Off,
            documents: workflow.context.documents != Documents::Off,
            verdict: workflow.finisher.as_ref() == Some(agent),
            answers: workflow.answers,
        }
    }

    /// Returns true if a tool for agents works with these parts.
    pub fn offer(self, tool: ToolName) -> bool {
        match tool {
            ToolName::ChannelSend
            | ToolName::ChannelRead
            | ToolName::WorkflowAgents
            | ToolName::ResourceCreate
            | ToolName::ProposalCreate
            | ToolName::Vote
            | ToolName::ProposalStatus
            | ToolName::ProposalCancel => self.channel,
            ToolName::DocumentRead
            | ToolName::DocumentWrite
            | ToolName::DocumentAppend
            | ToolName::DocumentList
            | ToolName::DocumentCreate
            | ToolName::DocumentSuggest
            | ToolName::SuggestionAnswer => self.documents,
            ToolName::RunFinish => self.verdict,
            ToolName::InboxCheck
            | ToolName::InboxAck
            | ToolName::ResourceRead
            | ToolName::FeedbackSubmit
            | ToolName::AskHuman
            | ToolName::WorkflowList
            | ToolName::RunList
            | ToolName::RunStatus
            | ToolName::RunStart
            | ToolName::RunStop
            | ToolName::RunResume
            | ToolName::AgentShow
            | ToolName::AgentNew
            | ToolName::AgentStop
            | ToolName::AgentInterrupt
            | ToolName::AgentResume
            | ToolName::AgentRemove
            | ToolName::ApprovalList
            | ToolName::ApprovalAnswer
            | ToolName::GrantList
            | ToolName::GrantRevoke
            | ToolName::QuestionList
            | ToolName::QuestionAnswer
            | ToolName::DeadList
            | ToolName::DeadRedrive
            | ToolName::DeadDrop => true,
        }
    }
}
