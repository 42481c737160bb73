//! Tells that something stirred in a folder, never what. All folders share one queue: a user has few of them.

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

/// Where nothing can be watched, a look follows so long after the last.
const FALLBACK_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// Of an event, what comes before its name: which folder, what, a cookie, the length of the name.
const EVENT_HEADER_BYTES: usize = 16;

/// The queue of this daemon, made when the first folder is watched. Cloning it is cheap.
#[derive(Clone, Default)]
pub(crate) struct FolderWatcher(Arc<Mutex<Option<Arc<InotifyQueue>>>>);

/// One inotify queue, read as a pipe is, by whoever waits.
struct InotifyQueue {
    events: Receiver,
    listeners: Mutex<HashMap<i32, Weak<Notify>>>,
}

/// What one keeper hears. Cloning it is cheap.
#[derive(Clone)]
pub(super) struct FolderWatch {
    queue: Option<Arc<InotifyQueue>>,
    changed: Arc<Notify>,
}

impl FolderWatcher {
    /// Something that hears of the folders added to it.
    pub(super) fn new_watch(&self) -> FolderWatch {
        let mut queue = sync::lock(&self.0);
        if queue.is_none() {
            match InotifyQueue::new() {
                Ok(new) => *queue = Some(Arc::new(new)),
                Err(error) => {
                    tracing::warn!(%error, "files cannot be watched; they are looked at now and then");
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

    /// Reads what is there and wakes whom it concerns, for as long as somebody waits here.
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
                // The queue ran over: it may have been anybody.
                None => {
                    listeners.values().filter_map(Weak::upgrade).for_each(|one| one.notify_one());
                }
            }
            events = rest.get(usize::try_from(word(12)).unwrap_or(0)..).unwrap_or_default();
        }
    }
}

impl FolderWatch {
    /// Watches an open folder; a second time changes nothing.
    pub(super) fn add(&self, folder: BorrowedFd<'_>) {
        let wanted = WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::ONLYDIR;
        let Some(queue) = &self.queue else { return };
        // By its descriptor, so that no name can lead elsewhere.
        let name = format!("/proc/self/fd/{}", folder.as_raw_fd());
        let mut listeners = sync::lock(&queue.listeners);
        match inotify::add_watch(&queue.events, name, wanted) {
            Ok(number) => {
                listeners.retain(|_, listener| listener.strong_count() > 0);
                listeners.insert(number, Arc::downgrade(&self.changed));
            }
            Err(error) => tracing::warn!(%error, "a folder of documents cannot be watched"),
        }
    }

    /// Waits until something stirs.
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
