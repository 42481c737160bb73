//! The grace period of ending processes, and its override: a person who stops a run or an agent may not want to
//! wait.

use std::{collections::BTreeSet, time::Duration};

use agent_worker_host::{Cgroup, Process, end_processes_off_thread};
use agent_worker_protocol::{AttemptId, RunId};
use tokio::{sync::watch, time::timeout};

/// The runs and attempts whose grace period is skipped.
#[derive(Clone, Debug, Default)]
pub(super) struct GraceOverride(watch::Sender<BTreeSet<(RunId, Option<AttemptId>)>>);

/// The grace period of the processes of one run, or of one attempt of it.
#[derive(Clone, Debug)]
pub(super) struct GracePeriod {
    run: RunId,
    attempt: Option<AttemptId>,
    grace: Duration,
    overrides: GraceOverride,
}

impl GraceOverride {
    /// Skips the grace period of a run.
    pub(super) fn skip_run(&self, run: RunId) {
        self.0.send_if_modified(|skipped| skipped.insert((run, None)));
    }

    /// Skips the grace period of an attempt.
    pub(super) fn skip_attempt(&self, run: RunId, attempt: AttemptId) {
        self.0.send_if_modified(|skipped| skipped.insert((run, Some(attempt))));
    }

    /// Removes the overrides of a run that has ended.
    pub(super) fn forget_run(&self, run: RunId) {
        self.0.send_if_modified(|skipped| {
            let before = skipped.len();
            skipped.retain(|(of, _)| *of != run);
            skipped.len() != before
        });
    }

    /// Removes the override of an attempt that has ended.
    pub(super) fn forget_attempt(&self, run: RunId, attempt: AttemptId) {
        self.0.send_if_modified(|skipped| skipped.remove(&(run, Some(attempt))));
    }

    /// Returns a period of `grace` for a run, unless it is overridden.
    pub(super) fn grace_period(&self, run: RunId, grace: Duration) -> GracePeriod {
        GracePeriod { run, attempt: None, grace, overrides: self.clone() }
    }
}

impl GracePeriod {
    /// Limits the period to one attempt.
    pub(super) fn for_attempt(self, attempt: AttemptId) -> Self {
        Self { attempt: Some(attempt), ..self }
    }

    /// Ends the processes that `find` returns: TERM first, KILL after the grace period or its override. Then
    /// `groups` are killed as a whole.
    pub(super) async fn end_processes<F>(&self, find: F, groups: Vec<Cgroup>) -> usize
    where
        F: Fn() -> Vec<Process> + Clone + Send + Sync + 'static,
    {
        let at_once = async {
            self.overridden().await;
            end_processes_off_thread(find.clone(), groups.clone(), Duration::ZERO).await
        };
        tokio::select! {
            biased;
            ended = at_once => ended,
            ended = end_processes_off_thread(find.clone(), groups.clone(), self.grace) => ended,
        }
    }

    /// Awaits `what` until the grace period plus `margin` ends or the period is overridden.
    pub(super) async fn wait_for(&self, what: impl Future, margin: Duration) {
        tokio::select! {
            _ = timeout(self.grace + margin, what) => {}
            () = self.overridden() => {}
        }
    }

    /// Completes when the grace period is overridden.
    async fn overridden(&self) {
        let mut skipped = self.overrides.0.subscribe();
        let ours = |set: &BTreeSet<_>| {
            set.contains(&(self.run, None)) || set.contains(&(self.run, self.attempt))
        };
        if skipped.wait_for(ours).await.is_err() {
            // This handle owns the sender, so the channel never closes.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Child, Command, Stdio},
    };

    use agent_worker_host::ATTEMPT_MARKER;
    use agent_worker_kernel::{Runner as _, WorkerExit};
    use agent_worker_protocol::AttemptId;
    use tempfile::TempDir;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        home::DaemonHome,
        runner::{Cgroups, ProcessRunner, Tracking},
    };

