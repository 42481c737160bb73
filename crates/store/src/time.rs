//! Store time: the clock of every deadline, and its relation to the wall clock.
//!
//! Store time never goes back and does not follow the wall clock. It moves forward once if a database of the same
//! store is ahead. No user or program can set it, so it is right for timers and wrong for display. The wall clock is
//! right for display and wrong for timers. Invariant: no value of one clock becomes a value of the other except
//! through [`Now`], which holds both clocks as they were at one instant. [`StoreTime`] can therefore be neither
//! serialized nor displayed.

use std::time::Duration;

use agent_worker_protocol::Millis;

/// An instant of the store's clock, in milliseconds. A new store's clock starts at the wall-clock time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreTime(i64);

impl StoreTime {
    /// An instant that is never reached.
    pub const NEVER: Self = Self(i64::MAX);

    /// Makes an instant from a count of milliseconds.
    pub const fn new(millis: i64) -> Self {
        Self(millis)
    }
    /// Returns the count of milliseconds.
    pub const fn get(self) -> i64 {
        self.0
    }
    /// Returns the instant `span` later.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(millis(span)))
    }
    /// Returns the instant `span` earlier.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(millis(span)))
    }
    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// The current time, read from both clocks at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Store time: for everything that is compared with a deadline.
    pub store: StoreTime,
    /// Wall-clock time: for display, and for comparison with file times.
    pub wall: Millis,
}

impl Now {
    /// Returns both clocks `span` later.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self { store: self.store.plus(span), wall: self.wall.plus(span) }
    }

    /// Returns the wall-clock time at which the store's clock will read `at`, unless the wall clock is set until
    /// then.
    pub fn wall_at(self, at: StoreTime) -> Millis {
        Millis::new(self.wall.get().saturating_add(at.0.saturating_sub(self.store.0)))
    }

    /// Returns the store time at which the wall clock will read `at`, unless it is set until then.
    pub fn store_at(self, at: Millis) -> StoreTime {
        StoreTime(self.store.0.saturating_add(at.get().saturating_sub(self.wall.get())))
    }

    /// Returns the milliseconds by which the wall clock was set between `earlier` and now: positive forward, negative
    /// back.
    pub fn wall_shift_since(self, earlier: Self) -> i64 {
        let offset = |now: Self| now.wall.get().saturating_sub(now.store.0);
        offset(self).saturating_sub(offset(earlier))
    }
}

fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(store: i64, wall: i64) -> Now {
        Now { store: StoreTime::new(store), wall: Millis::new(wall) }
    }

    #[test]
    fn a_deadline_keeps_its_distance_from_now_on_either_clock() {
        let now = now(1_000, 50_000);
        for (store, wall) in [(1_000, 50_000), (1_500, 50_500), (0, 49_000)] {
            assert_eq!(now.wall_at(StoreTime::new(store)), Millis::new(wall));
            assert_eq!(now.store_at(Millis::new(wall)), StoreTime::new(store));
        }
        assert_eq!(now.wall_at(StoreTime::NEVER), Millis::new(i64::MAX));
    }

    #[test]
    fn only_a_wall_clock_that_was_set_has_shifted() {
        for (earlier, later, shift) in [
            (now(0, 100), now(7, 107), 0),
            (now(0, 100), now(7, 3_600_107), 3_600_000),
            (now(0, 7_200_000), now(7, 3_600_007), -3_600_000),
        ] {
            assert_eq!(later.wall_shift_since(earlier), shift);
        }
    }
}
