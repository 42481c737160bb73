//! The two ends a person reads: answers on stdout, talk on stderr. Nothing else in this room prints.
//!
//! An answer that cannot be printed is a failure. Talk is not worth failing for: when a terminal is gone, what
//! has to be done (stopping a run, say) is still done.

use std::io::{self, IsTerminal, Write};

use agent_worker_workflow::Paint;
use anstream::{AutoStream, ColorChoice};
use serde::Serialize;

use crate::{
    error::CliError,
    line::{Colour, Line, Tone},
    table::table,
    text::harmless,
};

type Printed = Result<(), CliError>;

/// Where answers and talk go.
pub struct Console {
    answers: End,
    talk: End,
}

/// One end: where it leads and what is there.
pub(crate) struct End {
    writer: Box<dyn Write>,
    colour: Colour,
    reader: Reader,
    unprinted: Unprinted,
}

/// What it means when something could not be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unprinted {
    Fails,
    IsLetGo,
}

/// Who reads an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A terminal, which is asked for its size each time it matters.
    Terminal,
    /// A file, a pipe, a program.
    Program,
}

/// How much room a terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// Columns.
    pub(crate) width: usize,
    /// Lines.
    pub(crate) height: usize,
}

impl Console {
    /// The process's own stdout and stderr.
    pub fn standard() -> Self {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        Self {
            answers: End {
                colour: colour(AutoStream::choice(&stdout)),
                reader: reader(&stdout),
                writer: Box::new(stdout),
                unprinted: Unprinted::Fails,
            },
            talk: End {
                colour: colour(AutoStream::choice(&stderr)),
                reader: reader(&stderr),
                writer: Box::new(stderr),
                unprinted: Unprinted::IsLetGo,
            },
        }
    }

    /// Two ends read by programs.
    pub fn for_programs(answers: Box<dyn Write>, talk: Box<dyn Write>) -> Self {
        let end = |writer, unprinted| {
            let (colour, reader) = (Colour::Off, Reader::Program);
            End { writer, colour, reader, unprinted }
        };
        Self { answers: end(answers, Unprinted::Fails), talk: end(talk, Unprinted::IsLetGo) }
    }

    /// Prints a line of the answer.
    pub(crate) fn answer(&mut self, line: &Line) -> Printed {
        self.answers.line(line)
    }

    /// Prints one JSON document, on one line.
    pub(crate) fn json(&mut self, document: &impl Serialize) -> Printed {
        let text = serde_json::to_string(document).map_err(io::Error::other);
        self.answer(&Line::plain(text.map_err(CliError::printing)?))
    }

    /// Says a line beside the answer.
    pub(crate) fn say(&mut self, line: &Line) -> Printed {
        self.talk.line(line)
    }

    /// Prints an answer of several lines.
    pub(crate) fn answer_all(&mut self, lines: &[Line]) -> Printed {
        lines.iter().try_for_each(|line| self.answer(line))
    }

    /// Prints a table that fits its reader.
    pub(crate) fn table<const N: usize>(
        &mut self,
        head: [&str; N],
        rows: &[[String; N]],
    ) -> Printed {
        let width = self.answers.size().map(|size| size.width);
        self.answer_all(&table(head, rows, width))
    }

    /// Says what is worth knowing.
    pub(crate) fn note(&mut self, text: &str) -> Printed {
        self.say(&Line::plain(harmless(text)))
    }

    /// Says what needs a look but stops nothing.
    pub(crate) fn warn(&mut self, text: &str) -> Printed {
        self.say(&Line::of(Tone::Warn, "warning: ").and(Tone::Plain, harmless(text)))
    }

    /// Says what to do next.
    pub(crate) fn hint(&mut self, text: &str) -> Printed {
        self.say(&Line::of(Tone::Dim, format!("hint: {}", harmless(text))))
    }

    /// Says what failed and what to do next. A bad file is shown with the lines in question.
    pub(crate) fn fail(&mut self, error: &CliError) -> Printed {
        if let Some(bad) = error.bad_file() {
            let paint = match self.talk.colour {
                Colour::On => Paint::Ansi,
                Colour::Off => Paint::Plain,
            };
            return self.say(&Line::plain(bad.render(paint)));
        }
        let body = error.body();
        let message = harmless(&body.message);
        self.say(&Line::of(Tone::Bad, "error: ").and(Tone::Plain, message))?;
        body.hint.map_or(Ok(()), |hint| self.hint(&hint))
    }

    /// Prints a text of clap's, help or complaint, at the end it belongs to.
    pub(crate) fn clap(&mut self, error: &clap::Error) -> Printed {
        let end = if error.use_stderr() { &mut self.talk } else { &mut self.answers };
        let text = match end.colour {
            Colour::On => error.render().ansi().to_string(),
            Colour::Off => error.render().to_string(),
        };
        end.write(&text)
    }

    /// Sends the terminal a sequence and lines at once, so that nobody sees the state between.
    pub(crate) fn redraw(&mut self, sequence: &str, lines: &[Line]) -> Printed {
        let colour = self.talk.colour;
        let lines = lines.iter().map(|line| line.paint(colour) + "\n");
        let text: String = std::iter::once(sequence.to_owned()).chain(lines).collect();
        self.talk.write(&text)
    }

    /// How much room the reader of the talk has; `None` for a program.
    pub(crate) fn talk_size(&self) -> Option<Size> {
        self.talk.size()
    }
}

impl End {
    fn line(&mut self, line: &Line) -> Printed {
        let text = line.paint(self.colour);
        self.write(&format!("{text}\n"))
    }

    fn write(&mut self, text: &str) -> Printed {
        let written = self.writer.write_all(text.as_bytes());
        match (written.and_then(|()| self.writer.flush()), self.unprinted) {
            (Ok(()), _) | (Err(_), Unprinted::IsLetGo) => Ok(()),
            (Err(error), Unprinted::Fails) => Err(CliError::printing(error)),
        }
    }

    /// Asked anew each time: people resize their terminals.
    fn size(&self) -> Option<Size> {
        match self.reader {
            Reader::Program => None,
            Reader::Terminal => {
                let size = terminal_size::terminal_size();
                let (width, height) = size.map_or((80, 24), |(width, height)| (width.0, height.0));
                Some(Size { width: width.max(1).into(), height: height.max(1).into() })
            }
        }
    }
}

fn colour(choice: ColorChoice) -> Colour {
    match choice {
        ColorChoice::Never => Colour::Off,
        ColorChoice::Auto | ColorChoice::Always | ColorChoice::AlwaysAnsi => Colour::On,
    }
}

fn reader(end: &impl IsTerminal) -> Reader {
    if end.is_terminal() { Reader::Terminal } else { Reader::Program }
}
