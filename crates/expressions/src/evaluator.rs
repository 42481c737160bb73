//! The parent's side: one child process that evaluates expressions one after the other, replaced when it does not
//! answer.
//!
//! The child starts with the first expression. A request that is dropped half-way ends the child, so that no answer
//! is taken for the answer of another request. The memory of this process holds the values once, which the caller owns,
//! and at most one result.

mod child_process;

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::process::{Child, Command};

use self::child_process::{ChildProcess, ExchangeFailure};
use crate::{
    error::EvaluationError,
    frame::{AnswerOutcome, RequestFrame, RequestedAction, ValueFormat, ValueFrame},
    source::expression::Expression,
    value::{ExpressionValue, NamedValue, ValueContent, ValueType},
};

/// Maximum size of a result.
pub const MAX_RESULT_BYTES: usize = 16 * 1024 * 1024;
/// Maximum size of the values of one expression together: those that the maximum memory leaves room for.
pub const MAX_VALUE_BYTES: usize = ((MAX_MEMORY - BASE_MEMORY) / MEMORY_PER_BYTE) as usize;

/// Time without an answer after which the child is killed.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(250);
/// The same for a child that the machine did not let run.
const STARVED_TIMEOUT: Duration = Duration::from_secs(2);
/// Processor time below which a child without an answer did not run.
const STARVED_PROCESSOR_TIME: Duration = Duration::from_millis(50);
const STARVED_POLL_INTERVAL: Duration = Duration::from_millis(25);

const BASE_MEMORY: u64 = 16 * 1024 * 1024;
const MEMORY_PER_BYTE: u64 = 4;
const MAX_MEMORY: u64 = 256 * 1024 * 1024;

/// Starts child processes and learns of their ends. A process that watches all its children has its own.
pub trait EvaluatorHost: Send + Sync {
    /// Starts a process.
    fn spawn(&self, command: &mut Command) -> io::Result<Child>;
    /// Reports that a process has ended or is being killed.
    fn release(&self, pid: u32);
}

/// Host that keeps no record of its children.
#[derive(Clone, Copy, Debug)]
pub struct StandaloneHost;

impl EvaluatorHost for StandaloneHost {
    fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        command.spawn()
    }

    fn release(&self, _pid: u32) {}
}

/// Expression with the values that it may read.
#[derive(Clone, Copy, Debug)]
pub struct EvaluationRequest<'a> {
    /// Expression to evaluate.
    pub expression: &'a Expression,
    /// Values of the names that it mentions. The caller leaves out all others, because each value costs memory and time.
    pub values: &'a [NamedValue<'a>],
    /// True if a task before failed: the value of `failure()`.
    pub has_failed: bool,
}

/// Evaluates expressions in a child process.
pub struct ExpressionEvaluator {
    program: PathBuf,
    host: Arc<dyn EvaluatorHost>,
    idle: Option<ChildProcess>,
}

impl ExpressionEvaluator {
    /// Creates an evaluator without a process. `program` is this program, which serves the hidden command
    /// `evaluate-expressions`.
    pub fn new(program: PathBuf, host: Arc<dyn EvaluatorHost>) -> Self {
        Self { program, host, idle: None }
    }

    /// Evaluates an expression. The answer comes within 300 ms, unless the machine does not let the child run.
    pub async fn evaluate(
        &mut self,
        request: EvaluationRequest<'_>,
    ) -> Result<ExpressionValue, EvaluationError> {
        let frame = request_frame(&request, RequestedAction::Evaluate)?;
        match self.exchange(&frame, request.values).await? {
            (AnswerOutcome::Value { value_type, .. }, content) => result(value_type, content),
            (AnswerOutcome::Failed(error), _) => Err(error),
            (AnswerOutcome::Checked, _) => Err(unexpected_answer()),
        }
    }

    /// Checks the syntax of an expression and runs nothing.
    pub async fn check(&mut self, expression: &Expression) -> Result<(), EvaluationError> {
        let request = EvaluationRequest { expression, values: &[], has_failed: false };
        let frame = request_frame(&request, RequestedAction::Check)?;
        match self.exchange(&frame, &[]).await? {
            (AnswerOutcome::Checked, _) => Ok(()),
            (AnswerOutcome::Failed(error), _) => Err(error),
            (AnswerOutcome::Value { .. }, _) => Err(unexpected_answer()),
        }
    }

