//! The processes of the workers of live attempts, as evidence about callers.
//!
//! An agent chooses the environment of its processes, so the mark of an attempt in an environment proves nothing alone: the
//! worker of that attempt must be among the parents. A process whose worker is dead is known by the record of its tree.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use agent_worker_host::Process;
use agent_worker_protocol::{AttemptId, RunId, sync};

use super::recorded_tree::RecordedTree;

/// The workers of the live attempts of this daemon.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerProcesses {
    attempts: Arc<Mutex<BTreeMap<AttemptId, WorkerProcess>>>,
    /// The trees of the adopted workers of tasks, and the processes that commands left under earlier daemons, by the mark of
    /// their run, until the run ends.
    tasks: Arc<Mutex<BTreeMap<AttemptId, Vec<RecordedTree>>>>,
}

#[derive(Debug)]
struct WorkerProcess {
    /// None if the process of an adopted worker is not known.
    worker: Option<Process>,
    tree: RecordedTree,
}

/// The result of comparing a chain of parents with the worker of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerEvidence {
    /// The worker is in the chain, or its process is not known.
    Confirmed,
    /// The attempt has another worker.
    Refuted,
    /// The attempt has no worker yet, or no longer.
    Unknown,
}

impl WorkerProcesses {
    /// Registers the worker of an attempt, before the worker receives its job. Returns the record of its tree.
    pub(crate) fn register(&self, attempt: AttemptId, worker: Option<Process>) -> RecordedTree {
        let tree = RecordedTree::default();
        sync::lock(&self.attempts).insert(attempt, WorkerProcess { worker, tree: tree.clone() });
        tree
    }

    /// Removes the worker of an attempt, after all its processes have ended.
    pub(super) fn remove(&self, attempt: AttemptId) {
        sync::lock(&self.attempts).remove(&attempt);
    }

    /// Registers the command of a task of an earlier daemon. Returns the record of its processes.
    pub(super) fn register_task(&self, run: RunId) -> RecordedTree {
        let tree = RecordedTree::default();
        let mark = AttemptId::new(run.get());
        sync::lock(&self.tasks).entry(mark).or_default().push(tree.clone());
        tree
    }

    /// Removes the commands of the tasks of a run that has ended.
    pub(super) fn remove_tasks(&self, run: RunId) {
        sync::lock(&self.tasks).remove(&AttemptId::new(run.get()));
    }

    /// Compares a process and its parents with the worker of `attempt`.
    pub(crate) fn compare(&self, attempt: AttemptId, chain: &[Process]) -> WorkerEvidence {
        match sync::lock(&self.attempts).get(&attempt) {
            None => WorkerEvidence::Unknown,
            Some(WorkerProcess { worker: Some(worker), .. }) if !chain.contains(worker) => {
                WorkerEvidence::Refuted
            }
            Some(_) => WorkerEvidence::Confirmed,
        }
    }

    /// Returns the marks of the attempts, and of the runs of tasks, in whose trees one of these processes was seen.
    pub(crate) fn recorded_attempts(&self, chain: &[Process]) -> Vec<AttemptId> {
        let workers = sync::lock(&self.attempts);
        let seen = workers.iter().filter(|(_, worker)| worker.tree.contains_any(chain));
        let mut marks: Vec<AttemptId> = seen.map(|(attempt, _)| *attempt).collect();
        let tasks = sync::lock(&self.tasks);
        let seen = tasks.iter().filter(|(_, trees)| trees.iter().any(|it| it.contains_any(chain)));
        marks.extend(seen.map(|(run, _)| *run));
        marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_counts_only_with_the_worker_of_its_attempt_among_the_parents() {
        let attempt = |n| AttemptId::new(uuid::Uuid::from_u128(n));
        let own = Process::of(std::process::id()).unwrap();
        let parent = Process::of(std::os::unix::process::parent_id()).unwrap();
        let workers = WorkerProcesses::default();
        workers.register(attempt(1), Some(parent));
        workers.register(attempt(2), Some(own));
        workers.register(attempt(3), None);
        for (mark, expected) in [
            (1, WorkerEvidence::Refuted),
            (2, WorkerEvidence::Confirmed),
            (3, WorkerEvidence::Confirmed),
            (4, WorkerEvidence::Unknown),
        ] {
            assert_eq!(workers.compare(attempt(mark), &[own]), expected, "{mark}");
        }
        workers.remove(attempt(2));
        assert_eq!(workers.compare(attempt(2), &[own]), WorkerEvidence::Unknown);
    }
}
