//! Resolves paths of calls. Pure: the caller provides the links.

use std::{
    ffi::OsString,
    path::{Component, Path, PathBuf},
};

use agent_worker_protocol::ArgumentPattern;

use super::PathContext;

/// Maximum number of links in a path; a path with more cannot be resolved.
const MAX_LINKS: usize = 40;

/// A path in the arguments of a call.
pub(super) struct CallPath {
    /// The path as written.
    lexical: PathBuf,
    /// The resolved path: some programs remove `..` before they follow links, and some while they do.
    resolved: [PathBuf; 2],
}

impl CallPath {
    /// Returns none if another program resolves the path: a home folder that is expanded later.
    pub(super) fn new(path: &str, here: &PathContext<'_>) -> Option<Self> {
        let whole = here.cwd.join(path);
        let plain = normalize(&whole);
        let real =
            [resolve_links(&plain, here.resolve_link)?, resolve_links(&whole, here.resolve_link)?];
        (!path.starts_with('~')).then_some(Self { lexical: plain, resolved: real })
    }

    /// Returns the file that every program finds at the path; none if programs disagree.
    pub(super) fn only_resolution(&self) -> Option<&Path> {
        let [plain, whole] = &self.resolved;
        (plain == whole).then_some(plain)
    }

    /// Returns the path as written, without `.` and `..`.
    pub(super) fn lexical(&self) -> &Path {
        &self.lexical
    }

    /// Returns true if a pattern covers every resolution of the path.
    pub(super) fn is_covered_by(&self, fit: &ArgumentPattern, here: &PathContext<'_>) -> bool {
        let (_, leads) = path_patterns(fit, here);
        self.resolved.iter().all(|path| matches_pattern(path, &leads))
    }

    /// Returns true if every resolution of the path is the agent's working folder, or is in it.
    pub(super) fn is_in_working_folder(&self, here: &PathContext<'_>) -> bool {
        let folder = normalize(here.cwd);
        let folder = resolve_links(&folder, here.resolve_link).unwrap_or(folder);
        self.resolved.iter().all(|path| path.starts_with(&folder))
    }

    /// Returns true if every resolution of the path is a file in the agent's working folder, without a hidden part, and not
    /// the workflow file.
    pub(super) fn is_plain_work_file(&self, here: &PathContext<'_>) -> bool {
        let folder = normalize(here.cwd);
        let folder = resolve_links(&folder, here.resolve_link).unwrap_or(folder);
        let workflow_file = here.workflow_file.map(|file| {
            let file = normalize(file);
            resolve_links(&file, here.resolve_link).unwrap_or(file)
        });
        let is_plain = |rest: &Path| {
            !rest.as_os_str().is_empty()
                && rest.iter().all(|part| !part.as_encoded_bytes().starts_with(b"."))
        };
        self.resolved.iter().all(|path| {
            path.strip_prefix(&folder).is_ok_and(is_plain) && Some(path) != workflow_file.as_ref()
        })
    }

    /// Returns true if a pattern may match the path.
    pub(super) fn may_match(&self, fit: &ArgumentPattern, here: &PathContext<'_>) -> bool {
        let (written, leads) = path_patterns(fit, here);
        matches_pattern(&self.lexical, &written)
            || self.resolved.iter().any(|path| matches_pattern(path, &leads))
    }
}

/// The paths of a pattern.
pub(super) enum PathPattern {
    Any,
    Exactly(PathBuf),
    /// Files in this folder with this name prefix.
    Begins(PathBuf, OsString),
}

/// Returns the pattern as written, and resolved.
pub(super) fn path_patterns(
    fit: &ArgumentPattern,
    here: &PathContext<'_>,
) -> (PathPattern, PathPattern) {
    let real =
        |path: &Path| resolve_links(path, here.resolve_link).unwrap_or_else(|| path.to_owned());
    match fit {
        ArgumentPattern::Any => (PathPattern::Any, PathPattern::Any),
        ArgumentPattern::Exact(path) => {
            let path = normalize(&here.cwd.join(path));
            let leads = real(&path);
            (PathPattern::Exactly(path), PathPattern::Exactly(leads))
        }
        ArgumentPattern::Prefix(start) => {
            // `src/*` matches the files in `src`, not the names with that prefix.
            let (folder, name) = match start.rsplit_once('/') {
                Some(("", name)) => ("/", name),
                Some((folder, name)) => (folder, name),
                None => ("", start.as_str()),
            };
            let folder = normalize(&here.cwd.join(folder));
            let leads = real(&folder);
            (PathPattern::Begins(folder, name.into()), PathPattern::Begins(leads, name.into()))
        }
    }
}

fn matches_pattern(path: &Path, named: &PathPattern) -> bool {
    match named {
        PathPattern::Any => true,
        PathPattern::Exactly(whole) => path == whole,
        PathPattern::Begins(folder, name) => path.strip_prefix(folder).is_ok_and(|rest| {
            let first = rest.as_os_str().as_encoded_bytes();
            !first.is_empty() && first.starts_with(name.as_encoded_bytes())
        }),
    }
}

/// Returns an absolute path without `.` and `..`.
fn normalize(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                plain.push(component);
            }
        }
    }
    plain
}

/// Follows every link of an absolute path, whether or not the file exists. Returns none for a cycle.
fn resolve_links(path: &Path, link: &dyn Fn(&Path) -> Option<PathBuf>) -> Option<PathBuf> {
    let mut left: Vec<OsString> = reversed_components(path);
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = left.pop() {
        match Path::new(&part).components().next() {
            Some(Component::RootDir) => at = PathBuf::from("/"),
            Some(Component::ParentDir) => {
                at.pop();
            }
            Some(Component::Normal(name)) => {
                let next = at.join(name);
                match link(&next) {
                    None => at = next,
                    Some(_) if links == MAX_LINKS => return None,
                    Some(target) => {
                        links += 1;
                        left.extend(reversed_components(&target));
                    }
                }
            }
            Some(Component::CurDir | Component::Prefix(_)) | None => {}
        }
    }
    Some(at)
}

/// Returns the components of a path in reverse order.
fn reversed_components(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
}
