//! Reports that keys were pressed, without reading them.
//!
//! A thread waits for input, since the runtime cannot wait for a file that another part of the process owns. It waits only
//! on request, so unread input does not keep it busy, and it ends with the process.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::retry_on_intr,
    stdio::stdin,
};
use tokio::sync::Notify;

/// The requests to the thread and its reports.
pub(super) struct KeyWatcher {
    requests: SyncSender<()>,
    pressed: Arc<Notify>,
}

impl KeyWatcher {
    /// Starts the thread.
    pub(super) fn start() -> Self {
        let (requests, incoming) = sync_channel(1);
        let pressed = Arc::new(Notify::new());
        let report = Arc::clone(&pressed);
        thread::spawn(move || report_input(&incoming, &report));
        Self { requests, pressed }
    }

    /// Waits until there is input. Cancel safe; may return once more for input that was read meanwhile.
    pub(super) async fn wait(&self) {
        // A full channel already has a request.
        self.requests.try_send(()).ok();
        self.pressed.notified().await;
    }
}

fn report_input(requests: &Receiver<()>, pressed: &Notify) {
    while requests.recv().is_ok() {
        let input = stdin();
        if retry_on_intr(|| poll(&mut [PollFd::new(&input, PollFlags::IN)], None)).is_err() {
            return;
        }
        pressed.notify_one();
    }
}
