//! Applies Landlock rules to the calling thread.

use std::path::{Path, PathBuf};

use agent_worker_protocol::{SandboxLevel, SandboxNetwork};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use crate::{error::SandboxError, landlock_rules::LandlockRight};

/// The newest version of Landlock whose rights are used; an older kernel leaves out those that it does not know.
const NEWEST_ABI: ABI = ABI::V9;

/// Restricts the calling thread for good.
pub(crate) fn restrict_thread(
    rules: &[(PathBuf, LandlockRight)],
    network: &SandboxNetwork,
    level: SandboxLevel,
) -> Result<(), SandboxError> {
    let failed = SandboxError::of_library("apply Landlock");
    let mut ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST_ABI))
        .map_err(&failed)?
        .scope(Scope::from_all(NEWEST_ABI))
        .map_err(&failed)?;
    // At level `full` without a network, the sockets reach only the sandbox itself.
    if *network == SandboxNetwork::Off && level == SandboxLevel::Basic {
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
