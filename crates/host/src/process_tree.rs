//! Processes: their descent, and the attempt that each belongs to. `termination` ends them.
//!
//! A process is identified by pid and start time, and signalled through a descriptor that was checked against both,
//! so that a signal never reaches another process that got the same pid later.
//!
//! A scan of all processes takes milliseconds and blocks: [`crate::run_blocking`] gives it a thread of its own.

use std::{
    collections::BTreeSet,
    io,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, test_kill_process, waitid},
};

use crate::{cgroup::group_marks, system};

/// Environment variable with the attempt's id, which every process of an attempt has.
pub const ATTEMPT_MARKER: &str = "AGENT_WORKER_ATTEMPT";

/// Environment variable that every process of a task's command has: run, path and item of the task, the same in every
/// attempt.
pub const TASK_MARKER: &str = "AGENT_WORKER_TASK";

/// Longest time that one scan waits for processes that are replacing their program. An agent can prolong an exec.
const MAX_EXEC_WAIT: Duration = Duration::from_secs(1);

/// One process, distinct from any later process with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Pid of the process.
    pub pid: u32,
    /// Start time in the system's own unit.
    pub start_time: u64,
}

/// One process at the time of the read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    /// Start time in the system's own unit; with the pid it identifies one process forever.
    pub(crate) start_time: u64,
    /// True if the process is dead and its parent has not reaped it.
    pub(crate) is_zombie: bool,
    /// True for a thread of the kernel. It has neither an environment nor arguments.
    pub(crate) is_kernel_thread: bool,
}

impl Process {
    /// Returns the living process that has this pid now.
    pub fn of(pid: u32) -> Option<Self> {
        system::stat(pid).filter(|stat| !stat.is_zombie).map(Self::from)
    }

