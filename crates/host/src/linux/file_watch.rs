//! Waits for changes of one file (inotify).

use std::{io, os::fd::OwnedFd, path::Path};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// The watch of one file, which may also be replaced or created later.
#[derive(Debug)]
pub struct InotifyFileWatch(OwnedFd);

impl InotifyFileWatch {
    /// Starts the watch. A change after this call is never missed.
    pub fn new(path: &Path) -> io::Result<Self> {
        let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
        let fd = inotify::init(CreateFlags::CLOEXEC)?;
        inotify::add_watch(&fd, folder, WatchFlags::MODIFY | WatchFlags::CREATE)?;
        Ok(Self(fd))
    }

    /// Waits for a change of the file, or of another file in its folder. Blocks.
    pub fn wait_for_change(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut buffer))?;
        Ok(())
    }
}
