//! A few threads that only read: each sees everything that was answered before, and stands in nobody's way.
//!
//! They are threads of their own because a read takes less time than the runtime needs to hand it over.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use super::opener::{Location, Reader};
use crate::error::{Error, Result};

const READERS: usize = 4;

/// A handle to the threads, which end when they are told to or the last handle is gone.
#[derive(Clone)]
pub(super) struct Readers(Arc<Handle>);

struct Handle {
    desk: Arc<Desk>,
    open: watch::Receiver<()>,
}

/// Where reads wait for a thread.
#[derive(Default)]
struct Desk {
    line: Mutex<Line>,
    changed: Condvar,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Box<dyn Read>>,
    closed: bool,
}

trait Read: Send {
    /// Answers from `reader`; hands back what it is worth as a reader from now on.
    fn carry_out(self: Box<Self>, reader: Result<Reader>) -> Option<Reader>;
}

impl Readers {
    /// Readers of the database at `location`, which has its schema. Each opens it when it is first needed.
    pub(super) fn start(location: &Location) -> Result<Self> {
        let desk = Arc::<Desk>::default();
        let (alive, open) = watch::channel(());
        let alive = Arc::new(alive);
        let handle = Handle { desk: Arc::clone(&desk), open };
        for _ in 0..READERS {
            let (desk, alive, location) = (Arc::clone(&desk), Arc::clone(&alive), location.clone());
            let serve = move || {
                desk.serve(&location);
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
        self.0.desk.enqueue(Box::new(Pending { work, answer }))?;
        answered.await.map_err(|_| Error::Closed)?
    }

    /// Refuses what comes from now on and waits for what was asked before.
    pub(super) async fn close(self) {
        self.0.desk.close();
        let mut open = self.0.open.clone();
        while open.changed().await.is_ok() {}
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.desk.close();
    }
}

impl Desk {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue(&self, read: Box<dyn Read>) -> Result<()> {
        let mut line = self.line();
        if line.closed {
            return Err(Error::Closed);
        }
        line.waiting.push_back(read);
        drop(line);
        self.changed.notify_one();
        Ok(())
    }

    fn close(&self) {
        self.line().closed = true;
        self.changed.notify_all();
    }

    /// Waits for the next read; none comes once the desk is closed and the line is empty.
    fn next(&self) -> Option<Box<dyn Read>> {
        let idle = |line: &mut Line| line.waiting.is_empty() && !line.closed;
        let line = self.changed.wait_while(self.line(), idle);
        line.unwrap_or_else(PoisonError::into_inner).waiting.pop_front()
    }

    /// One thread's life.
    fn serve(&self, location: &Location) {
        let mut kept = None;
        while let Some(read) = self.next() {
            kept = read.carry_out(location.reader(kept.take()));
        }
    }
}

struct Pending<W, T> {
    work: W,
    answer: oneshot::Sender<Result<T>>,
}

impl<W, T> Read for Pending<W, T>
where
    W: FnOnce(&Connection) -> Result<T> + Send,
    T: Send,
{
    fn carry_out(self: Box<Self>, reader: Result<Reader>) -> Option<Reader> {
        let (result, reader) = match reader {
            Ok(reader) => (snapshot(&reader.db, self.work), Some(reader)),
            Err(error) => (Err(error), None),
        };
        // After a failure of the file, a fresh connection is the better reader.
        let spoiled = result.as_ref().is_err_and(Error::spoils_connection);
        let kept = reader.filter(|_| !spoiled);
        // A caller that went away does not need its answer.
        drop(self.answer.send(result));
        kept
    }
}

/// Runs `work` on the database as it is now.
pub(super) fn snapshot<T>(
    db: &Connection,
    work: impl FnOnce(&Connection) -> Result<T>,
) -> Result<T> {
    db.prepare_cached("BEGIN")?.execute([])?;
    let result = work(db);
    let ended = db.prepare_cached("ROLLBACK")?.execute([]);
    // Its own failure tells more than that of the end.
    let answer = result?;
    ended?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, sync::mpsc};

    use super::{
        super::connection::{Sharing, create, writing},
        *,
    };

    fn start(folder: &tempfile::TempDir) -> Readers {
        let path = folder.path().join("x.db");
        create(&path).unwrap();
        drop(writing(&path, Sharing::Processes).unwrap());
        Readers::start(&Location::at(&path)).unwrap()
    }

    #[tokio::test]
    async fn reads_stand_in_nobodys_way_and_closing_waits_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let readers = start(&folder);
        let (release, released) = mpsc::channel::<()>();
        let slow = readers.read(move |_| released.recv().map_err(|_| Error::NoRun));
        let others = async {
            for _ in 0..10 {
                let one = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
                let read = readers.read(move |db| Ok(db.query_row("SELECT 1", [], one)?));
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
        for _ in 0..2 * READERS {
            let refused: Result<()> = readers.read(|_| Err(Error::NoRun)).await;
            assert!(matches!(refused, Err(Error::NoRun)));
            assert!(readers.read(|db| Ok(!db.is_autocommit())).await.unwrap());
        }
    }
}
