//! Where a path leads. Pure: who knows the links is asked.

use std::{
    ffi::OsString,
    path::{Component, Path, PathBuf},
};

use agent_worker_protocol::Fit;

use super::Here;

/// So many links in one path lead nowhere.
const MOST_LINKS: usize = 40;

/// A path of a call.
pub(super) struct Given {
    /// As it is written.
    plain: PathBuf,
    /// Where it leads: some work `..` out before they look, and some while they do.
    real: [PathBuf; 2],
}

impl Given {
    /// None if somebody else says what it means: a home folder that is filled in later.
    pub(super) fn new(path: &str, here: &Here<'_>) -> Option<Self> {
        let whole = here.cwd.join(path);
        let plain = plain(&whole);
        let real = [followed(&plain, here.link)?, followed(&whole, here.link)?];
        (!path.starts_with('~')).then_some(Self { plain, real })
    }

    /// Whether it is what a pattern names, wherever it leads.
    pub(super) fn is_all_of(&self, fit: &Fit, here: &Here<'_>) -> bool {
        let (_, leads) = named(fit, here);
        self.real.iter().all(|path| is_like(path, &leads))
    }

    /// Whether it may be what a pattern names.
    pub(super) fn is_part_of(&self, fit: &Fit, here: &Here<'_>) -> bool {
        let (written, leads) = named(fit, here);
        is_like(&self.plain, &written) || self.real.iter().any(|path| is_like(path, &leads))
    }
}

/// What a pattern's paths begin with, or are.
enum Named {
    Any,
    Exactly(PathBuf),
    /// In this folder, what is called like this.
    Begins(PathBuf, OsString),
}

/// As it is written, and where that leads.
fn named(fit: &Fit, here: &Here<'_>) -> (Named, Named) {
    let real = |path: &Path| followed(path, here.link).unwrap_or_else(|| path.to_owned());
    match fit {
        Fit::Any => (Named::Any, Named::Any),
        Fit::Exactly(path) => {
            let path = plain(&here.cwd.join(path));
            let leads = real(&path);
            (Named::Exactly(path), Named::Exactly(leads))
        }
        Fit::Begins(start) => {
            // `src/*` is what lies in `src`, not what is called like it.
            let (folder, name) = match start.rsplit_once('/') {
                Some(("", name)) => ("/", name),
                Some((folder, name)) => (folder, name),
                None => ("", start.as_str()),
            };
            let folder = plain(&here.cwd.join(folder));
            let leads = real(&folder);
            (Named::Begins(folder, name.into()), Named::Begins(leads, name.into()))
        }
    }
}

fn is_like(path: &Path, named: &Named) -> bool {
    match named {
        Named::Any => true,
        Named::Exactly(whole) => path == whole,
        Named::Begins(folder, name) => path.strip_prefix(folder).is_ok_and(|rest| {
            let first = rest.as_os_str().as_encoded_bytes();
            !first.is_empty() && first.starts_with(name.as_encoded_bytes())
        }),
    }
}

/// A whole path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
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
fn followed(path: &Path, link: &dyn Fn(&Path) -> Option<PathBuf>) -> Option<PathBuf> {
    let mut left: Vec<OsString> = parts(path);
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
                    Some(_) if links == MOST_LINKS => return None,
                    Some(target) => {
                        links += 1;
                        left.extend(parts(&target));
                    }
                }
            }
            Some(Component::CurDir | Component::Prefix(_)) | None => {}
        }
    }
    Some(at)
}

/// The parts of a path, the last first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
}
