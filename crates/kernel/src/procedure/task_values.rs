//! Values that the texts and expressions of a task read: those of the run, outputs of setup commands and tasks, facts
//! about tasks, and results of expressions.

use agent_worker_expressions::{EvaluationRequest, Expression, ExpressionValue, NamedValue};
use agent_worker_protocol::{TaskPath, TaskState, WorkflowId};
use agent_worker_store::{OutputContent, OutputFormat, TaskKey, TaskOutput, TaskRow};
use agent_worker_workflow::{Reference, ScopeValue, TaskFact, TemplateScope};

use super::{
    task_error::{TaskError, evaluation_text},
    task_run::TaskRun,
};
use crate::{kernel::Kernel, messaging::size_limits};

/// Returns the path of a setup command, whose output is stored as that of a task.
pub(crate) fn setup_path(nth: usize) -> TaskPath {
    TaskPath::new("setup").join(nth + 1)
}

impl TaskRun {
    /// Returns the values of these references, with the results of the expressions among them.
    pub(super) async fn values_of<'r>(
        &self,
        references: impl IntoIterator<Item = &'r Reference>,
    ) -> Result<TemplateScope, TaskError> {
        let base = self.kernel.template_scope(&self.run_context);
        let mut scope = self.tasks.base.get_or_try_init(|| base).await?.clone();
        if let Some(item) = &self.item {
            scope.set_item(item.value.clone(), item.index);
        }
        for reference in references {
            let Reference::Expression(expression) = reference else {
                self.add_value(reference, &mut scope).await?;
                continue;
            };
            let value = self.evaluate_in(expression, &mut scope).await?;
            scope.insert_result(expression, value.into_text());
        }
        Ok(scope)
    }

    /// Evaluates an expression; adds the values that it reads to `scope`.
    pub(super) async fn evaluate_in(
        &self,
        expression: &Expression,
        scope: &mut TemplateScope,
    ) -> Result<ExpressionValue, TaskError> {
        for reference in Reference::Expression(expression.clone()).values_read() {
            self.add_value(&reference, scope).await?;
        }
        let bindings = scope.bindings(expression)?;
        let paths: Vec<Vec<&str>> = bindings
            .iter()
            .map(|binding| binding.path.iter().map(String::as_str).collect())
            .collect();
        let values: Vec<NamedValue<'_>> = paths
            .iter()
            .zip(&bindings)
            .map(|(path, binding)| NamedValue { path, content: binding.content })
            .collect();
        let has_failed = self.has_failed;
        let request = EvaluationRequest { expression, values: &values, has_failed };
        let (runner, run) = (&self.kernel.runner, self.run_context.run);
        let evaluated = runner.expression_evaluate(run, request).await;
        evaluated.map_err(|error| TaskError::Failed(evaluation_text(expression.source(), &error)))
    }

    /// Adds a value that a setup command or a task made; the scope has all others.
    async fn add_value(
        &self,
        reference: &Reference,
        scope: &mut TemplateScope,
    ) -> Result<(), TaskError> {
        let names = &self.tasks.names;
        let (path, fact) = match reference {
            Reference::Output(name) => (names.outputs.get(name), TaskFact::Output),
            Reference::Task { name, fact } => (names.tasks.get(name), *fact),
            _ => return Ok(()),
        };
        if scope.typed_value(reference).is_ok() {
            return Ok(());
        }
        // A name that an expression declares itself may be no name of the workflow.
        let Some(path) = path else { return Ok(()) };
        let row = self.tasks.row(&TaskKey::of(path.clone()));
        let value = match fact {
            TaskFact::Output => {
                let output = row.and_then(|row| row.output);
                self.kernel.output_value(self.run_context.workflow, output).await?
            }
            fact => fact_value(row.as_ref(), fact),
        };
        scope.insert_value(reference.clone(), value);
        Ok(())
    }
}

impl Kernel {
    /// Reads an output; null if there is none.
    pub(super) async fn output_value(
        &self,
        workflow: WorkflowId,
        output: Option<TaskOutput>,
    ) -> Result<ScopeValue, TaskError> {
        let Some(TaskOutput { format, content }) = output else { return Ok(ScopeValue::Null) };
        let text = match content {
            OutputContent::Inline(text) => text,
            OutputContent::Resource(id) => {
                let all = 0..size_limits::MAX_RESOURCE_BYTES as u64;
                let part = self.store.resource_get(workflow, id, all).await?;
                String::from_utf8_lossy(&part.bytes).into_owned()
            }
        };
        Ok(match format {
            OutputFormat::Text => ScopeValue::Text(text),
            OutputFormat::Json => ScopeValue::Json(text),
        })
    }
}

/// Returns a fact about a task, other than its output. A task without a row waits.
fn fact_value(row: Option<&TaskRow>, fact: TaskFact) -> ScopeValue {
    let number = |number: i64| {
        let written = number.to_string();
        ScopeValue::Number { json: written.clone(), written }
    };
    let text = |text: Option<&String>| text.cloned().map(ScopeValue::Text);
    let value = match fact {
        TaskFact::State => {
            let state = row.map_or(TaskState::Waiting, |row| row.state);
            Some(ScopeValue::Text(state.to_string()))
        }
        TaskFact::Output => None,
        TaskFact::Error => text(row.and_then(|row| row.error.as_ref())),
        TaskFact::ExitCode => row.and_then(|row| row.exit_code).map(|code| number(code.into())),
        TaskFact::Stderr => text(row.and_then(|row| row.stderr.as_ref())),
        TaskFact::Ms => row.and_then(|row| {
            Some(number(row.ended?.get().saturating_sub(row.started?.get()).max(0)))
        }),
    };
    value.unwrap_or(ScopeValue::Null)
}
