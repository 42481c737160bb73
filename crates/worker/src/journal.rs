//! `events.jsonl`: the events of this attempt, written to disk before they are posted.
//!
//! One event per line, each written with one call: a crash can tear only the last line, and readers ignore a line
//! without its end.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use agent_worker_protocol::NumberedEvent;

/// The journal file, open for its only writer.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    folder: PathBuf,
    /// True after a short write; the next event then starts on a new line.
    is_torn: bool,
}

impl Journal {
    /// Creates the file. Fails if the file exists, because it then belongs to another worker.
    pub(crate) fn create(folder: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file =
            options.append(true).create_new(true).mode(0o600).open(folder.join("events.jsonl"))?;
        Ok(Self { file, folder: folder.to_owned(), is_torn: false })
    }

    /// Appends one event.
    pub(crate) fn append(&mut self, event: &NumberedEvent) -> io::Result<()> {
        let mut line = if self.is_torn { vec![b'\n'] } else { Vec::new() };
        line.extend(event.to_line()?);
        let written = self.file.write(&line)?;
        self.is_torn = written < line.len();
        if self.is_torn {
            return Err(io::Error::new(
                io::ErrorKind::WriteZero,
                "the disk stored only a part of the event",
            ));
        }
        Ok(())
    }

    /// Makes the file, its content and its directory entry durable across a power loss.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        File::open(&self.folder)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use agent_worker_protocol::{Millis, WorkerEvent};

    use super::*;

    fn event(no: i64) -> NumberedEvent {
        NumberedEvent {
            no,
            ts: Millis::new(no),
            event: WorkerEvent::Started { pid: 7, sandbox: None },
        }
    }

    #[test]
    fn every_event_is_a_line_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(folder.path()).unwrap();
        for no in [1, 2] {
            journal.append(&event(no)).unwrap();
        }
        journal.sync().unwrap();
        let text = std::fs::read_to_string(folder.path().join("events.jsonl")).unwrap();
        let read: Vec<NumberedEvent> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, [event(1), event(2)]);
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn what_follows_a_torn_line_is_readable() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(folder.path()).unwrap();
        journal.file.write_all(b"{\"no\":1,").unwrap();
        journal.is_torn = true;
        journal.append(&event(2)).unwrap();
        let text = std::fs::read_to_string(folder.path().join("events.jsonl")).unwrap();
        let last = text.lines().last().unwrap();
        assert_eq!(serde_json::from_str::<NumberedEvent>(last).unwrap(), event(2));
    }

    #[test]
    fn an_attempt_is_never_written_by_two_workers() {
        let folder = tempfile::tempdir().unwrap();
        let _first = Journal::create(folder.path()).unwrap();
        let second = Journal::create(folder.path()).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AlreadyExists);
    }
}
