//! The delay that the headers of a response ask for: `retry-after-ms`, or `Retry-After` in seconds or as a date.

use std::time::Duration;

use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};

/// Returns the delay; none if the headers name none or no valid one.
pub(crate) fn retry_delay<'a>(
    header: impl Fn(&str) -> Option<&'a str>,
    now: Timestamp,
) -> Option<Duration> {
    if let Some(millis) = header("retry-after-ms").and_then(|text| text.trim().parse().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let text = header("retry-after")?.trim();
    if let Ok(seconds) = text.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Duration::try_from(at.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_a_number_of_seconds_or_the_time_until_a_date() {
        let now: Timestamp = "2026-11-15T08:49:00Z".parse().unwrap();
        for (name, value, expected) in [
            ("retry-after", "30", Some(30_000)),
            ("retry-after", "0.5", Some(500)),
            ("retry-after", "Sun, 15 Nov 2026 08:49:37 GMT", Some(37_000)),
            ("retry-after", "Sun, 15 Nov 2026 08:00:00 GMT", Some(0)),
            ("retry-after", "soon", None),
            ("retry-after", "-1", None),
            ("retry-after-ms", "250", Some(250)),
            ("x", "1", None),
        ] {
            let header = |asked: &str| (asked == name).then_some(value);
            let expected = expected.map(Duration::from_millis);
            assert_eq!(retry_delay(header, now), expected, "{name}: {value}");
        }
    }
}
