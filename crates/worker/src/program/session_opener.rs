//! The command with which a person opens the conversation of an agent in its own program.

use std::path::{Path, PathBuf};

use agent_worker_backends::BackendSpec;
use agent_worker_protocol::{CredentialMode, shell_words::shell_quote};
use serde_json::{Value, json};

/// Key of the command in the data of a session.
const OPEN_KEY: &str = "open";

/// The place of the conversations of one agent.
pub(super) struct SessionOpener {
    /// The program and its option, without the id.
    command: &'static str,
    /// Variables that locate the settings of an isolated program.
    homes: Vec<(&'static str, PathBuf)>,
    cwd: PathBuf,
}

impl SessionOpener {
    /// Returns the opener of a program that can open a conversation by its id.
    pub(super) fn new(
        spec: &BackendSpec,
        mode: CredentialMode,
        keep: &Path,
        cwd: &Path,
    ) -> Option<Self> {
        let homes = match mode {
            CredentialMode::Isolated => spec.isolated_homes,
            CredentialMode::Login => &[],
        };
        let homes = homes.iter().map(|(name, folder)| (*name, keep.join(folder))).collect();
        Some(Self { command: spec.open_session?, homes, cwd: cwd.to_owned() })
    }

    /// Adds the command to the data of a session that has an id.
    pub(super) fn add_command(&self, session: &mut Value) {
        let command = session["id"].as_str().map(|id| self.command_for(id));
        if let (Some(command), Some(fields)) = (command, session.as_object_mut()) {
            fields.insert(OPEN_KEY.to_owned(), json!(command));
        }
    }

    fn command_for(&self, id: &str) -> String {
        let homes = self
            .homes
            .iter()
            .map(|(name, folder)| format!("{name}={} ", shell_quote(&folder.to_string_lossy())));
        let homes: String = homes.collect();
        let cwd = shell_quote(&self.cwd.to_string_lossy());
        format!("cd {cwd} && {homes}{} {}", self.command, shell_quote(id))
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_backends::find_backend;

    use super::*;

    #[test]
    fn the_command_names_folder_settings_and_id() {
        let claude = find_backend("claude").unwrap();
        let open = |mode, id: &str| {
            let opener =
                SessionOpener::new(claude, mode, Path::new("/keep"), Path::new("/my project"));
            let mut session = json!({"id": id, "cost_micros": 5});
            opener.unwrap().add_command(&mut session);
            session["open"].as_str().unwrap().to_owned()
        };
        let isolated = "cd '/my project' && CLAUDE_CONFIG_DIR=/keep/claude claude --resume 1-a";
        assert_eq!(open(CredentialMode::Isolated, "1-a"), isolated);
        let login = "cd '/my project' && claude --resume 'a;b'";
        assert_eq!(open(CredentialMode::Login, "a;b"), login);
        let opener =
            SessionOpener::new(claude, CredentialMode::Login, Path::new("/"), Path::new("/"));
        let mut other = json!("text");
        opener.unwrap().add_command(&mut other);
        assert_eq!(other, json!("text"));
    }
}
