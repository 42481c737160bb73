//! The store's clock: a saved anchor, and the boot time since then: `CLOCK_BOOTTIME`, on macOS
//! `CLOCK_MONOTONIC_RAW`.
//!
//! Invariant: store time never goes back. Every commit saves the anchor with the rows it dates, so a process that opens
//! the database later continues at or after every instant that is stored. Within one boot of the machine the clock
//! continues exactly, also while no process has the database open. After a reboot it continues by the difference of the
//! wall clocks, at least 0.

mod boot_clock;

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use agent_worker_protocol::Millis;

use crate::{
    db::{self, Connection, OptionalExtension, params},
    error::Result,
    time::{Now, StoreTime},
};

/// A handle to the clock that all databases of a store share.
#[derive(Clone)]
pub(crate) struct StoreClock(Arc<StoreClockState>);

struct StoreClockState {
    boot: Option<String>,
    /// Store time minus boot time. The offset only grows: when another database of the store is ahead.
    offset: AtomicI64,
    /// Wall-clock time minus store time, in whole milliseconds. It changes only when the wall clock is set, so that
    /// every call shows a deadline as the same time.
    wall_offset: AtomicI64,
    /// Both clocks as the previous process last saved them.
    saved: Option<Now>,
}

/// The saved clock readings that a database's clock continues from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClockAnchor {
    boot: Option<String>,
    boottime: i64,
    at: Now,
}

/// The machine's clocks at one instant, in microseconds.
#[derive(Clone, Copy, Debug)]
struct ClockReading<'a> {
    boot: Option<&'a str>,
    boottime_us: i64,
    wall_us: i64,
}

impl ClockReading<'_> {
    fn boottime(&self) -> i64 {
        self.boottime_us.div_euclid(1_000)
    }

    fn wall(&self) -> Millis {
        Millis::new(self.wall_us.div_euclid(1_000))
    }
}

impl StoreClock {
    /// Starts the clock from the anchor that is saved in `db`.
    pub(crate) fn start(db: &Connection) -> Result<Self> {
        let boot = boot_clock::boot_id();
        let anchor = load_anchor(db)?;
        let clock = Self(Arc::new(StoreClockState {
            boot,
            offset: AtomicI64::new(i64::MIN),
            wall_offset: AtomicI64::new(i64::MIN),
            saved: anchor.as_ref().map(|anchor| anchor.at),
        }));
        clock.advance(anchor.as_ref(), newest_stored_time(db)?);
        Ok(clock)
    }

    /// Advances the clock to the anchor of another database of the store, if that is later.
    pub(crate) fn advance_to_saved(&self, db: &Connection) -> Result<()> {
        if let Some(anchor) = load_anchor(db)? {
            self.advance(Some(&anchor), anchor.at.store);
        }
        Ok(())
    }

    fn advance(&self, anchor: Option<&ClockAnchor>, newest: StoreTime) {
        let reading = self.read();
        let at = continue_from_anchor(anchor, newest, reading);
        self.0.offset.fetch_max(at.get().saturating_sub(reading.boottime()), Ordering::Relaxed);
    }

    fn read(&self) -> ClockReading<'_> {
        ClockReading {
            boot: self.0.boot.as_deref(),
            boottime_us: boot_clock::boottime_us(),
            wall_us: wall_us(),
        }
    }

    /// Returns the current time on both clocks.
    pub(crate) fn now(&self) -> Now {
        self.now_at(self.read())
    }

    fn now_at(&self, reading: ClockReading<'_>) -> Now {
        let offset = self.0.offset.load(Ordering::Relaxed);
        let store = reading.boottime().saturating_add(offset);
        let store_us = reading.boottime_us.saturating_add(offset.saturating_mul(1_000));
        let lead_us = reading.wall_us.saturating_sub(store_us);
        let kept = self.0.wall_offset.load(Ordering::Relaxed);
        let lead = wall_offset(kept, lead_us);
        if lead != kept {
            self.0.wall_offset.store(lead, Ordering::Relaxed);
        }
        Now { store: StoreTime::new(store), wall: Millis::new(store.saturating_add(lead)) }
    }

    /// Returns both clocks as the previous process last saved them; none in a new database.
    pub(crate) fn saved(&self) -> Option<Now> {
        self.0.saved
    }

    /// Saves the anchor in the transaction that is open on `db`.
    pub(crate) fn save(&self, db: &Connection) -> db::Result<()> {
        let reading = self.read();
        let now = self.now_at(reading);
        db.prepare_cached(
            "INSERT INTO clock (id, boot, boottime, store_time, wall) VALUES (1, ?1, ?2, ?3, ?4)
             ON CONFLICT (id) DO UPDATE SET boot = excluded.boot, boottime = excluded.boottime,
             store_time = excluded.store_time, wall = excluded.wall",
        )?
        .execute(params![reading.boot, reading.boottime(), now.store.get(), now.wall.get()])
        .map(drop)
    }
}

