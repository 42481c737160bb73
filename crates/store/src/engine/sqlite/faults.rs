//! The present fault of one database, for reports that do not access the disk.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

use agent_worker_protocol::sync;

use rustix::fs::statvfs;

/// With less free space than this, a disk that was full still counts as full: a small write may fit where a message
/// does not.
const MIN_FREE_BYTES: u64 = 1 << 18;

/// The condition under which a fault ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultCause {
    /// The disk has no free space. The fault ends with the next stored write while there is free space.
    Full,
    /// A write failed. The fault ends with the next stored write.
    Failed,
    /// The fault lasts until the next start.
    UntilRestart,
}

/// The reason why a database refuses writes.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseFault {
    pub(super) cause: FaultCause,
    pub(crate) why: String,
    /// The copy of a lost database.
    pub(crate) copy: Option<PathBuf>,
}

/// A handle to the fault of one database.
#[derive(Clone, Default)]
pub(super) struct FaultState(Arc<Mutex<Option<DatabaseFault>>>);

impl FaultState {
    pub(super) fn current(&self) -> Option<DatabaseFault> {
        self.lock().clone()
    }

    pub(super) fn set(&self, cause: FaultCause, why: String) {
        self.set_fault(DatabaseFault { cause, why, copy: None });
    }

    /// Sets the fault. A lasting fault is replaced only by another lasting one.
    pub(super) fn set_fault(&self, fault: DatabaseFault) {
        let mut current = self.lock();
        let lasts =
            current.as_ref().is_some_and(|current| current.cause == FaultCause::UntilRestart);
        if !lasts || fault.cause == FaultCause::UntilRestart {
            *current = Some(fault);
        }
    }

    /// Ends a fault after a write was stored.
    pub(super) fn clear(&self, database: Option<&Path>) {
        let mut current = self.lock();
        let ends = match current.as_ref().map(|fault| fault.cause) {
            None | Some(FaultCause::UntilRestart) => false,
            Some(FaultCause::Full) => database.is_none_or(has_free_space),
            Some(FaultCause::Failed) => true,
        };
        if ends {
            *current = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<DatabaseFault>> {
        sync::lock(&self.0)
    }
}

fn has_free_space(path: &Path) -> bool {
    let Ok(disk) = statvfs(path) else { return false };
    // Root may use the blocks that are reserved for it.
    let blocks = if rustix::process::geteuid().is_root() { disk.f_bfree } else { disk.f_bavail };
    blocks.saturating_mul(disk.f_frsize) >= MIN_FREE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_ends_with_a_stored_write_and_a_lasting_one_never() {
        for (cause, ends) in [
            (FaultCause::Full, true),
            (FaultCause::Failed, true),
            (FaultCause::UntilRestart, false),
        ] {
            let faults = FaultState::default();
            faults.set(cause, "why".to_owned());
            faults.set(FaultCause::Failed, "later".to_owned());
            let expected = if cause == FaultCause::UntilRestart { "why" } else { "later" };
            assert_eq!(faults.current().unwrap().why, expected);
            faults.set(cause, "why".to_owned());
            faults.clear(None);
            assert_eq!(faults.current().is_none(), ends, "{cause:?}");
        }
    }
}
