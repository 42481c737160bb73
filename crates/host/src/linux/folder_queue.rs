//! Reports changes in folders, without the kind of change. All folders share one inotify queue: a user has few of them.

use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd},
    time::Duration,
};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe::Receiver;

use crate::folder_change::FolderChange;

/// Size of an event before its name: watch, mask, cookie and the length of the name.
const EVENT_HEADER_BYTES: usize = 16;

/// One inotify queue, read like a pipe by the tasks that wait for changes.
#[derive(Debug)]
pub struct InotifyFolders {
    events: Receiver,
}

impl InotifyFolders {
    /// Interval at which to look for changes that the queue does not report; none, because it reports all.
    pub const POLL_INTERVAL: Option<Duration> = None;

    /// Creates the queue.
    pub fn new() -> io::Result<Self> {
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self { events: Receiver::from_owned_fd_unchecked(queue)? })
    }

    /// Watches an open folder, and returns its number; adding it twice returns the same one.
    pub fn add(&self, folder: BorrowedFd<'_>) -> io::Result<i32> {
        let wanted = WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::ONLYDIR;
        // Use the descriptor, so that no name can redirect the watch.
        let name = format!("/proc/self/fd/{}", folder.as_raw_fd());
        Ok(inotify::add_watch(&self.events, name, wanted)?)
    }

    /// Forgets the folders whose number has no use. The kernel holds them here, at no cost for this process.
    pub fn retain(&self, _is_used: impl Fn(i32) -> bool) {}

    /// Waits for the next changes.
    pub async fn read_changes(&self) -> io::Result<Vec<FolderChange>> {
        loop {
            self.events.readable().await?;
            let mut events = [0_u8; 4096];
            match self.events.try_read(&mut events) {
                Ok(read) => return Ok(parse_events(&events[..read])),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn parse_events(mut events: &[u8]) -> Vec<FolderChange> {
    let mut changes = Vec::new();
    while let Some((head, rest)) = events.split_at_checked(EVENT_HEADER_BYTES) {
        let word = |at: usize| head[at..at + 4].try_into().map_or(0, i32::from_ne_bytes);
        changes.push(match word(0) {
            // The queue overflowed.
            -1 => FolderChange::Any,
            number => FolderChange::Folder(number),
        });
        events = rest.get(usize::try_from(word(12)).unwrap_or(0)..).unwrap_or_default();
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_by_their_folder_and_an_overflow_means_any() {
        let event = |watch: i32, name: &[u8]| {
            let length = u32::try_from(name.len()).unwrap().to_ne_bytes();
            [&watch.to_ne_bytes()[..], &[0; 8], &length, name].concat()
        };
        let events = [event(3, b"file\0\0\0\0"), event(-1, b""), event(4, b"")].concat();
        let expected = [FolderChange::Folder(3), FolderChange::Any, FolderChange::Folder(4)];
        assert_eq!(parse_events(&events), expected);
        assert_eq!(parse_events(&events[..10]), []);
    }
}
