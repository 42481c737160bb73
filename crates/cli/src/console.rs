//! The two ends a person reads: answers on stdout, talk on stderr. Nothing else in this room prints.
//!
//! An answer that cannot be printed is a failure. Talk is not worth failing for: when a terminal is gone, what
//! has to be done (stopping a run, say) is still done.

use std::{
    ffi::OsString,
    io::{self, IsTerminal, Write},
};

use agent_worker_workflow::Paint;
use serde::Serialize;

use crate::{
    error::CliError,
    line::{Colour, Line, Tone},
    table::{Column, facts, table},
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
    /// A terminal that only knows lines, one after the other.
    DumbTerminal,
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
    #[expect(
        clippy::disallowed_methods,
        reason = "what `main` complains about, should its reading fail, is already said here"
    )]
    pub fn standard() -> Self {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let env = |name: &str| std::env::var_os(name);
        let (answers, talk) = (reader(&stdout, env), reader(&stderr, env));
        Self {
            answers: End {
                colour: colour(answers, env),
                reader: answers,
                writer: Box::new(stdout),
                unprinted: Unprinted::Fails,
            },
            talk: End {
                colour: colour(talk, env),
                reader: talk,
                writer: Box::new(stderr),
                unprinted: Unprinted::IsLetGo,
            },
        }
    }

    /// Two ends read by programs.
    pub fn for_programs(answers: Box<dyn Write>, talk: Box<dyn Write>) -> Self {
        Self::read_by(Reader::Program, answers, talk)
    }

    /// Two ends of a terminal that only knows lines.
    pub fn for_a_dumb_terminal(answers: Box<dyn Write>, talk: Box<dyn Write>) -> Self {
        Self::read_by(Reader::DumbTerminal, answers, talk)
    }

    fn read_by(reader: Reader, answers: Box<dyn Write>, talk: Box<dyn Write>) -> Self {
        let end = |writer, unprinted| End { writer, colour: Colour::Off, reader, unprinted };
        Self { answers: end(answers, Unprinted::Fails), talk: end(talk, Unprinted::IsLetGo) }
    }

    /// Whether somebody sits before it who reads along.
    pub(crate) fn has_a_person(&self) -> bool {
        match self.talk.reader {
            Reader::Terminal | Reader::DumbTerminal => true,
            Reader::Program => false,
        }
    }

    /// Prints a line of the answer.
    pub(crate) fn answer(&mut self, line: &Line) -> Printed {
        self.answers.line(line)
    }

    /// Prints a piece of an answer that comes bit by bit.
    pub(crate) fn piece(&mut self, text: &str) -> Printed {
        self.answers.write(&harmless(text))
    }

    /// Prints text for a program, to the byte.
    pub(crate) fn raw(&mut self, text: &str) -> Printed {
        self.answers.write(text)
    }

    /// Whether a person reads the answers as they come.
    pub(crate) fn answers_a_person(&self) -> bool {
        match self.answers.reader {
            Reader::Terminal | Reader::DumbTerminal => true,
            Reader::Program => false,
        }
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
        head: [Column<'_>; N],
        rows: &[[String; N]],
    ) -> Printed {
        let width = self.answers.size().map(|size| size.width);
        self.answer_all(&table(head, rows, width))
    }

    /// Prints values behind their labels, as wide as their reader.
    pub(crate) fn facts(&mut self, rows: &[(&str, String)]) -> Printed {
        let width = self.answers.size().map(|size| size.width);
        self.answer_all(&facts(rows, width))
    }

    /// How many columns the reader of the answers has; `None` for a program.
    pub(crate) fn answer_width(&self) -> Option<usize> {
        self.answers.size().map(|size| size.width)
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

    /// Prints help that was asked for: it is the answer.
    pub(crate) fn help(&mut self, text: &clap::builder::StyledStr) -> Printed {
        let text = match self.answers.colour {
            Colour::On => text.ansi().to_string(),
            Colour::Off => text.to_string(),
        };
        self.answers.write(&text)
    }

    /// Sends the terminal a sequence and lines at once, so that nobody sees the state between.
    pub(crate) fn redraw(&mut self, sequence: &str, lines: &[Line]) -> Printed {
        let colour = self.talk.colour;
        let lines = lines.iter().map(|line| line.paint(colour) + "\n");
        let text: String = std::iter::once(sequence.to_owned()).chain(lines).collect();
        self.talk.write(&text)
    }

    /// How much room there is to draw in; `None` for who reads line by line.
    pub(crate) fn canvas(&self) -> Option<Size> {
        match self.talk.reader {
            Reader::Terminal => self.talk.size(),
            Reader::DumbTerminal | Reader::Program => None,
        }
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
            Reader::Terminal | Reader::DumbTerminal => {
                let size = terminal_size::terminal_size();
                let (width, height) = size.map_or((80, 24), |(width, height)| (width.0, height.0));
                Some(Size { width: width.max(1).into(), height: height.max(1).into() })
            }
        }
    }
}

