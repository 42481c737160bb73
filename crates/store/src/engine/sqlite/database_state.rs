//! The state of the database below the writer thread: writable, failing, or lost.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use tokio::sync::mpsc;

use super::{
    faults::{DatabaseFault, FaultCause, FaultState},
    file_guard::FileFault,
    opener::{DatabaseLocation, WriterSession},
    rescue::{self, RescueCopy},
    writer::{BatchEnd, BatchedWrite, WriteBatch, WriterCommand, execute},
};
use crate::{
    changes::ChangeNotifier,
    clock::StoreClock,
    db::{self, Connection, FailureKind},
    error::{Error, Result},
};

/// The interval between attempts to open a database again, and to make a copy again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The parts of a store that the writer thread works on.
pub(super) struct WriterContext {
    pub(super) changes: ChangeNotifier,
    pub(super) faults: FaultState,
    /// Writes the time into each batch that changes anything.
    pub(super) clock: Option<StoreClock>,
    /// The files on disk; none for a database in memory.
    pub(super) files: Option<DatabaseFiles>,
}

/// The paths of a database on disk.
pub(super) struct DatabaseFiles {
    pub(super) database: PathBuf,
    /// The folder for the copy of a lost database.
    pub(super) folder: PathBuf,
    pub(super) location: DatabaseLocation,
}

/// Opens the connection that writes.
pub(super) type OpenSession<'a> = &'a mut dyn FnMut() -> Result<WriterSession>;

pub(super) enum DatabaseState {
    Writable(WriterSession),
    /// The database could not be opened after a failure.
    Failing {
        why: String,
        retry: ReopenRetry,
    },
    /// Another program removed or replaced the files; every write is refused until the next start.
    Lost(LostDatabase),
}

/// The time of the next attempt to open a database again, or never if that cannot help.
pub(super) enum ReopenRetry {
    At(Instant),
    Never,
}

/// A database whose files another program removed or replaced. The connection stays open: it may hold the only copy
/// of the data.
pub(super) struct LostDatabase {
    session: WriterSession,
    fault: FileFault,
    copy: std::result::Result<RescueCopy, String>,
    next_copy: Instant,
}

impl DatabaseState {
    /// Executes `first` and the requests queued after it, as one batch.
    pub(super) fn write_batch(
        self,
        first: Box<dyn BatchedWrite>,
        queue: &mut mpsc::Receiver<WriterCommand>,
        open: OpenSession<'_>,
        context: &WriterContext,
    ) -> Self {
        let mut session = match self.ready_session(open, context) {
            Ok(session) => session,
            Err(refused) => {
                let (disk, error) = *refused;
                first.refuse(error);
                return disk;
            }
        };
        if let Err(error) = execute(&session.db, "BEGIN IMMEDIATE") {
            // The connection may have the only copy: it is not closed before the files were checked.
            if let Err(fault) = session.check() {
                let lost = LostDatabase::new(session, fault, context);
                context.changes.publish_all();
                first.refuse(Error::ReadOnly(lost.fault_text()));
                return Self::Lost(lost);
            }
            let busy = error.kind() == Some(FailureKind::Busy);
            let disk = if busy {
                Self::Writable(session)
            } else {
                Self::reopen(session, &error, open, context)
            };
            first.refuse(error.into());
            return disk;
        }
        let changes = session.db.total_changes();
        let mut batch = WriteBatch::default();
        let committed = batch.run_and_commit(&session.db, first, queue, context.clock.as_ref());
        // Also after a failure: the connection is about to be closed, and may have the only copy.
        if let Err(fault) = session.check() {
            let lost = LostDatabase::new(session, fault, context);
            context.changes.publish_all();
            batch.reply(&BatchEnd::Lost(lost.fault_text()));
            return Self::Lost(lost);
        }
        match committed {
            Ok(()) => {
                if session.db.total_changes() > changes {
                    context.clear_fault();
                }
                context.changes.publish(&batch.changes);
                batch.reply(&BatchEnd::Committed);
                Self::Writable(session)
            }
            Err(error) => {
                let disk = Self::reopen(session, &error, open, context);
                context.changes.publish_all();
                let why = error_text(&error.into());
                batch.reply(&BatchEnd::Failed(why));
                disk
            }
        }
    }

    /// Returns the connection to write with, or the reason why there is none.
    fn ready_session(
        self,
        open: OpenSession<'_>,
        context: &WriterContext,
    ) -> std::result::Result<WriterSession, Box<(Self, Error)>> {
        match self {
            Self::Writable(mut session) => match session.check() {
                Ok(()) => Ok(session),
                Err(fault) => {
                    let lost = LostDatabase::new(session, fault, context);
                    context.changes.publish_all();
                    let error = Error::ReadOnly(lost.fault_text());
                    Err(Box::new((Self::Lost(lost), error)))
                }
            },
            Self::Failing { retry: ReopenRetry::At(at), .. } if Instant::now() >= at => open()
                .map_err(|error| {
                    let why = error_text(&error);
                    Box::new((Self::enter_failing(why.clone(), context), Error::ReadOnly(why)))
                }),
            Self::Failing { why, retry } => {
                let error = Error::ReadOnly(why.clone());
                Err(Box::new((Self::Failing { why, retry }, error)))
            }
            Self::Lost(mut lost) => {
                lost.retry_copy(context);
                let error = Error::ReadOnly(lost.fault_text());
                Err(Box::new((Self::Lost(lost), error)))
            }
        }
    }

