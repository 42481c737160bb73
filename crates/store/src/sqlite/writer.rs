//! The one thread that writes, and its group commit.
//!
//! Invariant: nobody is answered, not even with a refusal, before the COMMIT of the batch it was part of:
//! a refusal may rest on another request of the same batch.

use std::{cell::RefCell, collections::BTreeSet, ops::Deref, thread};

use agent_worker_protocol::WorkflowId;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot, watch};

use super::changes::Changes;
use crate::error::{Error, Result};

/// As much as one COMMIT may carry. There is no waiting for more: a batch is what has queued up.
const BATCH: usize = 256;
const QUEUE: usize = 1024;

/// A handle to the writer thread, which ends when it is told to or the last handle is gone.
#[derive(Clone)]
pub(super) struct Writer {
    asks: mpsc::Sender<Ask>,
    open: watch::Receiver<()>,
}

/// What a request has in hand: the connection inside its savepoint, and a list of whom to tell after the COMMIT.
pub(super) struct Tx<'a> {
    db: &'a Connection,
    touched: RefCell<BTreeSet<WorkflowId>>,
}

enum Ask {
    Write(Box<dyn Request>),
    Close,
}

trait Request: Send {
    fn carry_out(&mut self, tx: &Tx<'_>) -> Done;
    fn answer(self: Box<Self>, batch: Result<()>);
}

/// What a request left behind.
enum Done {
    Kept,
    Refused,
    /// The database itself failed, so the whole batch is in doubt.
    Broken(ErrorCode),
}

impl Writer {
    /// Starts the thread on a connection made by `open`, which is asked again after a failed COMMIT.
    pub(super) fn start(
        mut open: impl FnMut() -> Result<Connection> + Send + 'static,
        changes: Changes,
    ) -> Result<Self> {
        let (asks, mut queue) = mpsc::channel(QUEUE);
        let (alive, is_open) = watch::channel(());
        let mut disk = Disk::Writable(open()?);
        let run = move || {
            while let Some(first) = wait(&mut queue) {
                disk = disk.write(first, &mut queue, &mut open, &changes);
            }
            drop(disk);
            drop(alive);
        };
        thread::Builder::new().name("store-writer".to_owned()).spawn(run)?;
        Ok(Self { asks, open: is_open })
    }

    /// Runs `work` in a savepoint of the next batch and answers when that batch is on disk.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let request = Pending { work: Some(work), result: None, answer };
        self.asks.send(Ask::Write(Box::new(request))).await.map_err(|_| Error::Closed)?;
        answered.await.map_err(|_| Error::Closed)?
    }

    /// Lets the thread finish what is queued and waits until it has closed the file. Later requests are refused.
    pub(super) async fn close(mut self) {
        // Refused only when the thread is gone already, or on its way.
        drop(self.asks.send(Ask::Close).await);
        while self.open.changed().await.is_ok() {}
    }
}

impl Tx<'_> {
    /// Remembers that whoever waits for this instance is to be told.
    pub(super) fn touch(&self, workflow: WorkflowId) {
        self.touched.borrow_mut().insert(workflow);
    }
}

impl Deref for Tx<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        self.db
    }
}

struct Pending<W, T> {
    work: Option<W>,
    result: Option<Result<T>>,
    answer: oneshot::Sender<Result<T>>,
}

impl<W, T> Request for Pending<W, T>
where
    W: FnOnce(&Tx<'_>) -> Result<T> + Send,
    T: Send,
{
    fn carry_out(&mut self, tx: &Tx<'_>) -> Done {
        let result = self.work.take().map(|work| work(tx));
        let done = match &result {
            Some(Err(error)) => broken(error).map_or(Done::Refused, Done::Broken),
            Some(Ok(_)) | None => Done::Kept,
        };
        self.result = result;
        done
    }

    fn answer(self: Box<Self>, batch: Result<()>) {
        let answer = match (batch, self.result) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => Err(Error::Closed),
            // Its own work failed in the database and is not there, whatever became of the others.
            (Err(_), Some(Err(Error::Database(source)))) => Err(Error::Database(source)),
            (Err(error), _) => Err(error),
        };
        // A caller that went away does not need its answer.
        drop(self.answer.send(answer));
    }
}

/// After these, SQLite may have rolled back more than the statement that failed.
fn broken(error: &Error) -> Option<ErrorCode> {
    let Error::Database(source) = error else { return None };
    let code = source.downcast_ref::<rusqlite::Error>()?.sqlite_error_code()?;
    let breaks = matches!(
        code,
        ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::OutOfMemory
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
    );
    breaks.then_some(code)
}

