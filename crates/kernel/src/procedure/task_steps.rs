//! The next steps of a procedure: from its tree and the rows of its tasks. Pure; the loop of the run carries the steps
//! out, stores their results as rows, and asks again.
//!
//! A task has no row until its turn comes, which is when all tasks that it waits for have ended. Then it is skipped,
//! or its `if` is evaluated, or it starts. A task whose `if` is false and that has `else` also has a running row, with
//! `condition: false`, until the tasks of `else` have ended. A group runs while its tasks do.
//!
//! A task has *failed in effect* if it failed without `continue_on_error`, if it was stopped, or if it was skipped
//! because of such a task. Tasks that wait for one are skipped, unless their `if` calls `failure()` or `always()`.
//!
//! The list of `finally` begins when all other tasks have ended. The items of `for_each` are no tasks here: their rows
//! belong to the work of their task.

use std::collections::{BTreeMap, BTreeSet};

use agent_worker_protocol::{TaskPath, TaskState};
use agent_worker_store::{TaskKey, TaskRow};
use agent_worker_workflow::{TaskAction, TaskDefinition, TaskProcedure};

/// Rows of the tasks of a run.
pub(crate) type TaskRows = BTreeMap<TaskKey, TaskRow>;

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TaskStep<'t> {
    /// Evaluate the `if` of the task. Then start the task with the value, or, if the value is false and the task has no
    /// `else`, finish it as skipped.
    Decide {
        /// Task with a condition.
        task: &'t TaskDefinition,
        /// Value of `failure()`.
        has_failed: bool,
    },
    /// Start the task; a group needs nothing else.
    Start(&'t TaskDefinition),
    /// Store the end of a task whose own action does not run: a group, or a task that is skipped.
    Finish {
        /// Task to end.
        task: &'t TaskDefinition,
        /// State in which the task ends.
        state: TaskState,
    },
    /// Stop the running action of the task, which then ends as stopped.
    Stop(&'t TaskDefinition),
}

/// Progress of a procedure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TaskProgress<'t> {
    /// Steps that can be taken now, in the order of the file.
    pub(crate) steps: Vec<TaskStep<'t>>,
    /// State of the whole procedure, once every task has ended.
    pub(crate) end: Option<TaskState>,
}

/// Returns the next steps. Without steps and without an end, the procedure waits for a running task. `begun` are the tasks
/// whose work is under way; the row of such a task may not be written yet.
pub(crate) fn next_task_steps<'t>(
    procedure: &'t TaskProcedure,
    rows: &TaskRows,
    begun: &BTreeSet<TaskPath>,
) -> TaskProgress<'t> {
    let mut walk = TaskWalk { rows, begun, steps: Vec::new() };
    let list = TaskList { tasks: &procedure.tasks, max: None, fail_fast: false };
    let end = walk.list(&list, Circumstances::default());
    let end = end.and_then(|end| walk.finally(&procedure.finally, end));
    TaskProgress { steps: walk.steps, end }
}

/// Tasks that share an order.
struct TaskList<'t> {
    tasks: &'t [TaskDefinition],
    /// Maximum number of running tasks.
    max: Option<u32>,
    fail_fast: bool,
}

/// Effects of the groups around a list.
#[derive(Clone, Copy, Default)]
struct Circumstances {
    /// True if `failure()` is true before the first task of the list.
    has_failed: bool,
    /// True if a group around the list is being stopped.
    is_halted: bool,
}

/// State of the tasks for which a task waits.
#[derive(Clone, Copy)]
struct EarlierTasks {
    are_final: bool,
    have_failed: bool,
}

impl EarlierTasks {
    /// Adds a task.
    fn and(self, walk: &TaskWalk<'_, '_>, task: &TaskDefinition) -> Self {
        Self {
            are_final: self.are_final && walk.state(task).is_final(),
            have_failed: self.have_failed || walk.has_failed_in_effect(task),
        }
    }
}

struct TaskWalk<'t, 'r> {
    rows: &'r TaskRows,
    begun: &'r BTreeSet<TaskPath>,
    steps: Vec<TaskStep<'t>>,
}

impl<'t, 'r> TaskWalk<'t, 'r> {
    /// Adds the steps of a list; returns its final state if every task has ended.
    fn list(&mut self, list: &TaskList<'t>, around: Circumstances) -> Option<TaskState> {
        let failed = |task: &TaskDefinition| self.has_failed_in_effect(task);
        let is_halted = around.is_halted || (list.fail_fast && list.tasks.iter().any(failed));
        let running = list.tasks.iter().filter(|task| self.state(task) == TaskState::Running);
        let mut free = list.max.map(|max| (max as usize).saturating_sub(running.count()));
        let mut before = EarlierTasks { are_final: true, have_failed: false };
        for (index, task) in list.tasks.iter().enumerate() {
            let needed = self.needed(list, task, index, before);
            before = before.and(self, task);
            match self.row(task) {
                Some(row) if row.state.is_final() => {}
                Some(row) => {
                    let around = Circumstances { is_halted, ..around };
                    let has_failed = around.has_failed || needed.have_failed;
                    self.running_task(task, row, Circumstances { has_failed, ..around });
                }
                None if self.begun.contains(&task.path) => {
                    if is_halted {
                        self.steps.push(TaskStep::Stop(task));
                    }
                }
                None if is_halted => {
                    self.steps.push(TaskStep::Finish { task, state: TaskState::Skipped });
                }
                None => self.waiting_task(task, needed, around, &mut free),
            }
        }
        self.list_end(list)
    }

