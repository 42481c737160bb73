//! Output for people: answers on stdout, messages on stderr. No other module of this crate prints.
//!
//! A failure to print an answer is an error. A failure to print a message is ignored: when the terminal is gone, the
//! remaining work (stopping a run, for example) is still done.

use std::{
    ffi::OsString,
    io::{self, IsTerminal, Write},
    os::fd::AsFd,
};

use agent_worker_protocol::api::ListPage;
use agent_worker_workflow::RenderStyle;
use rustix::fs::FileType;
use serde::Serialize;

use crate::{
    error::CliError,
    output::{
        github::command_guard::CommandGuard,
        styled_line::{Colour, StyledLine, Tone},
        table::{Column, layout_facts, layout_table},
        text::{escape_json, sanitize_for_display},
        wrapped_line::wrap_line,
    },
};

type PrintResult = Result<(), CliError>;

/// Writes answers to stdout and messages to stderr.
pub struct Console {
    stdout: OutputStream,
    stderr: OutputStream,
}

/// One output stream with its device and its error policy.
pub(crate) struct OutputStream {
    writer: Box<dyn Write>,
    colour: Colour,
    device: OutputDevice,
    on_error: PrintErrorPolicy,
    /// Protection of a stream that the runner of GitHub reads.
    guard: Option<CommandGuard>,
}

/// The reaction to a failed write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PrintErrorPolicy {
    Fail,
    Ignore,
}

/// The reader of an output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputDevice {
    /// A terminal; its size is queried on each use.
    Terminal,
    /// A terminal that only appends lines.
    DumbTerminal,
    /// A file, a pipe or a program.
    Program,
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TerminalSize {
    /// Number of columns.
    pub(crate) width: usize,
    /// Number of lines.
    pub(crate) height: usize,
}

