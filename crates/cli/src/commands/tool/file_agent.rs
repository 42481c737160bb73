//! An agent of a workflow file, for commands that need no daemon.

use std::path::{Path, PathBuf};

use agent_worker_protocol::{AgentName, AgentSettings};

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
}

/// Reads the agent of that name, or the only one of the file.
pub(super) fn read_agent(
    typed: &Path,
    name: Option<&AgentName>,
    ctx: &CommandContext<'_>,
) -> Result<FileAgent, CliError> {
    let file: PathBuf = file_of_source(ctx.settings.cwd.join(typed)).components().collect();
    let config = ConfigFile::read(ctx.settings)?;
    let workflow = match read_source(typed)? {
        Some(text) => load_source(&text, &file, &config),
        None => load_workflow(&file, typed, &config),
    }?;
    let agent = chosen_agent(workflow.agents, name)?;
    Ok(FileAgent { file, agent })
}

fn chosen_agent(
    mut agents: Vec<AgentSettings>,
    name: Option<&AgentName>,
) -> Result<AgentSettings, CliError> {
    let names: Vec<_> = agents.iter().map(|agent| agent.name.to_string()).collect();
    let refuse = |why: String| {
        let hint = format!("the agents are: {}", names.join(", "));
        CliError::new(CliErrorKind::Usage, why).with_hint(hint)
    };
    let place = match (name, agents.len()) {
        (None, 1) => 0,
        (None, _) => {
            return Err(refuse("the file has several agents: name one after the file".to_owned()));
        }
        (Some(name), _) => {
            let place = agents.iter().position(|agent| agent.name == *name);
            place.ok_or_else(|| refuse(format!("there is no agent `{name}` in the file")))?
        }
    };
    Ok(agents.swap_remove(place))
}
