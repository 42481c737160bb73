//! The work of one task, from its condition to its end. It is a future of its own, which a later daemon can begin again
//! at any point: what is done is in the row.

use std::sync::{Arc, atomic::Ordering};

use agent_worker_protocol::{TaskPath, TaskState};
use agent_worker_store::{NewMessage, NewTask, TaskEnd, TaskKey, TaskOutput, TaskRow};
use agent_worker_workflow::{ScopeValue, TaskAction, TaskDefinition, TemplateScope};
use tokio_util::sync::CancellationToken;

use super::{
    RunTasks,
    task_error::{TaskError, mismatch_text},
};
use crate::kernel::{Kernel, RunContext};

/// Begin of the work of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskBegin {
    /// Evaluate its `if` first.
    Decide {
        /// Value of `failure()`.
        has_failed: bool,
    },
    /// Start the task at once.
    Start,
    /// Continue what its row says.
    Continue,
}

/// Work of one task.
pub(super) struct TaskRun {
    pub(super) kernel: Kernel,
    pub(super) run_context: Arc<RunContext>,
    pub(super) tasks: Arc<RunTasks>,
    pub(super) key: TaskKey,
    /// Ends the work of the task.
    pub(super) stop: CancellationToken,
    /// Value of its `if`, if it has one.
    pub(super) condition: Option<bool>,
    /// Value of `failure()` in its texts.
    pub(super) has_failed: bool,
    /// Item of `for_each` for which the work is done.
    pub(super) item: Option<LoopItem>,
}

/// One item of the array of `for_each`.
#[derive(Clone, Debug)]
pub(super) struct LoopItem {
    pub(super) value: ScopeValue,
    /// Position from 0.
    pub(super) index: usize,
}

/// Result of the work of a task.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskResult {
    pub(super) output: Option<TaskOutput>,
    pub(super) exit_code: Option<i32>,
    /// Reason of a failure; a task without one is done.
    pub(super) error: Option<String>,
    pub(super) stderr: Option<String>,
    /// True if the task was stopped before its end.
    pub(super) is_stopped: bool,
}

impl TaskResult {
    pub(super) fn failed(error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), ..Self::default() }
    }

    pub(super) fn stopped(why: &str) -> Self {
        Self { is_stopped: true, ..Self::failed(why) }
    }

    fn state(&self) -> TaskState {
        match (&self.error, self.is_stopped) {
            (_, true) => TaskState::Stopped,
            (Some(_), false) => TaskState::Failed,
            (None, false) => TaskState::Done,
        }
    }
}

impl Kernel {
    /// Starts the work of a task, unless it is already under way.
    pub(super) fn spawn_task(
        &self,
        run_context: &Arc<RunContext>,
        tasks: &Arc<RunTasks>,
        path: &TaskPath,
        begin: TaskBegin,
        run_stop: &CancellationToken,
    ) {
        let Some(stop) = tasks.enter(path, run_stop) else { return };
        let work = TaskRun {
            kernel: self.clone(),
            run_context: Arc::clone(run_context),
            tasks: Arc::clone(tasks),
            key: TaskKey::of(path.clone()),
            stop,
            condition: None,
            has_failed: begin == TaskBegin::Decide { has_failed: true },
            item: None,
        };
        let closing = self.scheduler.closing.clone();
        self.scheduler.tracker.spawn(async move {
            let path = work.key.path.clone();
            let tasks = Arc::clone(&work.tasks);
            let ended = tokio::select! {
                // First: a daemon that closes leaves commands to the next one, and the token that stops them is cancelled
                // too.
                biased;
                () = closing.cancelled() => None,
                ended = work.carry_out(begin) => Some(ended),
            };
            tasks.leave(&path);
            match ended {
                Some(Ok(())) => tasks.changed.notify_one(),
                // The next change of the run, or the sweep, wakes the loop.
                Some(Err(TaskError::Refused | TaskError::Abandoned)) | None => {}
                Some(Err(error)) => {
                    tracing::error!(task = %path, %error, "a task could not be carried out; retrying");
                }
            }
        });
    }
}

impl TaskRun {
    async fn carry_out(mut self, begin: TaskBegin) -> Result<(), TaskError> {
        let run_context = Arc::clone(&self.run_context);
        let mut all = run_context.script.workflow.tasks.walk();
        let Some(task) = all.find(|task| task.path == self.key.path) else {
            return Err(TaskError::Abandoned);
        };
        match self.work(task, begin).await.transpose() {
            Some(worked) => self.end(task, worked).await,
            None => Ok(()),
        }
    }

