//! A few threads that only read: each read sees every write that was acknowledged before, and blocks no writer.
//!
//! The pool has its own threads because a read takes less time than the runtime needs to hand it over.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
};

use agent_worker_protocol::sync;
use tokio::sync::{oneshot, watch};

use super::opener::{DatabaseLocation, ReadConnection};
use crate::{
    db::Connection,
    error::{Error, Result},
};

const READER_THREADS: usize = 4;

/// A handle to the threads, which end after `close` or with the last handle.
#[derive(Clone)]
pub(super) struct ReaderPool(Arc<ReaderPoolHandle>);

struct ReaderPoolHandle {
    queue: Arc<ReadQueue>,
    open: watch::Receiver<()>,
}

/// The queue of reads that wait for a thread.
#[derive(Default)]
struct ReadQueue {
    state: Mutex<ReadQueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct ReadQueueState {
    waiting: VecDeque<Box<dyn ReadJob>>,
    closed: bool,
}

trait ReadJob: Send {
    /// Replies with the result from `reader`; returns the connection if it can be used again.
    fn run(self: Box<Self>, reader: Result<ReadConnection>) -> Option<ReadConnection>;
}

impl ReaderPool {
    /// Starts readers of the database at `location`, which has its schema. Each opens its connection with its first
    /// read.
    pub(super) fn start(location: &DatabaseLocation) -> Result<Self> {
        let queue = Arc::<ReadQueue>::default();
        let (alive, open) = watch::channel(());
        let alive = Arc::new(alive);
        let handle = ReaderPoolHandle { queue: Arc::clone(&queue), open };
        for _ in 0..READER_THREADS {
            let (queue, alive, location) =
                (Arc::clone(&queue), Arc::clone(&alive), location.clone());
            let serve = move || {
                queue.run_jobs(&location);
                drop(alive);
            };
            thread::Builder::new().name("store-reader".to_owned()).spawn(serve)?;
        }
        Ok(Self(Arc::new(handle)))
    }

    /// Runs `work` on one snapshot of the database.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        self.0.queue.enqueue(Box::new(PendingRead { work, reply: answer }))?;
        answered.await.map_err(|_| Error::Closed)?
    }

    /// Refuses new reads and waits for the queued ones.
    pub(super) async fn close(self) {
        self.0.queue.close();
        let mut open = self.0.open.clone();
        while open.changed().await.is_ok() {}
    }
}

impl Drop for ReaderPoolHandle {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl ReadQueue {
    fn state(&self) -> MutexGuard<'_, ReadQueueState> {
        sync::lock(&self.state)
    }

    fn enqueue(&self, read: Box<dyn ReadJob>) -> Result<()> {
        let mut state = self.state();
        if state.closed {
            return Err(Error::Closed);
        }
        state.waiting.push_back(read);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Waits for the next read; returns none once the queue is closed and empty.
    fn next(&self) -> Option<Box<dyn ReadJob>> {
        let idle = |state: &mut ReadQueueState| state.waiting.is_empty() && !state.closed;
        sync::wait_while(&self.changed, self.state(), idle).waiting.pop_front()
    }

    /// Runs queued reads until the queue is closed.
    fn run_jobs(&self, location: &DatabaseLocation) {
        let mut kept = None;
        while let Some(read) = self.next() {
            kept = read.run(location.connection(kept.take()));
        }
    }
}

struct PendingRead<W, T> {
    work: W,
    reply: oneshot::Sender<Result<T>>,
}

impl<W, T> ReadJob for PendingRead<W, T>
where
    W: FnOnce(&Connection) -> Result<T> + Send,
    T: Send,
{
    fn run(self: Box<Self>, reader: Result<ReadConnection>) -> Option<ReadConnection> {
        let (result, reader) = match reader {
            Ok(reader) => (with_snapshot(&reader.db, self.work), Some(reader)),
            Err(error) => (Err(error), None),
        };
        // After a failure of the file, a new connection is safer than this one.
        let spoiled = result.as_ref().is_err_and(Error::spoils_connection);
        let kept = reader.filter(|_| !spoiled);
        // A caller that has gone does not need the result.
        drop(self.reply.send(result));
        kept
    }
}

/// Runs `work` on one snapshot of the database.
pub(super) fn with_snapshot<T>(
    db: &Connection,
    work: impl FnOnce(&Connection) -> Result<T>,
) -> Result<T> {
    db.prepare_cached("BEGIN")?.execute(())?;
    let result = work(db);
    let ended = db.prepare_cached("ROLLBACK")?.execute(());
    // The error of `work` says more than the error of the rollback.
    let answer = result?;
    ended?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, sync::mpsc};

    use super::{
        super::connection::{create_file, open_writer},
        *,
    };
    use crate::db::WalIndexSharing;

    fn start(folder: &tempfile::TempDir) -> ReaderPool {
        let path = folder.path().join("x.db");
        create_file(&path).unwrap();
        drop(open_writer(&path, WalIndexSharing::Processes).unwrap());
        ReaderPool::start(&DatabaseLocation::fixed(&path)).unwrap()
    }

    #[tokio::test]
    async fn reads_block_no_other_read_and_closing_waits_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let readers = start(&folder);
        let (release, released) = mpsc::channel::<()>();
        let slow = readers.read(move |_| released.recv().map_err(|_| Error::NoRun));
        let others = async {
            for _ in 0..10 {
                let one = |row: &crate::db::Row<'_>| row.get::<i64>(0);
                let read = readers.read(move |db| Ok(db.query_row("SELECT 1", (), one)?));
                assert_eq!(read.await.unwrap(), 1);
            }
        };
        let is_closed = Cell::new(false);
        let close = async {
            readers.clone().close().await;
            is_closed.set(true);
        };
        let after = async {
            while readers.read(|_| Ok(())).await.is_ok() {
                tokio::task::yield_now().await;
            }
            assert!(!is_closed.get(), "closed while a read was under way");
            release.send(()).unwrap();
        };
        let rest = async {
            others.await;
            tokio::join!(close, after);
        };
        let (slow, ()) = tokio::join!(slow, rest);
        slow.unwrap();
        assert!(matches!(readers.read(|_| Ok(())).await, Err(Error::Closed)));
    }

    #[tokio::test]
    async fn the_threads_end_with_the_last_handle() {
        let folder = tempfile::tempdir().unwrap();
        let readers = start(&folder);
        let mut open = readers.0.open.clone();
        drop(readers);
        while open.changed().await.is_ok() {}
    }

    #[tokio::test]
    async fn a_refusal_leaves_no_snapshot_behind() {
        let folder = tempfile::tempdir().unwrap();
        let readers = start(&folder);
        for _ in 0..2 * READER_THREADS {
            let refused: Result<()> = readers.read(|_| Err(Error::NoRun)).await;
            assert!(matches!(refused, Err(Error::NoRun)));
            assert!(readers.read(|db| Ok(!db.is_autocommit())).await.unwrap());
        }
    }
}
