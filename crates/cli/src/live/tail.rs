//! Reads the newest lines of a file and those that follow. The system reports changes; nothing is polled.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use agent_worker_host::FileWatch;

use crate::{
    error::{CliError, CliErrorKind},
    output::{console::Console, styled_line::StyledLine, text::sanitize_for_display},
};

/// The extent of reading a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TailMode {
    /// Only the lines that exist now.
    Existing,
    /// All later lines, until the process is ended.
    Follow,
}

/// Returns the newest `number` lines.
pub(crate) fn newest_lines(path: &Path, number: usize) -> Result<Vec<String>, CliError> {
    let (lines, _) = read_newest(path, number).map_err(|error| read_error(path, error))?;
    Ok(lines)
}

/// Prints the newest `number` lines and those that follow; blocks, since a command that follows a log does nothing
/// else.
pub(crate) fn print_tail(
    path: &Path,
    number: usize,
    until: TailMode,
    console: &mut Console,
) -> Result<(), CliError> {
    let unreadable = |error| read_error(path, error);
    // The watch starts before the read, so that no change is missed.
    let watch = match until {
        TailMode::Existing => None,
        TailMode::Follow => Some(FileWatch::new(path).map_err(unreadable)?),
    };
    let (lines, mut place) = read_newest(path, number).map_err(unreadable)?;
    print_file_lines(&lines, console)?;
    let Some(mut watch) = watch else { return Ok(()) };
    loop {
        watch.wait_for_change().map_err(unreadable)?;
        print_file_lines(&place.read_after_rotation(path).map_err(unreadable)?, console)?;
    }
}

fn print_file_lines(lines: &[String], console: &mut Console) -> Result<(), CliError> {
    lines
        .iter()
        .try_for_each(|line| console.print_line(&StyledLine::plain(sanitize_for_display(line))))
}

fn read_error(path: &Path, error: io::Error) -> CliError {
    let what = format!("could not read {}", path.display());
    match error.kind() {
        io::ErrorKind::NotFound => {
            CliError::new(CliErrorKind::Failed, format!("{} does not exist yet", path.display()))
                .with_hint(
                    "only a daemon that a command started writes it; a daemon in a terminal logs to that terminal",
                )
        }
        _ => CliError::with_source(CliErrorKind::Failed, what, error),
    }
}

/// The position in a file: the open file and its incomplete last line.
struct TailReader {
    file: File,
    partial_line: Vec<u8>,
}

fn read_newest(path: &Path, number: usize) -> io::Result<(Vec<String>, TailReader)> {
    let mut place = TailReader { file: File::open(path)?, partial_line: Vec::new() };
    let mut lines = place.read_lines()?;
    let surplus = lines.len().saturating_sub(number);
    lines.drain(..surplus);
    Ok((lines, place))
}

impl TailReader {
    /// Returns the complete lines written since the last read.
    fn read_lines(&mut self) -> io::Result<Vec<String>> {
        self.file.read_to_end(&mut self.partial_line)?;
        let end =
            self.partial_line.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let whole: Vec<u8> = self.partial_line.drain(..end).collect();
        Ok(String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect())
    }

    /// Returns the lines written since the last read, also from a file that has replaced this one.
    fn read_after_rotation(&mut self, path: &Path) -> io::Result<Vec<String>> {
        let mut lines = self.read_lines()?;
        let own = self.file.metadata()?;
        let next = match File::open(path) {
            Ok(next) => next,
            // The file was renamed, and the next one does not exist yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(lines),
            Err(error) => return Err(error),
        };
        if next.metadata()?.ino() != own.ino() {
            *self = Self { file: next, partial_line: Vec::new() };
            lines.extend(self.read_lines()?);
        } else if own.len() < self.file.stream_position()? {
            self.file.seek(SeekFrom::Start(0))?;
            lines.extend(self.read_lines()?);
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _};

    use super::*;

    #[test]
    fn lines_are_read_once_and_whole_even_when_the_file_is_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let append = |text: &str| {
            let mut file = fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        append("one\ntwo\nthr");
        let (lines, mut place) = read_newest(&path, 1).unwrap();
        assert_eq!(lines, ["two"]);
        append("ee\nfo");
        assert_eq!(place.read_after_rotation(&path).unwrap(), ["three"]);
        append("ur\n");
        fs::rename(&path, folder.path().join("log.old")).unwrap();
        append("five\n");
        assert_eq!(place.read_after_rotation(&path).unwrap(), ["four", "five"]);
        assert_eq!(place.read_after_rotation(&path).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_reader_that_waits_for_more_lines_is_woken_by_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "one\n").unwrap();
        let mut watch = FileWatch::new(&path).unwrap();
        fs::write(&path, "one\ntwo\n").unwrap();
        watch.wait_for_change().unwrap();
    }
}
