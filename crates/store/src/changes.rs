//! Updates the state in memory after a COMMIT: wakes the tasks that wait for changes of an instance, without a
//! description of the change, and invalidates the cached values that may have changed.

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

/// A handle to the wake counters and the read caches. Clones share both.
#[derive(Clone, Default)]
pub(crate) struct ChangeNotifier {
    /// One counter for each instance that a task ever waited for. Counters start at 1, so that a new [`ChangeCursor`]
    /// is behind.
    counters: Arc<Mutex<HashMap<WorkflowId, watch::Sender<u64>>>>,
    pub(crate) tokens: ReadCache<Hash, Option<TokenView>>,
    pub(crate) instances: ReadCache<InstanceRef, Vec<Instance>>,
    pub(crate) run_blockers: ReadCache<RunId, RunBlockers>,
    pub(crate) proposals_due: ReadCache<WorkflowId, Option<StoreTime>>,
}

/// The changes of a write that are published after its COMMIT.
#[derive(Default)]
pub(crate) struct ChangeSet {
    /// The instances that changed.
    pub(crate) instances: BTreeSet<WorkflowId>,
    /// True if instances, runs or members of runs changed, not only messages.
    pub(crate) runs: bool,
    /// True if a token was created or revoked.
    pub(crate) tokens: bool,
}

impl ChangeSet {
    /// Adds the changes of another write.
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

    /// Invalidates the caches that the changes concern and wakes the waiting tasks.
    pub(crate) fn publish(&self, news: &ChangeSet) {
        if news.tokens {
            self.invalidate_tokens();
        }
        if news.runs {
            self.invalidate_runs();
        }
        let counters = self.counters();
        // An instance without a counter has no waiting task yet, and the first one reads the store anyway.
        for counter in news.instances.iter().filter_map(|workflow| counters.get(workflow)) {
            counter.send_modify(|count| *count += 1);
        }
    }

    /// Invalidates all caches and wakes every waiting task: any value in memory may be wrong.
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