enum Disk {
    Writable(Connection),
    /// Says why; stays so until the next start.
    ReadOnly(String),
}

impl Disk {
    /// Carries out `first` and what waits behind it, as one batch.
    fn write(
        self,
        first: Box<dyn Request>,
        queue: &mut mpsc::Receiver<Ask>,
        open: &mut dyn FnMut() -> Result<Connection>,
        changes: &Changes,
    ) -> Self {
        let db = match self {
            Self::Writable(db) => db,
            Self::ReadOnly(why) => {
                first.answer(Err(Error::ReadOnly(why.clone())));
                return Self::ReadOnly(why);
            }
        };
        if let Err(error) = execute(&db, "BEGIN IMMEDIATE") {
            let busy = error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy);
            let again = if busy { Self::Writable(db) } else { Self::reopen(db, &error, open) };
            first.answer(Err(error.into()));
            return again;
        }
        let mut batch = Batch::default();
        match batch.carry_out(&db, first, queue) {
            Ok(()) => {
                changes.tell(batch.touched);
                batch.requests.into_iter().for_each(|request| request.answer(Ok(())));
                Self::Writable(db)
            }
            Err(error) => {
                let disk = Self::reopen(db, &error, open);
                changes.tell_all();
                batch.requests.into_iter().for_each(|request| request.answer(Err(Error::Unknown)));
                disk
            }
        }
    }

    /// What the connection believes is worth nothing now: takes a fresh one, which looks at the schema.
    fn reopen(
        db: Connection,
        error: &rusqlite::Error,
        open: &mut dyn FnMut() -> Result<Connection>,
    ) -> Self {
        tracing::error!(%error, "a write failed; opening the database again");
        drop(db);
        let damaged = [ErrorCode::DatabaseCorrupt, ErrorCode::NotADatabase];
        let fresh = if error.sqlite_error_code().is_some_and(|code| damaged.contains(&code)) {
            Err(error.to_string())
        } else {
            open().map_err(|error| match &error {
                Error::Database(source) => format!("{error}: {source}"),
                _ => error.to_string(),
            })
        };
        match fresh {
            Ok(db) => Self::Writable(db),
            Err(why) => {
                tracing::error!(why, "the store takes no writes any more");
                Self::ReadOnly(why)
            }
        }
    }
}

#[derive(Default)]
struct Batch {
    requests: Vec<Box<dyn Request>>,
    touched: BTreeSet<WorkflowId>,
}

impl Batch {
    /// Runs each request in its own savepoint, so that a refused one takes nobody with it, and commits.
    fn carry_out(
        &mut self,
        db: &Connection,
        first: Box<dyn Request>,
        queue: &mut mpsc::Receiver<Ask>,
    ) -> rusqlite::Result<()> {
        let mut next = Some(first);
        while let Some(mut request) = next {
            let tx = Tx { db, touched: RefCell::default() };
            let savepoint = execute(db, "SAVEPOINT request");
            let done = savepoint.map(|()| request.carry_out(&tx));
            self.requests.push(request);
            match done? {
                Done::Kept => self.touched.append(&mut tx.touched.into_inner()),
                Done::Refused => execute(db, "ROLLBACK TO request")?,
                Done::Broken(code) => return Err(failure(code)),
            }
            if db.is_autocommit() {
                return Err(failure(ErrorCode::OperationAborted));
            }
            execute(db, "RELEASE request")?;
            next = if self.requests.len() < BATCH { look(queue) } else { None };
        }
        execute(db, "COMMIT")
    }
}

fn execute(db: &Connection, sql: &str) -> rusqlite::Result<()> {
    db.prepare_cached(sql)?.execute([]).map(drop)
}

fn failure(code: ErrorCode) -> rusqlite::Error {
    let what = format!("{code:?}");
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error { code, extended_code: 0 }, Some(what))
}

/// Waits for the next request; none comes once all handles are gone or the queue is closed and empty.
fn wait(queue: &mut mpsc::Receiver<Ask>) -> Option<Box<dyn Request>> {
    loop {
        match queue.blocking_recv()? {
            Ask::Write(request) => return Some(request),
            Ask::Close => queue.close(),
        }
    }
}

/// Takes the next request if one is there.
fn look(queue: &mut mpsc::Receiver<Ask>) -> Option<Box<dyn Request>> {
    loop {
        match queue.try_recv().ok()? {
            Ask::Write(request) => return Some(request),
            Ask::Close => queue.close(),
        }
    }
}
