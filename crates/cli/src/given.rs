//! What a person gives a command: text, typed behind it or on stdin, and the numbers of things.

use std::io::{IsTerminal as _, Read as _};

use crate::error::{CliError, Kind};

/// The text itself; `-` is what stdin says.
pub(crate) fn text(typed: String) -> Result<String, CliError> {
    if typed == "-" { stdin() } else { Ok(typed) }
}

/// The text itself; `-`, or nothing typed at all, is what stdin says. Nobody is kept waiting for a person who does not
/// know that it is their turn.
pub(crate) fn text_or_stdin(typed: Option<String>) -> Result<String, CliError> {
    match typed {
        Some(typed) => text(typed),
        None if std::io::stdin().is_terminal() => {
            Err(CliError::new(Kind::Usage, "no text was given")
                .hint("write it behind the command, or pipe it in; `-` reads what you type"))
        }
        None => stdin(),
    }
}

/// The number of something as it is shown, `12` or `#12`; none is below 1.
pub(crate) fn number(typed: &str) -> Option<i64> {
    let number = typed.strip_prefix('#').unwrap_or(typed).parse().ok();
    number.filter(|number| *number > 0)
}

fn stdin() -> Result<String, CliError> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| {
        CliError::because(Kind::Usage, "could not read the text from stdin", error)
    })?;
    Ok(text)
}
