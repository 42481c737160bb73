//! Who is there to answer: people who follow a run, for as long as they do. In memory only: whoever is not there any more
//! when the daemon comes back is not there.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use agent_worker_protocol::RunId;
use tokio::sync::watch;

/// Who follows what.
#[derive(Clone)]
pub(crate) struct Attendance {
    people: Arc<Mutex<HashMap<RunId, usize>>>,
    changed: watch::Sender<()>,
}

/// One person who follows a run, until dropped.
pub(crate) struct Present {
    attendance: Attendance,
    run: RunId,
}

impl Default for Attendance {
    fn default() -> Self {
        Self { people: Arc::default(), changed: watch::channel(()).0 }
    }
}

impl Attendance {
    /// Somebody follows a run.
    pub(crate) fn enter(&self, run: RunId) -> Present {
        *self.lock().entry(run).or_default() += 1;
        self.changed.send_replace(());
        Present { attendance: self.clone(), run }
    }

    /// Whether anybody does.
    pub(crate) fn is_there(&self, run: RunId) -> bool {
        self.lock().contains_key(&run)
    }

    /// Hears of everybody who comes or goes from now on.
    pub(crate) fn hear(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, usize>> {
        self.people.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        let mut people = self.attendance.lock();
        match people.get_mut(&self.run) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => {
                people.remove(&self.run);
            }
        }
        drop(people);
        self.attendance.changed.send_replace(());
    }
}
