//! Frames between parent and child: one line of JSON, then the values as bytes. Values are not in the JSON, because
//! escaping 10 MB twice costs a part of the time limit.

use serde::{Deserialize, Serialize};

use crate::{error::EvaluationError, value::ValueType};

/// Maximum length of the line of an answer.
pub(crate) const MAX_ANSWER_LINE_BYTES: usize = 16 * 1024;

/// First line of a request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RequestFrame {
    pub(crate) source: String,
    pub(crate) action: RequestedAction,
    /// True if a task before failed: the value of `failure()`.
    pub(crate) has_failed: bool,
    /// Maximum number of bytes of the interpreter.
    pub(crate) memory: u64,
    /// Values, whose contents follow in this order.
    pub(crate) values: Vec<ValueFrame>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RequestedAction {
    /// Check the syntax and run nothing.
    Check,
    Evaluate,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ValueFrame {
    pub(crate) path: Vec<String>,
    pub(crate) format: ValueFormat,
    pub(crate) bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ValueFormat {
    Text,
    Json,
}

/// First line of an answer.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AnswerFrame {
    pub(crate) outcome: AnswerOutcome,
    /// True if the child ends after this answer.
    pub(crate) is_last: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AnswerOutcome {
    /// The value, whose content of this many bytes follows.
    Value {
        value_type: ValueType,
        bytes: usize,
    },
    /// The syntax is right.
    Checked,
    Failed(EvaluationError),
}
