//! The error format of the wire.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::ProblemDetails;

/// Name of a response header that appears once for each damaged row that the response leaves out.
pub const DAMAGED_HEADER: &str = "agent-worker-damaged";

/// An error of the daemon: facts for every interface. Each interface makes its own hint from `code` and `details`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// A stable word for programs.
    pub code: Code,
    /// One sentence: what failed and why.
    pub message: String,
    /// The facts that a hint is made from.
    #[serde(default, deserialize_with = "known_details")]
    pub details: Option<Box<ProblemDetails>>,
}

/// A [`Problem`] as an interface sends it, with a hint in that interface's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct ProblemBody {
    /// A stable word for programs.
    pub code: Code,
    /// One sentence: what failed and why.
    pub message: String,
    /// The next thing to try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The facts behind the message.
    #[serde(default, deserialize_with = "known_details", skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<ProblemDetails>>,
}

/// Error classes that a caller can distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The request is invalid.
    BadRequest,
    /// The token is missing or unknown.
    Unauthorized,
    /// The caller is known but lacks the permission.
    Forbidden,
    /// The requested object does not exist.
    NotFound,
    /// The path does not support the method of the request.
    MethodNotAllowed,
    /// The request conflicts with the current state.
    Conflict,
    /// The attempt is no longer the live one.
    StaleEpoch,
    /// The run is over.
    RunEnded,
    /// The instance has no live run.
    NoRun,
    /// The content exceeds the maximum size.
    TooLarge,
    /// A limit is reached.
    Limit,
    /// The store refuses writes.
    ReadOnly,
    /// A stored row is damaged; the message names the row.
    Damaged,
    /// The daemon is temporarily unavailable, for example while it starts or drains.
    Unavailable,
    /// The daemon failed; its log has the cause.
    Internal,
}

impl Problem {
    /// A problem without details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None }
    }

    /// Adds the facts that a hint is made from.
    #[must_use]
    pub fn with_details(self, details: ProblemDetails) -> Self {
        Self { details: Some(Box::new(details)), ..self }
    }

    /// The problem as it is sent, with the sender's hint.
    pub fn into_body(self, hint: Option<String>) -> ProblemBody {
        let Self { code, message, details } = self;
        ProblemBody { code, message, hint, details }
    }
}

/// Reads details; those of another version, which this one cannot read, are left out.
pub(crate) fn known_details<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Box<ProblemDetails>>, D::Error> {
    let details = Option::<Value>::deserialize(from)?;
    Ok(details.and_then(|details| serde_json::from_value(details).ok()))
}

impl Code {
    /// Returns the HTTP status of the code.
    pub const fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn details_of_another_version_are_left_out_and_the_rest_is_read() {
        let known = json!({"reason": "not_owner", "owner": "lead"});
        for (details, expected) in [
            (known, Some(ProblemDetails::NotOwner { owner: "lead".parse().unwrap() })),
            (json!({"reason": "of_the_future", "agent": "coder"}), None),
            (json!({"reason": "not_owner"}), None),
            (json!("text"), None),
            (Value::Null, None),
        ] {
            let text = json!({"code": "forbidden", "message": "no", "details": details});
            let problem: Problem = serde_json::from_value(text).unwrap();
            assert_eq!(problem.details.map(|details| *details), expected, "{details}");
        }
    }

    #[test]
    fn a_body_has_only_the_keys_that_say_something() {
        let bare = Problem::new(Code::NotFound, "no").into_body(None);
        assert_eq!(
            serde_json::to_value(bare).unwrap(),
            json!({"code": "not_found", "message": "no"})
        );
        let full = Problem::new(Code::Conflict, "no").with_details(ProblemDetails::KeyReused);
        let full = serde_json::to_value(full.into_body(Some("try".into()))).unwrap();
        let details = json!({"reason": "key_reused"});
        let expected =
            json!({"code": "conflict", "message": "no", "hint": "try", "details": details});
        assert_eq!(full, expected);
    }
}
