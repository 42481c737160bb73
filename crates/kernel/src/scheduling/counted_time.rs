//! The time that counts for the wall limit of a run, without the time in which no daemon ran.
//!
//! One rule for every mode and state, also for the setup: time does not count while the machine or the daemon is
//! suspended, while the daemon is held, and in an absence of the daemon that is longer than [`LONGEST_COUNTED_ABSENCE`].
//! The store's clock includes all of these, so this module takes them out.

use std::time::Duration;

use agent_worker_protocol::{PauseCause, RunId, RunMode};
use agent_worker_store::{Now, RunClockSwitch, RunRow, RunStep, StoreTime};

use crate::{error::Result, kernel::Kernel};

/// Longest absence of the daemon that counts. A longer one also interrupts a `run`.
pub(super) const LONGEST_COUNTED_ABSENCE: Duration = Duration::from_mins(10);
/// Longest gap between two polls that a busy machine may cause.
const LONGEST_DELAY: Duration = Duration::from_secs(20);

/// Finds gaps between the polls of one run: the daemon was suspended in them.
pub(super) struct PollGaps {
    longest: Duration,
    last: StoreTime,
}

impl PollGaps {
    /// Starts to observe polls that are at most `interval` apart.
    pub(super) fn new(interval: Duration, now: StoreTime) -> Self {
        Self { longest: (interval * 2).max(LONGEST_DELAY), last: now }
    }

    /// Takes the time of a poll. Returns the start of a suspension since the last poll, if there was one.
    pub(super) fn observe(&mut self, now: StoreTime) -> Option<StoreTime> {
        let last = std::mem::replace(&mut self.last, now);
        (now.since(last) > self.longest).then_some(last)
    }
}

impl Kernel {
    /// Starts to observe the polls of a run.
    pub(super) fn poll_gaps(&self) -> PollGaps {
        PollGaps::new(self.scheduler.options.sweep_interval.duration(), self.now().store)
    }

    /// Takes the time from `from` until now out of the time of a run.
    pub(super) async fn skip_time(&self, run: RunId, from: StoreTime, now: Now) -> Result<()> {
        let stopped = Now { store: from, ..now };
        self.store.run_clock_switch(run, RunClockSwitch::Stop, stopped).await?;
        self.store.run_clock_switch(run, RunClockSwitch::Start, now).await?;
        Ok(())
    }

    /// Takes an absence of the daemon since `last` out of the time of a run, and interrupts a `run` that worked.
    pub(super) async fn skip_absence(
        &self,
        run: &RunRow,
        last: Option<StoreTime>,
        now: Now,
    ) -> Result<()> {
        let Some(last) = last else { return Ok(()) };
        let stopped = Now { store: last, ..now };
        if self.scheduler.hold.was_held_at_start() {
            // The end of the hold starts the time again, and no run is interrupted: its user wanted the absence.
            return Ok(self.store.run_clock_switch(run.id, RunClockSwitch::Stop, stopped).await?);
        }
        if now.store.since(last) <= LONGEST_COUNTED_ABSENCE {
            return Ok(());
        }
        if run.mode == RunMode::Run && run.state.wakes_agents() {
            let decide = Box::new(|_: &_| RunStep::Pause(PauseCause::Interrupted));
            self.store.run_settle(run.id, decide, stopped).await?;
            return Ok(());
        }
        self.skip_time(run.id, last, now).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_that_no_busy_machine_causes_is_a_suspension() {
        for (interval, at, expected) in [
            (5, &[5, 10, 30][..], &[None, None, None][..]),
            (5, &[5, 26], &[None, Some(5)]),
            (5, &[3_600, 3_605], &[Some(0), None]),
            (60, &[60, 180, 301], &[None, None, Some(180)]),
        ] {
            let time = |second: i64| StoreTime::new(second * 1_000);
            let mut gaps = PollGaps::new(Duration::from_secs(interval), time(0));
            let found: Vec<_> = at.iter().map(|at| gaps.observe(time(*at))).collect();
            let expected: Vec<_> = expected.iter().map(|start| start.map(time)).collect();
            assert_eq!(found, expected, "every {interval} s at {at:?}");
        }
    }
}
