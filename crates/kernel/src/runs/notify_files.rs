//! Files of the command that notifies the user. The command runs outside of every sandbox, so an agent in a sandbox must
//! not be able to change them, or to create a missing one.
//!
//! A word with a `/` is a path that must exist, except an option, a URL and an argument with blanks. Any other word counts if
//! there is a file of this name when the run starts. A path inside a longer word, such as a script for `sh -c`, is not found.

use std::path::{Path, PathBuf};

use agent_worker_protocol::AgentSettings;
use agent_worker_workflow::Workflow;

use crate::{
    approvals::notices::NotifyPlan,
    error::{Error, Result},
};

/// Returns the files of the plan's command. Refuses a missing one that an agent in a sandbox could create, unless a setup
/// command may create it first. Blocks.
pub(super) fn notify_files(
    plan: &NotifyPlan,
    workflow: &Workflow,
    cwd: &Path,
) -> Result<Vec<PathBuf>> {
    let words = plan.settings.command.as_deref().unwrap_or_default();
    let files: Vec<PathBuf> = words
        .iter()
        .enumerate()
        .filter_map(|(at, word)| file_of_word(at, word, &plan.folder))
        .collect();
    let folders: Vec<PathBuf> = workflow
        .agents
        .iter()
        .filter(|agent| !agent.sandbox.is_off())
        .flat_map(|agent| writable_folders(agent, &plan.folder, cwd))
        .collect();
    let is_inside = |file: &Path| folders.iter().any(|folder| file.starts_with(folder));
    match files.iter().find(|file| is_inside(file) && !file.exists()) {
        Some(missing) if workflow.setup.is_empty() => Err(Error::BadRequest(format!(
            "the `notify` command names `{}`, which does not exist, and an agent in a sandbox could create it; create \
             the file, or remove it from the command",
            missing.display()
        ))),
        Some(_) | None => Ok(files),
    }
}

fn file_of_word(at: usize, word: &str, folder: &Path) -> Option<PathBuf> {
    let is_option = word.starts_with('-');
    let is_plain = !is_option && !word.contains("://") && !word.contains(char::is_whitespace);
    if word.contains('/') && (at == 0 || is_plain) {
        return Some(folder.join(word));
    }
    // A program without a `/` is searched for in `PATH`.
    let value = word.split_once('=').map(|(_, value)| value).filter(|_| is_option);
    let names = [Some(word).filter(|_| at > 0), value].into_iter().flatten();
    names.map(|name| folder.join(name)).find(|file| file.is_file())
}

fn writable_folders(agent: &AgentSettings, folder: &Path, cwd: &Path) -> Vec<PathBuf> {
    let work = agent.cwd.as_ref().map_or_else(|| cwd.to_owned(), |own| folder.join(own));
    let further: Vec<PathBuf> = agent.sandbox.write.iter().map(|path| work.join(path)).collect();
    // A link may lead to the folder.
    let folders = [vec![work], further].concat();
    folders.into_iter().map(|path| path.canonicalize().unwrap_or(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_with_a_slash_is_a_file_and_another_word_only_if_the_file_exists() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["notify.py", "a b", "settings"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("docs")).unwrap();
        for (at, word, file) in [
            (0, "/opt/notify", Some("/opt/notify")),
            (0, "./missing", Some("missing")),
            (0, "./two words", Some("two words")),
            (0, "notify.py", None),
            (1, "notify.py", Some("notify.py")),
            (1, "a b", Some("a b")),
            (1, "docs", None),
            (1, "missing", None),
            (1, "scripts/missing", Some("scripts/missing")),
            (1, "https://example.org/x", None),
            (1, "./x && ./y", None),
            (1, "--file=./missing", None),
            (1, "--file=./settings", Some("settings")),
            (1, "", None),
        ] {
            let expected = file.map(|file| folder.path().join(file));
            let expected = expected.map(|file| file.components().collect::<PathBuf>());
            let found = file_of_word(at, word, folder.path());
            assert_eq!(found.map(|file| file.components().collect()), expected, "{at} {word}");
        }
    }
}
