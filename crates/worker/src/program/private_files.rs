//! Private files of a vendor's program, readable only by their owner.

use std::{
    fs::{DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

use crate::turn::TurnFolders;

/// Writes a file that only its owner can read. Returns its path.
pub(super) fn write_private_file(folder: &Path, name: &str, text: &str) -> io::Result<String> {
    let path = folder.join(name);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    file.write_all(text.as_bytes())?;
    path_text(&path)
}

/// Creates a folder that only its owner can read, with its parents. Returns its path.
pub(super) fn create_private_folder(path: &Path) -> io::Result<String> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    path_text(path)
}

/// Creates the attempt's own folder for temporary files (`TMPDIR`). Returns its path.
pub(super) fn create_temp_folder(folders: &TurnFolders) -> io::Result<String> {
    create_private_folder(&folders.attempt.join("tmp"))
}

/// Returns a path as text for an argument or a variable.
fn path_text(path: &Path) -> io::Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("{} is not UTF-8", path.display()))
    })
}
