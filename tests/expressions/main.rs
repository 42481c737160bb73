//! Expressions in the child process of the real binary: what they compute, what they cannot reach, and their limits.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, a panic is the report")]

mod bombs;
mod language;
mod payloads;
mod process;
mod reach;

use std::{path::PathBuf, sync::Arc};

use agent_worker_expressions::{
    EvaluationError, EvaluationRequest, Expression, ExpressionEvaluator, ExpressionValue,
    NamedValue, StandaloneHost, ValueContent,
};

fn program() -> PathBuf {
    env!("CARGO_BIN_EXE_agent-worker").into()
}

fn evaluator() -> ExpressionEvaluator {
    ExpressionEvaluator::new(program(), Arc::new(StandaloneHost))
}

/// Evaluates a source with texts by name; a name with dots is a member.
async fn evaluate(
    evaluator: &mut ExpressionEvaluator,
    source: &str,
    texts: &[(&str, &str)],
) -> Result<ExpressionValue, EvaluationError> {
    let contents: Vec<_> =
        texts.iter().map(|(name, text)| (*name, ValueContent::Text(text))).collect();
    evaluate_with(evaluator, source, &contents).await
}

async fn evaluate_with(
    evaluator: &mut ExpressionEvaluator,
    source: &str,
    contents: &[(&str, ValueContent<'_>)],
) -> Result<ExpressionValue, EvaluationError> {
    let expression = Expression::parse(source).unwrap_or_else(|flaw| panic!("{source}: {flaw}"));
    let paths: Vec<Vec<&str>> =
        contents.iter().map(|(name, _)| name.split('.').collect()).collect();
    let values: Vec<NamedValue<'_>> = paths
        .iter()
        .zip(contents)
        .map(|(path, (_, content))| NamedValue { path, content: *content })
        .collect();
    let request = EvaluationRequest { expression: &expression, values: &values, has_failed: false };
    evaluator.evaluate(request).await
}

fn text(text: impl Into<String>) -> ExpressionValue {
    ExpressionValue::Text(text.into())
}
