//! Argument values: text from the command line or from stdin, and displayed numbers.

use std::io::{IsTerminal as _, Read as _};

use crate::error::{CliError, CliErrorKind};

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

/// Returns the text that is piped in; `None` if stdin is a terminal or has no text.
pub(crate) fn read_piped_text() -> Result<Option<String>, CliError> {
    if std::io::stdin().is_terminal() {
        return Ok(None);
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
