//! Who waits for news of which instance. A hint, kept in memory: it says "look", never at what.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use agent_worker_protocol::WorkflowId;
use tokio::sync::watch;

use crate::model::Change;

/// One counter for each instance somebody ever waited for. They start at 1, so that a fresh [`Change`] is behind.
#[derive(Clone, Default)]
pub(super) struct Changes(Arc<Mutex<HashMap<WorkflowId, watch::Sender<u64>>>>);

impl Changes {
    /// Waits until `workflow` has changed more often than `seen`.
    pub(super) async fn wait(&self, workflow: WorkflowId, seen: Change) -> Change {
        let mut counter = self.counters().entry(workflow).or_insert_with(first).subscribe();
        let now = counter.wait_for(|now| *now > seen.0).await.map_or(seen.0, |now| *now);
        Change(now)
    }

    /// Tells whoever waits for one of these.
    pub(super) fn tell(&self, touched: impl IntoIterator<Item = WorkflowId>) {
        let counters = self.counters();
        // Without a counter nobody has waited yet, and whoever comes first looks anyway.
        for counter in touched.into_iter().filter_map(|workflow| counters.get(&workflow)) {
            counter.send_modify(|count| *count += 1);
        }
    }

    /// Tells everybody: what they believe may be wrong.
    pub(super) fn tell_all(&self) {
        for counter in self.counters().values() {
            counter.send_modify(|count| *count += 1);
        }
    }

    fn counters(&self) -> MutexGuard<'_, HashMap<WorkflowId, watch::Sender<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn first() -> watch::Sender<u64> {
    watch::Sender::new(1)
}
