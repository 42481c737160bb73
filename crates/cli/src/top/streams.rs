//! The events that wake the full screen: one stream for each run, and the folder in which the daemon creates those of new
//! runs. Nothing is polled.

use std::{collections::HashMap, fs::File, future::pending, io, os::fd::AsFd as _, path::Path};

use agent_worker_host::FolderQueue;
use agent_worker_protocol::{Position, RunId};
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    task::{AbortHandle, JoinSet},
};

use crate::{
    client::daemon_client::{DaemonClient, FeedSource},
    error::CliError,
    input::settings::CliSettings,
    live::feed::{FeedUpdate, ReconnectingFeed},
};

/// Number of updates read ahead of the screen.
const UPDATE_BUFFER_CAPACITY: usize = 64;

/// The next change of a run.
pub(super) struct RunUpdate {
    pub(super) run: RunId,
    pub(super) update: Result<FeedUpdate, CliError>,
}

/// The streams of the runs on the screen.
pub(super) struct RunStreams {
    sender: Sender<RunUpdate>,
    updates: Receiver<RunUpdate>,
    tasks: JoinSet<()>,
    by_run: HashMap<RunId, AbortHandle>,
    new_runs: NewRunWatch,
}

/// The folder of the runs. Without a queue the events of the known runs are the only wake.
struct NewRunWatch(Option<FolderQueue>);

impl RunStreams {
    /// Starts to watch for new runs.
    pub(super) fn new(home: &Path) -> Self {
        let (sender, updates) = mpsc::channel(UPDATE_BUFFER_CAPACITY);
        let new_runs = NewRunWatch::new(&home.join("runs"));
        Self { sender, updates, tasks: JoinSet::new(), by_run: HashMap::new(), new_runs }
    }

    /// Returns whether the events of a run are read.
    pub(super) fn contains(&self, run: RunId) -> bool {
        self.by_run.contains_key(&run)
    }

    /// Reads the events of a run after a position.
    pub(super) fn add(
        &mut self,
        run: RunId,
        after: Position,
        client: DaemonClient,
        settings: CliSettings,
    ) {
        let after = Some(after.to_string());
        let feed = ReconnectingFeed::open(client, settings, FeedSource::Run(run), after);
        let task = self.tasks.spawn(forward(run, feed, self.sender.clone()));
        self.by_run.insert(run, task);
    }

    /// Stops reading the events of all runs but these.
    pub(super) fn retain(&mut self, is_shown: impl Fn(RunId) -> bool) {
        self.by_run.retain(|run, task| {
            let is_kept = is_shown(*run);
            if !is_kept {
                task.abort();
            }
            is_kept
        });
        while self.tasks.try_join_next().is_some() {}
    }

    /// Waits for the next update of a run; none for a run that may be new. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<RunUpdate> {
        tokio::select! {
            update = self.updates.recv() => update,
            () = self.new_runs.wait_for_change() => None,
        }
    }
}

async fn forward(run: RunId, mut feed: ReconnectingFeed, sender: Sender<RunUpdate>) {
    loop {
        let update = feed.next().await;
        let is_last = matches!(update, Ok(FeedUpdate::End) | Err(_));
        if sender.send(RunUpdate { run, update }).await.is_err() || is_last {
            return;
        }
    }
}

impl NewRunWatch {
    fn new(folder: &Path) -> Self {
        let watch = || -> io::Result<FolderQueue> {
            let queue = FolderQueue::new()?;
            queue.add(File::open(folder)?.as_fd())?;
            Ok(queue)
        };
        Self(watch().ok())
    }

    /// Waits until an entry of the folder changes. Cancel safe.
    async fn wait_for_change(&mut self) {
        let Some(queue) = &self.0 else { return pending().await };
        if queue.read_changes().await.is_err() {
            self.0 = None;
        }
    }
}