    /// Replaces a connection that failed: its cache may not match the file. Opening verifies the schema.
    fn reopen(
        session: WriterSession,
        error: &db::Error,
        open: OpenSession<'_>,
        context: &WriterContext,
    ) -> Self {
        tracing::error!(%error, "a write failed; reopening the database");
        let kind = error.kind();
        let cause =
            if kind == Some(FailureKind::DiskFull) { FaultCause::Full } else { FaultCause::Failed };
        if kind != Some(FailureKind::Constraint) {
            context.faults.set(cause, failure_text(error));
        }
        drop(session);
        if kind == Some(FailureKind::Malformed) {
            let why = failure_text(error);
            tracing::error!(why, "the store refuses writes until the next start");
            context.faults.set(FaultCause::UntilRestart, why.clone());
            return Self::Failing { why, retry: ReopenRetry::Never };
        }
        match open() {
            Ok(session) => Self::Writable(session),
            Err(error) => Self::enter_failing(error_text(&error), context),
        }
    }

    fn enter_failing(why: String, context: &WriterContext) -> Self {
        tracing::error!(why, "cannot open the database; the store refuses writes");
        context.faults.set(FaultCause::Failed, why.clone());
        Self::Failing { why, retry: ReopenRetry::At(Instant::now() + RETRY_INTERVAL) }
    }

    /// Makes the last attempt to copy a lost database.
    pub(super) fn close(self, context: &WriterContext) {
        if let Self::Lost(mut lost) = self {
            lost.next_copy = Instant::now();
            lost.retry_copy(context);
        }
    }
}

impl LostDatabase {
    fn new(session: WriterSession, fault: FileFault, context: &WriterContext) -> Self {
        session.disable_checkpoint_on_close();
        end_transaction(&session.db);
        let copy = Err("not tried yet".to_owned());
        let mut lost = Self { session, fault, copy, next_copy: Instant::now() };
        lost.retry_copy(context);
        lost
    }

    /// Copies the database unless that is done, and publishes the result.
    fn retry_copy(&mut self, context: &WriterContext) {
        if self.copy.is_ok() || Instant::now() < self.next_copy {
            return;
        }
        self.copy = match &context.files {
            Some(files) => self.copy_to(files),
            None => Err("the database was in memory".to_owned()),
        };
        self.next_copy = Instant::now() + RETRY_INTERVAL;
        let why = self.fault_text();
        tracing::error!(why, "the store refuses writes until the next start");
        let copy = self.copy.as_ref().ok().map(|copy| copy.path.clone());
        context.faults.set_fault(DatabaseFault { cause: FaultCause::UntilRestart, why, copy });
    }

    fn copy_to(&self, files: &DatabaseFiles) -> std::result::Result<RescueCopy, String> {
        let copy = rescue::copy_database(&self.session.db, &files.folder)
            .map_err(|error| error_text(&error))?;
        if copy.problems.is_empty() {
            files.location.move_to(&copy.path);
        }
        Ok(copy)
    }

    /// Describes the fault and the copy for people.
    fn fault_text(&self) -> String {
        let fault = &self.fault;
        match &self.copy {
            Ok(RescueCopy { path, problems }) if problems.is_empty() => {
                // Bytes that were truncated or overwritten may be missing from a copy that is consistent in itself.
                let what = match fault {
                    FileFault::Removed(_) | FileFault::Replaced(_) => "all stored data",
                    FileFault::Truncated { .. }
                    | FileFault::Overwritten(_)
                    | FileFault::Unreadable { .. } => "the data that could still be read",
                };
                format!("{fault}; {what} was copied to {}", path.display())
            }
            Ok(RescueCopy { path, problems }) => {
                let problem = problems.first().map_or("", String::as_str);
                format!(
                    "{fault}; the remaining data was copied to {}, which is damaged ({problem})",
                    path.display()
                )
            }
            Err(why) => {
                format!(
                    "{fault}; no copy could be made: {why}; do not stop the daemon before a copy exists"
                )
            }
        }
    }
}

impl WriterContext {
    /// Clears the fault after a batch was stored: writes succeed again.
    fn clear_fault(&self) {
        self.faults.clear(self.files.as_ref().map(|files| files.database.as_path()));
    }
}

/// Ends the transaction that a failed request left open; no copy can be made before. The earlier requests of the
/// batch are kept: if the log was truncated, the connection's cache has the only copy of the pages they changed.
fn end_transaction(db: &Connection) {
    if db.is_autocommit() {
        return;
    }
    if let Err(error) = db.execute_batch("ROLLBACK TO request; COMMIT") {
        tracing::error!(%error, "could not keep the batch for the copy");
        drop(db.execute_batch("ROLLBACK"));
    }
}

/// Returns an error's text with its source.
fn error_text(error: &Error) -> String {
    match error {
        Error::Database(source) => format!("{error}: {source}"),
        Error::ReadOnly(why) => why.clone(),
        _ => error.to_string(),
    }
}

fn failure_text(error: &db::Error) -> String {
    match error.kind() {
        Some(FailureKind::DiskFull) => "the disk is full".to_owned(),
        _ => error.to_string(),
    }
}
