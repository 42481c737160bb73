//! Progress of a procedure: the loop of a run takes the next steps, and learns what is left.

use std::sync::{Arc, atomic::Ordering};

use agent_worker_protocol::{RunState, TaskPath, TaskState, sync};
use agent_worker_store::{Error as StoreError, NewTask, RunRow, TaskEnd, TaskKey, TaskRow};
use agent_worker_workflow::TaskDefinition;
use tokio_util::sync::CancellationToken;

use super::{
    RunTasks, is_running_work,
    task_run::TaskBegin,
    task_steps::{TaskRows, TaskStep, next_task_steps},
};
use crate::{
    error::Result,
    kernel::{Kernel, RunContext},
};

/// State of a procedure for the decision about its run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProcedureState {
    /// The file has no tasks.
    #[default]
    Absent,
    /// Tasks are left.
    Open {
        /// True if a command runs or an expression is evaluated: the run does not only wait for its agents.
        is_working: bool,
    },
    /// All tasks have ended.
    Ended {
        /// Places and reasons of the tasks that make the run fail, in the order of the file.
        failures: Vec<String>,
    },
}

impl ProcedureState {
    /// State of a procedure that the loop has not looked at.
    pub(crate) const OPEN: Self = Self::Open { is_working: true };

    /// Returns true if no task is left.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Self::Absent | Self::Ended { .. })
    }

    /// Returns true if a task works that waits for no agent.
    pub(crate) fn is_working(&self) -> bool {
        matches!(self, Self::Open { is_working: true })
    }
}

impl Kernel {
    /// Takes the next steps of the tasks of a run, and returns what is left.
    pub(crate) async fn advance_procedure(
        &self,
        run_context: &Arc<RunContext>,
        tasks: &Arc<RunTasks>,
        stop: &CancellationToken,
    ) -> Result<ProcedureState> {
        tasks.loaded.get_or_try_init(|| self.load_tasks(run_context, tasks)).await?;
        let procedure = &run_context.script.workflow.tasks;
        let row = self.store.run_get(run_context.run).await?;
        let advances = may_advance(&row, tasks);
        if advances {
            while self.take_next_steps(run_context, tasks, stop).await? {}
        }
        // A paused run starts nothing, and what runs goes on: a new daemon adopts it.
        let continues = advances
            || matches!(row.state, RunState::Paused { .. })
                && !tasks.is_interrupted.load(Ordering::Relaxed);
        for task in procedure.walk().filter(|_| continues) {
            let row = tasks.row(&TaskKey::of(task.path.clone()));
            if row.is_some_and(|row| is_running_work(task, &row)) {
                self.spawn_task(run_context, tasks, &task.path, TaskBegin::Continue, stop);
            }
        }
        Ok(tasks.state(procedure_end(run_context, tasks)))
    }

    async fn load_tasks(&self, run_context: &RunContext, tasks: &RunTasks) -> Result<()> {
        for row in self.store.task_list(run_context.run).await? {
            tasks.put_row(row);
        }
        Ok(())
    }

    /// Takes the next steps. Returns true if rows have changed, so that there may be further steps.
    async fn take_next_steps(
        &self,
        run_context: &Arc<RunContext>,
        tasks: &Arc<RunTasks>,
        stop: &CancellationToken,
    ) -> Result<bool> {
        let progress = {
            let rows = sync::lock(&tasks.rows);
            next_task_steps(&run_context.script.workflow.tasks, &rows, &tasks.active_paths())
        };
        let mut has_changed = false;
        for step in &progress.steps {
            match step {
                TaskStep::Decide { task, has_failed } => {
                    let begin = TaskBegin::Decide { has_failed: *has_failed };
                    self.spawn_task(run_context, tasks, &task.path, begin, stop);
                }
                TaskStep::Start(task) if task.is_group() => {
                    has_changed |= self.start_group(run_context, tasks, task).await?;
                }
                TaskStep::Start(task) => {
                    self.spawn_task(run_context, tasks, &task.path, TaskBegin::Start, stop);
                }
                TaskStep::Finish { task, state } => {
                    self.finish_group(run_context, tasks, task, *state).await?;
                    has_changed = true;
                }
                TaskStep::Stop(task) => tasks.stop(&task.path),
            }
        }
        Ok(has_changed)
    }