    /// Stores the end of the work.
    pub(super) async fn end(
        &self,
        task: &TaskDefinition,
        worked: Result<TaskResult, TaskError>,
    ) -> Result<(), TaskError> {
        let result = match worked {
            Ok(result) => result,
            Err(TaskError::Failed(why)) => TaskResult::failed(format!("line {}: {why}", task.line)),
            Err(other) => return Err(other),
        };
        // What ended only because the daemon stops, or at a limit, is repeated when the run goes on.
        if result.is_stopped && self.is_interrupted() {
            return Err(TaskError::Abandoned);
        }
        self.finish(result.state(), result).await
    }

    /// Returns the result of the task; none if its row says everything.
    async fn work(
        &mut self,
        task: &TaskDefinition,
        begin: TaskBegin,
    ) -> Result<Option<TaskResult>, TaskError> {
        if let TaskBegin::Decide { .. } = begin {
            let decision = self.decide(task).await?;
            self.condition = Some(decision);
            if !decision && task.otherwise.is_empty() {
                self.finish(TaskState::Skipped, TaskResult::default()).await?;
                return Ok(None);
            }
            if !decision || task.is_group() {
                self.start(None).await?;
                return Ok(None);
            }
        }
        let result = match &task.for_each {
            Some(each) => self.run_items(task, each).await?,
            None if task.is_group() => {
                self.start(None).await?;
                return Ok(None);
            }
            None => self.run_action(task).await?,
        };
        Ok(Some(result))
    }

    /// Carries the action out once, or continues it.
    pub(super) async fn run_action(&self, task: &TaskDefinition) -> Result<TaskResult, TaskError> {
        match &task.action {
            TaskAction::Shell(shell) => self.run_command(task, shell).await,
            TaskAction::Send(message) => self.run_message(task, message).await,
            TaskAction::Parallel(_)
            | TaskAction::Sequence(_)
            | TaskAction::Ask(_)
            | TaskAction::Workflow(_) => {
                Err(TaskError::Failed("this action cannot be carried out".to_owned()))
            }
        }
    }

    async fn decide(&self, task: &TaskDefinition) -> Result<bool, TaskError> {
        let Some(condition) = &task.condition else { return Ok(true) };
        let mut scope = self.values_of([]).await?;
        let evaluated = self.evaluate_in(condition, &mut scope).await?;
        let source = condition.source().trim();
        let decided = evaluated.condition(source);
        decided.map_err(|mismatch| TaskError::Failed(mismatch_text(source, &mismatch)))
    }

    /// Returns the values of the texts of the task.
    pub(super) async fn scope(&self, task: &TaskDefinition) -> Result<TemplateScope, TaskError> {
        self.values_of(task.action_references()).await
    }

    /// Returns the row of the task if it has started.
    pub(super) fn row(&self) -> Option<TaskRow> {
        self.tasks.row(&self.key)
    }

    /// Starts the task, or starts it again.
    pub(super) async fn start(&self, message: Option<NewMessage>) -> Result<TaskRow, TaskError> {
        self.start_as(NewTask {
            key: self.key.clone(),
            condition: self.condition,
            items: None,
            message,
        })
        .await
    }

    /// Stores a start.
    pub(super) async fn start_as(&self, new: NewTask) -> Result<TaskRow, TaskError> {
        let now = self.kernel.now();
        let row = self.kernel.store.task_start(self.run_context.run, new, now).await?;
        self.tasks.put_row(row.clone());
        Ok(row)
    }

    async fn finish(&self, state: TaskState, result: TaskResult) -> Result<(), TaskError> {
        let TaskResult { output, exit_code, error, stderr, is_stopped: _ } = result;
        let end = TaskEnd {
            key: self.key.clone(),
            state,
            condition: self.condition,
            output,
            exit_code,
            error,
            stderr,
        };
        let now = self.kernel.now();
        let row = self.kernel.store.task_finish(self.run_context.run, end, now).await?;
        self.tasks.put_row(row);
        Ok(())
    }

    /// Returns true if the work is being ended although the task goes on later.
    pub(super) fn is_interrupted(&self) -> bool {
        self.kernel.scheduler.is_draining() || self.tasks.is_interrupted.load(Ordering::Relaxed)
    }
}