impl Console {
    /// Creates a console on the process's own stdout and stderr.
    #[expect(
        clippy::disallowed_methods,
        reason = "`main` prints its errors here, also that of reading the environment"
    )]
    pub fn standard() -> Self {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let env = |name: &str| std::env::var_os(name);
        let (answers, diagnostics) = (detect_device(&stdout, env), detect_device(&stderr, env));
        let guard_of =
            |file: Option<FileType>| is_read_by_github(file, env).then(CommandGuard::default);
        let guards = (guard_of(file_type(&stdout)), guard_of(file_type(&stderr)));
        Self {
            stdout: OutputStream {
                colour: detect_colour(answers, env),
                device: answers,
                writer: Box::new(stdout),
                on_error: PrintErrorPolicy::Fail,
                guard: guards.0,
            },
            stderr: OutputStream {
                colour: detect_colour(diagnostics, env),
                device: diagnostics,
                writer: Box::new(stderr),
                on_error: PrintErrorPolicy::Ignore,
                guard: guards.1,
            },
        }
    }

    /// Creates a console whose streams are read by programs.
    pub fn for_programs(answers: Box<dyn Write>, diagnostics: Box<dyn Write>) -> Self {
        Self::with_device(OutputDevice::Program, answers, diagnostics)
    }

    /// Creates a console on a terminal that only appends lines.
    pub fn for_dumb_terminal(answers: Box<dyn Write>, diagnostics: Box<dyn Write>) -> Self {
        Self::with_device(OutputDevice::DumbTerminal, answers, diagnostics)
    }

    fn with_device(
        reader: OutputDevice,
        answers: Box<dyn Write>,
        diagnostics: Box<dyn Write>,
    ) -> Self {
        let end = |writer, unprinted| OutputStream {
            writer,
            colour: Colour::Off,
            device: reader,
            on_error: unprinted,
            guard: None,
        };
        Self {
            stdout: end(answers, PrintErrorPolicy::Fail),
            stderr: end(diagnostics, PrintErrorPolicy::Ignore),
        }
    }

    /// Prints for a program from now on, also on a terminal: no colour, no redraw, no key.
    pub(crate) fn become_noninteractive(&mut self) {
        for stream in [&mut self.stdout, &mut self.stderr] {
            stream.device = OutputDevice::Program;
            stream.colour = Colour::Off;
        }
    }

    /// Prints a command for the runner of GitHub to stderr, which the runner reads like stdout.
    pub(crate) fn print_workflow_command(&mut self, command: &str) -> PrintResult {
        let is_mid_line = self.stderr.guard.as_ref().is_some_and(|guard| !guard.is_at_line_start());
        let start = if is_mid_line { "\n" } else { "" };
        self.stderr.guard = self.stderr.guard.take().map(|_| CommandGuard::default());
        self.stderr.write_bytes(format!("{start}{command}\n").as_bytes())
    }

    /// Returns whether a person reads the messages on a terminal.
    pub(crate) fn is_interactive(&self) -> bool {
        match self.stderr.device {
            OutputDevice::Terminal | OutputDevice::DumbTerminal => true,
            OutputDevice::Program => false,
        }
    }

    /// Prints a line of the answer.
    pub(crate) fn print_line(&mut self, line: &StyledLine) -> PrintResult {
        self.stdout.write_line(line)
    }

    /// Prints a line of the answer, wrapped at words if a person reads it.
    pub(crate) fn print_wrapped(&mut self, line: &StyledLine) -> PrintResult {
        self.stdout.write_wrapped(line)
    }

    /// Prints a message to stderr, wrapped at words if a person reads it.
    pub(crate) fn eprint_wrapped(&mut self, line: &StyledLine) -> PrintResult {
        self.stderr.write_wrapped(line)
    }

    /// Prints a piece of a streamed answer.
    pub(crate) fn print_chunk(&mut self, text: &str) -> PrintResult {
        self.stdout.write(&sanitize_for_display(text))
    }

    /// Prints text for a program, byte for byte.
    pub(crate) fn print_raw(&mut self, text: &str) -> PrintResult {
        self.stdout.write_bytes(text.as_bytes())
    }

    /// Prints bytes for a program.
    pub(crate) fn print_bytes(&mut self, bytes: &[u8]) -> PrintResult {
        self.stdout.write_bytes(bytes)
    }

    /// Returns whether a person reads the answers on a terminal.
    pub(crate) fn is_stdout_interactive(&self) -> bool {
        match self.stdout.device {
            OutputDevice::Terminal | OutputDevice::DumbTerminal => true,
            OutputDevice::Program => false,
        }
    }

    /// Returns whether stdout is a terminal that can be drawn on.
    pub(crate) fn is_stdout_drawable(&self) -> bool {
        self.stdout.device == OutputDevice::Terminal
    }

    /// Returns the use of colours on stdout.
    pub(crate) fn stdout_colour(&self) -> Colour {
        self.stdout.colour
    }

    /// Prints one JSON document, on one line.
    pub(crate) fn print_json(&mut self, document: &impl Serialize) -> PrintResult {
        self.print_json_after("", document)
    }

    /// Prints a whole list as a JSON document, in the form of a page without a next one.
    pub(crate) fn print_json_list<T: Serialize>(&mut self, items: &[T]) -> PrintResult {
        self.print_json(&ListPage { items: items.iter().collect(), next: None })
    }

    /// Prints one JSON document behind a separator of ours, on one line.
    pub(crate) fn print_json_after(
        &mut self,
        before: &str,
        document: &impl Serialize,
    ) -> PrintResult {
        let text = serde_json::to_string(document).map_err(io::Error::other);
        let mut text = escape_json(&text.map_err(CliError::print_failed)?);
        if self.stdout.guard.is_some() {
            // The guard would make the document invalid.
            text = text.replace("##[", "#\\u0023[");
        }
        self.print_line(&StyledLine::plain(format!("{before}{text}")))
    }

    /// Prints a message to stderr.
    pub(crate) fn eprint_line(&mut self, line: &StyledLine) -> PrintResult {
        self.stderr.write_line(line)
    }

    /// Prints text to stderr without ending the line, such as a question.
    pub(crate) fn eprint_chunk(&mut self, text: &str) -> PrintResult {
        self.stderr.write(&sanitize_for_display(text))
    }

    /// Prints an answer of several lines.
    pub(crate) fn print_lines(&mut self, lines: &[StyledLine]) -> PrintResult {
        lines.iter().try_for_each(|line| self.print_line(line))
    }

    /// Prints a table that fits the terminal.
    pub(crate) fn print_table<const N: usize>(
        &mut self,
        head: [Column<'_>; N],
        rows: &[[String; N]],
    ) -> PrintResult {
        let width = self.stdout.terminal_size().map(|size| size.width);
        self.print_lines(&layout_table(head, rows, width))
    }

    /// Prints labelled values, cut to the width of the terminal.
    pub(crate) fn print_facts(&mut self, rows: &[(&str, String)]) -> PrintResult {
        let width = self.stdout.terminal_size().map(|size| size.width);
        self.print_lines(&layout_facts(rows, width))
    }

    /// Returns the number of columns of stdout; `None` for a program.
    pub(crate) fn stdout_width(&self) -> Option<usize> {
        self.stdout.terminal_size().map(|size| size.width)
    }

    /// Prints a note to stderr.
    pub(crate) fn note(&mut self, text: &str) -> PrintResult {
        self.eprint_line(&StyledLine::plain(sanitize_for_display(text)))
    }

    /// Prints a warning to stderr.
    pub(crate) fn warn(&mut self, text: &str) -> PrintResult {
        self.eprint_line(
            &StyledLine::new(Tone::Warn, "warning: ").with(Tone::Plain, sanitize_for_display(text)),
        )
    }

    /// Prints a hint about the next step to stderr.
    pub(crate) fn hint(&mut self, text: &str) -> PrintResult {
        self.eprint_line(&StyledLine::new(
            Tone::Dim,
            format!("hint: {}", sanitize_for_display(text)),
        ))
    }

    /// Prints an error and its hint; an invalid workflow file is shown with the affected lines.
    pub(crate) fn eprint_error(&mut self, error: &CliError) -> PrintResult {
        if let Some(bad) = error.workflow_error() {
            let paint = match self.stderr.colour {
                Colour::On => RenderStyle::Ansi,
                Colour::Off => RenderStyle::Plain,
            };
            self.eprint_line(&StyledLine::plain(bad.render(paint)))?;
            // The rendered error includes the hint of the file, but no hint of the command.
            return match (bad.hint(), error.to_report_error().hint) {
                (None, Some(hint)) => self.hint(&hint),
                (Some(_), _) | (None, None) => Ok(()),
            };
        }
        let body = error.to_report_error();
        let message = sanitize_for_display(&body.message);
        self.eprint_line(&StyledLine::new(Tone::Bad, "error: ").with(Tone::Plain, message))?;
        body.hint.map_or(Ok(()), |hint| self.hint(&hint))
    }

    /// Prints help or an error of clap to the stream that clap chose.
    pub(crate) fn print_clap_message(&mut self, error: &clap::Error) -> PrintResult {
        let end = if error.use_stderr() { &mut self.stderr } else { &mut self.stdout };
        let text = match end.colour {
            Colour::On => error.render().ansi().to_string(),
            Colour::Off => error.render().to_string(),
        };
        end.write(&with_hint_label(&text))
    }

    /// Prints requested help to stdout, since it is the answer.
    pub(crate) fn print_help(&mut self, text: &clap::builder::StyledStr) -> PrintResult {
        let text = match self.stdout.colour {
            Colour::On => text.ansi().to_string(),
            Colour::Off => text.to_string(),
        };
        self.stdout.write(&text)
    }

    /// Writes a control sequence and lines at once, so that no intermediate state is visible.
    pub(crate) fn redraw(&mut self, sequence: &str, lines: &[StyledLine]) -> PrintResult {
        let colour = self.stderr.colour;
        let lines = lines.iter().map(|line| line.paint(colour) + "\n");
        let text: String = std::iter::once(sequence.to_owned()).chain(lines).collect();
        self.stderr.write(&text)
    }

    /// Rings the bell of the terminal on which the messages are drawn; does nothing elsewhere.
    pub(crate) fn ring_bell(&mut self) -> PrintResult {
        match self.stderr.device {
            OutputDevice::Terminal => self.stderr.write_bytes(b"\x07"),
            OutputDevice::DumbTerminal | OutputDevice::Program => Ok(()),
        }
    }

    /// Returns the size of the drawable terminal; `None` for a reader of plain lines.
    pub(crate) fn drawable_size(&self) -> Option<TerminalSize> {
        match self.stderr.device {
            OutputDevice::Terminal => self.stderr.terminal_size(),
            OutputDevice::DumbTerminal | OutputDevice::Program => None,
        }
    }
}

