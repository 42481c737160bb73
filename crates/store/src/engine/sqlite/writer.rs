//! The writer thread and its group commit.
//!
//! Invariant: no request gets a reply, not even a refusal, before the COMMIT of its batch: a refusal may depend on
//! another request of the same batch. `database_state.rs` has the state of the database below the writer.

use std::thread;

use tokio::sync::{mpsc, oneshot, watch};

use super::{
    database_state::{DatabaseState, WriterContext},
    opener::WriterSession,
};
use crate::{
    changes::ChangeSet,
    clock::StoreClock,
    db::{self, Connection, FailureKind},
    error::{Error, Result},
    sql::transaction::Tx,
};

/// The most requests in one COMMIT. The writer does not wait for more: a batch is what has queued up.
const MAX_BATCH_REQUESTS: usize = 256;
const QUEUE_CAPACITY: usize = 1024;

/// A handle to the writer thread, which ends after `close` or with the last handle.
#[derive(Clone)]
pub(super) struct SqliteWriter {
    commands: mpsc::Sender<WriterCommand>,
    open: watch::Receiver<()>,
}

pub(super) enum WriterCommand {
    Write(Box<dyn BatchedWrite>),
    Close,
}

pub(super) trait BatchedWrite: Send {
    fn run(&mut self, tx: &Tx<'_>) -> WriteRequestOutcome;
    /// Replies to a request that was executed in a batch.
    fn reply(self: Box<Self>, end: BatchEnd);
    /// Replies to a request that was never executed.
    fn refuse(self: Box<Self>, error: Error);
}

/// The end of a batch, with the cause if it failed.
#[derive(Clone)]
pub(super) enum BatchEnd {
    Committed,
    Failed(String),
    /// Another program removed or replaced the files.
    Lost(String),
}

/// The outcome of one request inside its batch.
pub(super) enum WriteRequestOutcome {
    Stored,
    Refused,
    /// The database itself failed, so the outcome of the whole batch is unknown.
    DatabaseFailed(db::Error),
}

impl SqliteWriter {
    /// Starts the thread on `session`; `open` makes another one after a failed COMMIT.
    pub(super) fn start(
        session: WriterSession,
        mut open: impl FnMut() -> Result<WriterSession> + Send + 'static,
        context: WriterContext,
    ) -> Result<Self> {
        let (asks, mut queue) = mpsc::channel(QUEUE_CAPACITY);
        let (alive, is_open) = watch::channel(());
        let mut disk = DatabaseState::Writable(session);
        let run = move || {
            while let Some(first) = recv_request(&mut queue) {
                disk = disk.write_batch(first, &mut queue, &mut open, &context);
            }
            disk.close(&context);
            // The descriptor of the database is closed after the connection.
            drop(open);
            drop(alive);
        };
        thread::Builder::new().name("store-writer".to_owned()).spawn(run)?;
        Ok(Self { commands: asks, open: is_open })
    }

    /// Runs `work` in a savepoint of the next batch and returns when that batch is on disk.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let request = PendingWrite { work: Some(work), result: None, reply_to: answer };
        self.commands
            .send(WriterCommand::Write(Box::new(request)))
            .await
            .map_err(|_| Error::Closed)?;
        answered.await.map_err(|_| Error::Closed)?
    }

    /// Lets the thread finish the queued requests and waits until it has closed the file. Later requests are refused.
    pub(super) async fn close(mut self) {
        // The send fails only if the thread has ended or is about to end.
        drop(self.commands.send(WriterCommand::Close).await);
        while self.open.changed().await.is_ok() {}
    }
}

struct PendingWrite<W, T> {
    work: Option<W>,
    result: Option<Result<T>>,
    reply_to: oneshot::Sender<Result<T>>,
}

