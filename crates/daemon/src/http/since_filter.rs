//! The start of a channel read: after the seq of a message, or after an instant.

use agent_worker_kernel::ChannelPosition;
use agent_worker_protocol::{Millis, Seq};
use serde::Deserialize;
use serde_json::Value;

/// A seq or an instant: `12`, `"12"` or `"2026-01-01T00:00:00Z"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) enum SinceFilter {
    /// Messages after this seq.
    Seq(Seq),
    /// Messages after this instant.
    Instant(Millis),
}

/// The error for a value that is neither a number nor an instant.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0} is neither the seq of a message nor a time such as 2026-01-31T10:00:00Z")]
pub(crate) struct BadSince(Value);

impl TryFrom<Value> for SinceFilter {
    type Error = BadSince;
    fn try_from(value: Value) -> Result<Self, BadSince> {
        let text = value.as_str();
        let number = value.as_i64().or_else(|| text?.parse().ok());
        let instant = || text?.parse().ok().map(Self::Instant);
        number.map(Seq::new).map(Self::Seq).or_else(instant).ok_or(BadSince(value))
    }
}

impl SinceFilter {
    /// Returns the position to read from.
    pub(crate) fn position(self) -> ChannelPosition {
        match self {
            Self::Seq(seq) => ChannelPosition::Seq(seq),
            Self::Instant(time) => ChannelPosition::Time(time),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_or_an_instant_is_read_and_nothing_else() {
        for (value, expected) in [
            (json!(12), Some(SinceFilter::Seq(Seq::new(12)))),
            (json!("12"), Some(SinceFilter::Seq(Seq::new(12)))),
            (json!("1970-01-01T00:00:01Z"), Some(SinceFilter::Instant(Millis::new(1000)))),
            (json!("1970-01-01T01:00:01+01:00"), Some(SinceFilter::Instant(Millis::new(1000)))),
            (json!("yesterday"), None),
            (json!(1.5), None),
            (json!([1]), None),
        ] {
            assert_eq!(SinceFilter::try_from(value.clone()).ok(), expected, "{value}");
        }
    }
}
