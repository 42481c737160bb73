//! The Landlock rules of a policy.
//!
//! Landlock only adds rights: it can neither hide a path below an allowed one nor make it read-only. At level `basic` a
//! readable folder with a hidden path is replaced with its other entries; a writable one is refused.

use std::{
    fs,
    path::{Path, PathBuf},
};

use agent_worker_protocol::SandboxLevel;

use crate::{
    error::SandboxError,
    path_table::DEVICES,
    policy::{PathAccess, SandboxPolicy},
};

/// Rights beneath a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LandlockRight {
    Read,
    Write,
}

/// Returns the rules for a level. `entries_of` lists a folder.
pub(crate) fn landlock_rules(
    policy: &SandboxPolicy,
    level: SandboxLevel,
    entries_of: &dyn Fn(&Path) -> Vec<PathBuf>,
) -> Result<Vec<(PathBuf, LandlockRight)>, SandboxError> {
    let mut rules = Vec::new();
    for (path, access) in &policy.rules {
        match (access, level) {
            (PathAccess::ReadOnly, SandboxLevel::Full) => {
                rules.push((path.clone(), LandlockRight::Read));
            }
            (PathAccess::ReadOnly, SandboxLevel::Basic) => {
                add_visible(path, policy, entries_of, &mut rules);
            }
            (PathAccess::Writable, _) => {
                if level == SandboxLevel::Basic {
                    refuse_hidden(path, policy)?;
                }
                rules.push((path.clone(), LandlockRight::Write));
            }
            (PathAccess::Private(_) | PathAccess::Empty, SandboxLevel::Full) => {
                rules.push((path.clone(), LandlockRight::Write));
            }
            (PathAccess::Private(source), SandboxLevel::Basic) => {
                rules.push((source.clone(), LandlockRight::Write));
            }
            (PathAccess::Empty, SandboxLevel::Basic)
            | (PathAccess::HiddenFolder | PathAccess::HiddenFile, _) => {}
        }
    }
    // The settings of the kernel are files here.
    rules.push(("/proc".into(), LandlockRight::Read));
    match level {
        // A folder of the sandbox itself.
        SandboxLevel::Full => rules.push(("/dev".into(), LandlockRight::Write)),
        SandboxLevel::Basic => {
            rules.extend(DEVICES.map(|path| (path.into(), LandlockRight::Write)));
        }
    }
    rules.dedup();
    Ok(rules)
}

/// Adds a readable path, or the entries of a folder that contains a hidden one.
fn add_visible(
    path: &Path,
    policy: &SandboxPolicy,
    entries_of: &dyn Fn(&Path) -> Vec<PathBuf>,
    rules: &mut Vec<(PathBuf, LandlockRight)>,
) {
    match hidden_paths(policy).any(|hidden| hidden.starts_with(path)) {
        false => rules.push((path.to_owned(), LandlockRight::Read)),
        true if hidden_paths(policy).any(|hidden| hidden == path) => {}
        true => {
            for entry in entries_of(path) {
                add_visible(&entry, policy, entries_of, rules);
            }
        }
    }
}

fn hidden_paths(policy: &SandboxPolicy) -> impl Iterator<Item = &Path> {
    let is_hidden =
        |access: &PathAccess| matches!(access, PathAccess::HiddenFolder | PathAccess::HiddenFile);
    // A placeholder is missing, which hides nothing.
    policy
        .rules
        .iter()
        .filter(move |(path, access)| {
            is_hidden(access) && !policy.placeholders.iter().any(|held| held.path() == *path)
        })
        .map(|(path, _)| path.as_path())
}

fn refuse_hidden(folder: &Path, policy: &SandboxPolicy) -> Result<(), SandboxError> {
    match hidden_paths(policy).find(|hidden| hidden.starts_with(folder)) {
        None => Ok(()),
        Some(hidden) => {
            Err(SandboxError::NotHidden { hidden: hidden.to_owned(), folder: folder.to_owned() })
        }
    }
}

/// Lists the entries of a folder; none if it cannot be read.
pub(crate) fn folder_entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    entries.sort();
    entries
}
