//! The control groups of this daemon: its own, and those that earlier daemons of this home left.
//!
//! A daemon that is started elsewhere (another login, another service) has another group of its own, so a file of
//! the home lists the folders in use. If no group can be created, processes are tracked by their recorded tree
//! alone.

use std::sync::{Arc, Mutex};

use agent_worker_host::{Cgroup, CgroupRoot, Process, run_blocking};
use agent_worker_protocol::{api::ProcessTracking, sync};

use crate::home::DaemonHome;

/// The way in which the processes of attempts are tracked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tracking {
    /// By control groups if they can be created, else by the recorded tree.
    #[default]
    Auto,
    /// By the recorded tree alone.
    Tree,
}

/// A handle to the groups of this home.
#[derive(Clone, Debug)]
pub(crate) struct Cgroups(Arc<CgroupsInner>);

#[derive(Debug)]
struct CgroupsInner {
    /// The root of new groups, or the reason why there is none.
    current: Result<CgroupRoot, String>,
    earlier: Vec<CgroupRoot>,
    /// The reason why the last process could not be moved into its group.
    failure: Mutex<Option<String>>,
}

impl Cgroups {
    /// Finds the groups of `home`, and saves their folders in its file.
    pub(crate) fn open(home: &DaemonHome, tracking: Tracking) -> Self {
        let current = match tracking {
            Tracking::Auto => CgroupRoot::of(home.root()),
            Tracking::Tree => Err("--process-tracking tree".to_owned()),
        };
        let mut earlier = CgroupRoot::load_list(home.root());
        earlier.retain(|root| current.as_ref() != Ok(root));
        let groups = Self(Arc::new(CgroupsInner { current, earlier, failure: Mutex::default() }));
        if let Err(error) = CgroupRoot::save_list(home.root(), groups.roots()) {
            tracing::error!(%error, "could not save the list of this home's cgroups");
        }
        groups
    }

    fn roots(&self) -> impl Iterator<Item = &CgroupRoot> {
        self.0.current.iter().chain(&self.0.earlier)
    }

    /// Returns the kind of tracking in use, for `/health`.
    pub(crate) fn tracking(&self) -> ProcessTracking {
        let failure = sync::lock(&self.0.failure).clone();
        match (&self.0.current, failure) {
            (Ok(root), None) => ProcessTracking::Cgroup { path: root.path().to_owned() },
            (Ok(_), Some(why)) => ProcessTracking::Tree { why },
            (Err(why), _) => ProcessTracking::Tree { why: why.clone() },
        }
    }

    /// Moves a process that has just been started into the group of `mark`.
    pub(crate) async fn move_process(&self, mark: &str, pid: u32) {
        let Ok(root) = self.0.current.clone() else { return };
        let mark = mark.to_owned();
        let Some(moved) = run_blocking(move || root.move_process(&mark, pid)).await else { return };
        let failure = moved
            .err()
            .map(|error| format!("the last process could not be moved into its cgroup: {error}"));
        if let Some(why) = &failure {
            tracing::error!(pid, why, "a process is tracked without a cgroup");
        }
        *sync::lock(&self.0.failure) = failure;
    }

    /// Returns the groups of `mark`.
    pub(crate) fn groups_of(&self, mark: &str) -> Vec<Cgroup> {
        self.roots().filter_map(|root| root.find(mark)).collect()
    }

    /// Returns every living process in the groups of `mark`.
    pub(crate) fn processes(&self, mark: &str) -> Vec<Process> {
        self.groups_of(mark).iter().flat_map(Cgroup::processes).collect()
    }

    /// Returns every mark that has a group.
    pub(crate) fn marks(&self) -> Vec<String> {
        self.roots().flat_map(CgroupRoot::marks).collect()
    }

    /// Removes the groups of `mark`, whose processes have ended.
    pub(crate) async fn remove(&self, mark: &str) {
        let (groups, mark) = (self.clone(), mark.to_owned());
        run_blocking(move || {
            for group in groups.groups_of(&mark) {
                if let Err(error) = group.remove() {
                    tracing::error!(mark, %error, "could not remove a cgroup");
                }
            }
            groups.roots().for_each(CgroupRoot::remove_if_empty);
        })
        .await;
    }
}