    /// A grace period that no test can outlast.
    const GRACE: Duration = Duration::from_mins(10);
    const DEADLINE: Duration = Duration::from_secs(30);
    /// A timeout far longer than ending a process takes.
    const STILL_RUNNING_TIMEOUT: Duration = Duration::from_millis(500);

    fn processes(folder: &TempDir) -> ProcessRunner {
        let home = DaemonHome::open(folder.path()).unwrap();
        let groups = Cgroups::open(&home, Tracking::Tree);
        ProcessRunner::new(home, GRACE, groups)
    }

    fn run() -> RunId {
        RunId::new(uuid::Uuid::now_v7())
    }

    /// Starts a process that carries `mark`, ignores TERM, and prints a line once it has started.
    fn spawn_stubborn(command: &mut Command, mark: &str) -> Child {
        command.env(ATTEMPT_MARKER, mark).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child
    }

    /// Asserts that a worker of an earlier daemon that ignores its stop signal ends only after `hurry`.
    async fn assert_ended_only_by(skip_grace: fn(&ProcessRunner, RunId, AttemptId)) {
        let folder = TempDir::new().unwrap();
        let (processes, run, other) = (processes(&folder), run(), run());
        let attempt = AttemptId::new(uuid::Uuid::now_v7());
        let lock = processes.worker_lock(run, attempt);
        std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
        let mut command = Command::new("flock");
        // No other process than the shell: one that is still exiting would be counted too.
        let script = "trap '' TERM; echo $$ >\"$0\"; echo here; while read line; do :; done";
        command.arg(&lock).args(["bash", "-c", script]).arg(&lock);
        let mut worker = spawn_stubborn(&mut command, &attempt.to_string());
        let stop = CancellationToken::new();
        stop.cancel();
        let mut adopted = processes.attempt_adopt(run, attempt, stop);
        processes.run_skip_grace(other);
        processes.attempt_skip_grace(run, AttemptId::new(other.get()));
        processes.attempt_skip_grace(other, attempt);
        assert!(timeout(STILL_RUNNING_TIMEOUT, &mut adopted).await.is_err(), "it has its time");
        skip_grace(&processes, run, attempt);
        let departure = timeout(DEADLINE, adopted).await.unwrap();
        // The two processes are `flock` and its shell.
        assert_eq!(
            departure,
            WorkerExit { seen_alive: true, processes_ended: 2, ..WorkerExit::default() }
        );
        worker.wait().ok();
        let kept = processes.grace_override.0.borrow().contains(&(run, Some(attempt)));
        assert!(!kept, "nothing is kept of it");
    }

    #[tokio::test]
    async fn a_worker_that_ignores_its_stop_is_ended_once_the_grace_period_is_skipped() {
        assert_ended_only_by(|processes, run, _| processes.run_skip_grace(run)).await;
    }

    #[tokio::test]
    async fn the_grace_period_of_one_worker_can_be_skipped() {
        assert_ended_only_by(ProcessRunner::attempt_skip_grace).await;
    }

    #[tokio::test]
    async fn processes_that_a_setup_left_are_ended_at_once_if_the_grace_period_is_skipped() {
        let folder = TempDir::new().unwrap();
        let (processes, run) = (processes(&folder), run());
        let mut command = Command::new("bash");
        command.args(["-c", "trap '' TERM; echo here; while read line; do :; done"]);
        let mut left = spawn_stubborn(&mut command, &run.to_string());
        let mut closing = processes.run_close(run);
        assert!(timeout(STILL_RUNNING_TIMEOUT, &mut closing).await.is_err(), "it has its time");
        processes.run_skip_grace(run);
        assert_eq!(timeout(DEADLINE, closing).await.unwrap(), 1);
        left.wait().ok();
        assert!(processes.grace_override.0.borrow().is_empty(), "nothing is kept of it");
    }
}