impl<W, T> BatchedWrite for PendingWrite<W, T>
where
    W: FnOnce(&Tx<'_>) -> Result<T> + Send,
    T: Send,
{
    fn run(&mut self, tx: &Tx<'_>) -> WriteRequestOutcome {
        let result = self.work.take().map(|work| work(tx));
        let done = match &result {
            Some(Err(error)) => database_failure(error)
                .map_or(WriteRequestOutcome::Refused, WriteRequestOutcome::DatabaseFailed),
            Some(Ok(_)) | None => WriteRequestOutcome::Stored,
        };
        self.result = result;
        done
    }

    fn reply(self: Box<Self>, end: BatchEnd) {
        let result = match (end, self.result) {
            (BatchEnd::Committed, Some(result)) => result,
            (BatchEnd::Committed, None) => Err(Error::Closed),
            // The request's own work failed and is certainly not stored. Lost files explain that failure.
            (BatchEnd::Failed(_), Some(Err(own))) if database_failure(&own).is_some() => Err(own),
            (BatchEnd::Lost(why), Some(Err(own))) if database_failure(&own).is_some() => {
                Err(Error::ReadOnly(why))
            }
            (BatchEnd::Failed(why) | BatchEnd::Lost(why), _) => Err(Error::OutcomeUnknown(why)),
        };
        // A caller that has gone does not need its reply.
        drop(self.reply_to.send(result));
    }

    fn refuse(self: Box<Self>, error: Error) {
        drop(self.reply_to.send(Err(error)));
    }
}

/// Returns the failures after which SQLite may have rolled back more than the failed statement.
fn database_failure(error: &Error) -> Option<db::Error> {
    match error {
        Error::DiskFull => Some(db::Error::failure(FailureKind::DiskFull, "the disk is full")),
        Error::Disk(why) => Some(db::Error::failure(FailureKind::Disk, why)),
        Error::Malformed(why) => Some(db::Error::failure(FailureKind::Malformed, why)),
        Error::Database(source) => {
            let kind = source.downcast_ref::<db::Error>()?.kind()?;
            (kind == FailureKind::OutOfMemory).then(|| db::Error::failure(kind, "out of memory"))
        }
        _ => None,
    }
}

#[derive(Default)]
pub(super) struct WriteBatch {
    requests: Vec<Box<dyn BatchedWrite>>,
    pub(super) changes: ChangeSet,
}

impl WriteBatch {
    /// Runs each request in its own savepoint, so that a refused request affects no other, and commits.
    pub(super) fn run_and_commit(
        &mut self,
        db: &Connection,
        first: Box<dyn BatchedWrite>,
        queue: &mut mpsc::Receiver<WriterCommand>,
        clock: Option<&StoreClock>,
    ) -> db::Result<()> {
        let before = db.total_changes();
        let mut next = Some(first);
        while let Some(mut request) = next {
            let tx = Tx::new(db);
            let savepoint = execute(db, "SAVEPOINT request");
            let done = savepoint.map(|()| request.run(&tx));
            self.requests.push(request);
            match done? {
                WriteRequestOutcome::Stored => self.changes.merge(tx.into_changes()),
                WriteRequestOutcome::Refused => execute(db, "ROLLBACK TO request")?,
                WriteRequestOutcome::DatabaseFailed(error) => return Err(error),
            }
            if db.is_autocommit() {
                return Err(db::Error::failure(FailureKind::Other, "rolled back"));
            }
            execute(db, "RELEASE request")?;
            next = if self.requests.len() < MAX_BATCH_REQUESTS {
                try_recv_request(queue)
            } else {
                None
            };
        }
        // A batch that changed nothing has no rows to date, and without the clock's row its COMMIT costs no fsync.
        if let Some(clock) = clock.filter(|_| db.total_changes() != before) {
            clock.save(db)?;
        }
        execute(db, "COMMIT")
    }

    /// Replies to every request with its own result, or with the failure of the batch.
    pub(super) fn reply(self, end: &BatchEnd) {
        self.requests.into_iter().for_each(|request| request.reply(end.clone()));
    }
}

pub(super) fn execute(db: &Connection, sql: &str) -> db::Result<()> {
    db.execute(sql, ())
}

/// Waits for the next request; returns none once all handles are gone or the queue is closed and empty.
fn recv_request(queue: &mut mpsc::Receiver<WriterCommand>) -> Option<Box<dyn BatchedWrite>> {
    loop {
        match queue.blocking_recv()? {
            WriterCommand::Write(request) => return Some(request),
            WriterCommand::Close => queue.close(),
        }
    }
}

/// Takes the next request if the queue has one.
fn try_recv_request(queue: &mut mpsc::Receiver<WriterCommand>) -> Option<Box<dyn BatchedWrite>> {
    loop {
        match queue.try_recv().ok()? {
            WriterCommand::Write(request) => return Some(request),
            WriterCommand::Close => queue.close(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc as channel;

    use super::{
        super::{connection::create_file, faults::FaultState},
        *,
    };
    use crate::{changes::ChangeNotifier, db::WalIndexSharing};

    /// A table in which `parent` must exist by the time of the COMMIT.
    const TABLES: &str = "CREATE TABLE IF NOT EXISTS thing (id INTEGER PRIMARY KEY, body BLOB);
        CREATE TABLE IF NOT EXISTS child (parent INTEGER REFERENCES thing DEFERRABLE INITIALLY DEFERRED);
        PRAGMA foreign_keys = ON; PRAGMA max_page_count = 20;";

    fn open(path: &std::path::Path) -> Result<WriterSession> {
        create_file(path)?;
        let db = Connection::open_existing(path, WalIndexSharing::Processes)?;
        db.execute_batch(TABLES)?;
        Ok(WriterSession::unguarded(db))
    }

    fn context() -> WriterContext {
        WriterContext {
            changes: ChangeNotifier::default(),
            faults: FaultState::default(),
            clock: None,
            files: None,
        }
    }

    fn start(folder: &tempfile::TempDir) -> SqliteWriter {
        let path = folder.path().join("x.db");
        SqliteWriter::start(open(&path).unwrap(), move || open(&path), context()).unwrap()
    }

    async fn add(writer: &SqliteWriter, id: i64) -> Result<usize> {
        let insert = "INSERT INTO thing VALUES (?1, NULL)";
        writer.write(move |tx| Ok(tx.prepare_cached(insert)?.execute_counted([id])?)).await
    }

    async fn ids(writer: &SqliteWriter) -> Vec<i64> {
        let list = |tx: &Tx<'_>| {
            let mut query = tx.prepare_cached("SELECT id FROM thing ORDER BY id")?;
            let ids = query.query_map((), |row| row.get(0))?;
            Ok(ids.collect::<db::Result<Vec<_>>>()?)
        };
        writer.write(list).await.unwrap()
    }

    /// Puts two valid requests and `odd` between them into one batch.
    async fn batch(
        writer: &SqliteWriter,
        odd: impl FnOnce(&Tx<'_>) -> Result<usize> + Send + 'static,
    ) -> [Result<usize>; 3] {
        let (release, released) = channel::channel::<()>();
        let first = writer.write(move |tx| {
            released.recv().unwrap();
            Ok(tx.prepare_cached("INSERT INTO thing VALUES (1, NULL)")?.execute_counted(())?)
        });
        // Polled last, so that the other requests are in the queue by then.
        let go = async { release.send(()).unwrap() };
        let (first, odd, last, ()) = tokio::join!(first, writer.write(odd), add(writer, 2), go);
        [first, odd, last]
    }

    #[tokio::test]
    async fn a_refused_request_does_not_fail_the_rest_of_its_batch() {
        let folder = tempfile::tempdir().unwrap();
        let writer = start(&folder);
        let [first, odd, last] = batch(&writer, |tx| {
            tx.execute("INSERT INTO thing VALUES (3, NULL)", ())?;
            Err(Error::NoRun)
        })
        .await;
        assert!(matches!((first, odd, last), (Ok(1), Err(Error::NoRun), Ok(1))));
        assert_eq!(ids(&writer).await, [1, 2]);
    }

    #[tokio::test]
    async fn after_a_failed_commit_no_request_succeeds_and_writing_continues() {
        let folder = tempfile::tempdir().unwrap();
        let writer = start(&folder);
        let answers = batch(&writer, |tx| {
            Ok(tx.prepare_cached("INSERT INTO child VALUES (99)")?.execute_counted(())?)
        })
        .await;
        for answer in answers {
            assert!(matches!(answer, Err(Error::OutcomeUnknown(_))), "{answer:?}");
        }
        assert_eq!(ids(&writer).await, [0; 0]);
        add(&writer, 4).await.unwrap();
        assert_eq!(ids(&writer).await, [4]);
    }

    #[tokio::test]
    async fn a_full_disk_leaves_no_half_batch() {
        let folder = tempfile::tempdir().unwrap();
        let writer = start(&folder);
        let [first, odd, last] = batch(&writer, |tx| {
            Ok(tx
                .prepare_cached("INSERT INTO thing VALUES (3, zeroblob(1000000))")?
                .execute_counted(())?)
        })
        .await;
        assert!(matches!(odd, Err(Error::DiskFull)), "{odd:?}");
        // The request after it was not executed in that batch, and is executed now.
        assert!(matches!((first, last), (Err(Error::OutcomeUnknown(_)), Ok(1))));
        assert_eq!(ids(&writer).await, [2]);
    }

    #[tokio::test]
    async fn without_a_database_to_go_on_with_every_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let session = open(&path).unwrap();
        let writer =
            SqliteWriter::start(session, || Err(Error::NotFound("disk")), context()).unwrap();
        let answers = batch(&writer, |tx| {
            Ok(tx.prepare_cached("INSERT INTO child VALUES (99)")?.execute_counted(())?)
        })
        .await;
        assert!(answers.iter().all(|answer| matches!(answer, Err(Error::OutcomeUnknown(_)))));
        for id in 0..2 {
            let refused = add(&writer, id).await;
            assert!(matches!(&refused, Err(Error::ReadOnly(why)) if why.contains("disk")));
        }
        writer.close().await;
    }

    #[tokio::test]
    async fn closing_waits_for_what_was_asked_and_refuses_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let writer = start(&folder);
        let (release, released) = channel::channel::<()>();
        let busy = writer.write(move |_| {
            released.recv().unwrap();
            Ok(())
        });
        let mut answers = tokio::task::JoinSet::new();
        for id in 0..100 {
            let writer = writer.clone();
            answers.spawn(async move { add(&writer, id).await });
        }
        let close = async {
            while writer.commands.capacity() > QUEUE_CAPACITY - 100 {
                tokio::task::yield_now().await;
            }
            release.send(()).unwrap();
            writer.clone().close().await;
        };
        let (first, ()) = tokio::join!(busy, close);
        first.unwrap();
        let kept = answers.join_all().await.into_iter().flatten().count();
        assert!(matches!(add(&writer, 200).await, Err(Error::Closed)));
        let db = open(&folder.path().join("x.db")).unwrap();
        let stored: u32 =
            db.db.query_row("SELECT count(*) FROM thing", (), |row| row.get(0)).unwrap();
        assert_eq!((kept, stored), (100_usize, 100_u32));
    }
}
