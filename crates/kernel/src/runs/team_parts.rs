//! The parts of a team that one agent can use: its prompt and its list of tools name no others.

use agent_worker_protocol::{AgentName, Role, ToolName};
use agent_worker_workflow::{AnswerHandling, Documents, Provider};

use crate::{
    error::Result,
    kernel::{Kernel, Principal, RunContext},
    runs::members::Agents,
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
    const ALL: Self =
        Self { channel: true, documents: true, verdict: true, answers: AnswerHandling::Deliver };

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

impl Agents<'_> {
    /// Returns the parts of the team that the caller can use.
    pub async fn team_parts(self, who: &Principal) -> Result<TeamParts> {
        match who {
            Principal::Agent(attempt) => {
                let run_context = self.0.run_context(attempt.run).await?;
                self.0.team_parts_of(&run_context, &attempt.fence.agent).await
            }
            Principal::User | Principal::Client(_) | Principal::Anonymous => Ok(TeamParts::ALL),
        }
    }
}

impl Kernel {
    /// Returns the parts of the team that an agent can use now.
    pub(crate) async fn team_parts_of(
        &self,
        run_context: &RunContext,
        agent: &AgentName,
    ) -> Result<TeamParts> {
        let context = &run_context.script.workflow.context;
        let roles = self.store.run_roles(run_context.run).await?;
        let finishes = roles.iter().any(|(role, holder)| holder == agent && is_finishing(*role));
        let answers = match self.send_block(run_context, agent).await? {
            Some(_) => AnswerHandling::Record,
            None => run_context.answer_handling(),
        };
        Ok(TeamParts {
            channel: context.provider != Provider::Off,
            documents: context.documents != Documents::Off,
            verdict: finishes && !run_context.instance.is_global(),
            answers,
        })
    }
}

fn is_finishing(role: Role) -> bool {
    match role {
        Role::Coordinator | Role::Finisher => true,
        Role::DocumentOwner => false,
    }
}
