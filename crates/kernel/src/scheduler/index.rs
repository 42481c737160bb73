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
const WORTH_WHILE: u32 = 512;
/// What was said by a few is looked after so often.
const SELDOM: Duration = Duration::from_mins(1);
/// When nobody said anything for so long, nobody is in a hurry to.
const LULL: Duration = Duration::from_millis(50);
/// So many messages are looked through in about ten milliseconds. When more are left, those who speak have to wait for a
/// step now and then.
const MUCH: u32 = 50_000;
/// So many messages of an instance are taken in one step: whoever writes meanwhile waits for one step, not for each.
const STEP: u32 = 64;

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

    fn said(&self) -> u32 {
        self.said.load(Ordering::Relaxed)
    }
}

/// What is known before a step.
#[derive(Clone, Copy)]
struct Talk {
    /// So many messages were said since the last look.
    just_now: u32,
    /// So many were said since all was ready.
    left: u32,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// A step at once.
    Step,
    /// A step, after a lull's time.
    Slow,
    /// Another look, after a lull's time.
    Wait,
}

impl Talk {
    fn pace(self) -> Pace {
        match self {
            Self { just_now: 0, .. } => Pace::Step,
            Self { left: MUCH.., .. } => Pace::Slow,
            Self { .. } => Pace::Wait,
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
        let indexer = &self.scheduler.indexer;
        let mut ready = 0;
        loop {
            tokio::select! {
                () = indexer.due.notified() => {}
                () = tokio::time::sleep(SELDOM) => {}
            }
            if let Err(error) = self.index_all(&mut ready).await {
                tracing::error!(%error, "what was said is not made ready to be searched");
            }
        }
    }

    /// Step by step, until all is ready.
    async fn index_all(&self, ready: &mut u32) -> Result<(), agent_worker_store::Error> {
        let indexer = &self.scheduler.indexer;
        let mut heard = indexer.said();
        tokio::time::sleep(LULL).await;
        loop {
            let said = indexer.said();
            let (just_now, left) = (said.wrapping_sub(heard), said.wrapping_sub(*ready));
            heard = said;
            match (Talk { just_now, left }).pace() {
                Pace::Step => {}
                Pace::Slow => tokio::time::sleep(LULL).await,
                Pace::Wait => {
                    tokio::time::sleep(LULL).await;
                    continue;
                }
            }
            if !self.store.message_index(STEP).await? {
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
            (0, 0, Pace::Step),
            (0, 10 * MUCH, Pace::Step),
            (1, 1, Pace::Wait),
            (500, MUCH - 1, Pace::Wait),
            (500, MUCH, Pace::Slow),
            (1, u32::MAX, Pace::Slow),
        ] {
            let pace = Talk { just_now, left }.pace();
            assert_eq!(pace, expected, "{just_now} just now, {left} left");
        }
    }
}
