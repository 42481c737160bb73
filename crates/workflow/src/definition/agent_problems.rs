//! Problems of agents that their caller found outside of the file, with their places in the file.

use std::{fs::File, path::Path};

use agent_worker_protocol::AgentName;

use crate::{
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    error::Error,
    yaml::{self, Node, Yaml, YamlEntry, text_file},
};

/// Keys of an agent that select its program; the first one in the file is the place of a problem.
const PROGRAM_KEYS: [&str; 4] = ["command", "backend", "use", "model"];

/// A problem of one agent, such as a program that is not installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentProblem {
    /// Name of the agent.
    pub agent: AgentName,
    /// Description of the problem.
    pub message: String,
    /// Correction of the problem.
    pub hint: String,
}

/// Returns the error for problems of the agents of a file, each at the key that selects the agent's program. None without a
/// problem, or if the file can no longer be read. `path` is the name of the file in messages.
pub fn locate_agent_problems(
    file: File,
    path: &Path,
    problems: impl IntoIterator<Item = AgentProblem>,
) -> Option<Error> {
    let text = text_file::read(file).ok()?;
    let root = yaml::read(&text).ok()?;
    let agents = entry(&root, "agents").map(|entry| &entry.value);
    let mut diagnostics = Diagnostics::default();
    diagnostics.add_all(problems.into_iter().map(|problem| {
        let at = agents.and_then(|agents| entry(agents, problem.agent.as_str())).map(place);
        Diagnostic::new(at.unwrap_or(0..0), problem.message).with_hint(problem.hint)
    }));
    (!diagnostics.is_empty()).then(|| Error::invalid(path, &text, diagnostics))
}

/// Returns the place of the value that selects the program; without one, that of the agent's name.
fn place(agent: &YamlEntry) -> std::ops::Range<usize> {
    let value = PROGRAM_KEYS.iter().find_map(|key| entry(&agent.value, key));
    let Some(value) = value.map(|entry| &entry.value) else { return agent.key_at.clone() };
    match &value.value {
        // The range of a list is only its beginning.
        Yaml::List(items) => items.first().map_or(value.at.clone(), |first| first.at.clone()),
        _ => value.at.clone(),
    }
}

/// Returns an entry of a mapping; names of agents are compared without case.
fn entry<'a>(node: &'a Node, key: &str) -> Option<&'a YamlEntry> {
    let Yaml::Map(entries) = &node.value else { return None };
    entries.iter().find(|entry| entry.key.eq_ignore_ascii_case(key))
}
