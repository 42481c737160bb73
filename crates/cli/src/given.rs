//! Text a person gives a command: typed behind it, or on stdin.

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

fn stdin() -> Result<String, CliError> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(|error| {
        CliError::because(Kind::Usage, "could not read the text from stdin", error)
    })?;
    Ok(text)
}
