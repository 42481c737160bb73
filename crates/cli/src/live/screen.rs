//! The live part of a terminal: a few status lines at the bottom, everything else scrolling above them.
//!
//! The cursor is never hidden and always rests beneath the last line, so that a killed process leaves a sane
//! screen behind. A program, or a terminal that cannot be drawn on, gets plain lines and no status.

use crate::{
    error::{CliError, CliErrorKind},
    live::view::TranscriptLine,
    output::{
        console::{Console, TerminalSize},
        styled_line::StyledLine,
    },
};

/// The drawn status and the lines that wait for the next redraw.
#[derive(Debug)]
pub(crate) struct Screen {
    destination: AnswerDestination,
    pending_lines: Vec<TranscriptLine>,
    drawn: Vec<StyledLine>,
}

/// The destination of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerDestination {
    /// Stdout, since the messages are the answer.
    Stdout,
    /// Stderr, since the answer is the one JSON document at the end.
    Stderr,
    /// No output, since the reader closed its end. The run continues and still decides the exit code.
    Discard,
}

impl Screen {
    /// Creates an empty screen.
    pub(crate) fn new(destination: AnswerDestination) -> Self {
        Self { destination, pending_lines: Vec::new(), drawn: Vec::new() }
    }

    /// Adds lines: a reader of plain lines gets them at once, a terminal with the next redraw.
    pub(crate) fn print(
        &mut self,
        console: &mut Console,
        lines: Vec<TranscriptLine>,
    ) -> Result<(), CliError> {
        self.pending_lines.extend(lines);
        match console.drawable_size() {
            Some(_) => Ok(()),
            None => self.flush(console),
        }
    }

    /// Redraws a terminal if something has changed; does nothing for a reader of plain lines.
    pub(crate) fn draw(
        &mut self,
        console: &mut Console,
        status: Vec<StyledLine>,
    ) -> Result<(), CliError> {
        let Some(size) = console.drawable_size() else { return Ok(()) };
        if self.pending_lines.is_empty() && status == self.drawn {
            return Ok(());
        }
        if !self.pending_lines.is_empty() {
            self.erase(console)?;
            self.flush(console)?;
        }
        console.redraw(&erase_sequence(&self.drawn, size), &status)?;
        self.drawn = status;
        Ok(())
    }

    /// Removes the status and prints the waiting lines.
    pub(crate) fn close(&mut self, console: &mut Console) -> Result<(), CliError> {
        self.erase(console)?;
        self.flush(console)
    }

    fn erase(&mut self, console: &mut Console) -> Result<(), CliError> {
        let drawn = std::mem::take(&mut self.drawn);
        match console.drawable_size() {
            Some(size) => console.redraw(&erase_sequence(&drawn, size), &[]),
            None => Ok(()),
        }
    }

    /// Prints the waiting lines. An answer that can no longer be printed does not end the following: the run's end
    /// still decides the exit code.
    fn flush(&mut self, console: &mut Console) -> Result<(), CliError> {
        for above in std::mem::take(&mut self.pending_lines) {
            let printed = match (above, self.destination) {
                (TranscriptLine::Message(line), AnswerDestination::Stdout) => {
                    console.print_wrapped(&line)
                }
                (TranscriptLine::Message(line), AnswerDestination::Stderr)
                | (TranscriptLine::Notice(line), _) => console.eprint_wrapped(&line),
                (TranscriptLine::Message(_), AnswerDestination::Discard) => Ok(()),
            };
            if let Err(error) = printed {
                self.destination = AnswerDestination::Discard;
                if error.kind() != CliErrorKind::OutputClosed {
                    console.warn(&error.to_report_error().message)?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the sequence that erases the drawn lines: up to the first, then clear to the end.
fn erase_sequence(drawn: &[StyledLine], size: TerminalSize) -> String {
    match drawn {
        [] => String::new(),
        drawn => format!("\x1b[{}A\r\x1b[J", terminal_rows(drawn, size.width)),
    }
}

/// Returns the number of rows that the drawn lines take now; a narrower terminal has wrapped them.
fn terminal_rows(lines: &[StyledLine], width: usize) -> usize {
    lines.iter().map(|line| line.width().div_ceil(width.max(1)).max(1)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_a_narrower_terminal_wrapped_are_counted_as_they_lie_now() {
        let lines = [StyledLine::plain("x".repeat(10)), StyledLine::plain("")];
        for (width, expected) in [(80, 2), (10, 2), (9, 3), (3, 5), (0, 11)] {
            assert_eq!(terminal_rows(&lines, width), expected, "{width}");
        }
    }
}
