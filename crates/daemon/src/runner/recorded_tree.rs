//! The processes below an adopted worker, recorded while the worker lives.
//!
//! An adopted worker is no child of this daemon, so the processes that it leaves become children of the system's first
//! process, and a process that has cleared its environment is connected to nothing. The record is the last connection. It is
//! as old as its interval: a process that starts and loses its parent within one interval is not in it.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use agent_worker_host::{Process, descendants, end_processes_off_thread, run_blocking};
use agent_worker_protocol::sync;
use tokio::time::sleep;

/// Interval of the record. One read of all processes takes some milliseconds.
const RECORD_INTERVAL: Duration = Duration::from_millis(250);

/// The living processes that were seen below one worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordedTree(Arc<Mutex<BTreeSet<Process>>>);

impl RecordedTree {
    /// Records the processes below `worker` until it has ended.
    pub(super) async fn follow(&self, worker: Process) {
        while worker.is_alive() {
            let tree = self.clone();
            run_blocking(move || tree.record(worker)).await;
            sleep(RECORD_INTERVAL).await;
        }
    }

    /// Records the processes below `worker` as they are now.
    pub(super) fn record(&self, worker: Process) {
        let found = descendants(worker.pid);
        // The pid of a worker that has ended may belong to another process.
        if worker.is_alive() {
            let mut recorded = sync::lock(&self.0);
            // A process that was once below the worker stays in the record, whatever its parents are now.
            recorded.retain(|process| process.is_alive());
            recorded.extend(found);
        }
    }

    /// Adds processes to the record.
    pub(super) fn add(&self, processes: &[Process]) {
        sync::lock(&self.0).extend(processes);
    }

    /// Returns true if one of these processes was seen below the worker.
    pub(super) fn contains_any(&self, processes: &[Process]) -> bool {
        let recorded = sync::lock(&self.0);
        processes.iter().any(|process| recorded.contains(process))
    }

    /// Kills the recorded processes and the processes below them. Returns their number.
    ///
    /// They get no grace period: their worker is gone.
    pub(super) async fn kill(&self) -> u32 {
        let tree = self.clone();
        let find = move || tree.living();
        let ended = end_processes_off_thread(find, Vec::new(), Duration::ZERO).await;
        u32::try_from(ended).unwrap_or(u32::MAX)
    }

    /// Returns the living processes of the record, and adds the processes below them.
    pub(super) fn living(&self) -> Vec<Process> {
        let mut recorded = sync::lock(&self.0);
        recorded.retain(|process| process.is_alive());
        let below: Vec<Process> =
            recorded.iter().flat_map(|process| descendants(process.pid)).collect();
        recorded.extend(below);
        recorded.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn a_process_stays_in_the_record_when_its_parents_are_gone() {
        let mut shell = Command::new("bash")
            .args(["-c", "env -i setsid sleep 631 & echo $!; read line; exit 0"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pid = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut pid).unwrap();
        let orphan = Process::of(pid.trim().parse().unwrap()).unwrap();
        let tree = RecordedTree::default();
        tree.record(Process::of(shell.id()).unwrap());
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(tree.living().contains(&orphan));
        orphan.signal(rustix::process::Signal::KILL).unwrap();
    }
}
