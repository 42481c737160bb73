//! How long what is ended has, and how that time is cut short: a person who stops a run or an agent may not want to wait.

use std::{collections::BTreeSet, time::Duration};

use agent_worker_host::{Cgroup, Process, end_aside};
use agent_worker_protocol::{AttemptId, RunId};
use tokio::{sync::watch, time::timeout};

/// What somebody does not want to wait for: runs as a whole, or attempts of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Hurry(watch::Sender<BTreeSet<(RunId, Option<AttemptId>)>>);

/// How long the processes of one run, or of one attempt of it, have.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    run: RunId,
    attempt: Option<AttemptId>,
    grace: Duration,
    hurry: Hurry,
}

impl Hurry {
    /// Somebody does not want to wait for this run's end.
    pub(super) fn demand(&self, run: RunId) {
        self.0.send_if_modified(|hurried| hurried.insert((run, None)));
    }

    /// Nor for the end of this attempt.
    pub(super) fn demand_attempt(&self, run: RunId, attempt: AttemptId) {
        self.0.send_if_modified(|hurried| hurried.insert((run, Some(attempt))));
    }

    /// Nothing of this run is left to wait for.
    pub(super) fn forget(&self, run: RunId) {
        self.0.send_if_modified(|hurried| {
            let before = hurried.len();
            hurried.retain(|(of, _)| *of != run);
            hurried.len() != before
        });
    }

    /// Nor of this attempt.
    pub(super) fn forget_attempt(&self, run: RunId, attempt: AttemptId) {
        self.0.send_if_modified(|hurried| hurried.remove(&(run, Some(attempt))));
    }

    /// `grace` for what is ended of this run, unless somebody is in a hurry.
    pub(super) fn patience(&self, run: RunId, grace: Duration) -> Patience {
        Patience { run, attempt: None, grace, hurry: self.clone() }
    }
}

impl Patience {
    /// For what is ended of one attempt.
    pub(super) fn of(self, attempt: AttemptId) -> Self {
        Self { attempt: Some(attempt), ..self }
    }

    /// Ends whatever `find` finds: TERM first, KILL when the grace is over or somebody is in a hurry.
    /// `groups` are killed as a whole then.
    pub(super) async fn end<F>(&self, find: F, groups: Vec<Cgroup>) -> usize
    where
        F: Fn() -> Vec<Process> + Clone + Send + Sync + 'static,
    {
        let at_once = async {
            self.run_out().await;
            end_aside(find.clone(), groups.clone(), Duration::ZERO).await
        };
        tokio::select! {
            biased;
            ended = at_once => ended,
            ended = end_aside(find.clone(), groups.clone(), self.grace) => ended,
        }
    }

    /// Waits for something as long as the grace and `margin` last and nobody is in a hurry.
    pub(super) async fn wait(&self, what: impl Future, margin: Duration) {
        tokio::select! {
            _ = timeout(self.grace + margin, what) => {}
            () = self.run_out() => {}
        }
    }

    /// Completes when somebody is in a hurry.
    async fn run_out(&self) {
        let mut hurried = self.hurry.0.subscribe();
        let ours = |set: &BTreeSet<_>| {
            set.contains(&(self.run, None)) || set.contains(&(self.run, self.attempt))
        };
        if hurried.wait_for(ours).await.is_err() {
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
    use agent_worker_kernel::{Departure, Runner as _};
    use agent_worker_protocol::AttemptId;
    use tempfile::TempDir;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        home::Home,
        runner::{Groups, Processes, Tracking},
    };

    /// Nobody waits as long as this.
    const GRACE: Duration = Duration::from_mins(10);
    const DEADLINE: Duration = Duration::from_secs(30);
    /// Far longer than ending takes.
    const A_WHILE: Duration = Duration::from_millis(500);

    fn processes(folder: &TempDir) -> Processes {
        let home = Home::open(folder.path()).unwrap();
        let groups = Groups::open(&home, Tracking::Tree);
        Processes::new(home, GRACE, groups)
    }

    fn run() -> RunId {
        RunId::new(uuid::Uuid::now_v7())
    }

    /// Starts something that carries `mark`, does not heed TERM, and says a line once it has begun.
    fn stubborn(command: &mut Command, mark: &str) -> Child {
        command.env(ATTEMPT_MARKER, mark).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child
    }

    /// A worker of a daemon before, told to stop, that does not heed it: ended once `hurry` was called.
    async fn heeds_only(hurry: fn(&Processes, RunId, AttemptId)) {
        let folder = TempDir::new().unwrap();
        let (processes, run, other) = (processes(&folder), run(), run());
        let attempt = AttemptId::new(uuid::Uuid::now_v7());
        let lock = processes.worker_lock(run, attempt);
        std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
        let mut command = Command::new("flock");
        // Nothing but the shell itself: who is still on its way out would be counted too.
        let script = "trap '' TERM; echo $$ >\"$0\"; echo here; while read line; do :; done";
        command.arg(&lock).args(["bash", "-c", script]).arg(&lock);
        let mut worker = stubborn(&mut command, &attempt.to_string());
        let stop = CancellationToken::new();
        stop.cancel();
        let mut adopted = processes.attempt_adopt(run, attempt, stop);
        processes.run_hurry(other);
        processes.attempt_hurry(run, AttemptId::new(other.get()));
        processes.attempt_hurry(other, attempt);
        assert!(timeout(A_WHILE, &mut adopted).await.is_err(), "it has its time");
        hurry(&processes, run, attempt);
        let departure = timeout(DEADLINE, adopted).await.unwrap();
        // `flock` and the shell it runs.
        assert_eq!(departure, Departure { seen_alive: true, ended: 2, ..Departure::default() });
        worker.wait().ok();
        let kept = processes.hurry.0.borrow().contains(&(run, Some(attempt)));
        assert!(!kept, "nothing is kept of it");
    }

    #[tokio::test]
    async fn a_worker_that_does_not_heed_its_stop_is_ended_once_somebody_is_in_a_hurry() {
        heeds_only(|processes, run, _| processes.run_hurry(run)).await;
    }

    #[tokio::test]
    async fn somebody_may_be_in_a_hurry_for_one_worker_alone() {
        heeds_only(Processes::attempt_hurry).await;
    }

    #[tokio::test]
    async fn what_a_setup_left_is_ended_at_once_for_somebody_in_a_hurry() {
        let folder = TempDir::new().unwrap();
        let (processes, run) = (processes(&folder), run());
        let mut command = Command::new("bash");
        command.args(["-c", "trap '' TERM; echo here; while read line; do :; done"]);
        let mut left = stubborn(&mut command, &run.to_string());
        let mut closing = processes.run_close(run);
        assert!(timeout(A_WHILE, &mut closing).await.is_err(), "it has its time");
        processes.run_hurry(run);
        assert_eq!(timeout(DEADLINE, closing).await.unwrap(), 1);
        left.wait().ok();
        assert!(processes.hurry.0.borrow().is_empty(), "nothing is kept of it");
    }
}
