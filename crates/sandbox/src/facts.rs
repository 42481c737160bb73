//! Reads the facts that a policy depends on: the working folder, its git folders, the home folder and the kinds of paths.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Component, Path, PathBuf},
};

use agent_worker_protocol::SandboxSettings;

use crate::{
    error::SandboxError,
    git_layout::GitLayout,
    placeholders::is_placeholder,
    policy::{SandboxPolicy, sandbox_policy},
};

/// Maximum number of links that are followed; the kernel follows as many.
const MAX_LINKS: usize = 40;

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
    /// Files that run outside of the sandbox: the program cannot change them, and a missing one is an error if the
    /// program could create it.
    pub outside: Vec<PathBuf>,
    /// Folders that never exist inside: the home of agent-worker.
    pub hidden: Vec<PathBuf>,
    /// Ports of this machine that the program reaches although `network` lists hosts: the server of the team's tools.
    pub ports: Vec<u16>,
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
    /// Every path that leads to a file that runs outside, with the links on the way.
    pub(crate) outside: &'a [PathBuf],
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
        let outside: Vec<PathBuf> =
            self.outside.iter().flat_map(|path| followed_paths(&work.join(path))).collect();
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
            outside: &outside,
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

/// Returns the links that an absolute path leads through, and the path at its end.
fn followed_paths(path: &Path) -> Vec<PathBuf> {
    let (mut found, mut at, mut rest) = (Vec::new(), PathBuf::new(), path.to_owned());
    for _ in 0..MAX_LINKS {
        let mut components = rest.components();
        let mut target = None;
        while let Some(component) = components.next() {
            match component {
                Component::RootDir => at = PathBuf::from("/"),
                Component::ParentDir => drop(at.pop()),
                Component::Normal(name) => at.push(name),
                Component::CurDir | Component::Prefix(_) => {}
            }
            if let Ok(link) = fs::read_link(&at) {
                target = Some(link.join(components.as_path()));
                break;
            }
        }
        found.push(at.clone());
        let Some(next) = target else { break };
        at.pop();
        rest = next;
    }
    found
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_link_on_the_way_to_a_file_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/sub")).unwrap();
        symlink("real", root.join("first")).unwrap();
        symlink(root.join("first/sub"), root.join("second")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let found = |name: &str| {
            let paths = followed_paths(&root.join(name));
            paths
                .iter()
                .map(|path| path.strip_prefix(&root).unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(found("real/./sub/../x"), paths(&["real/x"]));
        assert_eq!(found("second/x"), paths(&["second", "first", "real/sub/x"]));
        assert_eq!(found("first/../x"), paths(&["first", "x"]));
        assert_eq!(found("loop").len(), MAX_LINKS);
    }
}
