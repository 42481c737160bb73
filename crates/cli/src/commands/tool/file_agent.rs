//! Agents of a workflow file, for commands that need no daemon.

use std::path::{Path, PathBuf};

use agent_worker_protocol::{AgentName, AgentSettings, api::AgentTools};
use agent_worker_workflow::{TeamParts, ToolFacts, agent_tools};

use crate::{
    client::launch::{file_of_source, load_source, load_workflow, read_source},
    error::{CliError, CliErrorKind},
    input::{config_file::ConfigFile, context::CommandContext},
};

/// An agent and its file.
pub(super) struct FileAgent {
    /// Absolute path of the workflow file.
    pub(super) file: PathBuf,
    pub(super) agent: AgentSettings,
    /// Parts of the team that the agent can use.
    parts: TeamParts,
}

impl FileAgent {
    /// Returns the tools that the agent has at the start of a run.
    pub(super) fn tools(&self) -> AgentTools {
        let facts = ToolFacts {
            parts: self.parts,
            open_gates: &[],
            grants: &[],
            file_mock_tools: &self.agent.mock_tools,
        };
        agent_tools(&self.agent, &facts)
    }
}

/// Reads the agent of that name.
pub(super) fn read_agent(
    typed: &Path,
    name: &AgentName,
    ctx: &CommandContext<'_>,
) -> Result<FileAgent, CliError> {
    let mut agents = read_agents(typed, ctx)?;
    if let Some(place) = agents.iter().position(|one| one.agent.name == *name) {
        return Ok(agents.swap_remove(place));
    }
    let names: Vec<_> = agents.iter().map(|one| one.agent.name.to_string()).collect();
    let why = format!("there is no agent `{name}` in the file");
    let hint = format!("the agents are: {}", names.join(", "));
    Err(CliError::new(CliErrorKind::Usage, why).with_hint(hint))
}

/// Reads all agents of a file, in its order.
pub(super) fn read_agents(
    typed: &Path,
    ctx: &CommandContext<'_>,
) -> Result<Vec<FileAgent>, CliError> {
    let file: PathBuf = file_of_source(ctx.settings.cwd.join(typed)).components().collect();
    let config = ConfigFile::read(ctx.settings)?;
    let workflow = match read_source(typed)? {
        Some(text) => load_source(&text, &file, &config),
        None => load_workflow(&file, typed, &config),
    }?;
    let agent_of_file = |agent: &AgentSettings| FileAgent {
        file: file.clone(),
        agent: agent.clone(),
        parts: TeamParts::of_file(&workflow, &agent.name),
    };
    Ok(workflow.agents.iter().map(agent_of_file).collect())
}
