//! Processes: who descends from whom, and which belong to an attempt. How they are ended is in `ending`.
//!
//! A process is named by pid and start time, and signalled through a descriptor that was checked
//! against both, so that a pid the system has given to somebody else is never hit.
//!
//! What looks at every process there is takes milliseconds and blocks: [`crate::run_blocking`] gives it a thread of its own.

use std::{collections::BTreeSet, io};

use rustix::{
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open,
        pidfd_send_signal, test_kill_process, waitid,
    },
};

use crate::{
    cgroup::group_marks,
    procfs::{self, Stat},
};

/// The environment variable that every process of an attempt carries, with the attempt's id.
pub const ATTEMPT_MARKER: &str = "AGENT_WORKER_ATTEMPT";

/// One process, and never another one that got its number later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it began, in the system's own unit.
    pub start_time: u64,
}

impl Process {
    /// The process that has this number now, if one does and it lives.
    pub fn of(pid: u32) -> Option<Self> {
        procfs::stat(pid).filter(|stat| !stat.is_zombie).map(Self::from)
    }

    /// Whether it still lives. One that is dead and not yet waited for does not.
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Sends a signal. A process that is gone takes it without complaint.
    pub fn signal(self, signal: Signal) -> io::Result<()> {
        let sent = match self.open() {
            Ok(fd) => pidfd_send_signal(fd, signal),
            // A kernel without such descriptors: as near as it can be had.
            Err(Errno::NOSYS) if self.is_alive() => kill_process(self.pid()?, signal),
            Err(Errno::NOSYS) => Ok(()),
            Err(error) => Err(error),
        };
        match sent {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// A descriptor of it. Checked after opening: what it names then cannot change any more.
    pub(crate) fn open(self) -> rustix::io::Result<std::os::fd::OwnedFd> {
        let fd = pidfd_open(self.pid()?, PidfdFlags::empty())?;
        if self.is_alive() { Ok(fd) } else { Err(Errno::SRCH) }
    }

    fn pid(self) -> rustix::io::Result<Pid> {
        i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)
    }
}

impl From<Stat> for Process {
    fn from(stat: Stat) -> Self {
        Self { pid: stat.pid, start_time: stat.start_time }
    }
}

/// Every living process below `pid`, not itself.
pub fn descendants(pid: u32) -> Vec<Process> {
    descendants_in(&procfs::all_processes(), pid)
}

/// Every living process below us; for a subreaper at its end.
///
/// Waits for dead orphans on the way, and would take the exit status of a child somebody still waits
/// for. Exact where [`descendants`] is a snapshot: an orphan becomes its subreaper's child, so whoever
/// has no children has no descendants.
pub fn own_descendants() -> Vec<Process> {
    let any = || waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    loop {
        match any() {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return descendants(std::process::id()),
            Err(_) => return Vec::new(),
        }
    }
}

/// Every living child of ours, and those whom dead parents below us left to us.
pub fn children() -> Vec<Process> {
    let own = std::process::id();
    let living =
        procfs::all_processes().into_iter().filter(|stat| stat.parent == own && !stat.is_zombie);
    living.map(Process::from).collect()
}

/// Every child of ours that is dead and not yet waited for.
pub fn dead_children() -> Vec<Process> {
    let own = std::process::id();
    let dead =
        procfs::all_processes().into_iter().filter(|stat| stat.parent == own && stat.is_zombie);
    dead.map(Process::from).collect()
}

/// Waits for a dead child nobody else waits for.
pub fn reap(dead: Process) {
    if let Ok(pid) = dead.pid() {
        // Gone meanwhile is as good.
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
}

/// A process and all its parents, nearest first. None: it is gone, or one of them went while we looked.
pub fn process_chain(pid: u32) -> Option<Vec<Process>> {
    let mut chain = vec![Process::of(pid)?];
    chain.extend(parents_of(pid, inspect)?);
    Some(chain)
}

/// Whether this process, or any it descends from, was started with the mark of an attempt. In doubt it was.
pub fn is_inside_attempt() -> bool {
    let looks = (0..3).map(|_| process_chain(std::process::id()));
    let Some(chain) = looks.flatten().next() else { return true };
    // In doubt it was: an error counts as a mark.
    let own = std::process::id();
    if group_marks(own, own).map_or(true, |marks| !marks.is_empty()) {
        return true;
    }
    // What another user runs is no worker of ours, and shows us nothing.
    let mark = |process: &Process| environment_value(process.pid, ATTEMPT_MARKER).ok().flatten();
    chain.iter().any(|process| mark(process).is_some())
}

/// What a look at one process shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessVisibility {
    /// It, as it is now.
    Visible(Stat),
    /// That it is there, and another user's: some systems show no more.
    Hidden,
    /// That there is none.
    Gone,
}

fn inspect(pid: u32) -> ProcessVisibility {
    if let Some(stat) = procfs::stat(pid) {
        return ProcessVisibility::Visible(stat);
    }
    match i32::try_from(pid).ok().and_then(Pid::from_raw).map(test_kill_process) {
        Some(Err(Errno::PERM)) => ProcessVisibility::Hidden,
        Some(_) | None => ProcessVisibility::Gone,
    }
}

/// The parents of `pid` up to the first process of all, or to the first we may not see. None: one is gone, so that who
/// was above it is not to be known.
fn parents_of(pid: u32, look: impl Fn(u32) -> ProcessVisibility) -> Option<Vec<Process>> {
    let ProcessVisibility::Visible(mut lowest) = look(pid) else { return None };
    let mut parents = Vec::new();
    while lowest.parent != 0 {
        match look(lowest.parent) {
            ProcessVisibility::Visible(parent) => {
                parents.push(Process::from(parent));
                lowest = parent;
            }
            ProcessVisibility::Hidden => break,
            ProcessVisibility::Gone => return None,
        }
    }
    Some(parents)
}

/// Every living process that was started with this attempt's id in its environment.
pub fn marked_processes(attempt: &str) -> Vec<Process> {
    let is_marked = |stat: &Stat| {
        let values = procfs::environment(stat.pid, ATTEMPT_MARKER).unwrap_or_default();
        values.iter().any(|value| value == attempt)
    };
    let living = procfs::all_processes().into_iter().filter(|stat| !stat.is_zombie);
    living.filter(is_marked).map(Process::from).collect()
}

/// Every attempt of which a living process carries the id.
pub fn attempt_marks() -> BTreeSet<String> {
    let living = procfs::all_processes().into_iter().filter(|stat| !stat.is_zombie);
    let values = living.filter_map(|stat| procfs::environment(stat.pid, ATTEMPT_MARKER).ok());
    values.flatten().collect()
}

/// The value `pid` was started with for the variable `name`. An error means: not to be known.
pub fn environment_value(pid: u32, name: &str) -> io::Result<Option<String>> {
    Ok(procfs::environment(pid, name)?.into_iter().next())
}

/// The living processes below `root` in a snapshot.
fn descendants_in(all: &[Stat], root: u32) -> Vec<Process> {
    let mut parents = vec![root];
    let mut seen = BTreeSet::from([root]);
    let mut found = Vec::new();
    while let Some(parent) = parents.pop() {
        for child in all.iter().filter(|stat| stat.parent == parent) {
            if seen.insert(child.pid) {
                parents.push(child.pid);
                found.push(*child);
            }
        }
    }
    found.into_iter().filter(|stat| !stat.is_zombie).map(Process::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_children_of_children_and_living() {
        let process = |pid, parent, is_zombie| Stat { pid, parent, start_time: 9, is_zombie };
        let all = [
            process(1, 0, false),
            process(10, 1, false),
            process(30, 20, false),
            process(20, 10, false),
            process(21, 10, true),
            process(11, 1, false),
        ];
        let pids = |root| descendants_in(&all, root).iter().map(|p| p.pid).collect::<BTreeSet<_>>();
        assert_eq!(pids(10), BTreeSet::from([20, 30]));
        assert_eq!(pids(11), BTreeSet::new());
        assert_eq!(pids(1), BTreeSet::from([10, 11, 20, 30]));
    }

    #[test]
    fn a_snapshot_torn_by_a_reused_pid_still_ends() {
        let process = |pid, parent| Stat { pid, parent, start_time: 9, is_zombie: false };
        assert_eq!(descendants_in(&[process(10, 20), process(20, 10)], 10).len(), 1);
    }

    #[test]
    fn a_chain_of_parents_that_is_torn_while_it_is_read_is_none() {
        let process = |pid, parent| Stat { pid, parent, start_time: 9, is_zombie: false };
        let seen = |pid, parent| (pid, ProcessVisibility::Visible(process(pid, parent)));
        let whole = [seen(30, 20), seen(20, 10), seen(10, 1), seen(1, 0)];
        let instead = |pid, sight| {
            let mut sights = whole;
            sights.iter_mut().filter(|one| one.0 == pid).for_each(|one| one.1 = sight);
            sights
        };
        for (sights, expected) in [
            (whole, Some(&[20, 10, 1][..])),
            (instead(30, ProcessVisibility::Gone), None),
            (instead(20, ProcessVisibility::Gone), None),
            (instead(10, ProcessVisibility::Gone), None),
            (instead(1, ProcessVisibility::Gone), None),
            // Where others' processes are not shown, one's own end below them.
            (instead(10, ProcessVisibility::Hidden), Some(&[20])),
            // The outermost of a container has no parent to be seen.
            (instead(20, ProcessVisibility::Visible(process(20, 0))), Some(&[20])),
        ] {
            let look = |pid| {
                sights.iter().find(|one| one.0 == pid).map_or(ProcessVisibility::Gone, |one| one.1)
            };
            let parents = parents_of(30, look).map(|all| all.iter().map(|one| one.pid).collect());
            assert_eq!(parents, expected.map(<[u32]>::to_vec), "{sights:?}");
        }
    }
}
