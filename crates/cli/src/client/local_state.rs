//! State that the command line keeps between two commands: the agent that `use` chose, and the position in each run
//! that the user stopped following.
//!
//! Each entry is a file that is replaced as a whole, so that concurrent commands lose nothing of each other's. No
//! result depends on these files: without them, the next command asks for a target or shows a run from its start.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use agent_worker_host::{Durability, write_atomically};
use agent_worker_protocol::{RunId, Target, hash};
use serde::{Deserialize, Serialize};

use crate::input::settings::CliSettings;

/// Prefix of the files with positions in runs that the user stopped following, and the number of files kept.
const POSITION_FILE_PREFIX: &str = "left-";
const MAX_POSITION_FILES: usize = 100;

/// The state in a folder of the home. It belongs to a person: commands of an agent neither read nor change it.
pub(crate) struct LocalState {
    folder: Option<PathBuf>,
}

/// The content of the file that `use` writes; the folder is included for a person who reads the file.
#[derive(Serialize, Deserialize)]
struct DefaultAgentFile {
    project: PathBuf,
    target: Target,
}

impl LocalState {
    /// Opens the state of the caller; commands of an agent have none.
    pub(crate) fn open(settings: &CliSettings) -> Self {
        Self { folder: (!settings.is_inside_attempt()).then(|| settings.home.join("cli")) }
    }

    /// Returns the target of commands in this folder that name none.
    pub(crate) fn default_agent(&self, project: &Path) -> Option<Target> {
        let text = fs::read(self.default_agent_path(project)?).ok()?;
        serde_json::from_slice::<DefaultAgentFile>(&text).ok().map(|chosen| chosen.target)
    }

    /// Sets the default target of a folder.
    pub(crate) fn set_default_agent(&self, project: &Path, target: &Target) -> io::Result<()> {
        let path = self.default_agent_path(project).ok_or_else(agent_has_no_state_error)?;
        let chosen = DefaultAgentFile { project: project.to_owned(), target: target.clone() };
        replace_file(&path, &serde_json::to_vec(&chosen)?)
    }

    /// Removes the default target of a folder.
    pub(crate) fn clear_default_agent(&self, project: &Path) -> io::Result<()> {
        ignore_missing(fs::remove_file(
            self.default_agent_path(project).ok_or_else(agent_has_no_state_error)?,
        ))
    }

    /// Returns the last shown event of a run that the user stopped following.
    pub(crate) fn last_shown_event(&self, run: RunId) -> Option<String> {
        fs::read_to_string(self.position_path(run)?).ok()
    }

    /// Saves the last shown event of a run.
    pub(crate) fn save_last_shown_event(&self, run: RunId, event: &str) -> io::Result<()> {
        let Some(path) = self.position_path(run) else { return Ok(()) };
        replace_file(&path, event.as_bytes())?;
        self.prune_positions()
    }

    /// Keeps only the newest positions; the ids of runs begin with the time.
    fn prune_positions(&self) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let names = fs::read_dir(folder)?.flatten().map(|entry| entry.file_name());
        let is_run = |name: &OsString| name.to_string_lossy().starts_with(POSITION_FILE_PREFIX);
        let mut left: Vec<OsString> = names.filter(is_run).collect();
        left.sort_unstable();
        let surplus = left.len().saturating_sub(MAX_POSITION_FILES);
        left.iter()
            .take(surplus)
            .try_for_each(|name| ignore_missing(fs::remove_file(folder.join(name))))
    }

    /// Removes the position in a run that was followed to its end.
    pub(crate) fn remove_position(&self, run: RunId) -> io::Result<()> {
        self.position_path(run).map_or(Ok(()), |path| ignore_missing(fs::remove_file(path)))
    }

    fn default_agent_path(&self, project: &Path) -> Option<PathBuf> {
        let digest = hash(&[project.as_os_str().as_encoded_bytes()]);
        let name =
            digest.iter().take(8).fold(String::new(), |name, byte| format!("{name}{byte:02x}"));
        Some(self.folder.as_ref()?.join(format!("use-{name}")))
    }

    fn position_path(&self, run: RunId) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{POSITION_FILE_PREFIX}{run}")))
    }
}

fn agent_has_no_state_error() -> io::Error {
    io::Error::other("an agent cannot select a target")
}

pub(crate) fn replace_file(path: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    write_atomically(path, text, Durability::Process)
}

/// Treats a missing file as removed.
fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_folder_and_each_run_is_remembered_by_itself() {
        let home = tempfile::tempdir().unwrap();
        let memory = LocalState { folder: Some(home.path().join("cli")) };
        let (here, there) = (Path::new("/a"), Path::new("/b"));
        let coder: Target = "coder@review".parse().unwrap();
        assert_eq!(memory.default_agent(here), None);
        memory.set_default_agent(here, &coder).unwrap();
        assert_eq!(memory.default_agent(here), Some(coder.clone()));
        assert_eq!(memory.default_agent(there), None);
        memory.set_default_agent(there, &"owl".parse().unwrap()).unwrap();
        memory.clear_default_agent(there).unwrap();
        memory.clear_default_agent(there).unwrap();
        assert_eq!(memory.default_agent(here), Some(coder));

        let run = |n| RunId::new(uuid::Uuid::from_u64_pair(0, n));
        memory.save_last_shown_event(run(1), "7").unwrap();
        memory.save_last_shown_event(run(1), "9").unwrap();
        assert_eq!(
            (memory.last_shown_event(run(1)).as_deref(), memory.last_shown_event(run(2))),
            (Some("9"), None)
        );
        memory.remove_position(run(1)).unwrap();
        assert_eq!(memory.last_shown_event(run(1)), None);

        memory.save_last_shown_event(run(1), "7").unwrap();
        let agents = LocalState { folder: None };
        agents.save_last_shown_event(run(1), "9").unwrap();
        agents.set_default_agent(here, &"owl".parse().unwrap()).unwrap_err();
        assert_eq!((agents.default_agent(here), agents.last_shown_event(run(1))), (None, None));
        assert_eq!(memory.last_shown_event(run(1)).as_deref(), Some("7"));
    }

    #[test]
    fn the_newest_hundred_unfollowed_runs_are_remembered() {
        let home = tempfile::tempdir().unwrap();
        let memory = LocalState { folder: Some(home.path().join("cli")) };
        memory.set_default_agent(Path::new("/a"), &"owl".parse().unwrap()).unwrap();
        let run = |n| RunId::new(uuid::Uuid::from_u64_pair(n, 0));
        for n in 0..102 {
            memory.save_last_shown_event(run(n), "7").unwrap();
        }
        let kept: Vec<_> =
            (0..102).filter(|n| memory.last_shown_event(run(*n)).is_some()).collect();
        assert_eq!(kept, (2..102).collect::<Vec<_>>());
        assert!(memory.default_agent(Path::new("/a")).is_some());
    }
}
