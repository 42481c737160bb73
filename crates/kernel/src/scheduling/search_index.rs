//! Making what was said ready to be searched, behind those who say it.
//!
//! A search finds everything before and after; it only takes longer the more is left to do here. So whoever speaks comes
//! first: as long as somebody does, nothing is made ready, unless very much is left.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use crate::kernel::Kernel;

/// After so many messages it is worth while.
const INDEX_THRESHOLD_MESSAGES: u32 = 512;
/// What was said by a few is looked after so often.
const INDEX_INTERVAL: Duration = Duration::from_mins(1);
/// When nobody said anything for so long, nobody is in a hurry to.
const QUIET_PERIOD: Duration = Duration::from_millis(50);
/// So many messages are looked through in about ten milliseconds. When more are left, those who speak have to wait for a
/// step now and then.
const MAX_DEFERRED_MESSAGES: u32 = 50_000;
/// So many messages of an instance are taken in one step: whoever writes meanwhile waits for one step, not for each.
const INDEX_STEP_MESSAGES: u32 = 64;

/// Counts what is said, and wakes whoever makes it ready.
#[derive(Clone, Default)]
pub(crate) struct Indexer {
    message_count: Arc<AtomicU32>,
    due: Arc<Notify>,
}

impl Indexer {
    /// One more message was said.
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

/// What is known before a step.
#[derive(Clone, Copy)]
struct IndexBacklog {
    /// So many messages were said since the last look.
    recent: u32,
    /// So many were said since all was ready.
    unindexed: u32,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexPace {
    /// A step at once.
    Step,
    /// A step, after a lull's time.
    Slow,
    /// Another look, after a lull's time.
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
    /// Does so for as long as the daemon lives.
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
                tracing::error!(%error, "what was said is not made ready to be searched");
            }
        }
    }

    /// Step by step, until all is ready.
    async fn index_pending(&self, ready: &mut u32) -> Result<(), agent_worker_store::Error> {
        let indexer = &self.scheduler.indexer;
        let mut heard = indexer.message_count();
        tokio::time::sleep(QUIET_PERIOD).await;
        loop {
            let said = indexer.message_count();
            let (just_now, left) = (said.wrapping_sub(heard), said.wrapping_sub(*ready));
            heard = said;
            match (IndexBacklog { recent: just_now, unindexed: left }).next_pace() {
                IndexPace::Step => {}
                IndexPace::Slow => tokio::time::sleep(QUIET_PERIOD).await,
                IndexPace::Wait => {
                    tokio::time::sleep(QUIET_PERIOD).await;
                    continue;
                }
            }
            if !self.store.message_index(INDEX_STEP_MESSAGES).await? {
                *ready = said;
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_speaks_comes_first_until_very_much_is_left() {
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