    /// Adds the steps of the tasks that run after all others, which ended in the state `before`. Returns the state of the
    /// whole procedure if every task has ended.
    fn finally(&mut self, tasks: &'t [TaskDefinition], before: TaskState) -> Option<TaskState> {
        let list = TaskList { tasks, max: None, fail_fast: false };
        let has_failed = before != TaskState::Done;
        let end = self.list(&list, Circumstances { has_failed, is_halted: false })?;
        Some(match before {
            TaskState::Done => end,
            TaskState::Stopped if end == TaskState::Failed => end,
            before => before,
        })
    }

    fn list_end(&self, list: &TaskList<'_>) -> Option<TaskState> {
        let is_over = list.tasks.iter().all(|task| self.state(task).is_final());
        let has = |state| {
            let mut tasks = list.tasks.iter();
            tasks.any(|task| self.state(task) == state && self.has_failed_in_effect(task))
        };
        is_over.then(|| match () {
            () if has(TaskState::Failed) => TaskState::Failed,
            () if has(TaskState::Stopped) || has(TaskState::Skipped) => TaskState::Stopped,
            () => TaskState::Done,
        })
    }

    /// Adds the step of a task without a row, if its turn has come.
    fn waiting_task(
        &mut self,
        task: &'t TaskDefinition,
        needed: EarlierTasks,
        around: Circumstances,
        free: &mut Option<usize>,
    ) {
        if !needed.are_final {
            return;
        }
        let is_blocked = needed.have_failed;
        if is_blocked && !task.handles_failure() {
            self.steps.push(TaskStep::Finish { task, state: TaskState::Skipped });
            return;
        }
        if *free == Some(0) {
            return;
        }
        *free = free.map(|free| free - 1);
        let has_failed = around.has_failed || is_blocked;
        self.steps.push(match &task.condition {
            Some(_) => TaskStep::Decide { task, has_failed },
            None => TaskStep::Start(task),
        });
    }

    /// Adds the steps inside a running task.
    fn running_task(&mut self, task: &'t TaskDefinition, row: &TaskRow, around: Circumstances) {
        let list = |tasks| TaskList { tasks, max: None, fail_fast: false };
        if row.condition == Some(false) {
            let end = self.list(&list(&task.otherwise), around);
            let state = end.map(|end| match end {
                // The task itself was skipped by its `if`.
                TaskState::Done => TaskState::Skipped,
                other => other,
            });
            self.steps.extend(state.map(|state| TaskStep::Finish { task, state }));
            return;
        }
        let end = match &task.action {
            TaskAction::Parallel(group) => {
                let list =
                    TaskList { tasks: &group.tasks, max: group.max, fail_fast: group.fail_fast };
                self.list(&list, around)
            }
            TaskAction::Sequence(tasks) => self.list(&list(tasks), around),
            TaskAction::Shell(_)
            | TaskAction::Send(_)
            | TaskAction::Ask(_)
            | TaskAction::Workflow(_) => {
                if around.is_halted {
                    self.steps.push(TaskStep::Stop(task));
                }
                return;
            }
        };
        self.steps.extend(end.map(|state| TaskStep::Finish { task, state }));
    }

    /// Returns the state of the tasks for which a task waits. `before` is the state of all tasks before it, for which
    /// most tasks of a list wait.
    fn needed(
        &self,
        list: &TaskList<'_>,
        task: &TaskDefinition,
        index: usize,
        before: EarlierTasks,
    ) -> EarlierTasks {
        let is_everything =
            task.after.len() == index && task.after.last().is_none_or(|last| *last < index);
        if is_everything {
            return before;
        }
        let needed = task.after.iter().filter_map(|index| list.tasks.get(*index));
        let none = EarlierTasks { are_final: true, have_failed: false };
        needed.fold(none, |all, one| all.and(self, one))
    }

    fn row(&self, task: &TaskDefinition) -> Option<&'r TaskRow> {
        self.rows.get(&TaskKey::of(task.path.clone()))
    }

    fn state(&self, task: &TaskDefinition) -> TaskState {
        let is_begun = self.begun.contains(&task.path);
        let begun = || if is_begun { TaskState::Running } else { TaskState::Waiting };
        self.row(task).map_or_else(begun, |row| row.state)
    }

    fn has_failed_in_effect(&self, task: &TaskDefinition) -> bool {
        let Some(row) = self.row(task) else { return false };
        match row.state {
            TaskState::Failed => !task.continue_on_error,
            TaskState::Stopped => true,
            // Skipped by its `if`, a task counts as done.
            TaskState::Skipped => row.condition != Some(false),
            TaskState::Waiting | TaskState::Running | TaskState::Done => false,
        }
    }
}

#[cfg(test)]
mod tests;
