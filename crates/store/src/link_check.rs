//! The files of a team database are in a project folder, where other processes write. This check refuses a path that
//! leads to another file: a link on the way or at the end, a second name of a file, or a file that is no regular one.
//!
//! The check runs before the files are opened. An exchange between the check and the opening is not detected; a later
//! one is, because the writer compares the files with the ones it has open.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// Endings of the files of a database, next to the database itself.
const FILE_ENDINGS: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// Refuses the database at `path` if one of its files, or a folder on its way, is a link. `companion` is the folder
/// with its lock.
pub(crate) fn refuse_links(path: &Path, companion: &Path) -> io::Result<()> {
    let existing = path.ancestors().skip(1).find(|folder| folder.symlink_metadata().is_ok());
    if let Some(folder) = existing
        && folder.canonicalize()? != folder
    {
        return Err(refusal(folder, "leads through a symbolic link"));
    }
    for ending in FILE_ENDINGS {
        let mut file = path.as_os_str().to_owned();
        file.push(ending);
        require_single_file(&PathBuf::from(file))?;
    }
    match fs::symlink_metadata(companion) {
        Ok(found) if !found.is_dir() => return Err(refusal(companion, "is not a folder")),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    require_single_file(&companion.join("lock"))
}

fn require_single_file(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() && found.nlink() == 1 => Ok(()),
        Ok(_) => Err(refusal(path, "is not a regular file with exactly one link")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn refusal(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{} {why}", path.display()))
}