/// Returns the store time at `reading`. A database without an anchor starts at the wall-clock time, but not before
/// its newest row.
fn continue_from_anchor(
    anchor: Option<&ClockAnchor>,
    newest: StoreTime,
    reading: ClockReading<'_>,
) -> StoreTime {
    let Some(anchor) = anchor else { return StoreTime::new(reading.wall().get()).max(newest) };
    let same_boot = anchor.boot.is_some() && anchor.boot.as_deref() == reading.boot;
    let passed = match reading.boottime().saturating_sub(anchor.boottime) {
        passed if same_boot && passed >= 0 => passed,
        // Another boot, or another time namespace of the same one.
        _ => reading.wall().get().saturating_sub(anchor.at.wall.get()).max(0),
    };
    StoreTime::new(anchor.at.store.get().saturating_add(passed))
}

/// Returns the difference of the two clocks in milliseconds, rounded up, from a new reading in microseconds. The kept
/// difference stays while the reading is within the error of rounding and of reading two clocks one after the other.
fn wall_offset(kept: i64, lead_us: i64) -> i64 {
    let error_us = kept.saturating_mul(1_000).saturating_sub(lead_us);
    if (-1_000..=2_000).contains(&error_us) {
        return kept;
    }
    lead_us.div_euclid(1_000) + i64::from(lead_us.rem_euclid(1_000) != 0)
}

fn load_anchor(db: &Connection) -> Result<Option<ClockAnchor>> {
    let sql = "SELECT boot, boottime, store_time, wall FROM clock WHERE id = 1";
    let anchor = |row: &db::Row<'_>| {
        let at = Now { store: StoreTime::new(row.get(2)?), wall: Millis::new(row.get(3)?) };
        Ok(ClockAnchor { boot: row.get(0)?, boottime: row.get(1)?, at })
    };
    Ok(db.prepare_cached(sql)?.query_row((), anchor).optional()?)
}

/// Returns the newest time in a database: the time of the last heartbeat, or of an instance's last event.
fn newest_stored_time(db: &Connection) -> Result<StoreTime> {
    let sql = "SELECT max(coalesce((SELECT value FROM meta WHERE name = 'pulse'), 0), coalesce((
        SELECT max(e.at) FROM workflow w JOIN event e ON e.workflow = w.id AND e.position = w.last_event), 0))";
    Ok(db.prepare_cached(sql)?.query_row((), |row| row.get(0).map(StoreTime::new))?)
}

