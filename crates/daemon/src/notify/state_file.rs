//! The private folder of the notifications: a file per run with its plan and its progress, and the list of the newest
//! failures, which `doctor` shows.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_host::{Durability, write_atomically};
use agent_worker_kernel::NotifyPlan;
use agent_worker_protocol::{
    InstanceRef, Millis, NotifyChannel, NotifyFailure, NotifyFailures, Position, RunId, sync,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::home;

/// Number of times that a delivery to a channel is started, if its daemon is killed each time.
const MAX_STARTS: u32 = 2;
/// Maximum number of kept failures, and their maximum age.
const MAX_FAILURES: usize = 20;
const MAX_FAILURE_AGE: Duration = Duration::from_hours(7 * 24);

/// Notifications of a run: the plan, and the part of the run's log that was handled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NotifyState {
    pub(super) plan: NotifyPlan,
    /// Position of the last event that was handled.
    pub(super) after: Position,
    /// The delivery in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sending: Option<Sending>,
}

/// A delivery in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sending {
    /// Position of its event.
    pub(super) at: Position,
    /// Number of daemons that started the delivery to the first channel that is not reached.
    starts: u32,
    /// Channels that have it, or failed.
    pub(super) reached: Vec<NotifyChannel>,
}

/// Decision about the start of a delivery to a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeliveryStart {
    /// The channel gets the notification.
    Allowed,
    /// Too many daemons ended during this delivery.
    CutOff,
}

impl Sending {
    /// Creates a delivery that no daemon has started.
    pub(super) fn at(at: Position) -> Self {
        Self { at, starts: 0, reached: Vec::new() }
    }

    /// Counts a start of the delivery to the next channel.
    pub(super) fn start_channel(&mut self) -> DeliveryStart {
        self.starts += 1;
        match self.starts {
            ..=MAX_STARTS => DeliveryStart::Allowed,
            _ => DeliveryStart::CutOff,
        }
    }

    /// Records that a channel has the notification, or failed.
    pub(super) fn pass_channel(&mut self, channel: NotifyChannel) {
        self.reached.push(channel);
        self.starts = 0;
    }
}

/// The folder of the notifications.
#[derive(Clone, Debug)]
pub(crate) struct NotifyFolder {
    path: PathBuf,
    /// Held while the list of failures is changed.
    failures: Arc<Mutex<()>>,
}

impl NotifyFolder {
    /// Returns the folder of a home; the first run with notifications creates it.
    pub(crate) fn of_home(home: &Path) -> Self {
        Self { path: home.join("notify"), failures: Arc::default() }
    }

    /// Stores the plan of a run that does not exist yet.
    pub(crate) fn create(&self, run: RunId, plan: NotifyPlan) -> io::Result<()> {
        home::create_private_folder(&self.path)?;
        let state = NotifyState { plan, after: Position::default(), sending: None };
        write_atomically(&self.file(run), &serde_json::to_vec(&state)?, Durability::Machine)
    }

    /// Returns the runs with notifications.
    pub(super) fn runs(&self) -> Vec<RunId> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| name.strip_suffix(".json")?.parse().ok()).collect()
    }

    pub(super) fn load(&self, run: RunId) -> io::Result<NotifyState> {
        let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        serde_json::from_slice(&fs::read(self.file(run))?).map_err(damaged)
    }

    /// Saves the progress. It survives the end of the daemon; after a power failure, a notification may be repeated.
    pub(super) fn save(&self, run: RunId, state: &NotifyState) -> io::Result<()> {
        write_atomically(&self.file(run), &serde_json::to_vec(state)?, Durability::Process)
    }

    /// Removes the state of a run.
    pub(crate) fn remove(&self, run: RunId) {
        match fs::remove_file(self.file(run)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::error!(%run, %error, "could not remove the state of notifications");
            }
            Ok(()) | Err(_) => {}
        }
    }

    /// Adds a failure to the list; a newer one of the same channel replaces it.
    pub(super) fn keep_failure(
        &self,
        instance: &InstanceRef,
        channel: NotifyChannel,
        at: Millis,
        why: &str,
    ) {
        self.change_failures(|failures| {
            let max_age = i64::try_from(MAX_FAILURE_AGE.as_millis()).unwrap_or(i64::MAX);
            failures.retain(|one| !is_of(one, instance, channel));
            failures.retain(|one| at.get().saturating_sub(one.at.get()) < max_age);
            let (instance, why) = (instance.clone(), why.to_owned());
            failures.push(NotifyFailure { at, instance, channel, why });
            failures.drain(..failures.len().saturating_sub(MAX_FAILURES));
        });
    }

    /// Removes the failures of a channel that works again.
    pub(super) fn forget_failure(&self, instance: &InstanceRef, channel: NotifyChannel) {
        self.change_failures(|failures| failures.retain(|one| !is_of(one, instance, channel)));
    }

    fn change_failures(&self, change: impl FnOnce(&mut Vec<NotifyFailure>)) {
        let _held = sync::lock(&self.failures);
        let file = self.path.join(NotifyFailures::FILE);
        let text = fs::read(&file).unwrap_or_default();
        let mut list: NotifyFailures = serde_json::from_slice(&text).unwrap_or_default();
        let before = list.clone();
        change(&mut list.failures);
        if list == before {
            return;
        }
        let written = serde_json::to_vec(&list).map_err(io::Error::from);
        let written = written.and_then(|text| write_atomically(&file, &text, Durability::Process));
        if let Err(error) = written {
            tracing::error!(%error, "could not write the list of failed notifications");
        }
    }

    fn file(&self, run: RunId) -> PathBuf {
        self.path.join(format!("{run}.json"))
    }
}

