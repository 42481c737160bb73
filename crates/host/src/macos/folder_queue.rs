//! Reports changes in folders, without the kind of change. All folders share one kqueue.
//!
//! An event means that an entry of a folder was created, renamed or deleted. The queue does not report a write into an
//! existing file, because that would need an open descriptor for each file; the poll interval covers it.

use std::{
    collections::HashMap,
    io,
    os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    sync::Mutex,
    time::Duration,
};

use agent_worker_protocol::sync;
use nix::sys::event::Kqueue;
use tokio::io::{Interest, unix::AsyncFd};

use super::kernel_queue::{NO_WAIT, next_events, register_file};
use crate::folder_change::FolderChange;

/// Device and inode of a folder.
type FolderId = (i32, u64);

/// One kqueue, read by the tasks that wait for changes.
#[derive(Debug)]
pub struct KqueueFolders {
    events: AsyncFd<PolledQueue>,
    /// Open descriptors: closing one ends its registration. Its number is the number of the folder.
    folders: Mutex<HashMap<FolderId, OwnedFd>>,
}

/// A kqueue, which is itself readable while it has events.
#[derive(Debug)]
struct PolledQueue(Kqueue);

impl AsRawFd for PolledQueue {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl KqueueFolders {
    /// Interval at which to look for changes that the queue does not report.
    pub const POLL_INTERVAL: Option<Duration> = Some(Duration::from_secs(2));

    /// Creates the queue.
    pub fn new() -> io::Result<Self> {
        let queue = PolledQueue(Kqueue::new()?);
        #[expect(deprecated, reason = "the queue owns its descriptor; the replacement is unsafe")]
        let events = AsyncFd::with_interest(queue, Interest::READABLE)?;
        Ok(Self { events, folders: Mutex::default() })
    }

    /// Watches an open folder, and returns its number; adding it twice returns the same one.
    pub fn add(&self, folder: BorrowedFd<'_>) -> io::Result<i32> {
        let stat = rustix::fs::fstat(folder)?;
        let id = (stat.st_dev, stat.st_ino);
        let mut folders = sync::lock(&self.folders);
        if let Some(known) = folders.get(&id) {
            return Ok(known.as_raw_fd());
        }
        let own = folder.try_clone_to_owned()?;
        register_file(&self.events.get_ref().0, own.as_fd())?;
        let number = own.as_raw_fd();
        folders.insert(id, own);
        Ok(number)
    }

    /// Forgets the folders whose number has no use.
    pub fn retain(&self, is_used: impl Fn(i32) -> bool) {
        sync::lock(&self.folders).retain(|_, folder| is_used(folder.as_raw_fd()));
    }

    /// Waits for the next changes.
    pub async fn read_changes(&self) -> io::Result<Vec<FolderChange>> {
        loop {
            let mut ready = self.events.readable().await?;
            let events = next_events(&self.events.get_ref().0, Some(NO_WAIT))?;
            if events.is_empty() {
                ready.clear_ready();
                continue;
            }
            let number = |ident: usize| i32::try_from(ident).map(FolderChange::Folder);
            return Ok(events
                .iter()
                .map(|event| number(event.ident()).unwrap_or(FolderChange::Any))
                .collect());
        }
    }
}
