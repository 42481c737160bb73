//! The policy of a sandbox: an allow-list of paths, the variables that change, and the network.
//!
//! Pure: `SandboxFacts` in, `SandboxPolicy` out. The rules are in the order of the paths, so that a folder comes before
//! everything below it; the rule with the longest path decides.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use agent_worker_protocol::{MemoryLimit, SandboxNetwork};
use serde::{Deserialize, Serialize};

use crate::{
    error::SandboxError,
    facts::{PathKind, SandboxFacts},
    git_layout::GitLayout,
    path_table::{
        AGENT_SETTINGS, CACHE_VARIABLES, HOME_ENTRIES, HOME_SECRETS, SERVICE_VARIABLES,
        SYSTEM_FOLDERS, SYSTEM_SECRETS, TEMPORARY_FOLDERS, TOOLCHAIN_VARIABLES,
    },
};

/// Everything that a sandbox permits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxPolicy {
    /// Working folder of the program.
    pub(crate) work: PathBuf,
    /// The access to each path; nothing else exists inside.
    pub(crate) rules: BTreeMap<PathBuf, PathAccess>,
    /// Variables that change, with their value inside; none for a removed one.
    pub(crate) variables: BTreeMap<String, Option<String>>,
    /// The network inside.
    pub(crate) network: SandboxNetwork,
    /// Limit of the memory of all processes inside.
    pub(crate) memory: MemoryLimit,
    /// Missing paths that must stay missing for programs outside.
    pub(crate) placeholders: Vec<Placeholder>,
}

/// The access to a path and everything below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PathAccess {
    ReadOnly,
    Writable,
    /// Another folder is in its place, which can be changed.
    Private(PathBuf),
    /// An empty folder in memory is in its place, which can be changed.
    Empty,
    /// An empty folder is in its place, which cannot be changed.
    HiddenFolder,
    /// An empty file is in its place.
    HiddenFile,
}

/// A missing path that is created for the time of the sandbox, so that a mount can hold it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Placeholder {
    /// An empty folder, which git ignores.
    Folder(PathBuf),
    /// The file `commondir` of a git folder: a missing one would let a program choose another folder for settings and
    /// hooks, and `.` is the default.
    CommonDir(PathBuf),
}

/// Content of a placeholder for `commondir`.
pub(crate) const COMMON_DIR_TEXT: &str = ".\n";

/// Computes the policy, or the reason why these facts allow none.
pub(crate) fn sandbox_policy(facts: &SandboxFacts<'_>) -> Result<SandboxPolicy, SandboxError> {
    check_folders(facts)?;
    let mut builder = PolicyBuilder { facts, rules: BTreeMap::new(), placeholders: Vec::new() };
    builder.add_system();
    builder.add_home();
    for path in facts.hidden {
        builder.hide(path);
    }
    builder.add_settings()?;
    builder.add_git_folders();
    builder.allow(facts.work, PathAccess::Writable);
    builder.protect_working_folder()?;
    builder.protect_outside_files()?;
    builder.rules.insert(facts.private.join("cache"), PathAccess::Writable);
    let PolicyBuilder { mut rules, mut placeholders, .. } = builder;
    drop_needless_rules(&mut rules);
    placeholders.sort();
    placeholders.dedup();
    Ok(SandboxPolicy {
        work: facts.work.to_owned(),
        rules,
        variables: variables(facts),
        network: facts.settings.network.clone(),
        memory: facts.settings.memory,
        placeholders,
    })
}

/// Refuses a working folder that contains a home folder or the system, or that the sandbox has to hide.
fn check_folders(facts: &SandboxFacts<'_>) -> Result<(), SandboxError> {
    let unsafe_folder = |why| SandboxError::UnsafeFolder { folder: facts.work.to_owned(), why };
    if facts.home.is_some_and(|home| home.starts_with(facts.work)) {
        return Err(unsafe_folder("it contains your home folder"));
    }
    if SYSTEM_FOLDERS.iter().any(|folder| Path::new(folder).starts_with(facts.work)) {
        return Err(unsafe_folder("it contains a folder of the system"));
    }
    if TEMPORARY_FOLDERS.iter().any(|folder| Path::new(folder).starts_with(facts.work)) {
        return Err(unsafe_folder("it contains the folder for temporary files"));
    }
    if facts.hidden.iter().any(|hidden| facts.work.starts_with(hidden)) {
        return Err(unsafe_folder("it is inside the home of agent-worker"));
    }
    Ok(())
}

/// The rules so far. A later rule for a path replaces an earlier one.
struct PolicyBuilder<'a> {
    facts: &'a SandboxFacts<'a>,
    rules: BTreeMap<PathBuf, PathAccess>,
    placeholders: Vec<Placeholder>,
}

