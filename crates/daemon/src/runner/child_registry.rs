//! Children we started and children the dead left to us. The daemon is a subreaper: whoever loses its parent inside
//! one of our trees becomes our child, whatever its environment and session say.

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

/// The processes we started ourselves and still wait for.
#[derive(Clone, Default)]
pub(super) struct ChildRegistry {
    tracked: Arc<Mutex<TrackedChildren>>,
    tracker: TaskTracker,
}

#[derive(Default)]
struct TrackedChildren {
    /// Those we started and wait for.
    started: HashSet<u32>,
    /// Those a setup command left on purpose, each with the mark of its run.
    kept: HashMap<Process, String>,
}

impl TrackedChildren {
    fn contains(&self, child: Process) -> bool {
        self.started.contains(&child.pid) || self.kept.contains_key(&child)
    }
}

impl ChildRegistry {
    /// Starts a child of our own.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<(Child, u32)> {
        // Held over the spawn, and asked for after every look: a child that could be seen is known by then.
        let mut own = self.lock();
        let child = command.spawn()?;
        let pid = child.id().ok_or_else(|| io::Error::other("it was gone at once"))?;
        own.started.insert(pid);
        Ok((child, pid))
    }

    /// A child of our own was waited for.
    pub(super) fn remove(&self, pid: u32) {
        self.lock().started.remove(&pid);
    }

    pub(super) fn tracker(&self) -> &TaskTracker {
        &self.tracker
    }

    /// Ends strays that belong to nobody any more, and waits for the dead among them.
    pub(super) async fn end_untracked(&self, grace: &GracePeriod) {
        let registry = self.clone();
        grace.end_processes(move || registry.untracked(), Vec::new()).await;
        let registry = self.clone();
        run_blocking(move || registry.reap_dead()).await;
    }

    /// Lets what a setup command left behind stay until its run is over, whatever it makes of its own environment.
    pub(super) async fn adopt_leftovers(&self, mark: &str) {
        let Some(mut left) = run_blocking(children).await else { return };
        let mut own = self.lock();
        own.kept.retain(|guest, _| guest.is_alive());
        left.retain(|child| !own.contains(*child));
        own.kept.extend(left.into_iter().map(|guest| (guest, mark.to_owned())));
    }

    /// What the setup of this mark's run left, as far as it lives.
    pub(super) fn kept_of(&self, mark: &str) -> Vec<Process> {
        let own = self.lock();
        let theirs = own.kept.iter().filter(|(guest, whose)| *whose == mark && guest.is_alive());
        theirs.map(|(guest, _)| *guest).collect()
    }

    /// Those without a mark. A marked one is what a setup left on purpose, or is swept with its own attempt.
    fn untracked(&self) -> Vec<Process> {
        let mut left = children();
        {
            let own = self.lock();
            left.retain(|child| !own.contains(*child));
        }
        left.retain(|child| matches!(environment_value(child.pid, ATTEMPT_MARKER), Ok(None)));
        left
    }

    /// Waits for the dead nobody else waits for.
    fn reap_dead(&self) {
        let dead = dead_children();
        // Held until they are waited for: one of their numbers may be given to a child of ours at any moment.
        let own = self.lock();
        dead.into_iter().filter(|dead| !own.started.contains(&dead.pid)).for_each(reap);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, TrackedChildren> {
        sync::lock(&self.tracked)
    }
}
