//! Placeholders for missing paths: a mount can hold only a path that exists.
//!
//! A placeholder is an empty folder, or a file with a fixed text, and has a mode that nothing else has. The last sandbox of
//! a working folder removes them; after a kill, the next one does.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use crate::policy::{COMMON_DIR_TEXT, Placeholder};

/// Mode of a placeholder folder.
const FOLDER_MODE: u32 = 0o555;
/// Mode of a placeholder file.
const FILE_MODE: u32 = 0o444;

/// The placeholders of one sandbox, removed with it unless another sandbox of the same folder still needs them.
#[derive(Debug)]
pub(crate) struct HeldPlaceholders {
    placeholders: Vec<Placeholder>,
    /// The working folder with a shared lock.
    folder: File,
}

impl Placeholder {
    /// Returns the path of the placeholder.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Folder(path) | Self::CommonDir(path) => path,
        }
    }

    fn create(&self) -> io::Result<()> {
        match self {
            Self::Folder(path) => {
                DirBuilder::new().create(path)?;
                fs::set_permissions(path, fs::Permissions::from_mode(FOLDER_MODE))
            }
            Self::CommonDir(path) => {
                let mut options = OpenOptions::new();
                let mut file = options.write(true).create_new(true).mode(FILE_MODE).open(path)?;
                file.write_all(COMMON_DIR_TEXT.as_bytes())
            }
        }
    }

    /// Removes the placeholder; a folder that has content stays.
    fn remove(&self) {
        if is_placeholder(self.path()) {
            let _ = match self {
                Self::Folder(path) => fs::remove_dir(path),
                Self::CommonDir(path) => fs::remove_file(path),
            };
        }
    }
}

/// Returns true if a placeholder, and nothing of anyone else, is at the path.
pub(crate) fn is_placeholder(path: &Path) -> bool {
    let Ok(found) = path.symlink_metadata() else { return false };
    match found.permissions().mode() & 0o7777 {
        FOLDER_MODE if found.is_dir() => {
            fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
        }
        FILE_MODE if found.len() == COMMON_DIR_TEXT.len() as u64 => {
            fs::read_to_string(path).is_ok_and(|text| text == COMMON_DIR_TEXT)
        }
        _ => false,
    }
}

impl HeldPlaceholders {
    /// Creates the placeholders of a working folder.
    pub(crate) fn create(work: &Path, placeholders: Vec<Placeholder>) -> io::Result<Self> {
        let folder = File::open(work)?;
        folder.lock_shared()?;
        let held = Self { placeholders, folder };
        for placeholder in &held.placeholders {
            match placeholder.create() {
                Ok(()) => {}
                // Of another sandbox, or of a program that was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(held)
    }
}

impl Drop for HeldPlaceholders {
    fn drop(&mut self) {
        match self.folder.try_lock() {
            Ok(()) => self.placeholders.iter().for_each(Placeholder::remove),
            // Another sandbox holds the folder and removes them.
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn placeholders(work: &Path) -> Vec<Placeholder> {
        vec![
            Placeholder::Folder(work.join(".claude")),
            Placeholder::CommonDir(work.join("commondir")),
        ]
    }

    fn entries(work: &Path) -> Vec<PathBuf> {
        let mut names: Vec<PathBuf> =
            fs::read_dir(work).unwrap().map(|entry| entry.unwrap().file_name().into()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_last_sandbox_of_a_folder_removes_the_placeholders() {
        let work = tempfile::tempdir().unwrap();
        let work = work.path();
        let first = HeldPlaceholders::create(work, placeholders(work)).unwrap();
        let second = HeldPlaceholders::create(work, placeholders(work)).unwrap();
        drop(first);
        assert_eq!(entries(work), [".claude", "commondir"].map(PathBuf::from));
        drop(second);
        assert_eq!(entries(work), <[PathBuf; 0]>::default());
    }

    #[test]
    fn files_and_folders_of_a_person_stay() {
        let work = tempfile::tempdir().unwrap();
        let work = work.path();
        fs::create_dir(work.join(".claude")).unwrap();
        fs::write(work.join("commondir"), COMMON_DIR_TEXT).unwrap();
        drop(HeldPlaceholders::create(work, placeholders(work)).unwrap());
        assert_eq!(entries(work), [".claude", "commondir"].map(PathBuf::from));
        assert!(!is_placeholder(&work.join(".claude")) && !is_placeholder(&work.join("missing")));
    }
}
