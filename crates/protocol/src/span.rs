//! A duration as people write it: `200ms`, `30s`, `10m`, `2h`.

use std::{fmt, str::FromStr, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Duration in whole milliseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(description = "A length of time: `200ms`, `30s`, `10m`, `2h`, `1d`.")]
pub struct Span(u64);

/// Error for a text that is not a duration.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "`{0}` is not a length of time: write a whole number and `ms`, `s`, `m`, `h` or `d`, such as `30s`"
)]
pub struct BadSpan(String);

/// Units from the largest to the smallest, so that a value is shown in the largest that divides it.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Span {
    /// Creates a duration from milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }
    /// Creates a duration from seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000))
    }
    /// Converts the value for clocks and timers.
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl FromStr for Span {
    type Err = BadSpan;
    fn from_str(text: &str) -> Result<Self, BadSpan> {
        let bad = || BadSpan(text.chars().take(40).collect());
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let (_, size) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
        let number: u64 = number.parse().map_err(|_| bad())?;
        number.checked_mul(*size).map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) = UNITS
            .iter()
            .find(|(_, size)| self.0 > 0 && self.0.is_multiple_of(*size))
            .unwrap_or(&("s", 1));
        write!(f, "{}{unit}", self.0 / size)
    }
}

impl TryFrom<String> for Span {
    type Error = BadSpan;
    fn try_from(text: String) -> Result<Self, BadSpan> {
        text.parse()
    }
}
impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_reads_what_it_writes_in_the_largest_unit() {
        for (written, millis, shown) in [
            ("200ms", 200, "200ms"),
            ("1000ms", 1_000, "1s"),
            ("90s", 90_000, "90s"),
            ("60m", 3_600_000, "1h"),
            ("0s", 0, "0s"),
            ("48h", 172_800_000, "2d"),
        ] {
            let span: Span = written.parse().unwrap();
            assert_eq!((span, span.to_string().as_str()), (Span::from_millis(millis), shown));
        }
    }

    #[test]
    fn what_has_no_unit_or_no_number_is_refused() {
        for text in ["", "5", "s", "1.5s", "-1s", "5 s", "99999999999999999999d", "5x"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
