//! One interpreter for one expression.

use std::{cell::Cell, rc::Rc, time::Duration};

use rquickjs::{
    CatchResultExt as _, Context, Ctx, Function, Runtime, Value,
    context::intrinsic::{Eval, Json, MapSet, RegExp, RegExpCompiler},
};
use rustix::time::{ClockId, clock_gettime};

use crate::{
    child::{ChildAnswer, ReceivedValue, exception, functions, outcome},
    error::EvaluationError,
    frame::{AnswerOutcome, RequestFrame, RequestedAction, ValueFormat},
};

/// Processor time of one expression. The parent ends the child a little later, because it cannot be interrupted in
/// long calls of the interpreter's own functions.
const MAX_PROCESSOR_TIME: Duration = Duration::from_millis(200);
/// Part of the stack that an expression may use.
const MAX_STACK_BYTES: usize = 1024 * 1024;
/// Memory from which on the child ends after the answer instead of freeing it.
const MAX_KEPT_BYTES: i64 = 8 * 1024 * 1024;

/// Text before the source: one line, so that the second line of the whole begins with the source.
const OPENING: &str = "(function () { \"use strict\"; return (\n";
const CLOSING: &str = "\n); })";

/// The parts of the language: without dates, promises, proxies, shared memory and weak references.
type Intrinsics = (Eval, RegExpCompiler, RegExp, Json, MapSet);

/// Interpreter with limits.
pub(super) struct Engine {
    runtime: Runtime,
    context: Context,
    memory: u64,
    was_interrupted: Rc<Cell<bool>>,
}

/// Returns the processor time that this process has used.
pub(super) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

impl Engine {
    pub(super) fn new(request: &RequestFrame) -> Result<Self, EvaluationError> {
        let unavailable = |error: rquickjs::Error| EvaluationError::Unavailable {
            why: format!("the interpreter does not start: {error}"),
        };
        let runtime = Runtime::new().map_err(unavailable)?;
        runtime.set_memory_limit(usize::try_from(request.memory).unwrap_or(usize::MAX));
        runtime.set_max_stack_size(MAX_STACK_BYTES);
        let was_interrupted = Rc::new(Cell::new(false));
        let (deadline, interrupted) =
            (processor_time() + MAX_PROCESSOR_TIME, was_interrupted.clone());
        runtime.set_interrupt_handler(Some(Box::new(move || {
            let is_late = processor_time() > deadline;
            interrupted.set(interrupted.get() || is_late);
            is_late
        })));
        let context = Context::custom::<Intrinsics>(&runtime).map_err(unavailable)?;
        Ok(Self { runtime, context, memory: request.memory, was_interrupted })
    }

    /// Evaluates an expression.
    pub(super) fn answer(
        &mut self,
        request: &RequestFrame,
        values: Vec<ReceivedValue>,
    ) -> ChildAnswer {
        let result = self.context.with(|ctx| self.evaluate(&ctx, request, values));
        let is_large = self.runtime.memory_usage().malloc_size > MAX_KEPT_BYTES;
        match result {
            Ok((outcome, content)) => ChildAnswer { outcome, content, is_last: is_large },
            Err(error) => {
                let spoils = matches!(
                    error,
                    EvaluationError::OutOfMemory { .. } | EvaluationError::TimedOut { .. }
                );
                let answer = ChildAnswer::failed(error);
                ChildAnswer { is_last: is_large || spoils, ..answer }
            }
        }
    }

    fn evaluate(
        &self,
        ctx: &Ctx<'_>,
        request: &RequestFrame,
        values: Vec<ReceivedValue>,
    ) -> Result<(AnswerOutcome, String), EvaluationError> {
        let function: Function<'_> = ctx
            .eval([OPENING, &request.source, CLOSING].concat())
            .catch(ctx)
            .map_err(|caught| {
                self.limit_error()
                    .unwrap_or_else(|| exception::syntax_error(&caught, &request.source))
            })?;
        if request.action == RequestedAction::Check {
            return Ok((AnswerOutcome::Checked, String::new()));
        }
        let internal = |error: rquickjs::Error| {
            self.limit_error().unwrap_or_else(|| match error {
                rquickjs::Error::Exception | rquickjs::Error::Allocation => self.out_of_memory(),
                other => EvaluationError::Unavailable { why: other.to_string() },
            })
        };
        let describe = functions::define(ctx, request).map_err(internal)?;
        for ReceivedValue { path, format, text } in values {
            let value = match format {
                ValueFormat::Text => {
                    rquickjs::String::from_str(ctx.clone(), &text).map(rquickjs::String::into_value)
                }
                ValueFormat::Json => parse_json(ctx, text).map_err(|error| {
                    self.limit_error().unwrap_or(error.named(&path, self.memory))
                })?,
            };
            functions::bind(ctx, &path, value.map_err(internal)?).map_err(internal)?;
        }
        let thrown = |caught: rquickjs::CaughtError<'_>| {
            self.limit_error()
                .unwrap_or_else(|| exception::thrown_error(&caught, &request.source, self.memory))
        };
        let value: Value<'_> = function.call(()).catch(ctx).map_err(thrown)?;
        match outcome::result(ctx, &describe, &value) {
            Ok(result) => Ok(result),
            Err(outcome::ResultFailure::Refused(error)) => Err(self.limit_error().unwrap_or(error)),
            Err(outcome::ResultFailure::Thrown(error)) => {
                Err(thrown(rquickjs::CaughtError::from_error(ctx, error)))
            }
        }
    }

    fn out_of_memory(&self) -> EvaluationError {
        EvaluationError::OutOfMemory { limit: self.memory }
    }

    /// Returns the error of an interrupted expression, however the interpreter reports it.
    fn limit_error(&self) -> Option<EvaluationError> {
        let limit_ms = MAX_PROCESSOR_TIME.as_millis().try_into().unwrap_or(u64::MAX);
        self.was_interrupted.get().then_some(EvaluationError::TimedOut { limit_ms })
    }
}

/// Reason for which a JSON value cannot be bound.
enum JsonFailure {
    Invalid,
    OutOfMemory,
}

impl JsonFailure {
    fn named(self, path: &[String], limit: u64) -> EvaluationError {
        match self {
            Self::Invalid => EvaluationError::BadJson { name: path.join(".") },
            Self::OutOfMemory => EvaluationError::OutOfMemory { limit },
        }
    }
}

fn parse_json<'js>(
    ctx: &Ctx<'js>,
    text: String,
) -> Result<rquickjs::Result<Value<'js>>, JsonFailure> {
    match ctx.json_parse(text).catch(ctx) {
        Ok(value) => Ok(Ok(value)),
        Err(caught) if exception::is_out_of_memory(&caught) => Err(JsonFailure::OutOfMemory),
        Err(_) => Err(JsonFailure::Invalid),
    }
}
