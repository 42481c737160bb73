//! Detects that the wall clock was set, and reports it. Nothing is decided by it: deadlines follow the store's clock.

use std::sync::{Arc, Mutex};

use agent_worker_protocol::{ClockJumpedData, EventBody, Span, sync};
use agent_worker_store::{Error as StoreError, Now, RunQuery};

use crate::{error::Result, kernel::Kernel};

/// A smaller difference between two samples is drift, which time synchronisation corrects all the time.
const JUMP_MILLIS: u64 = 2_000;

/// The last sample of the two clocks.
#[derive(Clone, Default)]
pub(crate) struct WallClockWatch(Arc<Mutex<Option<Now>>>);

impl WallClockWatch {
    /// Continues from the sample of an earlier process, so that a jump while no daemon ran is detected too.
    pub(crate) fn from(saved: Option<Now>) -> Self {
        Self(Arc::new(Mutex::new(saved)))
    }

    /// Takes a sample; returns by how many milliseconds the wall clock jumped since the last one, if it did.
    fn sample(&self, now: Now) -> Option<i64> {
        let last = sync::lock(&self.0).replace(now)?;
        let shift = now.wall_shift_since(last);
        (shift.unsigned_abs() > JUMP_MILLIS).then_some(shift)
    }
}

impl Kernel {
    /// Reports a jump of the wall clock since the last call: in the log, and as an event of every live run.
    pub(crate) async fn report_clock_jump(&self, now: Now) -> Result<()> {
        let Some(shift) = self.wall_clock.sample(now) else { return Ok(()) };
        let cause = describe(shift);
        tracing::warn!(by_ms = shift, "{cause}");
        let body = EventBody::ClockJumped(ClockJumpedData { by_ms: shift });
        for run in self.store.run_list(RunQuery::Live).await? {
            let (body, cause) = (body.clone(), Some(cause.clone()));
            match self.store.event_append(run.id, body, cause, now).await {
                // The run ended meanwhile.
                Ok(()) | Err(StoreError::NoRun | StoreError::NotFound(_)) => {}
                Err(error) => tracing::error!(run = %run.id, %error, "storing an event failed"),
            }
        }
        Ok(())
    }
}

/// Describes the jump of the wall clock, to the second.
fn describe(shift: i64) -> String {
    let direction = if shift < 0 { "back" } else { "forward" };
    let span = Span::from_secs((shift.unsigned_abs() + 500) / 1_000);
    format!("the wall clock was set {direction} by {span}; timers are not affected")
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::Millis;
    use agent_worker_store::StoreTime;

    use super::*;

    #[test]
    fn a_jump_is_more_than_two_seconds_between_two_samples() {
        let watch = WallClockWatch::default();
        for (store, wall, jump) in [
            (0, 50_000, None),
            (5_000, 55_000, None),
            (10_000, 62_000, None),
            // Drift does not add up.
            (15_000, 69_000, None),
            (20_000, 76_001, Some(2_001)),
            (25_000, 81_001, None),
            (25_000, 21_001, Some(-60_000)),
            // The machine was suspended: both clocks advanced.
            (90_000, 86_001, None),
        ] {
            let now = Now { store: StoreTime::new(store), wall: Millis::new(wall) };
            assert_eq!(watch.sample(now), jump, "{now:?}");
        }
    }

    #[test]
    fn a_jump_is_described_by_its_direction_and_size() {
        for (shift, expected) in [(-3_600_400, "back by 1h"), (172_800_000, "forward by 2d")] {
            let found = describe(shift);
            assert!(found.contains(expected), "{found}");
        }
    }
}