fn is_of(failure: &NotifyFailure, instance: &InstanceRef, channel: NotifyChannel) -> bool {
    failure.instance == *instance && failure.channel == channel
}

/// New runs whose notifications must start.
#[derive(Clone, Debug, Default)]
pub(crate) struct NotifyQueue {
    runs: Arc<Mutex<Vec<RunId>>>,
    added: Arc<Notify>,
}

impl NotifyQueue {
    /// Adds a run.
    pub(crate) fn push(&self, run: RunId) {
        sync::lock(&self.runs).push(run);
        self.added.notify_one();
    }

    /// Waits for runs, for the only reader.
    pub(super) async fn next(&self) -> Vec<RunId> {
        loop {
            let runs = std::mem::take(&mut *sync::lock(&self.runs));
            if !runs.is_empty() {
                return runs;
            }
            self.added.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::NotifySettings;

    use super::*;

    #[test]
    fn the_progress_of_a_run_survives_and_a_foreign_file_is_no_run() {
        let home = tempfile::tempdir().unwrap();
        let folder = NotifyFolder::of_home(home.path());
        assert!(folder.runs().is_empty());
        let run = RunId::new(uuid::Uuid::now_v7());
        let plan = NotifyPlan {
            settings: NotifySettings::off(),
            env: [].into(),
            folder: home.path().to_owned(),
        };
        folder.create(run, plan).unwrap();
        fs::write(home.path().join("notify/failures.json"), "{").unwrap();
        assert_eq!(folder.runs(), [run]);
        let mut state = folder.load(run).unwrap();
        state.sending = Some(Sending::at(Position::new(4)));
        folder.save(run, &state).unwrap();
        assert_eq!(folder.load(run).unwrap(), state);
        folder.remove(run);
        assert!(folder.runs().is_empty());
    }

    #[test]
    fn the_starts_of_a_delivery_are_counted_for_each_channel() {
        let mut sending = Sending::at(Position::new(4));
        let mut starts = Vec::new();
        for _ in 0..=MAX_STARTS {
            starts.push(sending.start_channel());
        }
        assert_eq!(starts.pop(), Some(DeliveryStart::CutOff));
        assert!(starts.iter().all(|start| *start == DeliveryStart::Allowed), "{starts:?}");
        sending.pass_channel(NotifyChannel::Command);
        assert_eq!(sending.start_channel(), DeliveryStart::Allowed);
        assert_eq!(sending.reached, [NotifyChannel::Command]);
    }

    #[test]
    fn the_newest_failure_of_each_channel_is_kept_until_the_channel_works() {
        let home = tempfile::tempdir().unwrap();
        let folder = NotifyFolder::of_home(home.path());
        home::create_private_folder(&folder.path).unwrap();
        let read = || -> NotifyFailures {
            let text = fs::read(folder.path.join(NotifyFailures::FILE)).unwrap();
            serde_json::from_slice(&text).unwrap()
        };
        let review: InstanceRef = "review".parse().unwrap();
        let webhook = NotifyChannel::Webhook;
        folder.keep_failure(&review, webhook, Millis::new(1), "status 500");
        folder.keep_failure(&review, NotifyChannel::Command, Millis::new(2), "status 1");
        folder.keep_failure(&review, webhook, Millis::new(3), "status 502");
        let whys: Vec<_> = read().failures.into_iter().map(|one| one.why).collect();
        assert_eq!(whys, ["status 1", "status 502"]);
        folder.forget_failure(&review, webhook);
        assert_eq!(read().failures.len(), 1);
        for n in 0..2 * MAX_FAILURES {
            let other = format!("other-{n}").parse().unwrap();
            folder.keep_failure(&other, webhook, Millis::new(4), "x");
        }
        assert_eq!(read().failures.len(), MAX_FAILURES);
    }
}
