//! Presence of people: those who follow a run, for as long as they do. In memory only: after a restart of the
//! daemon, people are present once they connect again.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_protocol::{RunId, sync};
use tokio::{sync::watch, time::Instant};

/// Time after which a person who left a run is no longer counted as a witness of its end.
const DEPARTURE_GRACE: Duration = Duration::from_secs(2);

/// The number of people who follow each run.
#[derive(Clone)]
pub(crate) struct RunPresence {
    counts: Arc<Mutex<HashMap<RunId, usize>>>,
    /// The times at which the last person left a run, of the newest departures.
    departures: Arc<Mutex<HashMap<RunId, Instant>>>,
    changed: watch::Sender<()>,
}

/// The presence of one person, until dropped.
pub(crate) struct PresenceGuard {
    presence: RunPresence,
    run: RunId,
}

impl Default for RunPresence {
    fn default() -> Self {
        Self { counts: Arc::default(), departures: Arc::default(), changed: watch::channel(()).0 }
    }
}

impl RunPresence {
    /// Registers a person who follows a run.
    pub(crate) fn enter(&self, run: RunId) -> PresenceGuard {
        *self.lock_counts().entry(run).or_default() += 1;
        self.changed.send_replace(());
        PresenceGuard { presence: self.clone(), run }
    }

    /// Returns true if a person follows the run.
    pub(crate) fn is_present(&self, run: RunId) -> bool {
        self.lock_counts().contains_key(&run)
    }

    /// Returns true if a person follows the run, or did so a moment ago.
    pub(crate) fn was_present(&self, run: RunId) -> bool {
        let is_recent = |left: &Instant| left.elapsed() < DEPARTURE_GRACE;
        self.is_present(run) || sync::lock(&self.departures).get(&run).is_some_and(is_recent)
    }

    /// Returns a receiver that is notified of every later change of presence.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn lock_counts(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, usize>> {
        sync::lock(&self.counts)
    }
}

impl Drop for PresenceGuard {
    fn drop(&mut self) {
        let mut people = self.presence.lock_counts();
        match people.get_mut(&self.run) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => {
                people.remove(&self.run);
                let mut departures = sync::lock(&self.presence.departures);
                departures.retain(|_, left| left.elapsed() < DEPARTURE_GRACE);
                departures.insert(self.run, Instant::now());
            }
        }
        drop(people);
        self.presence.changed.send_replace(());
    }
}
