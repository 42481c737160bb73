//! Procedures: carries out the tasks of a run.
//!
//! The run's loop asks `task_steps` for the next steps, which is pure: it sees the procedure and the rows of its tasks.
//! A step that only changes a row is taken at once. The work of a task (`task_run`) is a future of its own, which
//! writes its start and its end, and wakes the loop. A task whose row runs and that has no such future is one that a
//! daemon before this one started: its future continues it, so that the first start and a recovery are one path.
//!
//! Invariant: only the loop of a run and the futures that it started write the rows of the run's tasks, so the rows in
//! memory are those of the store.
//! Invariant: a row says that a task runs before any of its work begins.

mod progress;
mod task_command;
pub(crate) mod task_error;
mod task_items;
mod task_message;
mod task_output;
mod task_retry;
mod task_run;
mod task_steps;
mod task_values;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use agent_worker_protocol::{TaskPath, TaskState, sync};
use agent_worker_store::{TaskKey, TaskRow};
use agent_worker_workflow::{TaskDefinition, TemplateScope, Workflow};
use tokio::sync::{Notify, OnceCell, watch};
use tokio_util::sync::CancellationToken;

pub(crate) use progress::ProcedureState;
pub(crate) use task_values::setup_path;

/// Tasks of one run in this daemon.
pub(crate) struct RunTasks {
    rows: Mutex<BTreeMap<TaskKey, TaskRow>>,
    active: Mutex<BTreeMap<TaskPath, CancellationToken>>,
    names: TaskNames,
    /// Values that no task makes: parameters, variables, names.
    base: OnceCell<TemplateScope>,
    /// Wakes the loop of the run.
    pub(crate) changed: Notify,
    settlements: AtomicU64,
    team: watch::Sender<TeamRest>,
    loaded: OnceCell<()>,
    /// True while the work of the tasks is being ended at a limit.
    is_interrupted: AtomicBool,
}

/// Result of a settlement for the tasks that wait for the team.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TeamRest {
    /// Number of the settlement.
    pub(crate) number: u64,
    /// True if no agent was busy or had work.
    pub(crate) is_idle: bool,
}

/// Places of the named values of a procedure.
#[derive(Default)]
struct TaskNames {
    outputs: HashMap<String, TaskPath>,
    tasks: HashMap<String, TaskPath>,
}

impl RunTasks {
    /// Returns the tasks of a workflow; none if it has no procedure.
    pub(crate) fn of(workflow: &Workflow) -> Option<Self> {
        if workflow.tasks.is_empty() {
            return None;
        }
        Some(Self {
            rows: Mutex::default(),
            active: Mutex::default(),
            names: TaskNames::of(workflow),
            base: OnceCell::new(),
            changed: Notify::new(),
            settlements: AtomicU64::new(0),
            team: watch::Sender::new(TeamRest::default()),
            loaded: OnceCell::new(),
            is_interrupted: AtomicBool::new(false),
        })
    }

    /// Returns the number of a settlement that begins now.
    pub(crate) fn begin_settlement(&self) -> u64 {
        self.settlements.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Records what a settlement found, and wakes the loop if the team has just come to rest.
    pub(crate) fn end_settlement(&self, rest: TeamRest) {
        let before = self.team.send_replace(rest);
        if rest.is_idle && !before.is_idle {
            self.changed.notify_one();
        }
    }

    fn row(&self, key: &TaskKey) -> Option<TaskRow> {
        sync::lock(&self.rows).get(key).cloned()
    }

    fn put_row(&self, row: TaskRow) {
        sync::lock(&self.rows).insert(row.key.clone(), row);
    }

    /// Registers the work of a task; returns none if it is already registered.
    fn enter(&self, path: &TaskPath, run: &CancellationToken) -> Option<CancellationToken> {
        let mut active = sync::lock(&self.active);
        if active.contains_key(path) {
            return None;
        }
        let stop = run.child_token();
        active.insert(path.clone(), stop.clone());
        Some(stop)
    }

    fn leave(&self, path: &TaskPath) {
        sync::lock(&self.active).remove(path);
    }

    fn active_paths(&self) -> BTreeSet<TaskPath> {
        sync::lock(&self.active).keys().cloned().collect()
    }
}

impl TaskNames {
    fn of(workflow: &Workflow) -> Self {
        let mut names = Self::default();
        for (nth, step) in workflow.setup.iter().enumerate() {
            if let Some(name) = &step.name {
                names.outputs.insert(name.clone(), setup_path(nth));
            }
        }
        for task in workflow.tasks.walk() {
            if let Some(name) = &task.output_name {
                names.outputs.insert(name.clone(), task.path.clone());
            }
            if let Some(name) = &task.name {
                names.tasks.insert(name.clone(), task.path.clone());
            }
        }
        names
    }
}

/// Returns true if a task runs and is no group: neither its own tasks nor those of its `else` are its work.
fn is_running_work(task: &TaskDefinition, row: &TaskRow) -> bool {
    row.state == TaskState::Running && row.condition != Some(false) && !task.is_group()
}
