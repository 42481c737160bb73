//! Evaluators of expressions: one child process for each run that has needed one.

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{Arc, Mutex as SyncMutex},
};

use agent_worker_expressions::{
    EvaluationError, EvaluationRequest, EvaluatorHost, ExpressionEvaluator, ExpressionValue,
};
use agent_worker_protocol::{RunId, sync};
use tokio::{
    process::{Child, Command},
    sync::Mutex,
};

use super::child_registry::ChildRegistry;

/// Evaluators of the live runs.
#[derive(Clone, Default)]
pub(super) struct Evaluators {
    of_runs: Arc<SyncMutex<HashMap<RunId, Arc<Mutex<ExpressionEvaluator>>>>>,
}

impl Evaluators {
    /// Evaluates an expression of a run; the expressions of a run wait for each other.
    pub(super) async fn evaluate(
        &self,
        run: RunId,
        request: EvaluationRequest<'_>,
        (program, children): (PathBuf, ChildRegistry),
    ) -> Result<ExpressionValue, EvaluationError> {
        let create = || Arc::new(Mutex::new(ExpressionEvaluator::new(program, Arc::new(children))));
        let evaluator = Arc::clone(sync::lock(&self.of_runs).entry(run).or_insert_with(create));
        let mut evaluator = evaluator.lock().await;
        evaluator.evaluate(request).await
    }

    /// Ends the process of a run.
    pub(super) fn close(&self, run: RunId) {
        sync::lock(&self.of_runs).remove(&run);
    }
}

impl EvaluatorHost for ChildRegistry {
    fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        Self::spawn(self, command).map(|(child, _)| child)
    }

    fn release(&self, pid: u32) {
        self.remove(pid);
    }
}
