//! Children that we started and orphans that we inherited. The daemon is a subreaper: a process that loses its
//! parent inside one of our trees becomes our child, whatever its environment and session are.

use std::{
    collections::{HashMap, HashSet},
    io,
    sync::{Arc, Mutex},
};

use agent_worker_protocol::sync;

use agent_worker_host::{
    ATTEMPT_MARKER, Process, children, dead_children, environment_value, reap, run_blocking,
};
use tokio::process::{Child, Command};
use tokio_util::task::TaskTracker;

use super::grace_period::GracePeriod;

/// Registry of the children of this daemon.
#[derive(Clone, Default)]
pub(super) struct ChildRegistry {
    tracked: Arc<Mutex<TrackedChildren>>,
    tracker: TaskTracker,
}

#[derive(Default)]
struct TrackedChildren {
    /// Processes that we started and wait for.
    started: HashSet<u32>,
    /// Processes that a setup command or the command of a task left on purpose, each with the mark of its run.
    kept: HashMap<Process, String>,
}

impl TrackedChildren {
    fn contains(&self, child: Process) -> bool {
        self.started.contains(&child.pid) || self.kept.contains_key(&child)
    }
}

impl ChildRegistry {
    /// Starts a child process.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<(Child, u32)> {
        // Hold the lock over the spawn; readers take it after listing children, so every visible child is
        // registered by then.
        let mut own = self.lock();
        let child = command.spawn()?;
        let pid = child.id().ok_or_else(|| io::Error::other("the process ended at once"))?;
        own.started.insert(pid);
        Ok((child, pid))
    }

    /// Removes a child that was waited for.
    pub(super) fn remove(&self, pid: u32) {
        self.lock().started.remove(&pid);
    }

    pub(super) fn tracker(&self) -> &TaskTracker {
        &self.tracker
    }

    /// Ends inherited processes that belong to no run or attempt, and reaps the dead among them.
    pub(super) async fn end_untracked(&self, grace: &GracePeriod) {
        let registry = self.clone();
        grace.end_processes(move || registry.untracked(), Vec::new()).await;
        let registry = self.clone();
        run_blocking(move || registry.reap_dead()).await;
    }

    /// Keeps the processes that a setup command left until its run ends, whatever they do with their environment.
    pub(super) async fn adopt_leftovers(&self, mark: &str) {
        let Some(mut left) = run_blocking(children).await else { return };
        let mut own = self.lock();
        own.kept.retain(|process, _| process.is_alive());
        left.retain(|child| !own.contains(*child));
        own.kept.extend(left.into_iter().map(|process| (process, mark.to_owned())));
    }

    /// Keeps processes that the command of a task left until its run ends.
    pub(super) fn keep(&self, left: &[Process], mark: &str) {
        let kept = left.iter().map(|process| (*process, mark.to_owned()));
        self.lock().kept.extend(kept);
    }

    /// Returns the living processes that the setup and the tasks of this mark's run left.
    pub(super) fn kept_of(&self, mark: &str) -> Vec<Process> {
        let own = self.lock();
        let theirs =
            own.kept.iter().filter(|(process, whose)| *whose == mark && process.is_alive());
        theirs.map(|(process, _)| *process).collect()
    }

    /// Returns inherited children without a mark. A marked child was left by a setup on purpose, or is swept with
    /// its attempt.
    fn untracked(&self) -> Vec<Process> {
        let mut left = children();
        {
            let own = self.lock();
            left.retain(|child| !own.contains(*child));
        }
        left.retain(|child| matches!(environment_value(child.pid, ATTEMPT_MARKER), Ok(None)));
        left
    }

    /// Reaps dead children that no other task waits for.
    fn reap_dead(&self) {
        let dead = dead_children();
        // Hold the lock until they are reaped: a new child may get one of their pids at any moment.
        let own = self.lock();
        dead.into_iter().filter(|dead| !own.started.contains(&dead.pid)).for_each(reap);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, TrackedChildren> {
        sync::lock(&self.tracked)
    }
}