impl PolicyBuilder<'_> {
    fn kind(&self, path: &Path) -> PathKind {
        (self.facts.kind_of)(path)
    }

    /// Allows an access to a path, if the path exists.
    fn allow(&mut self, path: &Path, access: PathAccess) {
        if self.kind(path) != PathKind::Missing {
            self.rules.insert(path.to_owned(), access);
        }
    }

    fn hide(&mut self, path: &Path) {
        match self.kind(path) {
            PathKind::Folder | PathKind::Placeholder => {
                self.rules.insert(path.to_owned(), PathAccess::HiddenFolder);
            }
            PathKind::File | PathKind::Link => {
                self.rules.insert(path.to_owned(), PathAccess::HiddenFile);
            }
            PathKind::Missing => {}
        }
    }

    fn add_system(&mut self) {
        for folder in SYSTEM_FOLDERS {
            self.allow(Path::new(folder), PathAccess::ReadOnly);
        }
        for secret in SYSTEM_SECRETS {
            self.hide(Path::new(secret));
        }
        let temporary = self.facts.private.join("tmp");
        for folder in TEMPORARY_FOLDERS {
            self.allow(Path::new(folder), PathAccess::Private(temporary.clone()));
        }
    }

    /// Adds the toolchains of the home folder and the folders of `PATH` in it.
    fn add_home(&mut self) {
        let facts = self.facts;
        for folder in TOOLCHAIN_VARIABLES.iter().filter_map(|name| facts.env.get(*name)) {
            let folder = Path::new(folder);
            let is_home = facts.home.is_some_and(|home| home.starts_with(folder));
            if folder.is_absolute() && !is_home {
                self.allow(folder, PathAccess::ReadOnly);
                self.hide(&folder.join("credentials.toml"));
            }
        }
        let Some(home) = facts.home else { return };
        self.allow(home, PathAccess::Empty);
        for entry in HOME_ENTRIES {
            self.allow(&home.join(entry), PathAccess::ReadOnly);
        }
        let path = facts.env.get("PATH").map(String::as_str).unwrap_or_default();
        for folder in std::env::split_paths(path) {
            if folder.starts_with(home) && folder != home {
                self.allow(&folder, PathAccess::ReadOnly);
            }
        }
        for secret in HOME_SECRETS {
            self.hide(&home.join(secret));
        }
    }

    /// Adds the paths of the program, then those of the workflow file, which must exist.
    fn add_settings(&mut self) -> Result<(), SandboxError> {
        let facts = self.facts;
        for path in facts.read {
            self.allow(path, PathAccess::ReadOnly);
        }
        for path in facts.write {
            self.allow(path, PathAccess::Writable);
        }
        let read = facts.settings.read.iter().map(|path| (path, PathAccess::ReadOnly));
        let write = facts.settings.write.iter().map(|path| (path, PathAccess::Writable));
        for (path, access) in read.chain(write) {
            let bad = |why| SandboxError::BadPath { path: path.clone(), why };
            if facts.hidden.iter().any(|hidden| path.starts_with(hidden)) {
                return Err(bad("it is inside the home of agent-worker"));
            }
            if self.kind(path) == PathKind::Missing {
                return Err(bad("it does not exist"));
            }
            self.rules.insert(path.clone(), access);
        }
        Ok(())
    }

    /// Adds the git folders outside of the working folder: those that a commit changes are writable.
    fn add_git_folders(&mut self) {
        let Some(GitLayout { root, folder, common }) = self.facts.git else { return };
        // Without the other files of the repository, git would report them as deleted.
        self.allow(root, PathAccess::ReadOnly);
        if folder == common {
            self.allow(folder, PathAccess::Writable);
        } else {
            self.allow(common, PathAccess::ReadOnly);
            for name in ["objects", "refs", "logs", "packed-refs"] {
                self.allow(&common.join(name), PathAccess::Writable);
            }
            self.allow(folder, PathAccess::Writable);
        }
    }

    /// Holds the files of the working folder and of git through which an agent could act outside of the sandbox later.
    fn protect_working_folder(&mut self) -> Result<(), SandboxError> {
        let facts = self.facts;
        for name in AGENT_SETTINGS {
            self.hold(&facts.work.join(name))?;
        }
        if let Some(GitLayout { folder, common, .. }) = facts.git {
            // A mount point cannot be renamed, so nothing else can take the place of the folder.
            if folder == common {
                self.allow(folder, PathAccess::Writable);
                self.hold_common_dir(&folder.join("commondir"))?;
                // Each contains files that choose settings and hooks of another working folder.
                self.hold_if_present(&folder.join("modules"))?;
                self.hold_if_present(&folder.join("worktrees"))?;
            } else {
                self.hold_if_present(&folder.join("commondir"))?;
                self.hold_if_present(&folder.join("gitdir"))?;
            }
            self.hold(&common.join("hooks"))?;
            self.hold_if_present(&common.join("config"))?;
            self.hold_if_present(&folder.join("config.worktree"))?;
        }
        let entry = facts.work.join(".git");
        if !self.rules.contains_key(&entry) {
            self.hold(&entry)?;
        }
        for path in facts.read_only {
            if self.is_writable(path) {
                self.hold_if_present(path)?;
                self.hold_folders_of(path);
            }
        }
        Ok(())
    }

    /// Holds the files that run outside of the sandbox.
    fn protect_outside_files(&mut self) -> Result<(), SandboxError> {
        // A folder comes before the files in it.
        for path in self.facts.outside.iter().collect::<BTreeSet<_>>() {
            let unprotected = |why| SandboxError::Unprotected { path: path.clone(), why };
            if !self.is_writable(path) {
                continue;
            }
            if self.rules.contains_key(path) {
                return Err(unprotected("it is a folder that the agent may change; name a file"));
            }
            if matches!(self.kind(path), PathKind::Missing | PathKind::Placeholder) {
                return Err(unprotected("it does not exist; create it before the run"));
            }
            self.hold_if_present(path)?;
            self.hold_folders_of(path);
        }
        Ok(())
    }

    /// Returns true if the program can change or create this path.
    fn is_writable(&self, path: &Path) -> bool {
        let rule = path.ancestors().find_map(|folder| self.rules.get(folder));
        matches!(rule, Some(PathAccess::Writable))
    }

    /// Makes the writable folders above a path mount points. A mount point cannot be renamed, so no other folder can take
    /// its place.
    fn hold_folders_of(&mut self, path: &Path) {
        for folder in path.ancestors().skip(1) {
            if !self.is_writable(folder) {
                return;
            }
            if !self.rules.contains_key(folder) {
                self.allow(folder, PathAccess::Writable);
            }
        }
    }

    /// Makes a path read-only, also a missing one.
    fn hold(&mut self, path: &Path) -> Result<(), SandboxError> {
        if matches!(self.kind(path), PathKind::Missing | PathKind::Placeholder) {
            self.placeholders.push(Placeholder::Folder(path.to_owned()));
            self.rules.insert(path.to_owned(), PathAccess::HiddenFolder);
            return Ok(());
        }
        self.hold_if_present(path)
    }

    fn hold_common_dir(&mut self, path: &Path) -> Result<(), SandboxError> {
        if matches!(self.kind(path), PathKind::Missing | PathKind::Placeholder) {
            self.placeholders.push(Placeholder::CommonDir(path.to_owned()));
            self.rules.insert(path.to_owned(), PathAccess::ReadOnly);
            return Ok(());
        }
        self.hold_if_present(path)
    }

    fn hold_if_present(&mut self, path: &Path) -> Result<(), SandboxError> {
        match self.kind(path) {
            PathKind::Link => return Err(SandboxError::Link { path: path.to_owned() }),
            PathKind::Missing => {}
            PathKind::File | PathKind::Folder | PathKind::Placeholder => {
                self.rules.insert(path.to_owned(), PathAccess::ReadOnly);
            }
        }
        Ok(())
    }
}