/// Returns the time of day, in microseconds since 1970 UTC: for display and for file times, never for a timer.
fn wall_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn reading(boot: Option<&str>, boottime: i64, wall: i64) -> ClockReading<'_> {
        ClockReading { boot, boottime_us: boottime * 1_000 + 999, wall_us: wall * 1_000 }
    }

    fn anchor(boot: Option<&str>) -> ClockAnchor {
        let at = Now { store: StoreTime::new(10 * HOUR), wall: Millis::new(20 * HOUR) };
        ClockAnchor { boot: boot.map(str::to_owned), boottime: HOUR, at }
    }

    #[test]
    fn the_clock_continues_by_the_boot_time_and_after_a_reboot_by_the_wall_clock() {
        for (what, saved, boot, boottime, wall, expected) in [
            ("the same boot", Some("a"), Some("a"), HOUR + 5, 20 * HOUR + 5, 10 * HOUR + 5),
            ("the wall clock set back", Some("a"), Some("a"), HOUR + 5, 0, 10 * HOUR + 5),
            (
                "the wall clock set forward",
                Some("a"),
                Some("a"),
                HOUR + 5,
                99 * HOUR,
                10 * HOUR + 5,
            ),
            ("no time has passed", Some("a"), Some("a"), HOUR, 20 * HOUR, 10 * HOUR),
            ("a reboot", Some("a"), Some("b"), 7, 22 * HOUR, 12 * HOUR),
            (
                "a reboot with a larger boot time",
                Some("a"),
                Some("b"),
                9 * HOUR,
                22 * HOUR,
                12 * HOUR,
            ),
            ("a reboot with the wall clock set back", Some("a"), Some("b"), 7, HOUR, 10 * HOUR),
            (
                "the same boot, boot time smaller",
                Some("a"),
                Some("a"),
                7,
                20 * HOUR + 9,
                10 * HOUR + 9,
            ),
            ("that, with the wall clock set back", Some("a"), Some("a"), 7, HOUR, 10 * HOUR),
            ("no boot id", None, None, HOUR + 5, 20 * HOUR + 9, 10 * HOUR + 9),
        ] {
            let reading = reading(boot, boottime, wall);
            let store = continue_from_anchor(Some(&anchor(saved)), StoreTime::new(0), reading);
            assert_eq!(store, StoreTime::new(expected), "{what}");
        }
    }

    #[test]
    fn a_database_without_an_anchor_starts_at_the_wall_clock_but_not_before_its_newest_row() {
        let reading = reading(Some("a"), 7, 50);
        for (newest, expected) in [(0, 50), (40, 50), (60, 60)] {
            let store = continue_from_anchor(None, StoreTime::new(newest), reading);
            assert_eq!(store, StoreTime::new(expected));
        }
    }

    #[test]
    fn a_deadline_is_shown_as_the_same_time_until_the_wall_clock_is_set() {
        let clock = StoreClock::start(&database()).unwrap();
        let due = clock.now().store;
        let mut shown = Vec::new();
        // The store's clock and the wall clock tick at different microseconds, and are read one after the other.
        for (boottime_us, wall_us) in [
            (1_000_000, 7_000_400),
            (1_000_999, 7_001_399),
            (1_001_000, 7_001_400),
            (1_001_300, 7_002_500),
            (1_001_700, 7_002_101),
            // The wall clock is set forward by five milliseconds.
            (1_002_000, 7_007_400),
            (1_002_700, 7_008_100),
        ] {
            let now = clock.now_at(ClockReading { boot: None, boottime_us, wall_us });
            assert!((0..=2).contains(&(now.wall.get() - wall_us / 1_000)), "{now:?} {wall_us}");
            shown.push(now.wall_at(due).get());
        }
        let first = shown[0];
        assert_eq!(shown, [0, 0, 0, 0, 0, 5, 5].map(|set| first + set));
    }

    fn database() -> Connection {
        crate::engine::open_in_memory().unwrap()
    }

    #[test]
    fn a_clock_continues_from_what_was_saved_and_another_database_only_advances_it() {
        let db = database();
        let first = StoreClock::start(&db).unwrap();
        assert_eq!(first.saved(), None);
        first.save(&db).unwrap();
        let saved = load_anchor(&db).unwrap().unwrap();
        let second = StoreClock::start(&db).unwrap();
        assert_eq!(second.saved(), Some(saved.at));
        assert!(second.now().store >= saved.at.store);
        assert!(second.now().store.since(saved.at.store) < std::time::Duration::from_mins(1));
        // The other database is an hour ahead, and then an hour behind.
        for (shift, expected) in [(HOUR, HOUR), (-HOUR, HOUR)] {
            let other = database();
            first.save(&other).unwrap();
            other.execute("UPDATE clock SET store_time = store_time + ?1", [shift]).unwrap();
            let before = first.now().store.get();
            second.advance_to_saved(&other).unwrap();
            let ahead = second.now().store.get() - before;
            assert!((expected..expected + 60_000).contains(&ahead), "{ahead} ms ahead");
        }
    }

    #[test]
    fn a_database_of_an_earlier_version_starts_at_its_newest_time() {
        let db = database();
        let ahead = wall_us() / 1_000 + HOUR;
        db.execute("INSERT INTO meta VALUES ('pulse', ?1)", [ahead - 5]).unwrap();
        db.execute_batch(&format!(
            "INSERT INTO workflow (id, project, name, tag, last_event) VALUES (7, '/p', 'w', 'main', 2);
             INSERT INTO event (workflow, position, kind, at) VALUES (7, 1, 'message', 1), (7, 2, 'message', {ahead});"
        ))
        .unwrap();
        let now = StoreClock::start(&db).unwrap().now().store.get();
        assert!((ahead..ahead + 60_000).contains(&now), "{now}, newest {ahead}");
    }
}
