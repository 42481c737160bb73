//! The tools of agents, with the permissions that they have now.

use agent_worker_protocol::{
    AgentName, Permission, RunId, ToolPattern,
    api::{AgentMockTool, AgentTools, ListPage},
};
use agent_worker_store::{GrantQuery, Instance};
use agent_worker_workflow::{ToolFacts, agent_tools, changed_mock_tools};

use crate::{
    access::{instance_resolution::InstanceSelector, target::InstanceChoice},
    error::{Error, Result},
    kernel::{Kernel, Principal, RunContext},
    runs::members::Agents,
    views::page::PageRequest,
};

impl Agents<'_> {
    /// Lists the tools of an agent, or of each agent of an instance. An agent may list only its own.
    pub async fn tools(
        self,
        who: &Principal,
        place: &InstanceSelector,
        page: &PageRequest,
    ) -> Result<ListPage<AgentTools>> {
        who.require(Permission::Read)?;
        let mut page = page.start("tools")?;
        let is_one = place.target.as_ref().is_some_and(|target| target.agent.is_some());
        let (instance, named) = if is_one {
            let found = self.0.resolve_agent(who, place, InstanceChoice::Nearest).await?;
            (found.0, Some(found.1))
        } else {
            (self.0.resolve_instance(who, place).await?, None)
        };
        if let Principal::Agent(attempt) = who
            && named.as_ref() != Some(&attempt.fence.agent)
        {
            return Err(Error::Forbidden("an agent may only inspect itself"));
        }
        let run = instance.live.or(instance.last);
        let run = run.ok_or_else(|| Error::NoRun(instance.instance.clone()))?;
        let run_context = self.0.run_context(run).await?;
        let mut members: Vec<_> = match named {
            Some(agent) => vec![agent],
            None => run_context.agents.iter().map(|agent| agent.name.clone()).collect(),
        };
        members.sort();
        for agent in members {
            if page.is_complete() {
                break;
            }
            let tools = self.0.tools_of(&run_context, &instance, &agent).await?;
            page.push(agent, tools);
        }
        page.finish()
    }
}

impl Kernel {
    async fn tools_of(
        &self,
        run_context: &RunContext,
        instance: &Instance,
        agent: &AgentName,
    ) -> Result<AgentTools> {
        let grants = self.store.grant_list(instance.id, GrantQuery::InForce).await?;
        let own = grants.into_iter().filter(|grant| grant.agent == *agent);
        let grants: Vec<ToolPattern> = own.map(|grant| grant.pattern).collect();
        let facts = ToolFacts {
            parts: self.team_parts_of(run_context, agent).await?,
            open_gates: &self.store.run_gates(run_context.run).await?,
            grants: &grants,
            file_mock_tools: run_context.file_mock_tools(agent),
        };
        let instance = Some(instance.instance.clone());
        Ok(AgentTools { instance, ..agent_tools(run_context.agent(agent)?, &facts) })
    }
}

/// Returns the mock tools of an agent, as its details name them.
fn mock_tools_of(run_context: &RunContext, agent: &AgentName) -> Vec<AgentMockTool> {
    let Ok(settings) = run_context.agent(agent) else { return Vec::new() };
    let changed = changed_mock_tools(&settings.mock_tools, run_context.file_mock_tools(agent));
    let view =
        |name: &str| AgentMockTool { name: name.to_owned(), changed: changed.contains(&name) };
    settings.mock_tools.iter().map(|tool| view(&tool.name)).collect()
}

impl Kernel {
    /// Returns the mock tools of an agent of a run; none if the definition of the run is no longer stored.
    pub(crate) async fn mock_tools_in(
        &self,
        run: RunId,
        agent: &AgentName,
    ) -> Result<Vec<AgentMockTool>> {
        match self.run_context(run).await {
            Ok(run_context) => Ok(mock_tools_of(&run_context, agent)),
            Err(Error::RunForgotten(_)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}
