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
        let never = Millis::new(i64::MAX);
        assert_eq!(format_in_zone(never, at, TimeZone::UTC), never.to_string());
    }
}
