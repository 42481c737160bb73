//! Tasks of a run.

use agent_worker_protocol::RunId;
use async_trait::async_trait;

use super::store_methods;
use crate::{
    database::Database,
    error::Result,
    model::{NewTask, TaskEnd, TaskResend, TaskRow},
    multi_store::MultiStore,
    sql::tasks,
    time::Now,
};

/// Tasks of a run that have started, or that will not start.
#[async_trait]
pub trait TaskStore: Send + Sync {
    /// Starts a task, and writes its message in the same transaction; starts a task again whose command ended without a
    /// result. Returns the row. A task that has ended, or has sent its message, stays as it is. Refused unless the run
    /// is running.
    async fn task_start(&self, run: RunId, new: NewTask, now: Now) -> Result<TaskRow>;
    /// Sends a new message of a running task, in the same transaction as its row names it, and counts a start. Drops the
    /// deliveries of the previous message that no agent acted on, also dead letters; they are no failure of the run.
    /// Refused while an attempt works on one. A task that has ended, or has sent another message, stays as it is.
    async fn task_resend(&self, run: RunId, resend: TaskResend, now: Now) -> Result<TaskRow>;
    /// Ends a task of a live run, also one that never starts. Returns the row. A task that has ended stays as it is.
    async fn task_finish(&self, run: RunId, end: TaskEnd, now: Now) -> Result<TaskRow>;
    /// Stores the outputs of the setup commands of a run as tasks that are done; replaces those of an earlier try.
    async fn task_setup(&self, run: RunId, ends: Vec<TaskEnd>, now: Now) -> Result<()>;
    /// Lists the tasks of a run in the order of their paths.
    async fn task_list(&self, run: RunId) -> Result<Vec<TaskRow>>;
}

store_methods! {
    impl TaskStore;
    both {
        write of_run(run) task_start(run: RunId, new: NewTask, now: Now) -> TaskRow
            = move |tx| tasks::start(tx, run, &new, now);
        write of_run(run) task_resend(run: RunId, resend: TaskResend, now: Now) -> TaskRow
            = move |tx| tasks::resend(tx, run, &resend, now);
        write of_run(run) task_finish(run: RunId, end: TaskEnd, now: Now) -> TaskRow
            = move |tx| tasks::finish(tx, run, &end, now);
        write of_run(run) task_setup(run: RunId, ends: Vec<TaskEnd>, now: Now) -> ()
            = move |tx| tasks::record_setup(tx, run, &ends, now);
        read of_run(run) task_list(run: RunId) -> Vec<TaskRow> = move |db| tasks::list(db, run);
    }
    database {}
    multi_store {}
    impl Database {}
    impl MultiStore {}
}
