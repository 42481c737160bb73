//! Replaces a file as a whole: readers see the old content or the new one, never a part.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// The loss that a replaced file must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The end of a process.
    Process,
    /// The end of the machine: content and name are on the disk before the call returns.
    Machine,
}

/// Writes a file that only its owner can read, whole or not at all. Two processes may write it at the same time.
pub fn write_atomically(path: &Path, content: &[u8], durability: Durability) -> io::Result<()> {
    let unfinished = path.with_extension(format!("{}.new", std::process::id()));
    let written =
        write(&unfinished, content, durability).and_then(|()| fs::rename(&unfinished, path));
    if let Err(error) = written {
        // The part that was written is of no use, and on a full disk it takes room.
        drop(fs::remove_file(&unfinished));
        return Err(error);
    }
    match (durability, path.parent()) {
        (Durability::Machine, Some(folder)) => File::open(folder)?.sync_all(),
        (Durability::Machine, None) | (Durability::Process, _) => Ok(()),
    }
}

fn write(path: &Path, content: &[u8], durability: Durability) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    match durability {
        Durability::Process => Ok(()),
        Durability::Machine => file.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        for (content, durability) in
            [("first, longer", Durability::Process), ("second", Durability::Machine)]
        {
            write_atomically(&path, content.as_bytes(), durability).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_replaced_leaves_no_part_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        fs::create_dir(&path).unwrap();
        assert!(write_atomically(&path, b"x", Durability::Process).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
