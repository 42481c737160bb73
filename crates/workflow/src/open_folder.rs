//! An open folder. Files are opened relative to it, so that neither a rename nor a link that changes between a check
//! and a read decides which file is read.
//!
//! The kernel of the operating system resolves a path *beneath* a folder in one step (`openat2` with
//! `RESOLVE_BENEATH`). A path or a link that leads out fails with `EXDEV`. A system without that call (macOS) opens one
//! name at a time and follows no link.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

use std::{
    fs::File,
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{self, CWD, Mode, OFlags},
    io::Errno,
};

#[cfg(target_os = "linux")]
use self::linux::{FOLDER_FLAGS, open_beneath, path_of_folder};
#[cfg(target_os = "macos")]
use self::macos::{FOLDER_FLAGS, open_beneath, path_of_folder};

/// A pipe is opened without waiting for its writer, and refused later because it is not a regular file.
const FILE_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// An open folder and its canonical path.
#[derive(Debug)]
pub struct OpenFolder {
    fd: OwnedFd,
    path: PathBuf,
}

impl OpenFolder {
    /// Opens a folder; links in its path are followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::from_fd(fs::openat(CWD, path, FOLDER_FLAGS, Mode::empty())?)
    }

    /// Opens a folder beneath this one.
    pub fn folder_beneath(&self, path: &Path) -> io::Result<Self> {
        Self::from_fd(open_beneath(self.fd.as_fd(), path, FOLDER_FLAGS)?)
    }

    /// Opens a file beneath this folder.
    pub fn file_beneath(&self, path: &Path) -> io::Result<File> {
        Ok(open_beneath(self.fd.as_fd(), path, FILE_FLAGS)?.into())
    }

    /// Opens a file of this folder; links are followed, wherever they lead.
    pub fn file(&self, path: &Path) -> io::Result<File> {
        Ok(fs::openat(&self.fd, path, FILE_FLAGS, Mode::empty())?.into())
    }

    /// Returns the canonical path of the folder: absolute, without links and `..`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let path = path_of_folder(&fd)?;
        // The system marks the path of a deleted folder, and such a path may belong to another folder.
        let (opened, named) = (fs::fstat(&fd)?, fs::stat(&path)?);
        if (opened.st_dev, opened.st_ino) != (named.st_dev, named.st_ino) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Self { fd, path })
    }
}

/// Returns true if a path or a link led out of the folder.
pub(crate) fn leads_out(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::XDEV.raw_os_error())
}

/// Opens a path name by name, without links and `..`, for a system without `openat2`.
fn walk_beneath(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Errno::XDEV.into());
            }
        }
    }
    let Some(last) = names.pop() else {
        return Ok(fs::openat(folder, ".", flags, Mode::empty())?);
    };
    let mut reached = fs::openat(folder, ".", FOLDER_FLAGS, Mode::empty())?;
    for name in names {
        reached = fs::openat(&reached, name, FOLDER_FLAGS | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(fs::openat(&reached, last, flags | OFlags::NOFOLLOW, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_beneath_a_folder_never_leaves_it() {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(outer.path().join("secret"), "secret").unwrap();
        std::fs::write(root.join("own"), "own").unwrap();
        symlink("../../secret", root.join("sub/out")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("../own", root.join("sub/in")).unwrap();
        symlink(outer.path().join("secret"), root.join("absolute")).unwrap();
        let folder = OpenFolder::open(&root).unwrap();
        let own = ["own", "./own", "sub/../own", "sub/in"];
        let foreign =
            ["../secret", "sub/../../secret", "sub/out", "up/secret", "absolute", "/etc/passwd"];
        for path in own {
            assert!(folder.file_beneath(Path::new(path)).is_ok(), "{path}");
        }
        for path in foreign {
            let error = folder.file_beneath(Path::new(path)).unwrap_err();
            assert!(leads_out(&error), "{path}: {error}");
        }
        // The other way follows no link at all.
        let walk = |path: &str| walk_beneath(folder.fd.as_fd(), Path::new(path), FILE_FLAGS);
        assert!(walk("own").is_ok() && walk("./own").is_ok());
        for path in foreign.into_iter().chain(["sub/in", "sub/../own"]) {
            assert!(walk(path).is_err(), "{path}");
        }
    }

    #[test]
    fn the_path_of_an_open_folder_is_canonical() {
        let outer = tempfile::tempdir().unwrap();
        let real = outer.path().join("real/sub");
        std::fs::create_dir_all(&real).unwrap();
        symlink("real", outer.path().join("alias")).unwrap();
        let folder = OpenFolder::open(&outer.path().join("alias/../alias/sub")).unwrap();
        assert_eq!(folder.path(), real.canonicalize().unwrap());
        let above = OpenFolder::open(outer.path()).unwrap();
        let below = above.folder_beneath(Path::new("alias/sub")).unwrap();
        assert_eq!(below.path(), folder.path());
        assert!(above.folder_beneath(Path::new("")).is_ok());
    }
}
