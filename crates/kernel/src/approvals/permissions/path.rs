//! Where a path leads. Pure: who knows the links is asked.

use std::{
    ffi::OsString,
    path::{Component, Path, PathBuf},
};

use agent_worker_protocol::ArgumentPattern;

use super::PathContext;

/// So many links in one path lead nowhere.
const MAX_LINKS: usize = 40;

/// A path of a call.
pub(super) struct CallPath {
    /// As it is written.
    lexical: PathBuf,
    /// Where it leads: some work `..` out before they look, and some while they do.
    resolved: [PathBuf; 2],
}

impl CallPath {
    /// None if somebody else says what it means: a home folder that is filled in later.
    pub(super) fn new(path: &str, here: &PathContext<'_>) -> Option<Self> {
        let whole = here.cwd.join(path);
        let plain = normalize(&whole);
        let real =
            [resolve_links(&plain, here.resolve_link)?, resolve_links(&whole, here.resolve_link)?];
        (!path.starts_with('~')).then_some(Self { lexical: plain, resolved: real })
    }

    /// Whether it is what a pattern names, wherever it leads.
    pub(super) fn is_covered_by(&self, fit: &ArgumentPattern, here: &PathContext<'_>) -> bool {
        let (_, leads) = path_patterns(fit, here);
        self.resolved.iter().all(|path| matches_pattern(path, &leads))
    }

    /// Whether it may be what a pattern names.
    pub(super) fn may_match(&self, fit: &ArgumentPattern, here: &PathContext<'_>) -> bool {
        let (written, leads) = path_patterns(fit, here);
        matches_pattern(&self.lexical, &written)
            || self.resolved.iter().any(|path| matches_pattern(path, &leads))
    }
}

/// What a pattern's paths begin with, or are.
enum PathPattern {
    Any,
    Exactly(PathBuf),
    /// In this folder, what is called like this.
    Begins(PathBuf, OsString),
}

/// As it is written, and where that leads.
fn path_patterns(fit: &ArgumentPattern, here: &PathContext<'_>) -> (PathPattern, PathPattern) {
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
            // `src/*` is what lies in `src`, not what is called like it.
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

/// A whole path without `.` and `..`.
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

/// Where a whole path leads once every link in it is followed, whether or not anything is there. None if they go in circles.
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

/// The parts of a path, the last first.
fn reversed_components(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
}