fn reader(end: &impl IsTerminal, env: impl Fn(&str) -> Option<OsString>) -> Reader {
    if end.is_terminal() { terminal(env) } else { Reader::Program }
}

fn terminal(env: impl Fn(&str) -> Option<OsString>) -> Reader {
    match env("TERM") {
        Some(term) if !term.is_empty() && term != "dumb" => Reader::Terminal,
        Some(_) | None => Reader::DumbTerminal,
    }
}

/// What people can set: `NO_COLOR` and `CLICOLOR=0` for none, `CLICOLOR_FORCE` for some even in a pipe.
fn colour(reader: Reader, env: impl Fn(&str) -> Option<OsString>) -> Colour {
    let is_set = |name| env(name).is_some_and(|value| !value.is_empty());
    let is_off = |name| env(name).is_some_and(|value| value == "0");
    match reader {
        Reader::DumbTerminal => Colour::Off,
        Reader::Terminal | Reader::Program if is_set("NO_COLOR") => Colour::Off,
        _ if is_set("CLICOLOR_FORCE") && !is_off("CLICOLOR_FORCE") => Colour::On,
        Reader::Terminal if !is_off("CLICOLOR") => Colour::On,
        Reader::Terminal | Reader::Program => Colour::Off,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks a name up in `A=1 B=2`.
    fn variable(variables: &str, name: &str) -> Option<OsString> {
        let mut pairs = variables.split(' ').filter_map(|pair| pair.split_once('='));
        pairs.find(|(found, _)| *found == name).map(|(_, value)| value.into())
    }

    #[test]
    fn what_a_person_set_decides_about_drawing_and_colour() {
        use {Colour::*, Reader::*};
        for (variables, expected) in [
            ("TERM=xterm", (Terminal, On)),
            ("TERM=dumb", (DumbTerminal, Off)),
            ("TERM=", (DumbTerminal, Off)),
            ("", (DumbTerminal, Off)),
            ("TERM=dumb CLICOLOR_FORCE=1", (DumbTerminal, Off)),
            ("TERM=xterm NO_COLOR=", (Terminal, On)),
            ("TERM=xterm NO_COLOR=1", (Terminal, Off)),
            ("TERM=xterm NO_COLOR=0", (Terminal, Off)),
            ("TERM=xterm NO_COLOR=1 CLICOLOR_FORCE=1", (Terminal, Off)),
            ("TERM=xterm CLICOLOR=0", (Terminal, Off)),
        ] {
            let env = |name: &str| variable(variables, name);
            let reader = terminal(env);
            assert_eq!((reader, colour(reader, env)), expected, "{variables}");
        }
    }

    #[test]
    fn a_program_sees_colours_only_where_they_are_asked_for() {
        for (variables, expected) in [
            ("TERM=xterm", Colour::Off),
            ("CLICOLOR_FORCE=1", Colour::On),
            ("CLICOLOR_FORCE=0", Colour::Off),
            ("CLICOLOR_FORCE=1 NO_COLOR=1", Colour::Off),
        ] {
            let env = |name: &str| variable(variables, name);
            assert_eq!(colour(Reader::Program, env), expected, "{variables}");
        }
    }

    #[test]
    fn only_a_terminal_that_can_be_drawn_on_is() {
        for (reader, drawn) in
            [(Reader::Terminal, true), (Reader::DumbTerminal, false), (Reader::Program, false)]
        {
            let mut console = Console::for_programs(Box::new(io::sink()), Box::new(io::sink()));
            console.talk.reader = reader;
            assert_eq!(console.canvas().is_some(), drawn, "{reader:?}");
        }
    }
}
