//! Argument values: text from the command line or from stdin, and displayed numbers.

use std::io::{IsTerminal as _, Read as _};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    error::{CliError, CliErrorKind},
    output::console::Console,
};

/// Time without text on stdin after which a command says that it waits.
const STDIN_NOTICE_DELAY: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Returns the given text, or the content of stdin for `-`.
pub(crate) fn read_text(typed: String) -> Result<String, CliError> {
    if typed == "-" { read_stdin() } else { Ok(typed) }
}

/// Returns the given text, or the content of stdin for `-` or a missing argument. A missing argument on a terminal is
/// an error: the user would not know that the command waits for input.
pub(crate) fn read_text_or_stdin(typed: Option<String>) -> Result<String, CliError> {
    match typed {
        Some(typed) => read_text(typed),
        None if std::io::stdin().is_terminal() => {
            Err(CliError::new(CliErrorKind::Usage, "no text was given")
                .with_hint("add the text after the command, or pipe it in; `-` reads from stdin"))
        }
        None => read_stdin(),
    }
}

/// Returns the text that is piped in; `None` if stdin is a terminal or has no text. A pipe may stay open without text,
/// so a note says what the command waits for. `what` is the missing thing, such as `message`.
pub(crate) fn read_piped_text(
    what: &str,
    console: &mut Console,
) -> Result<Option<String>, CliError> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return Ok(None);
    }
    let mut waited = [PollFd::new(&stdin, PollFlags::IN)];
    if matches!(poll(&mut waited, Some(&STDIN_NOTICE_DELAY)), Ok(0)) {
        console.note(&format!("waiting for the {what} on stdin"))?;
    }
    Ok(Some(read_stdin()?).filter(|text| !text.trim().is_empty()))
}

/// Parses a number as it is displayed, `12` or `#12`; the smallest is 1.
pub(crate) fn parse_positive_number(typed: &str) -> Option<i64> {
    let number = typed.strip_prefix('#').unwrap_or(typed).parse().ok();
    number.filter(|number| *number > 0)
}

fn read_stdin() -> Result<String, CliError> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| {
        CliError::with_source(CliErrorKind::Usage, "could not read the text from stdin", error)
    })?;
    Ok(text)
}
