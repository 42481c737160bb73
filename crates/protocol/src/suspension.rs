//! Detects that a process did not run for a while: it was stopped (SIGSTOP), frozen, or its machine was suspended.
//!
//! A clock that measures other processes must not count that time. The owner of the clock observes it once per tick;
//! two observations that are much further apart than a tick have a suspension between them. Pure: elapsed times in.

use std::time::Duration;

const SHORTEST_TICK: Duration = Duration::from_millis(200);
const LONGEST_TICK: Duration = Duration::from_secs(10);

/// Finds gaps in the ticks of one clock.
#[derive(Clone, Copy, Debug)]
pub struct SuspensionDetector {
    tick: Duration,
    last: Duration,
}

impl SuspensionDetector {
    /// Creates a detector for a clock whose shortest limit is `limit`. Suspensions shorter than a fifth of it may go
    /// unnoticed.
    pub fn new(limit: Duration) -> Self {
        Self { tick: (limit / 10).clamp(SHORTEST_TICK, LONGEST_TICK), last: Duration::ZERO }
    }

    /// Returns the interval at which the owner must call [`SuspensionDetector::observe`].
    pub fn tick(&self) -> Duration {
        self.tick
    }

    /// Takes the time since the clock was started. Returns the length of a suspension that ended since the last call.
    pub fn observe(&mut self, elapsed: Duration) -> Option<Duration> {
        let gap = elapsed.saturating_sub(self.last);
        self.last = elapsed;
        (gap > self.tick * 2).then_some(gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_between_two_ticks_is_a_suspension_and_a_late_tick_is_not() {
        let secs = Duration::from_secs;
        let mut detector = SuspensionDetector::new(secs(60));
        assert_eq!(detector.tick(), secs(6));
        for (elapsed, expected) in
            [(6, None), (18, None), (31, Some(13)), (37, None), (3_637, Some(3_600)), (3_640, None)]
        {
            assert_eq!(detector.observe(secs(elapsed)), expected.map(secs), "{elapsed}");
        }
    }

    #[test]
    fn a_tick_follows_the_limit_within_bounds() {
        for (limit, tick) in [(0, 200), (1_000, 200), (30_000, 3_000), (3_600_000, 10_000)] {
            let detector = SuspensionDetector::new(Duration::from_millis(limit));
            assert_eq!(detector.tick(), Duration::from_millis(tick), "{limit}");
        }
    }
}
