//! Expressions of the workflow file: `${{ … }}` in a text, parsed here and evaluated as JavaScript in a child process.
//!
//! [`split_text`] finds the expressions of a text, and [`Expression`] tells a plain name from JavaScript; both are pure.
//! [`ExpressionEvaluator`] sends one expression with its values to a child, which [`run_evaluator`] serves. An
//! expression may loop, allocate without end or crash the interpreter: only the child is affected, which the parent
//! kills and replaces. The interpreter has no objects of its host: no files, no clock, no environment.

mod child;
mod error;
mod evaluator;
mod frame;
mod source;
mod value;

pub use child::run_evaluator;
pub use error::{EvaluationError, ExpressionFlaw};
pub use evaluator::{
    EvaluationRequest, EvaluatorHost, ExpressionEvaluator, MAX_RESULT_BYTES, MAX_VALUE_BYTES,
    StandaloneHost,
};
pub use source::expression::{Expression, ExpressionForm, NameMention};
pub use source::reserved::{RESERVED_FUNCTIONS, RESERVED_NAMES, is_reserved};
pub use source::text::{TextPiece, split_text};
pub use value::{ExpressionValue, NamedValue, ValueContent, ValueMismatch, ValueType};
