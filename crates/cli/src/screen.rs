//! The live part of a terminal: a few status lines at the bottom, everything else scrolling above them.
//!
//! The cursor is never hidden and always rests beneath the last line, so that a killed process leaves a sane
//! screen behind. A program, or a terminal that cannot be drawn on, gets plain lines and no status.

use crate::{
    console::{Console, Size},
    error::{CliError, Kind},
    line::Line,
    view::Above,
};

/// What is drawn, and what waits to be.
#[derive(Debug)]
pub(crate) struct Screen {
    answers: Answers,
    waiting: Vec<Above>,
    drawn: Vec<Line>,
}

/// Where what is said goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// To stdout: it is the answer.
    Out,
    /// To stderr: the answer is the one JSON document at the end.
    Aside,
    /// Nowhere: whoever read it has seen enough. The run goes on and still decides the exit code.
    Unread,
}

impl Screen {
    /// An empty screen.
    pub(crate) fn new(answers: Answers) -> Self {
        Self { answers, waiting: Vec::new(), drawn: Vec::new() }
    }

    /// Takes lines in. Who reads line by line has them at once, a terminal with the next drawing.
    pub(crate) fn print(
        &mut self,
        console: &mut Console,
        lines: Vec<Above>,
    ) -> Result<(), CliError> {
        self.waiting.extend(lines);
        match console.canvas() {
            Some(_) => Ok(()),
            None => self.flush(console),
        }
    }

    /// Brings a terminal up to date. Does nothing when nothing has changed, and nothing for who reads line by line.
    pub(crate) fn draw(
        &mut self,
        console: &mut Console,
        status: Vec<Line>,
    ) -> Result<(), CliError> {
        let Some(size) = console.canvas() else { return Ok(()) };
        if self.waiting.is_empty() && status == self.drawn {
            return Ok(());
        }
        if !self.waiting.is_empty() {
            self.erase(console)?;
            self.flush(console)?;
        }
        console.redraw(&erasing(&self.drawn, size), &status)?;
        self.drawn = status;
        Ok(())
    }

    /// Takes the status away and prints what still waits.
    pub(crate) fn close(&mut self, console: &mut Console) -> Result<(), CliError> {
        self.erase(console)?;
        self.flush(console)
    }

    fn erase(&mut self, console: &mut Console) -> Result<(), CliError> {
        let drawn = std::mem::take(&mut self.drawn);
        match console.canvas() {
            Some(size) => console.redraw(&erasing(&drawn, size), &[]),
            None => Ok(()),
        }
    }

    /// An answer nobody can read any more does not end the following: the run's end still decides the exit code.
    fn flush(&mut self, console: &mut Console) -> Result<(), CliError> {
        for above in std::mem::take(&mut self.waiting) {
            let printed = match (above, self.answers) {
                (Above::Said(line), Answers::Out) => console.answer(&line),
                (Above::Said(line), Answers::Aside) | (Above::Told(line), _) => console.say(&line),
                (Above::Said(_), Answers::Unread) => Ok(()),
            };
            if let Err(error) = printed {
                self.answers = Answers::Unread;
                if error.kind() != Kind::ReaderGone {
                    console.warn(&error.body().message)?;
                }
            }
        }
        Ok(())
    }
}

/// What takes the drawn lines away: up to the first, then clear to the end.
fn erasing(drawn: &[Line], size: Size) -> String {
    match drawn {
        [] => String::new(),
        drawn => format!("\x1b[{}A\r\x1b[J", rows(drawn, size.width)),
    }
}

/// How many rows the drawn lines take now: a terminal made narrower has wrapped them.
fn rows(lines: &[Line], width: usize) -> usize {
    lines.iter().map(|line| line.width().div_ceil(width.max(1)).max(1)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_a_narrower_terminal_wrapped_are_counted_as_they_lie_now() {
        let lines = [Line::plain("x".repeat(10)), Line::plain("")];
        for (width, expected) in [(80, 2), (10, 2), (9, 3), (3, 5), (0, 11)] {
            assert_eq!(rows(&lines, width), expected, "{width}");
        }
    }
}
