//! Notifies of changes in a folder, without the kind of change. All folders share one queue: a user has few of
//! them.

use std::{
    collections::HashMap,
    io,
    os::fd::{AsRawFd as _, BorrowedFd},
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use agent_worker_protocol::sync;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::{net::unix::pipe::Receiver, sync::Notify};

/// Poll interval if folders cannot be watched.
const FALLBACK_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Size of an event before its name: watch, mask, cookie and the length of the name.
const EVENT_HEADER_BYTES: usize = 16;

/// The inotify queue of this daemon, created with the first watch; clones share it.
#[derive(Clone, Default)]
pub(crate) struct FolderWatcher(Arc<Mutex<Option<Arc<InotifyQueue>>>>);

/// One inotify queue, read like a pipe by the tasks that wait for changes.
struct InotifyQueue {
    events: Receiver,
    listeners: Mutex<HashMap<i32, Weak<Notify>>>,
}

/// The watch of one sync task; clones share it.
#[derive(Clone)]
pub(super) struct FolderWatch {
    queue: Option<Arc<InotifyQueue>>,
    changed: Arc<Notify>,
}

impl FolderWatcher {
    /// Creates a watch that reports changes in the folders added to it.
    pub(super) fn new_watch(&self) -> FolderWatch {
        let mut queue = sync::lock(&self.0);
        if queue.is_none() {
            match InotifyQueue::new() {
                Ok(new) => *queue = Some(Arc::new(new)),
                Err(error) => {
                    tracing::warn!(%error, "cannot watch files; polling them instead");
                }
            }
        }
        FolderWatch { queue: queue.clone(), changed: Arc::default() }
    }
}

impl InotifyQueue {
    fn new() -> io::Result<Self> {
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let events = Receiver::from_owned_fd_unchecked(queue)?;
        Ok(Self { events, listeners: Mutex::default() })
    }

    /// Reads events and wakes the affected listeners, for as long as the caller polls this future.
    async fn dispatch_events(&self) -> io::Result<()> {
        loop {
            self.events.readable().await?;
            let mut events = [0_u8; 4096];
            match self.events.try_read(&mut events) {
                Ok(read) => self.notify_listeners(&events[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn notify_listeners(&self, mut events: &[u8]) {
        let listeners = sync::lock(&self.listeners);
        while let Some((head, rest)) = events.split_at_checked(EVENT_HEADER_BYTES) {
            let word = |at: usize| head[at..at + 4].try_into().map_or(0, i32::from_ne_bytes);
            match listeners.get(&word(0)) {
                Some(listener) => listener.upgrade().iter().for_each(|one| one.notify_one()),
                // The queue overflowed: any folder may have changed.
                None => {
                    listeners.values().filter_map(Weak::upgrade).for_each(|one| one.notify_one());
                }
            }
            events = rest.get(usize::try_from(word(12)).unwrap_or(0)..).unwrap_or_default();
        }
    }
}

impl FolderWatch {
    /// Watches an open folder; adding it twice has no effect.
    pub(super) fn add(&self, folder: BorrowedFd<'_>) {
        let wanted = WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::ONLYDIR;
        let Some(queue) = &self.queue else { return };
        // Use the descriptor, so that no name can redirect the watch.
        let name = format!("/proc/self/fd/{}", folder.as_raw_fd());
        let mut listeners = sync::lock(&queue.listeners);
        match inotify::add_watch(&queue.events, name, wanted) {
            Ok(number) => {
                listeners.retain(|_, listener| listener.strong_count() > 0);
                listeners.insert(number, Arc::downgrade(&self.changed));
            }
            Err(error) => tracing::warn!(%error, "cannot watch a folder of documents"),
        }
    }

    /// Waits until a watched folder changes.
    pub(super) async fn changed(&self) {
        let Some(queue) = &self.queue else {
            return tokio::time::sleep(FALLBACK_POLL_INTERVAL).await;
        };
        tokio::select! {
            () = self.changed.notified() => {}
            Err(error) = queue.dispatch_events() => {
                tracing::error!(%error, "watching files failed");
                tokio::time::sleep(FALLBACK_POLL_INTERVAL).await;
            }
        }
    }
}
