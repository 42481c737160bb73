//! What happens in memory after a COMMIT: whoever waits for news of an instance is told to look, never at what, and what
//! was known and may have changed is forgotten.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard},
};

use agent_worker_protocol::{Hash, InstanceRef, RunId, WorkflowId, api::TokenView, sync};
use tokio::sync::watch;

use crate::{
    model::{ChangeCursor, Instance, RunBlockers},
    read_cache::ReadCache,
    time::StoreTime,
};

/// A handle to whoever is to be told.
#[derive(Clone, Default)]
pub(crate) struct ChangeNotifier {
    /// One for each instance somebody ever waited for. They start at 1, so that a fresh [`Change`] is behind.
    counters: Arc<Mutex<HashMap<WorkflowId, watch::Sender<u64>>>>,
    pub(crate) tokens: ReadCache<Hash, Option<TokenView>>,
    pub(crate) instances: ReadCache<InstanceRef, Vec<Instance>>,
    pub(crate) run_blockers: ReadCache<RunId, RunBlockers>,
    pub(crate) proposals_due: ReadCache<WorkflowId, Option<StoreTime>>,
}

/// What a write changed of which somebody is to be told.
#[derive(Default)]
pub(crate) struct ChangeSet {
    /// Something about these instances.
    pub(crate) instances: BTreeSet<WorkflowId>,
    /// More than that something was said in one of them.
    pub(crate) runs: bool,
    /// A token was made or taken back.
    pub(crate) tokens: bool,
}

impl ChangeSet {
    /// Takes in what another write changed.
    pub(crate) fn merge(&mut self, mut other: Self) {
        self.instances.append(&mut other.instances);
        self.runs |= other.runs;
        self.tokens |= other.tokens;
    }
}

impl ChangeNotifier {
    /// Waits until `workflow` has changed more often than `seen`.
    pub(crate) async fn wait(&self, workflow: WorkflowId, seen: ChangeCursor) -> ChangeCursor {
        let mut counter = self.counters().entry(workflow).or_insert_with(new_counter).subscribe();
        let now = counter.wait_for(|now| *now > seen.0).await.map_or(seen.0, |now| *now);
        ChangeCursor(now)
    }

    /// Tells whoever it is for.
    pub(crate) fn publish(&self, news: &ChangeSet) {
        if news.tokens {
            self.invalidate_tokens();
        }
        if news.runs {
            self.invalidate_runs();
        }
        let counters = self.counters();
        // Without a counter nobody has waited yet, and whoever comes first looks anyway.
        for counter in news.instances.iter().filter_map(|workflow| counters.get(workflow)) {
            counter.send_modify(|count| *count += 1);
        }
    }

    /// Tells everybody: what they believe may be wrong.
    pub(crate) fn publish_all(&self) {
        self.invalidate_tokens();
        self.invalidate_runs();
        for counter in self.counters().values() {
            counter.send_modify(|count| *count += 1);
        }
    }

    fn invalidate_tokens(&self) {
        self.tokens.invalidate();
    }

    fn invalidate_runs(&self) {
        self.instances.invalidate();
        self.run_blockers.invalidate();
        self.proposals_due.invalidate();
    }

    fn counters(&self) -> MutexGuard<'_, HashMap<WorkflowId, watch::Sender<u64>>> {
        sync::lock(&self.counters)
    }
}

fn new_counter() -> watch::Sender<u64> {
    watch::Sender::new(1)
}
