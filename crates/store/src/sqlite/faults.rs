//! The present fault of one database, for reports: known without touching the disk.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustix::fs::statvfs;

/// With less room than this a disk that was full still is: a small write may fit where a message does not.
const LEAST_FREE: u64 = 1 << 18;

/// How a fault can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The disk has no room. Ends with the next write that is stored when there is room.
    Full,
    /// Ends with the next write that is stored.
    Failed,
    /// Stays until the next start.
    Lasting,
}

/// The reason why a database refuses writes.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(super) cause: Cause,
    pub(crate) why: String,
    /// The copy of a database whose files were taken away.
    pub(crate) copy: Option<PathBuf>,
}

/// A handle to the fault of one database.
#[derive(Clone, Default)]
pub(super) struct Faults(Arc<Mutex<Option<Fault>>>);

impl Faults {
    pub(super) fn current(&self) -> Option<Fault> {
        self.lock().clone()
    }

    pub(super) fn set(&self, cause: Cause, why: String) {
        self.set_fault(Fault { cause, why, copy: None });
    }

    /// A lasting fault is replaced by another lasting one only.
    pub(super) fn set_fault(&self, fault: Fault) {
        let mut current = self.lock();
        let lasts = current.as_ref().is_some_and(|current| current.cause == Cause::Lasting);
        if !lasts || fault.cause == Cause::Lasting {
            *current = Some(fault);
        }
    }

    /// Ends a fault after a write was stored.
    pub(super) fn clear(&self, database: Option<&Path>) {
        let mut current = self.lock();
        let ends = match current.as_ref().map(|fault| fault.cause) {
            None | Some(Cause::Lasting) => false,
            Some(Cause::Full) => database.is_none_or(has_room),
            Some(Cause::Failed) => true,
        };
        if ends {
            *current = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Fault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has_room(path: &Path) -> bool {
    let Ok(disk) = statvfs(path) else { return false };
    // Root may use the blocks that are reserved for it.
    let blocks = if rustix::process::geteuid().is_root() { disk.f_bfree } else { disk.f_bavail };
    blocks.saturating_mul(disk.f_frsize) >= LEAST_FREE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_ends_with_a_stored_write_and_a_lasting_one_never() {
        for (cause, ends) in [(Cause::Full, true), (Cause::Failed, true), (Cause::Lasting, false)] {
            let faults = Faults::default();
            faults.set(cause, "why".to_owned());
            faults.set(Cause::Failed, "later".to_owned());
            let expected = if cause == Cause::Lasting { "why" } else { "later" };
            assert_eq!(faults.current().unwrap().why, expected);
            faults.set(cause, "why".to_owned());
            faults.clear(None);
            assert_eq!(faults.current().is_none(), ends, "{cause:?}");
        }
    }
}
