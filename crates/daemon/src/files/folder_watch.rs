//! Notifies of changes in a folder, without the kind of change. All folders share one queue: a user has few of
//! them.

use std::{
    collections::HashMap,
    io,
    os::fd::BorrowedFd,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use agent_worker_host::{FolderChange, FolderQueue};
use agent_worker_protocol::sync;
use tokio::sync::Notify;

/// Poll interval if folders cannot be watched.
const FALLBACK_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The queue of this daemon, created with the first watch; clones share it.
#[derive(Clone, Default)]
pub(crate) struct FolderWatcher(Arc<Mutex<Option<Arc<WatchedFolders>>>>);

/// One queue, read by the tasks that wait for changes.
struct WatchedFolders {
    queue: FolderQueue,
    listeners: Mutex<HashMap<i32, Weak<Notify>>>,
}

/// The watch of one sync task; clones share it.
#[derive(Clone)]
pub(super) struct FolderWatch {
    folders: Option<Arc<WatchedFolders>>,
    changed: Arc<Notify>,
}

impl FolderWatcher {
    /// Creates a watch that reports changes in the folders added to it.
    pub(super) fn new_watch(&self) -> FolderWatch {
        let mut folders = sync::lock(&self.0);
        if folders.is_none() {
            match FolderQueue::new() {
                Ok(queue) => {
                    *folders =
                        Some(Arc::new(WatchedFolders { queue, listeners: Mutex::default() }));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot watch files; polling them instead");
                }
            }
        }
        FolderWatch { folders: folders.clone(), changed: Arc::default() }
    }
}

impl WatchedFolders {
    /// Reads changes and wakes the affected listeners, for as long as the caller polls this future.
    async fn dispatch_changes(&self) -> io::Result<()> {
        loop {
            let changes = self.queue.read_changes().await?;
            let listeners = sync::lock(&self.listeners);
            for change in changes {
                let listener = match change {
                    FolderChange::Folder(number) => listeners.get(&number),
                    FolderChange::Any => None,
                };
                match listener {
                    Some(listener) => listener.upgrade().iter().for_each(|one| one.notify_one()),
                    None => listeners
                        .values()
                        .filter_map(Weak::upgrade)
                        .for_each(|one| one.notify_one()),
                }
            }
        }
    }
}

impl FolderWatch {
    /// Watches an open folder; adding it twice has no effect.
    pub(super) fn add(&self, folder: BorrowedFd<'_>) {
        let Some(WatchedFolders { queue, listeners }) = self.folders.as_deref() else { return };
        let mut listeners = sync::lock(listeners);
        match queue.add(folder) {
            Ok(number) => {
                listeners.retain(|_, listener| listener.strong_count() > 0);
                listeners.insert(number, Arc::downgrade(&self.changed));
                queue.retain(|number| listeners.contains_key(&number));
            }
            Err(error) => tracing::warn!(%error, "cannot watch a folder of documents"),
        }
    }

    /// Waits until a watched folder changes, or may have changed without a report.
    pub(super) async fn changed(&self) {
        let Some(folders) = &self.folders else {
            return tokio::time::sleep(FALLBACK_POLL_INTERVAL).await;
        };
        let unreported = async {
            match FolderQueue::POLL_INTERVAL {
                Some(interval) => tokio::time::sleep(interval).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.changed.notified() => {}
            () = unreported => {}
            Err(error) = folders.dispatch_changes() => {
                tracing::error!(%error, "watching files failed");
                tokio::time::sleep(FALLBACK_POLL_INTERVAL).await;
            }
        }
    }
}
