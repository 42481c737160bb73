//! The daemon's log: a file, or the terminal of the person who started the daemon.
//!
//! A daemon runs for months, so its log is two files of limited size: the current one and the previous one.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Mutex,
};

use tracing::Level;
use tracing_subscriber::{
    Layer as _, filter::Targets, fmt::layer, layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

use crate::{home::DaemonHome, lifecycle::StartedBy};

/// Maximum size of each of the two files.
const MAX_LOG_BYTES: u64 = 10 * 1024 * 1024;

/// Initializes logging to the terminal or the log file.
pub(crate) fn init_logging(home: &DaemonHome, started_by: StartedBy) -> io::Result<()> {
    // The library of the protocol logs every session at INFO.
    let wanted = Targets::new().with_default(Level::INFO).with_target("rmcp", Level::WARN);
    let format = layer().with_target(false);
    let all = tracing_subscriber::registry();
    let begun = match started_by {
        StartedBy::Person => {
            all.with(format.with_writer(io::stderr).with_filter(wanted)).try_init()
        }
        StartedBy::Command => {
            let log = Mutex::new(RotatingLog::open(home.log(), MAX_LOG_BYTES));
            all.with(format.with_ansi(false).with_writer(log).with_filter(wanted)).try_init()
        }
    };
    begun.map_err(io::Error::other)
}

/// A log file that is rotated when it is full; one old file is kept. A full disk does not stop a daemon from
/// starting: every line tries to open the file again.
struct RotatingLog {
    path: PathBuf,
    open: Option<OpenLogFile>,
    max_bytes: u64,
}

struct OpenLogFile {
    file: File,
    length: u64,
}

impl RotatingLog {
    fn open(path: PathBuf, max_bytes: u64) -> Self {
        let open = OpenLogFile::open_at(&path).ok();
        Self { path, open, max_bytes }
    }

    fn rotate(&mut self) -> io::Result<()> {
        match fs::rename(&self.path, self.path.with_extension("log.old")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // A missing file counts as rotated.
            Ok(()) | Err(_) => {}
        }
        self.open = Some(OpenLogFile::open_at(&self.path)?);
        Ok(())
    }
}

impl OpenLogFile {
    fn open_at(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let length = file.metadata()?.len();
        Ok(Self { file, length })
    }
}

impl Write for RotatingLog {
    /// Writes one whole line; rotation never splits a line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let length = self.open.as_ref().map_or(0, |open| open.length);
        if length > 0 && length + line.len() as u64 > self.max_bytes {
            // Lines in an oversized file are better than no lines.
            let _ = self.rotate();
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(OpenLogFile::open_at(&self.path)?),
        };
        let written = open.file.write(line)?;
        open.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.open.as_mut().map_or(Ok(()), |open| open.file.flush())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn lines(path: &Path) -> Vec<String> {
        fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_daemon_that_never_ends_fills_two_files_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.log");
        let old = folder.path().join("daemon.log.old");
        let mut log = RotatingLog::open(path.clone(), 100);
        for n in 0..1000 {
            writeln!(log, "line {n}").unwrap();
            for file in [&path, &old] {
                assert!(fs::metadata(file).map_or(0, |file| file.len()) <= 100, "{n}");
            }
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        let kept = [lines(&old), lines(&path)].concat();
        let newest: Vec<String> = (1000 - kept.len()..1000).map(|n| format!("line {n}")).collect();
        assert_eq!(kept, newest, "whole lines, in order, to the last one");
        assert!(kept.len() > 100 / "line 999\n".len(), "the old one is kept: {kept:?}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_next_daemon_goes_on_where_the_last_one_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.log");
        for n in 0..30 {
            writeln!(RotatingLog::open(path.clone(), 100), "line {n}").unwrap();
            assert!(fs::metadata(&path).unwrap().len() <= 100, "{n}");
        }
        assert_eq!(lines(&path).last().unwrap(), "line 29");
    }

    #[test]
    fn a_log_that_could_not_be_opened_begins_with_the_first_line_that_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("later/daemon.log");
        let mut log = RotatingLog::open(path.clone(), 100);
        writeln!(log, "lost").unwrap_err();
        fs::create_dir(folder.path().join("later")).unwrap();
        writeln!(log, "kept").unwrap();
        assert_eq!(lines(&path), ["kept"]);
    }

    #[test]
    fn a_log_that_cannot_be_put_aside_is_written_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.log");
        // A non-empty folder blocks the name of the old file.
        fs::create_dir_all(folder.path().join("daemon.log.old/in the way")).unwrap();
        let mut log = RotatingLog::open(path.clone(), 20);
        for n in 0..9 {
            writeln!(log, "line {n}").unwrap();
        }
        assert_eq!(lines(&path).len(), 9);
    }
}
