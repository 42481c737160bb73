//! Children we started and children the dead left to us. The daemon is a subreaper: whoever loses its parent inside
//! one of our trees becomes our child, whatever its environment and session say.

use std::{
    collections::{HashMap, HashSet},
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agent_worker_host::{ATTEMPT_MARKER, Process, children, end, environment_value, reap};
use tokio::process::{Child, Command};
use tokio_util::task::TaskTracker;

/// The processes we started ourselves and still wait for.
#[derive(Clone, Default)]
pub(super) struct Strays {
    own: Arc<Mutex<Own>>,
    tracker: TaskTracker,
}

#[derive(Default)]
struct Own {
    /// Those we started and wait for.
    processes: HashSet<u32>,
    /// Those a setup command left on purpose, each with the mark of its run.
    guests: HashMap<Process, String>,
}

impl Strays {
    /// Starts a child of our own.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<(Child, u32)> {
        // Held over the spawn: a child that is not yet known would look like a stray.
        let mut own = self.lock();
        let child = command.spawn()?;
        let pid = child.id().ok_or_else(|| io::Error::other("it was gone at once"))?;
        own.processes.insert(pid);
        Ok((child, pid))
    }

    /// A child of our own was waited for.
    pub(super) fn forget(&self, pid: u32) {
        self.lock().processes.remove(&pid);
    }

    pub(super) fn tracker(&self) -> &TaskTracker {
        &self.tracker
    }

    /// Ends strays that belong to nobody any more, and waits for the dead among them.
    pub(super) async fn end(&self, grace: Duration) {
        end(|| self.nobodys(), grace).await;
        // Held over the look: a child that is spawned and dies in between is somebody's.
        let own = self.lock();
        reap(|pid| !own.processes.contains(&pid));
    }

    /// Lets what a setup command left behind stay until its run is over, whatever it makes of its own environment.
    pub(super) fn welcome(&self, mark: &str) {
        let mut own = self.lock();
        own.guests.retain(|guest, _| guest.is_alive());
        let known =
            |child: &Process| own.processes.contains(&child.pid) || own.guests.contains_key(child);
        let left: Vec<Process> = children().into_iter().filter(|child| !known(child)).collect();
        own.guests.extend(left.into_iter().map(|guest| (guest, mark.to_owned())));
    }

    /// What the setup of this mark's run left, as far as it lives.
    pub(super) fn guests_of(&self, mark: &str) -> Vec<Process> {
        let own = self.lock();
        let theirs = own.guests.iter().filter(|(guest, whose)| *whose == mark && guest.is_alive());
        theirs.map(|(guest, _)| *guest).collect()
    }

    /// Those without a mark. A marked one is what a setup left on purpose, or is swept with its own attempt.
    fn nobodys(&self) -> Vec<Process> {
        let own = self.lock();
        let stray = |process: &Process| {
            !own.processes.contains(&process.pid) && !own.guests.contains_key(process)
        };
        let unmarked =
            |process: &Process| matches!(environment_value(process.pid, ATTEMPT_MARKER), Ok(None));
        children().into_iter().filter(|child| stray(child) && unmarked(child)).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