/// Removes rules that hide a path in a folder that does not exist inside.
fn drop_needless_rules(rules: &mut BTreeMap<PathBuf, PathAccess>) {
    let exposed = |path: &Path| {
        let above = path.ancestors().skip(1).find_map(|folder| rules.get(folder));
        matches!(above, Some(PathAccess::ReadOnly | PathAccess::Writable))
    };
    let needless: Vec<PathBuf> = rules
        .iter()
        .filter(|(path, access)| {
            matches!(access, PathAccess::HiddenFolder | PathAccess::HiddenFile) && !exposed(path)
        })
        .map(|(path, _)| path.clone())
        .collect();
    for path in needless {
        rules.remove(&path);
    }
}

fn variables(facts: &SandboxFacts<'_>) -> BTreeMap<String, Option<String>> {
    let text = |path: &Path| Some(path.to_string_lossy().into_owned());
    let mut variables: BTreeMap<String, Option<String>> =
        SERVICE_VARIABLES.iter().map(|name| ((*name).to_owned(), None)).collect();
    let cache = facts.private.join("cache");
    for (name, folder) in CACHE_VARIABLES {
        variables.insert(name.to_owned(), text(&cache.join(folder)));
    }
    // A home folder behind a link exists inside only at its real path.
    let is_behind_link = |home: &&Path| facts.env.get("HOME").map(Path::new) != Some(home);
    if let Some(home) = facts.home.filter(is_behind_link) {
        variables.insert("HOME".to_owned(), text(home));
    }
    variables
}
