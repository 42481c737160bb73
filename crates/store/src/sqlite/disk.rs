//! The state of the database below the writer thread: writable, failing, or taken away.
//!
//! Invariant: no request is answered with success before the files were found unchanged after its COMMIT.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode};
use tokio::sync::mpsc;

use super::{
    changes::Changes,
    clock::StoreClock,
    faults::{Cause, Fault, Faults},
    file_guard::FileFault,
    opener::{Location, Session},
    rescue::{self, Rescued},
    writer::{Ask, Batch, BatchEnd, Request, execute},
};
use crate::error::{Error, Result};

/// How often a database that could not be opened, and a copy that could not be made, are tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The parts of a store that the writer thread works on.
pub(super) struct Surface {
    pub(super) changes: Changes,
    pub(super) faults: Faults,
    /// Dates each batch that changes anything.
    pub(super) clock: Option<StoreClock>,
    /// None for a database in memory.
    pub(super) files: Option<Files>,
}

/// The files of a database.
pub(super) struct Files {
    pub(super) database: PathBuf,
    /// The folder in which a copy is made.
    pub(super) folder: PathBuf,
    pub(super) location: Location,
}

/// Opens the connection that writes.
pub(super) type Open<'a> = &'a mut dyn FnMut() -> Result<Session>;

pub(super) enum Disk {
    Writable(Session),
    /// Could not be opened after a failure.
    Failing {
        why: String,
        retry: Retry,
    },
    /// Another program took the files away; every write is refused until the next start.
    Lost(Lost),
}

/// Whether opening a database again can help.
pub(super) enum Retry {
    At(Instant),
    Never,
}

/// A database whose files were taken away. The connection stays open: it may hold the only copy of the data.
pub(super) struct Lost {
    session: Session,
    fault: FileFault,
    copy: std::result::Result<Rescued, String>,
    next_copy: Instant,
}

impl Disk {
    /// Carries out `first` and the requests behind it, as one batch.
    pub(super) fn write(
        self,
        first: Box<dyn Request>,
        queue: &mut mpsc::Receiver<Ask>,
        open: Open<'_>,
        surface: &Surface,
    ) -> Self {
        let mut session = match self.ready(open, surface) {
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
                let lost = Lost::new(session, fault, surface);
                surface.changes.tell_all();
                first.refuse(Error::ReadOnly(lost.why()));
                return Self::Lost(lost);
            }
            let busy = error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy);
            let disk = if busy {
                Self::Writable(session)
            } else {
                Self::reopen(session, &error, open, surface)
            };
            first.refuse(error.into());
            return disk;
        }
        let changes = session.db.total_changes();
        let mut batch = Batch::default();
        let committed = batch.carry_out(&session.db, first, queue, surface.clock.as_ref());
        // Also after a failure: the connection is about to be closed, and may have the only copy.
        if let Err(fault) = session.check() {
            let lost = Lost::new(session, fault, surface);
            surface.changes.tell_all();
            batch.reply(&BatchEnd::Lost(lost.why()));
            return Self::Lost(lost);
        }
        match committed {
            Ok(()) => {
                if session.db.total_changes() > changes {
                    surface.succeeded();
                }
                surface.changes.tell(&batch.news);
                batch.reply(&BatchEnd::Committed);
                Self::Writable(session)
            }
            Err(error) => {
                let disk = Self::reopen(session, &error, open, surface);
                surface.changes.tell_all();
                let why = reason(&error.into());
                batch.reply(&BatchEnd::Failed(why));
                disk
            }
        }
    }

    /// The connection to write with, or why there is none.
    fn ready(
        self,
        open: Open<'_>,
        surface: &Surface,
    ) -> std::result::Result<Session, Box<(Self, Error)>> {
        match self {
            Self::Writable(mut session) => match session.check() {
                Ok(()) => Ok(session),
                Err(fault) => {
                    let lost = Lost::new(session, fault, surface);
                    surface.changes.tell_all();
                    let error = Error::ReadOnly(lost.why());
                    Err(Box::new((Self::Lost(lost), error)))
                }
            },
            Self::Failing { retry: Retry::At(at), .. } if Instant::now() >= at => {
                open().map_err(|error| {
                    let why = reason(&error);
                    Box::new((Self::failing(why.clone(), surface), Error::ReadOnly(why)))
                })
            }
            Self::Failing { why, retry } => {
                let error = Error::ReadOnly(why.clone());
                Err(Box::new((Self::Failing { why, retry }, error)))
            }
            Self::Lost(mut lost) => {
                lost.copy_again(surface);
                let error = Error::ReadOnly(lost.why());
                Err(Box::new((Self::Lost(lost), error)))
            }
        }
    }

    /// Replaces a connection that failed: its cache may not match the file. Opening verifies the schema.
    fn reopen(
        session: Session,
        error: &rusqlite::Error,
        open: Open<'_>,
        surface: &Surface,
    ) -> Self {
        tracing::error!(%error, "a write failed; opening the database again");
        let code = error.sqlite_error_code();
        let cause = if code == Some(ErrorCode::DiskFull) { Cause::Full } else { Cause::Failed };
        if code != Some(ErrorCode::ConstraintViolation) {
            surface.faults.set(cause, clear_text(error));
        }
        drop(session);
        if matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)) {
            let why = clear_text(error);
            tracing::error!(why, "the store takes no writes until the next start");
            surface.faults.set(Cause::Lasting, why.clone());
            return Self::Failing { why, retry: Retry::Never };
        }
        match open() {
            Ok(session) => Self::Writable(session),
            Err(error) => Self::failing(reason(&error), surface),
        }
    }

    fn failing(why: String, surface: &Surface) -> Self {
        tracing::error!(why, "the database cannot be opened; the store takes no writes");
        surface.faults.set(Cause::Failed, why.clone());
        Self::Failing { why, retry: Retry::At(Instant::now() + RETRY_INTERVAL) }
    }

    /// Tries for the last time to copy a database that was taken away.
    pub(super) fn close(self, surface: &Surface) {
        if let Self::Lost(mut lost) = self {
            lost.next_copy = Instant::now();
            lost.copy_again(surface);
        }
    }
}

