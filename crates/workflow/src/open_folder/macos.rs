//! The system calls of an open folder on macOS.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::fs::{self, OFlags};

use super::walk_beneath;

pub(super) const FOLDER_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Returns the path of an open folder, as the system knows it.
pub(super) fn path_of_folder(fd: &OwnedFd) -> io::Result<PathBuf> {
    Ok(OsString::from_vec(fs::getpath(fd)?.into_bytes()).into())
}

/// Opens a path beneath a folder.
pub(super) fn open_beneath(
    folder: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
) -> io::Result<OwnedFd> {
    walk_beneath(folder, path, flags)
}
