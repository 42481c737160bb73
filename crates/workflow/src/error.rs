//! What is wrong with a file or with the values given to it, told so that it can be put right:
//! what, where (file, line, column, the line itself), and what to write instead.

use std::{
    fmt,
    ops::Range,
    path::{Path, PathBuf},
};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::{file::Unreadable, reference::Reference};

/// How many complaints of one file are shown; the rest is only counted.
const SHOWN: usize = 5;

/// Why there is no workflow, or why it cannot be filled in.
#[derive(Debug)]
pub enum Error {
    /// The file could not be taken: missing, a folder, too long, not UTF-8.
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why, in words.
        why: String,
    },
    /// The file was read and is not a workflow.
    Invalid(Report),
    /// The file has no such parameter.
    UnknownParam {
        /// As given.
        name: String,
        /// What may have been meant, or what there is.
        hint: String,
    },
    /// A parameter that must be given was not.
    MissingParam {
        /// Its name.
        name: String,
    },
    /// The file asks for an environment variable that the caller does not have.
    UnsetEnv {
        /// Its name.
        name: String,
    },
    /// A reference has no value yet: the setup step that makes it has not run.
    NoValue {
        /// Which.
        reference: Reference,
    },
    /// A value has a NUL byte, which no shell variable can hold.
    NulByte {
        /// Whose value.
        reference: Reference,
    },
}

/// Whether a rendered error has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Text alone.
    Plain,
    /// With terminal escapes.
    Ansi,
}

/// A file's text and what is wrong with it.
#[derive(Debug)]
pub struct Report {
    path: PathBuf,
    text: String,
    complaints: Vec<Complaint>,
}

/// One thing that is wrong, at one place of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// Bytes of the file's text.
    pub(crate) at: Range<usize>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Complaint {
    pub(crate) fn new(at: Range<usize>, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl Error {
    pub(crate) fn unreadable(path: &Path, why: &Unreadable) -> Self {
        Self::Unreadable { path: path.to_owned(), why: why.to_string() }
    }

    /// Complaints are told in the order of the file. There is at least one.
    pub(crate) fn invalid(path: &Path, text: &str, mut complaints: Vec<Complaint>) -> Self {
        complaints.sort_by_key(|complaint| complaint.at.start);
        Self::Invalid(Report { path: path.to_owned(), text: text.to_owned(), complaints })
    }

    /// One line: `file:line:column: what is wrong`.
    pub fn summary(&self) -> String {
        inert(&match self {
            Self::Unreadable { path, why } => format!("cannot read {}: {why}", path.display()),
            Self::Invalid(report) => report.summary(),
            Self::UnknownParam { name, .. } => format!("the workflow has no parameter `{name}`"),
            Self::MissingParam { name } => format!("the parameter `{name}` is required"),
            Self::UnsetEnv { name } => {
                format!("the workflow uses `env.{name}`, and {name} is not set")
            }
            Self::NoValue { reference } => format!("`{reference}` has no value yet"),
            Self::NulByte { reference } => {
                format!("the value of `{reference}` has a NUL byte, which no shell variable holds")
            }
        })
    }

    /// What to do next, if that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreadable { .. } | Self::NoValue { .. } => None,
            Self::Invalid(report) => report.complaints.first()?.hint.as_deref().map(inert),
            Self::UnknownParam { hint, .. } => Some(inert(hint)),
            Self::MissingParam { name } => Some(format!("add `--{name} VALUE`")),
            Self::UnsetEnv { name } => Some(format!("set {name} before the run")),
            Self::NulByte { reference } => {
                Some(format!("read it from its file: `${{{{ {reference}.file }}}}`"))
            }
        }
    }

    /// The whole story, for people: each complaint with its line and a caret.
    pub fn render(&self, paint: Paint) -> String {
        let renderer = match paint {
            Paint::Plain => Renderer::plain(),
            Paint::Ansi => Renderer::styled(),
        };
        if let Self::Invalid(report) = self {
            return report.render(&renderer);
        }
        let hint = self.hint().map(|hint| Level::HELP.message(hint));
        renderer.render(&[Level::ERROR.primary_title(self.summary()).elements(hint)])
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())
    }
}

impl std::error::Error for Error {}

impl Report {
    fn summary(&self) -> String {
        let Some(first) = self.complaints.first() else {
            return format!("{} is not a workflow", self.path.display());
        };
        let (line, column) = line_and_column(&self.text, first.at.start);
        let more = match self.complaints.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        format!("{}:{line}:{column}: {}{more}", self.path.display(), first.message)
    }

    fn render(&self, renderer: &Renderer) -> String {
        let shown = self.complaints.iter().take(SHOWN);
        let mut parts: Vec<String> =
            shown.map(|complaint| self.render_one(renderer, complaint)).collect();
        if let Some(more) = self.complaints.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            parts.push(format!("… and {more} more"));
        }
        parts.join("\n\n")
    }

    /// Shows the one line the complaint begins on: a whole file is never copied to a terminal.
    fn render_one(&self, renderer: &Renderer, complaint: &Complaint) -> String {
        let (line, _) = line_and_column(&self.text, complaint.at.start);
        let shown = line_around(&self.text, complaint.at.start);
        let start = complaint.at.start.saturating_sub(shown.start);
        let end = complaint.at.end.min(shown.end).saturating_sub(shown.start).max(start);
        let snippet = Snippet::source(&self.text[shown])
            .line_start(line)
            .path(inert(&self.path.display().to_string()))
            .annotation(AnnotationKind::Primary.span(start..end));
        let hint = complaint.hint.as_deref().map(|hint| Level::HELP.message(inert(hint)));
        let group: Group<'_> =
            Level::ERROR.primary_title(inert(&complaint.message)).element(snippet).elements(hint);
        renderer.render(&[group])
    }
}

/// Both from 1; the column counts characters.
pub(crate) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let line = line_around(text, at);
    let before = text.get(line.start..at).unwrap_or_default();
    (text[..line.start].matches('\n').count() + 1, before.chars().count() + 1)
}

/// The bytes of the line that has the byte `at`, without its end.
fn line_around(text: &str, at: usize) -> Range<usize> {
    let at = text.floor_char_boundary(at);
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let end = text[at..].find('\n').map_or(text.len(), |length| at + length);
    start..end
}

/// Text from a file, made harmless for a terminal.
fn inert(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        if c.is_control() {
            out.extend(c.escape_debug());
        } else {
            out.push(c);
        }
        out
    })
}