    /// Returns the process that waits for the next expression, if there is one.
    pub fn child_pid(&self) -> Option<u32> {
        self.idle.as_ref().map(ChildProcess::pid)
    }

    async fn exchange(
        &mut self,
        frame: &RequestFrame,
        values: &[NamedValue<'_>],
    ) -> Result<(AnswerOutcome, Vec<u8>), EvaluationError> {
        let start = Instant::now();
        loop {
            let reused = self.idle.take();
            let is_reused = reused.is_some();
            let mut child = match reused {
                Some(child) => child,
                None => ChildProcess::start(&self.program, &self.host)
                    .map_err(|error| EvaluationError::Unavailable { why: error.to_string() })?,
            };
            match child.exchange(frame, values, start).await {
                Ok((answer, content)) if answer.is_last => {
                    child.end().await;
                    return Ok((answer.outcome, content));
                }
                Ok((answer, content)) => {
                    self.idle = Some(child);
                    return Ok((answer.outcome, content));
                }
                Err(failure) => {
                    child.end().await;
                    match failure {
                        // A child that waited may have been ended by anyone.
                        ExchangeFailure::Ended if is_reused => {}
                        ExchangeFailure::Ended => return Err(EvaluationError::Crashed),
                        ExchangeFailure::TimedOut => {
                            let limit_ms = ANSWER_TIMEOUT.as_millis().try_into();
                            let limit_ms = limit_ms.unwrap_or(u64::MAX);
                            return Err(EvaluationError::TimedOut { limit_ms });
                        }
                        ExchangeFailure::Nonsense => return Err(unexpected_answer()),
                    }
                }
            }
        }
    }
}

fn request_frame(
    request: &EvaluationRequest<'_>,
    action: RequestedAction,
) -> Result<RequestFrame, EvaluationError> {
    let total: usize = request.values.iter().map(|value| value.content.text().len()).sum();
    if total > MAX_VALUE_BYTES {
        return Err(EvaluationError::ValuesTooLarge { limit: MAX_VALUE_BYTES });
    }
    let value = |value: &NamedValue<'_>| ValueFrame {
        path: value.path.iter().map(|part| (*part).to_owned()).collect(),
        format: match value.content {
            ValueContent::Text(_) => ValueFormat::Text,
            ValueContent::Json(_) => ValueFormat::Json,
        },
        bytes: value.content.text().len(),
    };
    Ok(RequestFrame {
        source: request.expression.source().to_owned(),
        action,
        has_failed: request.has_failed,
        memory: memory_limit(total),
        values: request.values.iter().map(value).collect(),
    })
}

/// Returns the memory of an expression whose values have this size.
fn memory_limit(value_bytes: usize) -> u64 {
    let values = u64::try_from(value_bytes).unwrap_or(u64::MAX);
    values.saturating_mul(MEMORY_PER_BYTE).saturating_add(BASE_MEMORY).min(MAX_MEMORY)
}

fn result(value_type: ValueType, content: Vec<u8>) -> Result<ExpressionValue, EvaluationError> {
    let content = String::from_utf8(content).map_err(|_| unexpected_answer())?;
    Ok(match value_type {
        ValueType::Null => ExpressionValue::Null,
        ValueType::Boolean => ExpressionValue::Boolean(content == "true"),
        ValueType::Number => ExpressionValue::Number(content),
        ValueType::Text => ExpressionValue::Text(content),
        ValueType::Array => ExpressionValue::Array(content),
        ValueType::Object => ExpressionValue::Object(content),
        ValueType::Undefined
        | ValueType::Function
        | ValueType::Symbol
        | ValueType::BigInt
        | ValueType::Set
        | ValueType::Map
        | ValueType::OtherObject => return Err(unexpected_answer()),
    })
}

fn unexpected_answer() -> EvaluationError {
    EvaluationError::Unavailable { why: "the child process gave a wrong answer".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_grows_with_the_values_up_to_its_maximum() {
        for (values, mib) in
            [(0, 16), (1 << 20, 20), (10 << 20, 56), (60 << 20, 256), (usize::MAX, 256)]
        {
            assert_eq!(memory_limit(values), mib << 20, "{values}");
        }
        assert_eq!(MAX_VALUE_BYTES, 60 << 20);
    }
}
