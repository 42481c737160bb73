//! Reads the facts that a policy depends on: the working folder, its git folders, the home folder and the kinds of paths.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use agent_worker_protocol::SandboxSettings;

use crate::{
    error::SandboxError,
    git_layout::GitLayout,
    placeholders::is_placeholder,
    policy::{SandboxPolicy, sandbox_policy},
};

/// The input of a sandbox for one program.
#[derive(Clone, Debug, Default)]
pub struct SandboxRequest {
    /// Working folder of the program.
    pub work: PathBuf,
    /// Folder for the private temporary files and caches; its owner removes it.
    pub private: PathBuf,
    /// Environment of the program.
    pub env: BTreeMap<String, String>,
    /// Settings of the workflow file.
    pub settings: SandboxSettings,
    /// Files and folders that the program needs.
    pub read: Vec<PathBuf>,
    /// Files and folders that the program changes, such as those of its own settings.
    pub write: Vec<PathBuf>,
    /// Files that the program cannot change although they are in the working folder, such as the workflow file.
    pub read_only: Vec<PathBuf>,
    /// Folders that never exist inside: the home of agent-worker.
    pub hidden: Vec<PathBuf>,
}

/// The kind of a path, without following a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathKind {
    Missing,
    /// A file or anything else that is not one of the other kinds.
    File,
    Folder,
    Link,
    /// A placeholder that another sandbox of the working folder created.
    Placeholder,
}

/// Facts for a policy. Every path is absolute.
pub(crate) struct SandboxFacts<'a> {
    pub(crate) work: &'a Path,
    pub(crate) home: Option<&'a Path>,
    pub(crate) private: &'a Path,
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) git: Option<&'a GitLayout>,
    pub(crate) settings: &'a SandboxSettings,
    pub(crate) read: &'a [PathBuf],
    pub(crate) write: &'a [PathBuf],
    pub(crate) read_only: &'a [PathBuf],
    pub(crate) hidden: &'a [PathBuf],
    pub(crate) kind_of: &'a dyn Fn(&Path) -> PathKind,
}

impl SandboxRequest {
    /// Creates the private folders and computes the policy.
    pub(crate) fn policy(&self) -> Result<SandboxPolicy, SandboxError> {
        let private = self.create_private_folders()?;
        let work = self.work.canonicalize();
        let work = work.map_err(SandboxError::during("find the working folder"))?;
        let home = self.env.get("HOME").and_then(|home| Path::new(home).canonicalize().ok());
        // The home folder of an account without one.
        let home = home.filter(|home| home.parent().is_some());
        let git = GitLayout::find(&work, home.as_deref());
        let resolve = |path: &PathBuf| resolve(path, &work, home.as_deref());
        let settings = SandboxSettings {
            read: self.settings.read.iter().map(resolve).collect(),
            write: self.settings.write.iter().map(resolve).collect(),
            ..self.settings.clone()
        };
        let [read, write, read_only, hidden] =
            [&self.read, &self.write, &self.read_only, &self.hidden]
                .map(|paths| paths.iter().map(resolve).collect::<Vec<_>>());
        sandbox_policy(&SandboxFacts {
            work: &work,
            home: home.as_deref(),
            private: &private,
            env: &self.env,
            git: git.as_ref(),
            settings: &settings,
            read: &read,
            write: &write,
            read_only: &read_only,
            hidden: &hidden,
            kind_of: &kind_of,
        })
    }

    fn create_private_folders(&self) -> Result<PathBuf, SandboxError> {
        let failed = SandboxError::during::<io::Error>("create the private folder of the sandbox");
        for name in ["tmp", "cache"] {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(self.private.join(name)).map_err(&failed)?;
        }
        self.private.canonicalize().map_err(failed)
    }
}

/// Returns the absolute path without links, as far as the path exists.
fn resolve(path: &Path, work: &Path, home: Option<&Path>) -> PathBuf {
    let path = match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        (Ok(_) | Err(_), _) => work.join(path),
    };
    path.canonicalize().unwrap_or(path)
}

fn kind_of(path: &Path) -> PathKind {
    match path.symlink_metadata() {
        Ok(_) if is_placeholder(path) => PathKind::Placeholder,
        Ok(found) if found.is_symlink() => PathKind::Link,
        Ok(found) if found.is_dir() => PathKind::Folder,
        Ok(_) => PathKind::File,
        Err(_) => PathKind::Missing,
    }
}
