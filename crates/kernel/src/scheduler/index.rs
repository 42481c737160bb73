//! Making what was said ready to be searched, behind those who say it.
//!
//! A search finds everything before and after; it only takes longer the more is left to do here.

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
const WORTH_WHILE: u32 = 512;
/// What was said by a few is looked after so often.
const SELDOM: Duration = Duration::from_mins(1);
/// So many messages of an instance are taken in one step, with a rest after each: whoever writes meanwhile waits for one
/// step, and not for each.
const STEP: u32 = 128;
const REST: Duration = Duration::from_millis(20);

/// Counts what is said, and wakes whoever makes it ready.
#[derive(Clone, Default)]
pub(crate) struct Indexer {
    said: Arc<AtomicU32>,
    due: Arc<Notify>,
}

impl Indexer {
    /// One more message was said.
    pub(crate) fn heard(&self) {
        let before = self.said.fetch_add(1, Ordering::Relaxed);
        if before % WORTH_WHILE == WORTH_WHILE - 1 {
            self.due.notify_one();
        }
    }
}

impl Kernel {
    /// Does so for as long as the daemon lives.
    pub(super) fn index(&self) {
        let kernel = self.clone();
        let closing = self.scheduler.closing.clone();
        self.scheduler.tracker.spawn(async move {
            closing.run_until_cancelled(kernel.index_on()).await;
        });
    }

    async fn index_on(&self) {
        loop {
            tokio::select! {
                () = self.scheduler.indexer.due.notified() => {}
                () = tokio::time::sleep(SELDOM) => {}
            }
            loop {
                match self.store.message_index(STEP).await {
                    Ok(true) => tokio::time::sleep(REST).await,
                    Ok(false) => break,
                    Err(error) => {
                        tracing::error!(%error, "what was said is not made ready to be searched");
                        break;
                    }
                }
            }
        }
    }
}
