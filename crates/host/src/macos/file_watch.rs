//! Waits for changes of one file (kqueue).

use std::{
    fs::File,
    io,
    os::{fd::AsFd as _, unix::fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use nix::{errno::Errno, sys::event::Kqueue};

use super::kernel_queue::{next_events, register_file};

/// The watch of one file, which may also be replaced or created later.
#[derive(Debug)]
pub struct KqueueFileWatch {
    queue: Kqueue,
    path: PathBuf,
    /// Registered, for new entries.
    _folder: File,
    /// Registered; none while no file has the path.
    file: Option<File>,
}

impl KqueueFileWatch {
    /// Starts the watch. A change after this call is never missed.
    pub fn new(path: &Path) -> io::Result<Self> {
        let folder = File::open(path.parent().ok_or(io::ErrorKind::NotFound)?)?;
        let queue = Kqueue::new()?;
        register_file(&queue, folder.as_fd())?;
        let mut watch = Self { queue, path: path.to_owned(), _folder: folder, file: None };
        watch.follow_path()?;
        Ok(watch)
    }

    /// Waits for a change of the file, or of the entries of its folder. Blocks.
    pub fn wait_for_change(&mut self) -> io::Result<()> {
        loop {
            match next_events(&self.queue, None) {
                Ok(_) => return self.follow_path(),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Registers the file that has the path now. The caller reads it afterwards, so no change is missed.
    fn follow_path(&mut self) -> io::Result<()> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let inode = file.metadata()?.ino();
        if let Some(known) = &self.file
            && known.metadata()?.ino() == inode
        {
            return Ok(());
        }
        register_file(&self.queue, file.as_fd())?;
        self.file = Some(file);
        Ok(())
    }
}