    /// Starts a group; returns false if the run does not take new work.
    async fn start_group(
        &self,
        run_context: &RunContext,
        tasks: &RunTasks,
        task: &TaskDefinition,
    ) -> Result<bool> {
        let key = TaskKey::of(task.path.clone());
        let new = NewTask { key, condition: None, items: None, message: None };
        match self.store.task_start(run_context.run, new, self.now()).await {
            Ok(row) => {
                tasks.put_row(row);
                Ok(true)
            }
            Err(StoreError::WrongRunState(_) | StoreError::NoRun) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn finish_group(
        &self,
        run_context: &RunContext,
        tasks: &RunTasks,
        task: &TaskDefinition,
        state: TaskState,
    ) -> Result<()> {
        let end = TaskEnd {
            key: TaskKey::of(task.path.clone()),
            state,
            condition: None,
            output: None,
            exit_code: None,
            error: None,
            stderr: None,
        };
        tasks.put_row(self.store.task_finish(run_context.run, end, self.now()).await?);
        Ok(())
    }
}

/// Returns true if tasks may start: the run works, and at the beginning the team has finished the work of the kickoff.
fn may_advance(row: &RunRow, tasks: &RunTasks) -> bool {
    if row.state != RunState::Running {
        return false;
    }
    tasks.is_interrupted.store(false, Ordering::Relaxed);
    let has_begun = sync::lock(&tasks.rows).keys().any(|key| !key.path.is_setup());
    has_begun || tasks.team.borrow().is_idle
}

/// Returns the end of the procedure, if all of its tasks have ended.
fn procedure_end(run_context: &RunContext, tasks: &RunTasks) -> Option<Vec<String>> {
    let procedure = &run_context.script.workflow.tasks;
    let rows = sync::lock(&tasks.rows);
    let end = next_task_steps(procedure, &rows, &tasks.active_paths()).end?;
    let mut failures = Vec::new();
    if end != TaskState::Done {
        collect_failures(&procedure.tasks, &rows, &mut failures);
        collect_failures(&procedure.finally, &rows, &mut failures);
        if failures.is_empty() {
            failures.push(format!("the procedure {end}"));
        }
    }
    Some(failures)
}

/// Adds the places and reasons of the tasks of a list that fail their procedure. A task without a reason failed by a task
/// in it.
fn collect_failures(list: &[TaskDefinition], rows: &TaskRows, found: &mut Vec<String>) {
    for task in list {
        let Some(row) = rows.get(&TaskKey::of(task.path.clone())) else { continue };
        let counts = match row.state {
            TaskState::Failed => !task.continue_on_error,
            TaskState::Stopped => true,
            TaskState::Waiting | TaskState::Running | TaskState::Done | TaskState::Skipped => false,
        };
        match &row.error {
            _ if !counts => {}
            Some(why) => found.push(format!("task `{}` {}: {why}", task.path, row.state)),
            None => {
                collect_failures(task.children(), rows, found);
                collect_failures(&task.otherwise, rows, found);
            }
        }
    }
}

impl RunTasks {
    fn state(&self, end: Option<Vec<String>>) -> ProcedureState {
        match end {
            Some(failures) => ProcedureState::Ended { failures },
            None => ProcedureState::Open { is_working: self.is_working() },
        }
    }

    /// Returns true if a task does something other than waiting for its message.
    fn is_working(&self) -> bool {
        let rows = sync::lock(&self.rows);
        let waits = |path: &TaskPath| {
            let key = |item| TaskKey { path: path.clone(), item };
            let rows = rows.range(key(0)..=key(u32::MAX)).map(|(_, row)| row);
            // The row of a task with items waits for theirs.
            let is_work = |row: &&TaskRow| row.state == TaskState::Running && row.items.is_none();
            let mut work = rows.filter(is_work).peekable();
            work.peek().is_some() && work.all(|row| row.message.is_some())
        };
        !self.active_paths().iter().all(waits)
    }

    /// Ends the work of the tasks; what has not come to its end begins again when the run goes on.
    pub(crate) fn interrupt(&self) {
        self.is_interrupted.store(true, Ordering::Relaxed);
        sync::lock(&self.active).values().for_each(CancellationToken::cancel);
    }

    fn stop(&self, path: &TaskPath) {
        if let Some(stop) = sync::lock(&self.active).get(path) {
            stop.cancel();
        }
    }
}