    /// Returns true if the process lives. A zombie does not count as living.
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Sends a signal; succeeds also if the process is gone.
    pub fn signal(self, signal: Signal) -> io::Result<()> {
        match system::signal_process(self, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn pid(self) -> rustix::io::Result<Pid> {
        i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)
    }
}

impl From<Stat> for Process {
    fn from(stat: Stat) -> Self {
        Self { pid: stat.pid, start_time: stat.start_time }
    }
}

/// Returns every living process below `pid`, without `pid` itself.
pub fn descendants(pid: u32) -> Vec<Process> {
    descendants_in(&system::all_processes(), pid)
}

/// Returns every living process below this one; for a process at its end that has called [`crate::adopt_orphans`].
///
/// Reaps dead orphans, and would take the exit status of a child that another caller still waits for. On Linux the result
/// is exact, while [`descendants`] is a snapshot: an orphan becomes a child of its subreaper, so a process without
/// children has no descendants. macOS has no subreaper; there the marks of the orphans identify them, as far as they are
/// readable.
pub fn own_descendants() -> Vec<Process> {
    let any = || waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    let mut found = loop {
        match any() {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => break descendants(std::process::id()),
            Err(_) => break Vec::new(),
        }
    };
    found.extend(system::lost_descendants());
    found
}

/// Returns every living child of this process, including orphans that dead parents below it left.
pub fn children() -> Vec<Process> {
    let own = std::process::id();
    let living =
        system::all_processes().into_iter().filter(|stat| stat.parent == own && !stat.is_zombie);
    living.map(Process::from).collect()
}

/// Returns every child of this process that is dead and not yet reaped.
pub fn dead_children() -> Vec<Process> {
    let own = std::process::id();
    let dead =
        system::all_processes().into_iter().filter(|stat| stat.parent == own && stat.is_zombie);
    dead.map(Process::from).collect()
}

/// Reaps a dead child that no other caller waits for.
pub fn reap(dead: Process) {
    if let Ok(pid) = dead.pid() {
        // An error means that the child is already reaped.
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
}

/// Returns a process and all its parents, nearest first; none if it is gone or one of them ended during the read.
pub fn process_chain(pid: u32) -> Option<Vec<Process>> {
    let mut chain = vec![Process::of(pid)?];
    chain.extend(parents_of(pid, inspect)?);
    Some(chain)
}

/// Returns true if this process, or any ancestor, was started with the mark of an attempt. In doubt the result is
/// true.
pub fn is_inside_attempt() -> bool {
    own_marks().is_none_or(|marks| !marks.is_empty())
}

/// Returns the marks of attempts and runs that this process is in, by its parents and its control group; none if they
/// cannot be determined.
pub fn own_marks() -> Option<Vec<String>> {
    let own = std::process::id();
    let chain = (0..3).find_map(|_| process_chain(own))?;
    let mut marks: Vec<String> = group_marks(own, own).ok()?.into_iter().collect();
    // A process of another user is no worker of ours, and its environment is not readable.
    let mark = |process: &Process| environment_value(process.pid, ATTEMPT_MARKER).ok().flatten();
    marks.extend(chain.iter().filter_map(mark));
    Some(marks)
}

/// Visible state of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessVisibility {
    /// The process is visible with these values.
    Visible(Stat),
    /// The process exists and belongs to another user; some systems show no more.
    Hidden,
    /// The process does not exist.
    Gone,
}

fn inspect(pid: u32) -> ProcessVisibility {
    if let Some(stat) = system::stat(pid) {
        return ProcessVisibility::Visible(stat);
    }
    match i32::try_from(pid).ok().and_then(Pid::from_raw).map(test_kill_process) {
        Some(Err(Errno::PERM)) => ProcessVisibility::Hidden,
        Some(_) | None => ProcessVisibility::Gone,
    }
}

/// Returns the parents of `pid` up to the first process of the system, or to the first invisible one. None means that
/// a parent is gone, so that its own parents are unknown.
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

/// Returns every living process that was started with this attempt's id in its environment.
pub fn marked_processes(attempt: &str) -> Vec<Process> {
    let marked = scan_marks().into_iter().filter(|(_, mark)| mark == attempt);
    let mut processes: Vec<Process> = marked.map(|(process, _)| process).collect();
    // A process may have the same mark twice.
    processes.dedup();
    processes
}

/// Returns every living process that was started with this run and this task in its environment.
pub fn task_processes(run: &str, task: &str) -> Vec<Process> {
    let deadline = Instant::now() + MAX_EXEC_WAIT;
    let mut marked = system::environment_values(TASK_MARKER, deadline);
    marked.retain(|(process, value)| {
        value == task
            && environment_value(process.pid, ATTEMPT_MARKER)
                .is_ok_and(|mark| mark.as_deref() == Some(run))
    });
    let mut processes: Vec<Process> = marked.into_iter().map(|(process, _)| process).collect();
    processes.dedup();
    processes
}

/// Returns every attempt whose id a living process has in its environment.
pub fn attempt_marks() -> BTreeSet<String> {
    scan_marks().into_iter().map(|(_, mark)| mark).collect()
}

/// Returns every living process with the mark of an attempt, and the mark.
fn scan_marks() -> Vec<(Process, String)> {
    let deadline = Instant::now() + MAX_EXEC_WAIT;
    system::environment_values(ATTEMPT_MARKER, deadline)
}

/// Returns the initial value of the variable `name` in the process `pid`. An error means that the value is unknown.
pub fn environment_value(pid: u32, name: &str) -> io::Result<Option<String>> {
    Ok(system::environment(pid, name)?.into_iter().next())
}

/// Returns the living processes below `root` in a snapshot.
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

    fn process(pid: u32, parent: u32) -> Stat {
        Stat { pid, parent, start_time: 9, is_zombie: false, is_kernel_thread: false }
    }

    #[test]
    fn descendants_are_children_of_children_and_living() {
        let process = |pid, parent, is_zombie| Stat { is_zombie, ..process(pid, parent) };
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
        assert_eq!(descendants_in(&[process(10, 20), process(20, 10)], 10).len(), 1);
    }

    #[test]
    fn a_chain_of_parents_that_is_torn_while_it_is_read_is_none() {
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
            // If processes of other users are hidden, the chain ends below them.
            (instead(10, ProcessVisibility::Hidden), Some(&[20])),
            // The outermost process of a container has no visible parent.
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
