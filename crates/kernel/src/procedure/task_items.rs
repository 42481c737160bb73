//! The items of a task with `for_each`: each is carried out and stored as a task of its own, with its number.
//!
//! The array is stored with the start of the task, and never evaluated again. Only items without an end continue after a
//! restart.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use agent_worker_expressions::ExpressionValue;
use agent_worker_protocol::TaskState;
use agent_worker_store::{NewTask, TaskKey, TaskRow};
use agent_worker_workflow::{ScopeValue, TaskDefinition, TaskFormat, TaskLoop};

use super::{
    task_error::{TaskError, mismatch_text},
    task_run::{LoopItem, TaskResult, TaskRun},
};
use crate::messaging::size_limits;

/// Maximum number of items of one task.
const MAX_ITEMS: usize = 1_000;
/// Maximum size of the array, which is stored in the row of its task.
const MAX_ARRAY_BYTES: usize = 1024 * 1024;

impl TaskRun {
    /// Carries the task out for each item, or continues that.
    pub(super) async fn run_items(
        &self,
        task: &TaskDefinition,
        each: &TaskLoop,
    ) -> Result<TaskResult, TaskError> {
        let items = self.items(each).await?;
        let count = items.len();
        let is_blocked = AtomicBool::new(false);
        let numbered = items.into_iter().enumerate();
        let works = numbered.map(|(index, value)| {
            Box::pin(self.run_item(task, LoopItem { value, index }, &is_blocked))
        });
        let works: Vec<_> = works.collect();
        for worked in run_at_once(works, each.max as usize).await {
            worked?;
        }
        self.items_result(task, count).await
    }

    /// Returns the items: those of the row, or, before the start of the task, the value of the expression.
    async fn items(&self, each: &TaskLoop) -> Result<Vec<ScopeValue>, TaskError> {
        let source = each.items.source();
        let stored = self.row().and_then(|row| row.items);
        let is_started = stored.is_some();
        let array = if let Some(json) = stored {
            ExpressionValue::Array(json)
        } else {
            let mut scope = self.values_of([]).await?;
            self.evaluate_in(&each.items, &mut scope).await?
        };
        let items = array
            .items(source)
            .map_err(|mismatch| TaskError::Failed(mismatch_text(source, &mismatch)))?;
        if is_started {
            return Ok(items.into_iter().map(item_value).collect());
        }
        if items.len() > MAX_ITEMS {
            let count = items.len();
            let why = format!("`for_each` has {count} items, and at most {MAX_ITEMS} are allowed");
            return Err(TaskError::Failed(why));
        }
        let json = array.into_text();
        size_limits::check("the array of `for_each`", json.len(), MAX_ARRAY_BYTES)
            .map_err(|error| TaskError::Failed(error.to_string()))?;
        let (key, condition) = (self.key.clone(), self.condition);
        self.start_as(NewTask { key, condition, items: Some(json), message: None }).await?;
        Ok(items.into_iter().map(item_value).collect())
    }

    /// Carries one item out, unless it has ended. If one item cannot go on now, no other starts.
    async fn run_item(
        &self,
        task: &TaskDefinition,
        item: LoopItem,
        is_blocked: &AtomicBool,
    ) -> Result<(), TaskError> {
        let key = self.item_key(item.index);
        let row = self.tasks.row(&key);
        let is_final = row.as_ref().is_some_and(|row| row.state.is_final());
        // What has started comes to its end, also after a stop.
        let may_start = !self.stop.is_cancelled() && !is_blocked.load(Ordering::Relaxed);
        if is_final || (row.is_none() && !may_start) {
            return Ok(());
        }
        let work = Self {
            kernel: self.kernel.clone(),
            run_context: Arc::clone(&self.run_context),
            tasks: Arc::clone(&self.tasks),
            key,
            stop: self.stop.clone(),
            condition: None,
            has_failed: self.has_failed,
            item: Some(item),
        };
        let worked = work.run_action(task).await;
        let ended = work.end(task, worked).await;
        if ended.is_err() {
            is_blocked.store(true, Ordering::Relaxed);
        }
        ended
    }

    fn item_key(&self, index: usize) -> TaskKey {
        let item = u32::try_from(index + 1).unwrap_or(u32::MAX);
        TaskKey { path: self.key.path.clone(), item }
    }

    /// Returns the result of the task from the rows of its items.
    async fn items_result(
        &self,
        task: &TaskDefinition,
        count: usize,
    ) -> Result<TaskResult, TaskError> {
        let rows = (0..count).map(|index| self.tasks.row(&self.item_key(index)));
        let rows: Vec<TaskRow> = rows.flatten().collect();
        if rows.len() < count || rows.iter().any(|row| row.state == TaskState::Stopped) {
            return Ok(TaskResult::stopped("stopped before all of its items had ended"));
        }
        let has_failed = |row: &&TaskRow| row.state == TaskState::Failed;
        if let Some(first) = rows.iter().find(has_failed).filter(|_| !task.continue_on_error) {
            let failed = rows.iter().filter(has_failed).count();
            let why = first.error.as_deref().unwrap_or("it gave no reason");
            let which = match failed {
                1 => format!("item {}", first.key.item),
                _ => format!("the first is item {}", first.key.item),
            };
            return Ok(TaskResult::failed(format!(
                "{failed} of {count} items failed, {which}: {why}"
            )));
        }
        let mut outputs = Vec::new();
        for row in rows {
            let output = row.output.filter(|_| row.state == TaskState::Done);
            let value = self.kernel.output_value(self.run_context.workflow, output).await?;
            outputs.push(match value {
                ScopeValue::Text(text) => serde_json::Value::from(text).to_string(),
                ScopeValue::Json(json) | ScopeValue::Number { json, .. } => json,
                ScopeValue::Null => "null".to_owned(),
            });
        }
        let text = format!("[{}]", outputs.join(","));
        let output = self.kernel.task_output(&self.run_context, text, TaskFormat::Json).await?;
        Ok(TaskResult { output: Some(output), ..TaskResult::default() })
    }
}

fn item_value(item: ExpressionValue) -> ScopeValue {
    match item {
        ExpressionValue::Null => ScopeValue::Null,
        ExpressionValue::Boolean(value) => ScopeValue::Json(value.to_string()),
        ExpressionValue::Number(json) => ScopeValue::Number { written: json.clone(), json },
        ExpressionValue::Text(text) => ScopeValue::Text(text),
        ExpressionValue::Array(json) | ExpressionValue::Object(json) => ScopeValue::Json(json),
    }
}

/// Runs futures to their ends, at most `max` at once, and starts them in order. Returns the results in the order of the
/// ends.
async fn run_at_once<F: Future>(futures: Vec<Pin<Box<F>>>, max: usize) -> Vec<F::Output> {
    let mut waiting = futures.into_iter();
    let (mut active, mut results) = (Vec::new(), Vec::new());
    poll_fn(|context| {
        loop {
            let free = max.saturating_sub(active.len());
            active.extend(waiting.by_ref().take(free));
            let before = active.len();
            active.retain_mut(|future: &mut Pin<Box<F>>| match future.as_mut().poll(context) {
                Poll::Ready(result) => {
                    results.push(result);
                    false
                }
                Poll::Pending => true,
            });
            if active.is_empty() && waiting.len() == 0 {
                return Poll::Ready(());
            }
            if active.len() == before {
                return Poll::Pending;
            }
        }
    })
    .await;
    results
}
