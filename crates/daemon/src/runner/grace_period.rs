//! How long what is ended has, and how that time is cut short: a person who stops a run or an agent may not want to wait.

use std::{collections::BTreeSet, time::Duration};

use agent_worker_host::{Cgroup, Process, end_processes_off_thread};
use agent_worker_protocol::{AttemptId, RunId};
use tokio::{sync::watch, time::timeout};

/// What somebody does not want to wait for: runs as a whole, or attempts of them.
#[derive(Clone, Debug, Default)]
pub(super) struct GraceOverride(watch::Sender<BTreeSet<(RunId, Option<AttemptId>)>>);

/// How long the processes of one run, or of one attempt of it, have.
#[derive(Clone, Debug)]
pub(super) struct GracePeriod {
    run: RunId,
    attempt: Option<AttemptId>,
    grace: Duration,
    overrides: GraceOverride,
}

impl GraceOverride {
    /// Somebody does not want to wait for this run's end.
    pub(super) fn skip_run(&self, run: RunId) {
        self.0.send_if_modified(|skipped| skipped.insert((run, None)));
    }

    /// Nor for the end of this attempt.
    pub(super) fn skip_attempt(&self, run: RunId, attempt: AttemptId) {
        self.0.send_if_modified(|skipped| skipped.insert((run, Some(attempt))));
    }

    /// Nothing of this run is left to wait for.
    pub(super) fn forget_run(&self, run: RunId) {
        self.0.send_if_modified(|skipped| {
            let before = skipped.len();
            skipped.retain(|(of, _)| *of != run);
            skipped.len() != before
        });
    }

    /// Nor of this attempt.
    pub(super) fn forget_attempt(&self, run: RunId, attempt: AttemptId) {
        self.0.send_if_modified(|skipped| skipped.remove(&(run, Some(attempt))));
    }

    /// `grace` for what is ended of this run, unless somebody is in a hurry.
    pub(super) fn grace_period(&self, run: RunId, grace: Duration) -> GracePeriod {
        GracePeriod { run, attempt: None, grace, overrides: self.clone() }
    }
}

impl GracePeriod {
    /// For what is ended of one attempt.
    pub(super) fn for_attempt(self, attempt: AttemptId) -> Self {
        Self { attempt: Some(attempt), ..self }
    }

    /// Ends whatever `find` finds: TERM first, KILL when the grace is over or somebody is in a hurry.
    /// `groups` are killed as a whole then.
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

    /// Waits for something as long as the grace and `margin` last and nobody is in a hurry.
    pub(super) async fn wait_for(&self, what: impl Future, margin: Duration) {
        tokio::select! {
            _ = timeout(self.grace + margin, what) => {}
            () = self.overridden() => {}
        }
    }

    /// Completes when somebody is in a hurry.
    async fn overridden(&self) {
        let mut skipped = self.overrides.0.subscribe();
        let ours = |set: &BTreeSet<_>| {
            set.contains(&(self.run, None)) || set.contains(&(self.run, self.attempt))
        };
        if skipped.wait_for(ours).await.is_err() {
            // The sender is this handle's own, so it is never gone.
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

    /// Nobody waits as long as this.
    const GRACE: Duration = Duration::from_mins(10);
    const DEADLINE: Duration = Duration::from_secs(30);
    /// Far longer than ending takes.
    const STILL_RUNNING_TIMEOUT: Duration = Duration::from_millis(500);

    fn processes(folder: &TempDir) -> ProcessRunner {
        let home = DaemonHome::open(folder.path()).unwrap();
        let groups = Cgroups::open(&home, Tracking::Tree);
        ProcessRunner::new(home, GRACE, groups)
    }

    fn run() -> RunId {
        RunId::new(uuid::Uuid::now_v7())
    }

    /// Starts something that carries `mark`, does not heed TERM, and says a line once it has begun.
    fn spawn_stubborn(command: &mut Command, mark: &str) -> Child {
        command.env(ATTEMPT_MARKER, mark).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child
    }

    /// A worker of a daemon before, told to stop, that does not heed it: ended once `hurry` was called.
    async fn assert_ended_only_by(hurry: fn(&ProcessRunner, RunId, AttemptId)) {
        let folder = TempDir::new().unwrap();
        let (processes, run, other) = (processes(&folder), run(), run());
        let attempt = AttemptId::new(uuid::Uuid::now_v7());
        let lock = processes.worker_lock(run, attempt);
        std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
        let mut command = Command::new("flock");
        // Nothing but the shell itself: who is still on its way out would be counted too.
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
        hurry(&processes, run, attempt);
        let departure = timeout(DEADLINE, adopted).await.unwrap();
        // `flock` and the shell it runs.
        assert_eq!(
            departure,
            WorkerExit { seen_alive: true, processes_ended: 2, ..WorkerExit::default() }
        );
        worker.wait().ok();
        let kept = processes.grace_override.0.borrow().contains(&(run, Some(attempt)));
        assert!(!kept, "nothing is kept of it");
    }

    #[tokio::test]
    async fn a_worker_that_does_not_heed_its_stop_is_ended_once_somebody_is_in_a_hurry() {
        assert_ended_only_by(|processes, run, _| processes.run_skip_grace(run)).await;
    }

    #[tokio::test]
    async fn somebody_may_be_in_a_hurry_for_one_worker_alone() {
        assert_ended_only_by(ProcessRunner::attempt_skip_grace).await;
    }

    #[tokio::test]
    async fn what_a_setup_left_is_ended_at_once_for_somebody_in_a_hurry() {
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
