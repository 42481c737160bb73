//! The Landlock rules of a policy, and their application to the calling thread.
//!
//! Landlock only adds rights: it can neither hide a path below an allowed one nor make it read-only. At level `basic` a
//! readable folder with a hidden path is replaced with its other entries; a writable one is refused.

use std::{
    fs,
    path::{Path, PathBuf},
};

use agent_worker_protocol::{SandboxLevel, SandboxNetwork};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use crate::{
    error::SandboxError,
    path_table::DEVICES,
    policy::{PathAccess, SandboxPolicy},
};

/// The newest version of Landlock whose rights are used; an older kernel leaves out those that it does not know.
const NEWEST_ABI: ABI = ABI::V9;

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

/// Restricts the calling thread for good.
pub(crate) fn restrict_thread(
    rules: &[(PathBuf, LandlockRight)],
    network: SandboxNetwork,
    level: SandboxLevel,
) -> Result<(), SandboxError> {
    let failed = SandboxError::of_library("apply Landlock");
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST_ABI))
        .map_err(&failed)?
        .scope(Scope::from_all(NEWEST_ABI))
        .map_err(&failed)?;
    // At level `full` without a network, the sockets reach only the sandbox itself.
    if network == SandboxNetwork::Off && level == SandboxLevel::Basic {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST_ABI)).map_err(&failed)?;
    }
    let mut created = ruleset.create().map_err(&failed)?;
    for (path, right) in rules {
        // A path that is missing or unreadable has no rule and stays closed.
        let Ok(open) = PathFd::new(path) else { continue };
        let rights = rights_of(*right, path);
        created = created.add_rule(PathBeneath::new(open, rights)).map_err(&failed)?;
    }
    let status = created.restrict_self().map_err(&failed)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => {
            Err(SandboxError::NoLandlock { why: landlock_text(status.landlock) })
        }
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

fn rights_of(right: LandlockRight, path: &Path) -> BitFlags<AccessFs> {
    let rights = match right {
        LandlockRight::Read => AccessFs::from_read(NEWEST_ABI),
        LandlockRight::Write => AccessFs::from_all(NEWEST_ABI),
    };
    if path.is_dir() { rights } else { rights & AccessFs::from_file(NEWEST_ABI) }
}

/// Returns the version of the kernel's Landlock, or the reason why it has none. Restricts a thread that then ends.
pub(crate) fn landlock_version() -> Result<u8, String> {
    let tried = std::thread::spawn(|| {
        let ruleset = Ruleset::default().handle_access(AccessFs::from_all(NEWEST_ABI))?;
        ruleset.create()?.restrict_self()
    });
    match tried.join() {
        Ok(Ok(status)) => match status.landlock {
            LandlockStatus::Available { effective_abi, .. } => Ok(effective_abi as u8),
            absent => Err(landlock_text(absent)),
        },
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the probe failed".to_owned()),
    }
}

fn landlock_text(status: LandlockStatus) -> String {
    match status {
        LandlockStatus::NotEnabled => "it is disabled at boot".to_owned(),
        LandlockStatus::NotImplemented => "it is not built in".to_owned(),
        LandlockStatus::Available { .. } => "it enforced nothing".to_owned(),
    }
}
