//! A file's mistakes for people and for programs: file, line, column, the line itself with a caret.

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use serde::Serialize;

use crate::{
    complaint::{Complaint, Complaints},
    error::inert,
};

/// A longer line is shown around its mistake only.
const LONGEST_LINE: usize = 400;
/// How much of a long line is shown before its mistake, and from it on.
const AROUND: (usize, usize) = (40, 80);

/// A file's text and what is wrong with it.
#[derive(Debug)]
pub struct Report {
    path: PathBuf,
    text: String,
    lines: Lines,
    /// In the order of the file. There is at least one.
    complaints: Vec<Complaint>,
}

/// One mistake, for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to write instead, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Where each line of a text begins: found once, asked often.
#[derive(Debug)]
pub(crate) struct Lines(Vec<usize>);

/// What is shown of a line, and where in that the mistake is.
struct Shown {
    text: String,
    span: Range<usize>,
    begins: Begins,
}

enum Begins {
    WithTheLine,
    Later,
}

impl Lines {
    pub(crate) fn of(text: &str) -> Self {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(breaks).collect())
    }

    /// The number, from 1, of the line that has the byte `at`.
    pub(crate) fn number(&self, at: usize) -> usize {
        self.0.partition_point(|start| *start <= at)
    }

    /// The bytes of the line that has the byte `at`, without its end.
    fn around(&self, text: &str, at: usize) -> Range<usize> {
        let number = self.number(at);
        let start = self.0.get(number.saturating_sub(1)).copied().unwrap_or_default();
        let end = self.0.get(number).map_or(text.len(), |next| next - 1);
        start..end
    }
}

impl Report {
    pub(crate) fn new(path: &Path, text: &str, complaints: Complaints) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            lines: Lines::of(text),
            complaints: complaints.sorted(),
        }
    }

    /// One line about the first mistake, and how many more there are.
    pub(crate) fn summary(&self) -> String {
        let Some(first) = self.complaints.first() else {
            return format!("{} is not a workflow", self.path.display());
        };
        let (line, column) = self.place(first);
        let more = match self.complaints.len() - 1 {
            0 => String::new(),
            more if more < Complaints::TOLD => format!(" (and {more} more)"),
            more => format!(" (and at least {more} more)"),
        };
        format!("{}:{line}:{column}: {}{more}", self.path.display(), first.message)
    }

    /// What to do about the first mistake.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.complaints.first()?.hint.as_deref()
    }

    /// Every mistake, each with its line.
    pub(crate) fn render(&self, renderer: &Renderer) -> String {
        let mut parts: Vec<String> =
            self.told().map(|complaint| self.render_one(renderer, complaint)).collect();
        if self.complaints.len() > Complaints::TOLD {
            parts.push("… and more: these are the first to put right".to_owned());
        }
        parts.join("\n\n")
    }

    pub(crate) fn mistakes(&self) -> Vec<Mistake> {
        let mistake = |complaint: &Complaint| {
            let (line, column) = self.place(complaint);
            let hint = complaint.hint.as_deref().map(inert);
            Mistake { line, column, message: inert(&complaint.message), hint }
        };
        self.told().map(mistake).collect()
    }

    fn told(&self) -> impl Iterator<Item = &Complaint> {
        self.complaints.iter().take(Complaints::TOLD)
    }

    /// Line and column, both from 1; the column counts characters.
    fn place(&self, complaint: &Complaint) -> (usize, usize) {
        let at = self.text.floor_char_boundary(complaint.at.start);
        let line = self.lines.around(&self.text, at);
        let before = self.text.get(line.start..at).unwrap_or_default();
        (self.lines.number(at), before.chars().count() + 1)
    }

    /// Shows the one line the complaint begins on: a whole file is never copied to a terminal. The renderer counts
    /// columns in what it is shown, so where the line's beginning is left out a note has the place.
    fn render_one(&self, renderer: &Renderer, complaint: &Complaint) -> String {
        let (line, column) = self.place(complaint);
        let path = inert(&self.path.display().to_string());
        let shown = self.shown(complaint);
        let snippet = Snippet::source(shown.text)
            .line_start(line)
            .annotation(AnnotationKind::Primary.span(shown.span));
        let (snippet, note) = match shown.begins {
            Begins::WithTheLine => (snippet.path(path), None),
            Begins::Later => {
                let place = format!("at {path}:{line}:{column}");
                (snippet, Some(Level::NOTE.message(place)))
            }
        };
        let hint = complaint.hint.as_deref().map(|hint| Level::HELP.message(inert(hint)));
        let title = Level::ERROR.primary_title(inert(&complaint.message));
        renderer.render(&[title.element(snippet).elements(note).elements(hint)])
    }

    fn shown(&self, complaint: &Complaint) -> Shown {
        let text = &self.text;
        let at = text.floor_char_boundary(complaint.at.start);
        let line = self.lines.around(text, at);
        let mut seen = line.clone();
        if line.len() > LONGEST_LINE {
            let (before, after) = AROUND;
            seen.start = text.floor_char_boundary(at.saturating_sub(before)).max(line.start);
            seen.end = text.floor_char_boundary(at + after).min(line.end);
        }
        let (begins, left) = if seen.start > line.start {
            (Begins::Later, "…")
        } else {
            (Begins::WithTheLine, "")
        };
        let right = if seen.end < line.end { "…" } else { "" };
        let start = at.saturating_sub(seen.start);
        let end = complaint.at.end.min(seen.end).saturating_sub(seen.start).max(start);
        let text = format!("{left}{}{right}", &text[seen]);
        Shown { text, span: start + left.len()..end + left.len(), begins }
    }
}
