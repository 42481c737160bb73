//! Presence of people: those who follow a run, for as long as they do. In memory only: after a restart of the
//! daemon, people are present once they connect again.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use agent_worker_protocol::{RunId, sync};
use tokio::sync::watch;

/// The number of people who follow each run.
#[derive(Clone)]
pub(crate) struct RunPresence {
    counts: Arc<Mutex<HashMap<RunId, usize>>>,
    changed: watch::Sender<()>,
}

/// The presence of one person, until dropped.
pub(crate) struct PresenceGuard {
    presence: RunPresence,
    run: RunId,
}

impl Default for RunPresence {
    fn default() -> Self {
        Self { counts: Arc::default(), changed: watch::channel(()).0 }
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
            }
        }
        drop(people);
        self.presence.changed.send_replace(());
    }
}
