//! The current time, for display and for durations. No other module reads the clock.

use std::time::{SystemTime, UNIX_EPOCH};

use agent_worker_protocol::Millis;
use jiff::{Timestamp, tz::TimeZone};

/// Returns the current time.
pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::default().plus(since)
}

/// Formats a time in the caller's time zone: with the date from 12 hours away, with seconds below two minutes.
pub(crate) fn format_local_time(at: Millis, now: Millis) -> String {
    format_in_zone(at, now, TimeZone::system())
}

/// The time zone in which a time is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockZone {
    /// The caller's time zone.
    Local,
    /// Coordinated universal time.
    Utc,
}

/// Formats the time of a message: `14:02:11`, with the date before today: `2026-01-31 14:02:11`.
pub(crate) fn format_message_time(at: Millis, now: Millis, zone: ClockZone) -> String {
    let zone = match zone {
        ClockZone::Local => TimeZone::system(),
        ClockZone::Utc => TimeZone::UTC,
    };
    message_time_in_zone(at, now, &zone)
}

fn message_time_in_zone(at: Millis, now: Millis, zone: &TimeZone) -> String {
    let zoned =
        |time: Millis| Some(Timestamp::from_millisecond(time.get()).ok()?.to_zoned(zone.clone()));
    let (Some(at), Some(now)) = (zoned(at), zoned(now)) else { return at.to_string() };
    let format = if at.date() == now.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    at.strftime(format).to_string()
}

fn format_in_zone(at: Millis, now: Millis, zone: TimeZone) -> String {
    let format = match at.get().saturating_sub(now.get()).unsigned_abs() {
        0..120_000 => "%H:%M:%S",
        120_000..43_200_000 => "%H:%M",
        _ => "%b %-d %H:%M",
    };
    match Timestamp::from_millisecond(at.get()) {
        Ok(instant) => instant.to_zoned(zone).strftime(format).to_string(),
        Err(_) => at.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_in_the_callers_time_zone() {
        let at: Millis = "2026-01-31T23:30:00Z".parse().unwrap();
        let berlin = || TimeZone::fixed(jiff::tz::offset(1));
        let hour = |hours: i64| Millis::new(at.get() + hours * 3_600_000);
        for (now, expected) in [
            (hour(0), "00:30:00"),
            (hour(-11), "00:30"),
            (hour(-12), "Feb 1 00:30"),
            (hour(13), "Feb 1 00:30"),
        ] {
            assert_eq!(format_in_zone(at, now, berlin()), expected);
        }
        for (now, zone, expected) in [
            (hour(0), berlin(), "00:30:00"),
            (hour(23), berlin(), "00:30:00"),
            (hour(24), berlin(), "2026-02-01 00:30:00"),
            (hour(0), TimeZone::UTC, "23:30:00"),
            (hour(1), TimeZone::UTC, "2026-01-31 23:30:00"),
        ] {
            assert_eq!(message_time_in_zone(at, now, &zone), expected, "{now}");
        }
        let never = Millis::new(i64::MAX);
        assert_eq!(message_time_in_zone(never, at, &TimeZone::UTC), never.to_string());
        assert_eq!(format_in_zone(never, at, TimeZone::UTC), never.to_string());
    }
}
