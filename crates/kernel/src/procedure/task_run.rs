//! The work of one task, from its condition to its end. It is a future of its own, which a later daemon can begin again
//! at any point: what is done is in the row.

use std::sync::{Arc, atomic::Ordering};

use agent_worker_protocol::{Millis, TaskPath, TaskState};
use agent_worker_store::{NewMessage, NewTask, TaskEnd, TaskKey, TaskOutput, TaskRow};
use agent_worker_workflow::{TaskAction, TaskDefinition, TemplateScope};
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
    condition: Option<bool>,
    /// Value of `failure()` in its texts.
    pub(super) has_failed: bool,
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
        let worked = self.work(task, begin).await;
        let result = match worked {
            Ok(Some(result)) => result,
            Ok(None) => return Ok(()),
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
        if let TaskBegin::Decide { has_failed } = begin {
            let decision = self.decide(task, has_failed).await?;
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
        let result = match &task.action {
            TaskAction::Shell(shell) => self.run_command(task, shell).await?,
            TaskAction::Send(message) => self.run_message(task, message).await?,
            TaskAction::Parallel(_) | TaskAction::Sequence(_) => {
                self.start(None).await?;
                return Ok(None);
            }
            TaskAction::Ask(_) | TaskAction::Workflow(_) => {
                return Err(TaskError::Failed("this action cannot be carried out".to_owned()));
            }
        };
        Ok(Some(result))
    }

    async fn decide(&self, task: &TaskDefinition, has_failed: bool) -> Result<bool, TaskError> {
        let Some(condition) = &task.condition else { return Ok(true) };
        let (run_context, tasks) = (&self.run_context, &self.tasks);
        let mut scope = self.kernel.task_scope(run_context, tasks, [], has_failed).await?;
        let evaluated =
            self.kernel.evaluate_in(run_context, tasks, condition, &mut scope, has_failed).await?;
        let source = condition.source().trim();
        let decided = evaluated.condition(source);
        decided.map_err(|mismatch| TaskError::Failed(mismatch_text(source, &mismatch)))
    }

    /// Returns the values of the texts of the task.
    pub(super) async fn scope(&self, task: &TaskDefinition) -> Result<TemplateScope, TaskError> {
        let references = task.action_references();
        self.kernel.task_scope(&self.run_context, &self.tasks, references, self.has_failed).await
    }

    /// Returns the row of the task if it has started.
    pub(super) fn row(&self) -> Option<TaskRow> {
        self.tasks.row(&self.key)
    }

    /// Starts the task, or starts it again.
    pub(super) async fn start(&self, message: Option<NewMessage>) -> Result<TaskRow, TaskError> {
        let new =
            NewTask { key: self.key.clone(), condition: self.condition, items: None, message };
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

    /// Returns the time of the first start.
    pub(super) fn started(&self) -> Option<Millis> {
        self.row()?.started
    }
}
