//! The parts of a team that one agent can use now.

use agent_worker_protocol::{AgentName, Role};
use agent_worker_workflow::{AnswerHandling, Documents, Provider, TeamParts};

use crate::{
    error::Result,
    kernel::{Kernel, Principal, RunContext},
    runs::members::Agents,
};

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