impl OutputStream {
    fn write_line(&mut self, line: &StyledLine) -> PrintResult {
        let text = line.paint(self.colour);
        self.write(&format!("{text}\n"))
    }

    /// Writes a line that is wrapped at words, unless the reader has no width or only appends lines.
    fn write_wrapped(&mut self, line: &StyledLine) -> PrintResult {
        match (self.device, self.terminal_size()) {
            (OutputDevice::Terminal, Some(size)) => {
                // One column stays free: a full line would wrap in some terminals.
                let lines = wrap_line(line, size.width.saturating_sub(1));
                lines.iter().try_for_each(|line| self.write_line(line))
            }
            (OutputDevice::Terminal | OutputDevice::DumbTerminal | OutputDevice::Program, _) => {
                self.write_line(line)
            }
        }
    }

    fn write(&mut self, text: &str) -> PrintResult {
        match &mut self.guard {
            Some(guard) => {
                let safe = guard.disarm(text);
                self.write_bytes(safe.as_bytes())
            }
            None => self.write_bytes(text.as_bytes()),
        }
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> PrintResult {
        let written = self.writer.write_all(bytes);
        match (written.and_then(|()| self.writer.flush()), self.on_error) {
            (Ok(()), _) | (Err(_), PrintErrorPolicy::Ignore) => Ok(()),
            (Err(error), PrintErrorPolicy::Fail) => Err(CliError::print_failed(error)),
        }
    }

    /// Queries the size on each call, since users resize their terminals.
    fn terminal_size(&self) -> Option<TerminalSize> {
        match self.device {
            OutputDevice::Program => None,
            OutputDevice::Terminal | OutputDevice::DumbTerminal => {
                let size = terminal_size::terminal_size();
                let (width, height) = size.map_or((80, 24), |(width, height)| (width.0, height.0));
                Some(TerminalSize { width: width.max(1).into(), height: height.max(1).into() })
            }
        }
    }
}

fn detect_device(end: &impl IsTerminal, env: impl Fn(&str) -> Option<OsString>) -> OutputDevice {
    if end.is_terminal() && !is_ci(&env) { terminal_device(env) } else { OutputDevice::Program }
}

/// Returns whether a CI service runs the command: `CI` is set, and neither `false` nor `0`.
fn is_ci(env: impl Fn(&str) -> Option<OsString>) -> bool {
    env("CI").is_some_and(|value| !value.is_empty() && value != "false" && value != "0")
}

/// Returns whether the runner of GitHub may read a stream; it reads no file.
fn is_read_by_github(file: Option<FileType>, env: impl Fn(&str) -> Option<OsString>) -> bool {
    file != Some(FileType::RegularFile) && env("GITHUB_ACTIONS").is_some_and(|it| it == "true")
}

fn file_type(stream: &impl AsFd) -> Option<FileType> {
    rustix::fs::fstat(stream).ok().map(|stat| FileType::from_raw_mode(stat.st_mode))
}

fn terminal_device(env: impl Fn(&str) -> Option<OsString>) -> OutputDevice {
    match env("TERM") {
        Some(term) if !term.is_empty() && term != "dumb" => OutputDevice::Terminal,
        Some(_) | None => OutputDevice::DumbTerminal,
    }
}

/// Decides on colour: `NO_COLOR` and `CLICOLOR=0` disable it, `CLICOLOR_FORCE` enables it even in a pipe.
fn detect_colour(reader: OutputDevice, env: impl Fn(&str) -> Option<OsString>) -> Colour {
    let is_set = |name| env(name).is_some_and(|value| !value.is_empty());
    let is_off = |name| env(name).is_some_and(|value| value == "0");
    match reader {
        OutputDevice::DumbTerminal => Colour::Off,
        OutputDevice::Terminal | OutputDevice::Program if is_set("NO_COLOR") => Colour::Off,
        _ if is_set("CLICOLOR_FORCE") && !is_off("CLICOLOR_FORCE") => Colour::On,
        OutputDevice::Terminal if !is_off("CLICOLOR") => Colour::On,
        OutputDevice::Terminal | OutputDevice::Program => Colour::Off,
    }
}

/// Replaces clap's label `tip:`, plain or green, by `hint:`, the label of every other hint.
fn with_hint_label(text: &str) -> String {
    text.replace("\n  tip: ", "\n  hint: ").replace("\n  \u{1b}[32mtip:", "\n  \u{1b}[32mhint:")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the value of a name in `A=1 B=2`.
    fn variable(variables: &str, name: &str) -> Option<OsString> {
        let mut pairs = variables.split(' ').filter_map(|pair| pair.split_once('='));
        pairs.find(|(found, _)| *found == name).map(|(_, value)| value.into())
    }

    #[test]
    fn what_a_person_set_decides_about_drawing_and_colour() {
        use {Colour::*, OutputDevice::*};
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
            let reader = terminal_device(env);
            assert_eq!((reader, detect_colour(reader, env)), expected, "{variables}");
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
            assert_eq!(detect_colour(OutputDevice::Program, env), expected, "{variables}");
        }
    }

    #[test]
    fn only_a_terminal_that_can_be_drawn_on_is() {
        for (reader, drawn) in [
            (OutputDevice::Terminal, true),
            (OutputDevice::DumbTerminal, false),
            (OutputDevice::Program, false),
        ] {
            let mut console = Console::for_programs(Box::new(io::sink()), Box::new(io::sink()));
            console.stderr.device = reader;
            assert_eq!(console.drawable_size().is_some(), drawn, "{reader:?}");
        }
    }
}
