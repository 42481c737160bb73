//! An instant, in milliseconds internally and in RFC 3339 externally. Nothing here reads a clock.

use std::{fmt, str::FromStr, time::Duration};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Instant as milliseconds since 1970 UTC.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(description = "An instant: RFC 3339, UTC, with milliseconds.", extend("format" = "date-time"))]
pub struct Millis(i64);

impl Millis {
    /// Wraps a count of milliseconds.
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
        Self(self.0.saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX)))
    }
    /// Returns the time from `earlier` to this instant; zero if `earlier` is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clamped = self.0.clamp(-62_135_596_800_000, 253_402_207_200_000);
        match Timestamp::from_millisecond(clamped) {
            Ok(instant) => write!(f, "{instant:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl FromStr for Millis {
    type Err = jiff::Error;
    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        Ok(Self(text.parse::<Timestamp>()?.as_millisecond()))
    }
}
impl TryFrom<String> for Millis {
    type Error = jiff::Error;
    fn try_from(text: String) -> Result<Self, jiff::Error> {
        text.parse()
    }
}
impl From<Millis> for String {
    fn from(instant: Millis) -> Self {
        instant.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_reads_what_it_writes_with_three_digits() {
        for (millis, text) in
            [(0, "1970-01-01T00:00:00.000Z"), (1_700_000_000_120, "2023-11-14T22:13:20.120Z")]
        {
            assert_eq!(Millis::new(millis).to_string(), text);
            assert_eq!(text.parse::<Millis>().unwrap(), Millis::new(millis));
        }
    }

    #[test]
    fn no_instant_is_too_odd_to_be_shown() {
        for odd in [i64::MIN, i64::MAX] {
            assert!(!Millis::new(odd).to_string().is_empty());
        }
    }
}
