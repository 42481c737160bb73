//! The system calls of an open folder on Linux.

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{self, Mode, OFlags, ResolveFlags},
    io::Errno,
};

use super::walk_beneath;

/// Attempts at a path with `..` while other processes rename folders on it.
const MAX_RESOLVE_ATTEMPTS: usize = 16;
pub(super) const FOLDER_FLAGS: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Returns the path of an open folder, as the system knows it.
pub(super) fn path_of_folder(fd: &OwnedFd) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// Opens a path beneath a folder.
pub(super) fn open_beneath(
    folder: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
) -> io::Result<OwnedFd> {
    let path = if path == Path::new("") { Path::new(".") } else { path };
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..MAX_RESOLVE_ATTEMPTS {
        match fs::openat2(folder, path, flags, Mode::empty(), how) {
            // A folder on the path was renamed meanwhile.
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::NOSYS) => return walk_beneath(folder, path, flags),
            opened => return Ok(opened?),
        }
    }
    Err(Errno::AGAIN.into())
}