impl Lost {
    fn new(session: Session, fault: FileFault, surface: &Surface) -> Self {
        session.leave_files_alone();
        end_transaction(&session.db);
        let copy = Err("it was not tried yet".to_owned());
        let mut lost = Self { session, fault, copy, next_copy: Instant::now() };
        lost.copy_again(surface);
        lost
    }

    /// Copies the database unless that is done, and publishes the result.
    fn copy_again(&mut self, surface: &Surface) {
        if self.copy.is_ok() || Instant::now() < self.next_copy {
            return;
        }
        self.copy = match &surface.files {
            Some(files) => self.copy_to(files),
            None => Err("it was in memory".to_owned()),
        };
        self.next_copy = Instant::now() + RETRY_INTERVAL;
        let why = self.why();
        tracing::error!(why, "the store takes no writes until the next start");
        let copy = self.copy.as_ref().ok().map(|copy| copy.path.clone());
        surface.faults.set_fault(Fault { cause: Cause::Lasting, why, copy });
    }

    fn copy_to(&self, files: &Files) -> std::result::Result<Rescued, String> {
        let copy =
            rescue::rescue(&self.session.db, &files.folder).map_err(|error| reason(&error))?;
        if copy.problems.is_empty() {
            files.location.move_to(&copy.path);
        }
        Ok(copy)
    }

    /// The fault and the copy, for people.
    fn why(&self) -> String {
        let fault = &self.fault;
        match &self.copy {
            Ok(Rescued { path, problems }) if problems.is_empty() => {
                // Bytes that were cut off or overwritten may be missing from a copy that is sound in itself.
                let what = match fault {
                    FileFault::Removed(_) | FileFault::Replaced(_) => "all stored data",
                    FileFault::Truncated { .. }
                    | FileFault::Overwritten(_)
                    | FileFault::Unreadable { .. } => "the data that could still be read",
                };
                format!("{fault}; {what} was copied to {}", path.display())
            }
            Ok(Rescued { path, problems }) => {
                let problem = problems.first().map_or("", String::as_str);
                format!(
                    "{fault}; the remaining data was copied to {}, which is damaged ({problem})",
                    path.display()
                )
            }
            Err(why) => {
                format!(
                    "{fault}; no copy could be made: {why}; do not stop the daemon before there is one"
                )
            }
        }
    }
}

impl Surface {
    /// Notes that a batch was stored: writes go through again.
    fn succeeded(&self) {
        self.faults.clear(self.files.as_ref().map(|files| files.database.as_path()));
    }
}

/// Ends the transaction that a failed request left open; no copy can be made before. The requests ahead of it are kept: if
/// the log was truncated, the connection's cache has the only copy of the pages they changed.
fn end_transaction(db: &Connection) {
    if db.is_autocommit() {
        return;
    }
    if let Err(error) = db.execute_batch("ROLLBACK TO request; COMMIT") {
        tracing::error!(%error, "the batch could not be kept for the copy");
        drop(db.execute_batch("ROLLBACK"));
    }
}

/// An error's text with its source.
fn reason(error: &Error) -> String {
    match error {
        Error::Database(source) => format!("{error}: {source}"),
        Error::ReadOnly(why) => why.clone(),
        _ => error.to_string(),
    }
}

fn clear_text(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full".to_owned(),
        _ => error.to_string(),
    }
}
