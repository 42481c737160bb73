//! Inline reads: a read by key runs on the caller's thread.
//!
//! Such a read takes a few microseconds; a hand-over to another thread and the wake with the result take ten times
//! that. A read that grows with history belongs to the reader threads: an inline read blocks the other work of its
//! thread.
//! Invariant: no caller waits for a connection; there are as many connections as threads have ever read at once.

use std::sync::{Arc, Mutex, MutexGuard};

use agent_worker_protocol::sync;

use tokio::sync::watch;

use super::{
    opener::{DatabaseLocation, ReadConnection},
    readers::with_snapshot,
};
use crate::{
    db::Connection,
    error::{Error, Result},
};

/// A handle to the connections, which are closed by `close` or with the last handle.
#[derive(Clone)]
pub(super) struct InlineReads {
    location: DatabaseLocation,
    pool: Arc<Mutex<Option<ConnectionPool>>>,
    open: watch::Receiver<()>,
}

/// The idle connections. After `close` there is no pool.
struct ConnectionPool {
    free: Vec<ReadConnection>,
    /// Held during a read, until the connection is returned or closed.
    alive: Arc<watch::Sender<()>>,
}

impl InlineReads {
    /// Reads from the database at `location`, which has its schema.
    pub(super) fn new(location: DatabaseLocation) -> Self {
        let (alive, open) = watch::channel(());
        let pool = ConnectionPool { free: Vec::new(), alive: Arc::new(alive) };
        Self { location, pool: Arc::new(Mutex::new(Some(pool))), open }
    }

    /// Runs `work` on one snapshot of the database, on the caller's thread.
    pub(super) fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let (_alive, kept) = self.take_connection().ok_or(Error::Closed)?;
        let reader = self.location.connection(kept)?;
        let result = with_snapshot(&reader.db, work);
        // After a failure of the file, a new connection is safer than this one.
        if !result.as_ref().is_err_and(Error::spoils_connection)
            && let Some(pool) = self.pool().as_mut()
        {
            pool.free.push(reader);
        }
        result
    }

    /// Refuses new reads and waits for the running ones.
    pub(super) async fn close(mut self) {
        drop(self.pool().take());
        while self.open.changed().await.is_ok() {}
    }

    fn take_connection(&self) -> Option<(Arc<watch::Sender<()>>, Option<ReadConnection>)> {
        let mut guard = self.pool();
        let pool = guard.as_mut()?;
        Some((Arc::clone(&pool.alive), pool.free.pop()))
    }

    fn pool(&self) -> MutexGuard<'_, Option<ConnectionPool>> {
        sync::lock(&self.pool)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use super::{
        super::connection::{create_file, open_writer},
        *,
    };
    use crate::db::WalIndexSharing;

    fn start(folder: &tempfile::TempDir) -> InlineReads {
        let path = folder.path().join("x.db");
        create_file(&path).unwrap();
        drop(open_writer(&path, WalIndexSharing::Processes).unwrap());
        InlineReads::new(DatabaseLocation::fixed(&path))
    }

    #[tokio::test]
    async fn inline_reads_block_no_other_read_and_closing_waits_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let inline_reads = start(&folder);
        let (begun, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let slow = inline_reads.clone();
        let slow = thread::spawn(move || {
            slow.read(|db| {
                begun.send(()).unwrap();
                released.recv().unwrap();
                Ok(db.query_row("SELECT 1", (), |row| row.get::<i64>(0))?)
            })
        });
        has_begun.recv().unwrap();
        assert!(inline_reads.read(|_| Ok(true)).unwrap());
        let close = inline_reads.clone().close();
        tokio::pin!(close);
        let closed = tokio::select! {
            biased;
            () = &mut close => true,
            () = std::future::ready(()) => false,
        };
        assert!(!closed, "closed while somebody looked");
        assert!(matches!(inline_reads.read(|_| Ok(())), Err(Error::Closed)));
        release.send(()).unwrap();
        close.await;
        assert_eq!(slow.join().unwrap().unwrap(), 1);
    }

    #[test]
    fn a_refusal_leaves_no_snapshot_behind() {
        let folder = tempfile::tempdir().unwrap();
        let inline_reads = start(&folder);
        for _ in 0..2 {
            let refused: Result<()> = inline_reads.read(|_| Err(Error::NoRun));
            assert!(matches!(refused, Err(Error::NoRun)));
            assert!(inline_reads.read(|db| Ok(!db.is_autocommit())).unwrap());
        }
        assert_eq!(inline_reads.pool().as_ref().map(|pool| pool.free.len()), Some(1));
    }

    #[test]
    fn a_connection_that_failed_is_not_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let inline_reads = start(&folder);
        inline_reads.read(|_| Ok(())).unwrap();
        let failed = inline_reads.read(|db| Ok(db.execute_batch("SELECT nothing FROM nowhere")?));
        assert!(matches!(failed, Err(Error::Database(_))), "{failed:?}");
        assert_eq!(inline_reads.pool().as_ref().map(|pool| pool.free.len()), Some(0));
        inline_reads.read(|_| Ok(())).unwrap();
    }
}
