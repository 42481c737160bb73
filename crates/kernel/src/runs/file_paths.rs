//! Paths that a workflow file names: relative to the folder of the file, whichever folder the command was run in.
//!
//! A `cwd:` and a program with a `/` are paths. An argument is a path if it begins with `./` or `../`; any other argument
//! may mean something else (`owner/repo`), so the program gets it as written.

use std::path::{Path, PathBuf};

use agent_worker_protocol::{AgentSettings, Backend};
use agent_worker_workflow::SetupStep;

use crate::kernel::RunContext;

impl RunContext {
    /// Returns the working folder of an agent: the run's, unless `cwd:` names another.
    pub(crate) fn cwd_of(&self, settings: &AgentSettings) -> PathBuf {
        let base = self.file_folder_of(settings).unwrap_or(&self.script.cwd);
        settings.cwd.as_ref().map_or_else(|| self.script.cwd.clone(), |cwd| join(base, cwd))
    }

    /// Returns the working folder of a setup command: the run's, unless `cwd:` names another.
    pub(crate) fn setup_cwd(&self, step: &SetupStep) -> PathBuf {
        let base = self.file_folder().unwrap_or(&self.script.cwd);
        step.cwd.as_ref().map_or_else(|| self.script.cwd.clone(), |cwd| join(base, cwd))
    }

    /// Returns the interpreter of a setup command: a path, or a name that is searched for in `PATH`.
    pub(crate) fn setup_program(&self, program: &str) -> String {
        match self.file_folder().filter(|_| program.contains('/')) {
            Some(folder) => join(folder, Path::new(program)).to_string_lossy().into_owned(),
            None => program.to_owned(),
        }
    }

    /// Returns the backend of an agent with the paths of its command line.
    pub(crate) fn backend_of(&self, settings: &AgentSettings) -> Backend {
        let mut backend = settings.backend.clone();
        let Some(folder) = self.file_folder_of(settings) else { return backend };
        let (command, args) = match &mut backend {
            Backend::Mock { .. } | Backend::Api(_) => return backend,
            Backend::Native(native) => (&mut native.command, native.args.as_mut_slice()),
            Backend::Acp(acp) => (&mut acp.command, Default::default()),
            Backend::Command { command } => (command, Default::default()),
        };
        resolve_words(folder, command, args);
        backend
    }

    /// Returns the folder of the workflow file, if the agent is one of the file.
    fn file_folder_of(&self, settings: &AgentSettings) -> Option<&Path> {
        let agents = &self.script.workflow.agents;
        let is_of_file = agents.iter().any(|agent| agent.name == settings.name);
        self.file_folder().filter(|_| is_of_file)
    }

    fn file_folder(&self) -> Option<&Path> {
        self.script.file.as_deref().and_then(Path::parent)
    }
}

/// Resolves the paths of a command line that a file names.
pub(crate) fn resolve_command(folder: &Path, command: &mut [String]) {
    resolve_words(folder, command, &mut []);
}

fn resolve_words(folder: &Path, command: &mut [String], args: &mut [String]) {
    let mut words = command.iter_mut();
    let program = words.next().filter(|word| word.contains('/'));
    let rest = words.chain(args).filter(|word| is_path_argument(word));
    for word in program.into_iter().chain(rest) {
        *word = join(folder, Path::new(&*word)).to_string_lossy().into_owned();
    }
}

fn is_path_argument(word: &str) -> bool {
    ["./", "../"].iter().any(|start| word.starts_with(start)) && !word.contains(char::is_whitespace)
}

/// Joins a path to a folder, without the `.` of `./agent.py`.
fn join(folder: &Path, path: &Path) -> PathBuf {
    folder.join(path).components().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_a_path_if_it_begins_with_a_dot_and_a_slash() {
        for (word, is_path) in [
            ("./agent.py", true),
            ("../docs", true),
            ("agent.py", false),
            ("owner/repo", false),
            ("..", false),
            (".hidden/x", false),
            ("--file=./x", false),
            ("./build && ./run", false),
        ] {
            assert_eq!(is_path_argument(word), is_path, "{word}");
        }
        assert_eq!(join("/team".as_ref(), "./a/./b".as_ref()), Path::new("/team/a/b"));
        assert_eq!(join("/team".as_ref(), "../docs".as_ref()), Path::new("/team/../docs"));
        assert_eq!(join("/team".as_ref(), "/opt/agent".as_ref()), Path::new("/opt/agent"));
    }
}
