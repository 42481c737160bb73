//! The daemon's own limits on a worker, which expire somewhat later than the worker's. Pure: instants in, verdict out.
//!
//! Time in which the daemon itself did not run does not count: it could receive nothing then.

use std::time::Duration;

use agent_worker_protocol::{JobLimits, SuspensionDetector};
use tokio::time::Instant;

/// Time by which the daemon's limits exceed the worker's own limits.
const WATCHDOG_MARGIN: Duration = Duration::from_secs(30);

/// The limits on one worker.
#[derive(Debug)]
pub(super) struct WorkerWatchdog {
    limits: JobLimits,
    started: Instant,
    detector: SuspensionDetector,
    suspended: Duration,
    resumed: Instant,
}

/// Signs of life that a worker has given.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LifeSigns {
    /// The last time the worker posted anything to this daemon.
    pub(super) last_report: Option<Instant>,
    /// Total time that the worker has waited for people.
    pub(super) human_wait_time: Duration,
}

impl WorkerWatchdog {
    /// Creates the watchdog of a worker that is watched from `now` on.
    pub(super) fn new(limits: JobLimits, now: Instant) -> Self {
        let shortest = limits.silence.duration().min(limits.wall.duration());
        let detector = SuspensionDetector::new(shortest);
        Self { limits, started: now, detector, suspended: Duration::ZERO, resumed: now }
    }

    /// Returns true if the daemon was suspended while it watched this worker.
    pub(super) fn was_suspended(&self) -> bool {
        !self.suspended.is_zero()
    }

    /// Records whether the daemon was suspended since the last call.
    pub(super) fn observe(&mut self, now: Instant) {
        if let Some(gap) = self.detector.observe(now - self.started) {
            self.suspended += gap;
            self.resumed = now;
        }
    }

    /// Returns the reason to end the worker now, or the time of the next check.
    pub(super) fn check(&mut self, signs: LifeSigns, now: Instant) -> Result<Instant, String> {
        self.observe(now);
        let JobLimits { wall, silence, kill_grace, .. } = self.limits;
        let lateness = WATCHDOG_MARGIN + kill_grace.duration();
        let end =
            self.started + wall.duration() + lateness + signs.human_wait_time + self.suspended;
        if now >= end {
            return Err(format!("the worker ran longer than {wall} and did not exit"));
        }
        let last_sign = signs.last_report.unwrap_or(self.started).max(self.resumed);
        let quiet = last_sign + silence.duration() + lateness;
        if now >= quiet {
            return Err(format!("the worker reported nothing for {silence}"));
        }
        Ok(end.min(quiet).min(now + self.detector.tick()))
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::Span;

    use super::*;

    const LIMITS: JobLimits = JobLimits {
        wall: Span::from_secs(600),
        silence: Span::from_secs(100),
        orphan_grace: Span::from_secs(60),
        kill_grace: Span::from_secs(10),
        spend: agent_worker_protocol::SpendLimits::NONE,
    };

    /// Checks every ten seconds from second `from` to second `to`; returns the first verdict and its second.
    fn check_every_ten_seconds(
        watchdog: &mut WorkerWatchdog,
        signs: LifeSigns,
        seconds: std::ops::RangeInclusive<u64>,
    ) -> Option<(u64, String)> {
        let started = watchdog.started;
        seconds.step_by(10).find_map(|second| {
            let now = started + Duration::from_secs(second);
            watchdog.check(signs, now).err().map(|why| (second, why))
        })
    }

    #[test]
    fn silence_and_wall_time_end_a_worker_after_its_own_clocks() {
        let started = Instant::now();
        let mut watchdog = WorkerWatchdog::new(LIMITS, started);
        let silent = check_every_ten_seconds(&mut watchdog, LifeSigns::default(), 0..=600);
        assert_eq!(silent, Some((140, "the worker reported nothing for 100s".to_owned())));
        let mut watchdog = WorkerWatchdog::new(LIMITS, started);
        let last_sign = Some(started + Duration::from_mins(10));
        let long = check_every_ten_seconds(
            &mut watchdog,
            LifeSigns { last_report: last_sign, ..LifeSigns::default() },
            0..=800,
        );
        let why = "the worker ran longer than 10m and did not exit".to_owned();
        assert_eq!(long, Some((640, why)));
        let mut watchdog = WorkerWatchdog::new(LIMITS, started);
        let held = Duration::from_secs(50);
        let waited = check_every_ten_seconds(
            &mut watchdog,
            LifeSigns { last_report: last_sign, human_wait_time: held },
            0..=800,
        );
        assert_eq!(waited.map(|(second, _)| second), Some(690));
        assert!(!watchdog.was_suspended());
    }

    #[test]
    fn time_in_which_the_daemon_did_not_run_does_not_count() {
        let started = Instant::now();
        let mut watchdog = WorkerWatchdog::new(LIMITS, started);
        assert_eq!(check_every_ten_seconds(&mut watchdog, LifeSigns::default(), 0..=60), None);
        // Stopped for an hour: the silence limit starts again, the wall limit is moved.
        let silent = check_every_ten_seconds(&mut watchdog, LifeSigns::default(), 3_660..=4_600);
        assert_eq!(silent.map(|(second, _)| second), Some(3_660 + 140));
        assert!(watchdog.was_suspended());
        let mut watchdog = WorkerWatchdog::new(LIMITS, started);
        let last_sign = Some(started + Duration::from_mins(150));
        let signs = LifeSigns { last_report: last_sign, ..LifeSigns::default() };
        assert_eq!(check_every_ten_seconds(&mut watchdog, signs, 0..=60), None);
        let long = check_every_ten_seconds(&mut watchdog, signs, 3_660..=9_000);
        assert_eq!(long.map(|(second, _)| second), Some(640 + 3_600));
    }
}
