//! Indexes messages for search in the background.
//!
//! A search finds all messages, indexed or not; it only takes longer the more messages are not indexed. Senders
//! therefore have priority: while messages arrive, nothing is indexed, unless very many are left.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use crate::kernel::Kernel;

/// Number of messages after which indexing starts.
const INDEX_THRESHOLD_MESSAGES: u32 = 512;
/// Interval of indexing when few messages arrive.
const INDEX_INTERVAL: Duration = Duration::from_mins(1);
/// Time without messages after which indexing may take a step.
const QUIET_PERIOD: Duration = Duration::from_millis(50);
/// Backlog above which indexing proceeds although messages arrive; a search scans this many messages in about ten
/// milliseconds.
const MAX_DEFERRED_MESSAGES: u32 = 50_000;
/// Number of messages of an instance per step: a writer waits for one step at most.
const INDEX_STEP_MESSAGES: u32 = 64;

/// Counts messages and wakes the indexing task.
#[derive(Clone, Default)]
pub(crate) struct Indexer {
    message_count: Arc<AtomicU32>,
    due: Arc<Notify>,
}

impl Indexer {
    /// Counts one more message.
    pub(crate) fn count_message(&self) {
        let before = self.message_count.fetch_add(1, Ordering::Relaxed);
        if before % INDEX_THRESHOLD_MESSAGES == INDEX_THRESHOLD_MESSAGES - 1 {
            self.due.notify_one();
        }
    }

    fn message_count(&self) -> u32 {
        self.message_count.load(Ordering::Relaxed)
    }
}

/// The backlog before a step.
#[derive(Clone, Copy)]
struct IndexBacklog {
    /// Number of messages since the last check.
    recent: u32,
    /// Number of messages since the index was complete.
    unindexed: u32,
}

/// The next action of the indexing task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexPace {
    /// Index a step at once.
    Step,
    /// Index a step after a quiet period's time.
    Slow,
    /// Check again after a quiet period's time.
    Wait,
}

impl IndexBacklog {
    fn next_pace(self) -> IndexPace {
        match self {
            Self { recent: 0, .. } => IndexPace::Step,
            Self { unindexed: MAX_DEFERRED_MESSAGES.., .. } => IndexPace::Slow,
            Self { .. } => IndexPace::Wait,
        }
    }
}

impl Kernel {
    /// Runs the indexing task until the daemon stops.
    pub(super) fn spawn_indexer(&self) {
        let kernel = self.clone();
        let closing = self.scheduler.closing.clone();
        self.scheduler.tracker.spawn(async move {
            closing.run_until_cancelled(kernel.index_loop()).await;
        });
    }

    async fn index_loop(&self) {
        let indexer = &self.scheduler.indexer;
        let mut ready = 0;
        loop {
            tokio::select! {
                () = indexer.due.notified() => {}
                () = tokio::time::sleep(INDEX_INTERVAL) => {}
            }
            if let Err(error) = self.index_pending(&mut ready).await {
                tracing::error!(%error, "could not index the messages for search");
            }
        }
    }

    /// Indexes step by step until the index is complete.
    async fn index_pending(&self, ready: &mut u32) -> Result<(), agent_worker_store::Error> {
        let indexer = &self.scheduler.indexer;
        let mut previous = indexer.message_count();
        tokio::time::sleep(QUIET_PERIOD).await;
        loop {
            let count = indexer.message_count();
            let (just_now, left) = (count.wrapping_sub(previous), count.wrapping_sub(*ready));
            previous = count;
            match (IndexBacklog { recent: just_now, unindexed: left }).next_pace() {
                IndexPace::Step => {}
                IndexPace::Slow => tokio::time::sleep(QUIET_PERIOD).await,
                IndexPace::Wait => {
                    tokio::time::sleep(QUIET_PERIOD).await;
                    continue;
                }
            }
            if !self.store.message_index(INDEX_STEP_MESSAGES).await? {
                *ready = count;
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexing_waits_for_new_messages_until_the_backlog_is_large() {
        for (just_now, left, expected) in [
            (0, 0, IndexPace::Step),
            (0, 10 * MAX_DEFERRED_MESSAGES, IndexPace::Step),
            (1, 1, IndexPace::Wait),
            (500, MAX_DEFERRED_MESSAGES - 1, IndexPace::Wait),
            (500, MAX_DEFERRED_MESSAGES, IndexPace::Slow),
            (1, u32::MAX, IndexPace::Slow),
        ] {
            let pace = IndexBacklog { recent: just_now, unindexed: left }.next_pace();
            assert_eq!(pace, expected, "{just_now} just now, {left} left");
        }
    }
}
