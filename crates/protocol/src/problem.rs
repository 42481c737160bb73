//! The one shape an error has on the wire.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The header of a response that leaves out damaged rows, once for each.
pub const DAMAGED_HEADER: &str = "agent-worker-damaged";

/// What went wrong, for programs (`code`) and for people (the rest).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// Stable.
    pub code: Code,
    /// One sentence: what and why.
    pub message: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The kinds of error a caller can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request makes no sense.
    BadRequest,
    /// The token is missing or not known.
    Unauthorized,
    /// Known, but may not.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// It clashes with what is there.
    Conflict,
    /// The attempt is not the live one any more.
    StaleEpoch,
    /// The run is over.
    RunEnded,
    /// The instance has no live run.
    NoRun,
    /// More than is taken.
    TooLarge,
    /// A limit is reached.
    Limit,
    /// The store takes no writes.
    ReadOnly,
    /// A stored row is not what was written; the message names it.
    Damaged,
    /// Not now: starting, draining.
    Unavailable,
    /// Our fault; the log has the cause.
    Internal,
}

impl Problem {
    /// A problem without a hint.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl Code {
    /// The status that goes with it.
    pub const fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Conflict | Self::StaleEpoch | Self::RunEnded | Self::NoRun => 409,
            Self::TooLarge => 413,
            Self::Limit => 429,
            Self::Damaged | Self::Internal => 500,
            Self::ReadOnly | Self::Unavailable => 503,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = serde_json::to_value(self).unwrap_or_default();
        f.pad(word.as_str().unwrap_or_default())
    }
}
