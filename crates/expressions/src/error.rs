//! Errors. They name types and places, never the content of a value: an expression may handle secrets.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::value::ValueType;

/// Mistake in the source of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionFlaw {
    /// Byte offset in the text that was parsed.
    pub offset: usize,
    /// Description, without the place.
    pub message: String,
    /// Correction, if one is known.
    pub hint: Option<String>,
}

impl ExpressionFlaw {
    pub(crate) fn new(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into(), hint: None }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for ExpressionFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Reason for which an expression has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum EvaluationError {
    /// The source is not an expression.
    #[error("this is not a JavaScript expression: {why}")]
    Syntax {
        /// Byte offset in the source.
        offset: usize,
        /// Reason, in the words of the interpreter.
        why: String,
    },
    /// The expression threw an error.
    #[error("{}", thrown_text(.kind, .why.as_deref()))]
    Thrown {
        /// Byte offset in the source, if it is known.
        offset: Option<usize>,
        /// Class of the error, such as `TypeError`.
        kind: String,
        /// Reason, if it contains nothing but words of the source.
        why: Option<String>,
    },
    /// The value of a name is not JSON.
    #[error("the value of `{name}` is not JSON")]
    BadJson {
        /// Name as the expression writes it.
        name: String,
    },
    /// The expression gave something that is no value of a workflow.
    #[error("the expression gave {found}, which is no value")]
    NoValue {
        /// Type of the result.
        found: ValueType,
    },
    /// The text of the result cannot be written as UTF-8.
    #[error("the text of the result has half of a character (an unpaired surrogate)")]
    LoneSurrogate,
    /// The result is too large.
    #[error("the result is over {} MiB", limit / (1024 * 1024))]
    ResultTooLarge {
        /// Maximum number of bytes.
        limit: usize,
    },
    /// The values are too large.
    #[error("the values that the expression names are over {} MiB", limit / (1024 * 1024))]
    ValuesTooLarge {
        /// Maximum number of bytes of all values together.
        limit: usize,
    },
    /// The expression needs more memory than it may have.
    #[error("the expression needs more than {} MiB of memory", limit / (1024 * 1024))]
    OutOfMemory {
        /// Maximum number of bytes.
        limit: u64,
    },
    /// The expression calls itself too often.
    #[error("the expression calls itself too often")]
    StackOverflow,
    /// The expression took too long.
    #[error("the expression took longer than {limit_ms} ms")]
    TimedOut {
        /// Maximum time in milliseconds.
        limit_ms: u64,
    },
    /// The child process ended without an answer.
    #[error("the process that evaluates expressions ended without an answer")]
    Crashed,
    /// The child process could not be started, or does not understand its parent.
    #[error("cannot evaluate expressions: {why}")]
    Unavailable {
        /// Reason in the words of the system.
        why: String,
    },
}

impl EvaluationError {
    /// Returns the place in the source, if it is known.
    pub fn offset(&self) -> Option<usize> {
        match self {
            Self::Syntax { offset, .. } => Some(*offset),
            Self::Thrown { offset, .. } => *offset,
            Self::BadJson { .. }
            | Self::NoValue { .. }
            | Self::LoneSurrogate
            | Self::ResultTooLarge { .. }
            | Self::ValuesTooLarge { .. }
            | Self::OutOfMemory { .. }
            | Self::StackOverflow
            | Self::TimedOut { .. }
            | Self::Crashed
            | Self::Unavailable { .. } => None,
        }
    }

    /// Returns a correction, if one is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::LoneSurrogate => Some(
                "`slice` and `[n]` count halves of some characters: append `.toWellFormed()`, or cut `[...x]`",
            ),
            Self::NoValue { found: ValueType::Set | ValueType::Map } => {
                Some("write it as an array: `[...x]`")
            }
            Self::NoValue { found: ValueType::Undefined } => Some(
                "a member that does not exist is undefined: check its name, or write `x ?? ''`",
            ),
            Self::ValuesTooLarge { .. } | Self::ResultTooLarge { .. } => {
                Some("work on the file of the value in `shell:`, with `${{ x.file }}`")
            }
            Self::OutOfMemory { .. } | Self::TimedOut { .. } | Self::Crashed => {
                Some("do this work in a `shell:` task")
            }
            Self::Syntax { .. }
            | Self::Thrown { .. }
            | Self::BadJson { .. }
            | Self::NoValue { .. }
            | Self::StackOverflow
            | Self::Unavailable { .. } => None,
        }
    }
}

fn thrown_text(kind: &str, why: Option<&str>) -> String {
    match why {
        Some(why) => format!("the expression failed with {kind}: {why}"),
        None => format!("the expression failed with {kind}"),
    }
}
