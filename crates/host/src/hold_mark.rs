//! The mark `held` in a home: its user stopped the daemon, so the next daemon starts no work by itself.
//!
//! The mark is a file, because a command must be able to set it while no daemon runs. A crash or a reboot does not set it.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use crate::atomic_file::{Durability, write_atomically};

/// The mark of one home.
#[derive(Clone, Debug)]
pub struct HoldMark {
    path: PathBuf,
}

impl HoldMark {
    /// Returns the mark of the home at `root`.
    pub fn of_home(root: &Path) -> Self {
        Self { path: root.join("held") }
    }

    /// Returns true if the mark is set.
    pub fn is_set(&self) -> bool {
        self.path.exists()
    }

    /// Sets the mark. It is on the disk when the call returns.
    pub fn set(&self) -> io::Result<()> {
        write_atomically(&self.path, b"", Durability::Machine)
    }

    /// Clears the mark. It is gone from the disk when the call returns.
    pub fn clear(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
            Ok(()) => match self.path.parent() {
                Some(folder) => File::open(folder)?.sync_all(),
                None => Ok(()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_set_until_it_is_cleared_and_both_can_be_repeated() {
        let home = tempfile::tempdir().unwrap();
        let mark = HoldMark::of_home(home.path());
        mark.clear().unwrap();
        assert!(!mark.is_set());
        for _ in 0..2 {
            mark.set().unwrap();
            assert!(mark.is_set());
        }
        for _ in 0..2 {
            mark.clear().unwrap();
            assert!(!mark.is_set());
        }
    }
}
