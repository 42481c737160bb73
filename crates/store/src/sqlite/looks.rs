//! Looks: what is found by its key is read where it is asked for, without a thread in between.
//!
//! Such a read takes a few microseconds; to hand it over and to be woken with the answer takes ten times that. What grows
//! with history is the readers' work: whoever looks holds up what else its thread has to do.
//! Invariant: nobody waits for a connection; there are as many as threads have ever looked at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::sync::watch;

use super::{
    opener::{Location, Reader},
    readers::snapshot,
};
use crate::error::{Error, Result};

/// A handle to the connections, which are closed when it says so or the last handle is gone.
#[derive(Clone)]
pub(super) struct Looks {
    location: Location,
    rack: Arc<Mutex<Option<Rack>>>,
    open: watch::Receiver<()>,
}

/// The connections nobody uses at the moment. There is none once it is closed.
struct Rack {
    free: Vec<Reader>,
    /// Held by whoever looks, until its connection is back or closed.
    alive: Arc<watch::Sender<()>>,
}

impl Looks {
    /// Looks at the database at `location`, which has its schema.
    pub(super) fn at(location: Location) -> Self {
        let (alive, open) = watch::channel(());
        let rack = Rack { free: Vec::new(), alive: Arc::new(alive) };
        Self { location, rack: Arc::new(Mutex::new(Some(rack))), open }
    }

    /// Runs `work` on one snapshot of the database, here and now.
    pub(super) fn look<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let (_alive, kept) = self.take().ok_or(Error::Closed)?;
        let reader = self.location.reader(kept)?;
        let result = snapshot(&reader.db, work);
        // After a failure of the file, a fresh connection is the better one.
        if !result.as_ref().is_err_and(Error::spoils_connection)
            && let Some(rack) = self.rack().as_mut()
        {
            rack.free.push(reader);
        }
        result
    }

    /// Refuses what comes from now on and waits for what is being looked at.
    pub(super) async fn close(mut self) {
        drop(self.rack().take());
        while self.open.changed().await.is_ok() {}
    }

    fn take(&self) -> Option<(Arc<watch::Sender<()>>, Option<Reader>)> {
        let mut guard = self.rack();
        let rack = guard.as_mut()?;
        Some((Arc::clone(&rack.alive), rack.free.pop()))
    }

    fn rack(&self) -> MutexGuard<'_, Option<Rack>> {
        self.rack.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use super::{
        super::connection::{Sharing, create, writing},
        *,
    };

    fn start(folder: &tempfile::TempDir) -> Looks {
        let path = folder.path().join("x.db");
        create(&path).unwrap();
        drop(writing(&path, Sharing::Processes).unwrap());
        Looks::at(Location::at(&path))
    }

    #[tokio::test]
    async fn looks_stand_in_nobodys_way_and_closing_waits_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let looks = start(&folder);
        let (begun, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let slow = looks.clone();
        let slow = thread::spawn(move || {
            slow.look(|db| {
                begun.send(()).unwrap();
                released.recv().unwrap();
                Ok(db.query_row("SELECT 1", [], |row| row.get::<_, i64>(0))?)
            })
        });
        has_begun.recv().unwrap();
        assert!(looks.look(|_| Ok(true)).unwrap());
        let close = looks.clone().close();
        tokio::pin!(close);
        let closed = tokio::select! {
            biased;
            () = &mut close => true,
            () = std::future::ready(()) => false,
        };
        assert!(!closed, "closed while somebody looked");
        assert!(matches!(looks.look(|_| Ok(())), Err(Error::Closed)));
        release.send(()).unwrap();
        close.await;
        assert_eq!(slow.join().unwrap().unwrap(), 1);
    }

    #[test]
    fn a_refusal_leaves_no_snapshot_behind() {
        let folder = tempfile::tempdir().unwrap();
        let looks = start(&folder);
        for _ in 0..2 {
            let refused: Result<()> = looks.look(|_| Err(Error::NoRun));
            assert!(matches!(refused, Err(Error::NoRun)));
            assert!(looks.look(|db| Ok(!db.is_autocommit())).unwrap());
        }
        assert_eq!(looks.rack().as_ref().map(|rack| rack.free.len()), Some(1));
    }

    #[test]
    fn a_connection_that_failed_is_not_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let looks = start(&folder);
        looks.look(|_| Ok(())).unwrap();
        let failed = looks.look(|db| Ok(db.execute_batch("SELECT nothing FROM nowhere")?));
        assert!(matches!(failed, Err(Error::Database(_))), "{failed:?}");
        assert_eq!(looks.rack().as_ref().map(|rack| rack.free.len()), Some(0));
        looks.look(|_| Ok(())).unwrap();
    }
}
