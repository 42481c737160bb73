//! What a person gives a command: text, typed behind it or on stdin, and the numbers of things.

use std::io::{IsTerminal as _, Read as _};

use crate::error::{CliError, CliErrorKind};

/// The text itself; `-` is what stdin says.
pub(crate) fn read_text(typed: String) -> Result<String, CliError> {
    if typed == "-" { read_stdin() } else { Ok(typed) }
}

/// The text itself; `-`, or nothing typed at all, is what stdin says. Nobody is kept waiting for a person who does not
/// know that it is their turn.
pub(crate) fn read_text_or_stdin(typed: Option<String>) -> Result<String, CliError> {
    match typed {
        Some(typed) => read_text(typed),
        None if std::io::stdin().is_terminal() => {
            Err(CliError::new(CliErrorKind::Usage, "no text was given")
                .with_hint("write it behind the command, or pipe it in; `-` reads what you type"))
        }
        None => read_stdin(),
    }
}

/// The number of something as it is shown, `12` or `#12`; none is below 1.
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
