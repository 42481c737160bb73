//! Reasons for which the work of a task ends without a result of its own.

use agent_worker_expressions::{EvaluationError, ValueMismatch};

use crate::error::Error;

/// Reason for which a task did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    /// The task fails, for this reason.
    #[error("{0}")]
    Failed(String),
    /// The run does not take new work now. The loop tries again after the next change.
    #[error("the run does not take new work")]
    Refused,
    /// The run has ended, or this daemon stops: the row stays as it is.
    #[error("the run or this daemon ends")]
    Abandoned,
    /// The daemon could not carry the task out. The loop tries again later.
    #[error(transparent)]
    Broken(#[from] Error),
}

impl From<agent_worker_store::Error> for TaskError {
    fn from(error: agent_worker_store::Error) -> Self {
        match error {
            agent_worker_store::Error::WrongRunState(_) => Self::Refused,
            agent_worker_store::Error::NoRun => Self::Abandoned,
            other => Self::Broken(other.into()),
        }
    }
}

impl From<agent_worker_workflow::Error> for TaskError {
    fn from(error: agent_worker_workflow::Error) -> Self {
        Self::Failed(error.summary())
    }
}

/// Describes an expression without a result. It has no content of a value.
pub(super) fn evaluation_text(source: &str, error: &EvaluationError) -> String {
    with_hint(format!("`{source}`: {error}"), error.hint())
}

/// Describes a result of the wrong type.
pub(super) fn mismatch_text(source: &str, mismatch: &ValueMismatch) -> String {
    with_hint(format!("{mismatch}: `{source}`"), Some(&mismatch.hint))
}

fn with_hint(text: String, hint: Option<&str>) -> String {
    match hint {
        Some(hint) => format!("{text}; {hint}"),
        None => text,
    }
}
