//! Report of a file's mistakes for people and for programs: file, line, column, the line itself with a caret.

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use serde::Serialize;

use crate::{
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    error::escape_control_chars,
};

/// Length above which a line is shown only around its mistake.
const MAX_LINE_BYTES: usize = 400;
/// Number of bytes of a long line that are shown before its mistake, and from the mistake on.
const EXCERPT_BYTES: (usize, usize) = (40, 80);

/// Text of a file with its diagnostics.
#[derive(Debug)]
pub struct DiagnosticReport {
    path: PathBuf,
    text: String,
    lines: LineIndex,
    /// At least one diagnostic, in the order of the file.
    diagnostics: Vec<Diagnostic>,
}

/// One mistake or one warning, for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// Line number, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Description of the mistake.
    pub message: String,
    /// Suggested correction, if one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Start of each line of a text, computed once for many queries.
#[derive(Debug)]
pub(crate) struct LineIndex(Vec<usize>);

/// Shown part of a line, and the position of the mistake in it.
struct SourceExcerpt {
    text: String,
    span: Range<usize>,
    start: ExcerptStart,
}

enum ExcerptStart {
    LineStart,
    MidLine,
}

impl LineIndex {
    pub(crate) fn of(text: &str) -> Self {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(breaks).collect())
    }

    /// Returns the number, from 1, of the line that contains the byte `at`.
    pub(crate) fn number(&self, at: usize) -> usize {
        self.0.partition_point(|start| *start <= at)
    }

    /// Returns the first byte of the line with a number from 1.
    pub(crate) fn start(&self, number: usize) -> usize {
        self.0.get(number.saturating_sub(1)).copied().unwrap_or_default()
    }

    /// Returns the bytes of the line that contains the byte `at`, without the newline.
    fn line_range(&self, text: &str, at: usize) -> Range<usize> {
        let number = self.number(at);
        let start = self.start(number);
        let end = self.0.get(number).map_or(text.len(), |next| next - 1);
        start..end
    }
}

impl DiagnosticReport {
    pub(crate) fn new(path: &Path, text: &str, diagnostics: Diagnostics) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            lines: LineIndex::of(text),
            diagnostics: diagnostics.into_sorted(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns one line about the first mistake, with the number of further ones.
    pub(crate) fn summary(&self) -> String {
        let Some(first) = self.diagnostics.first() else {
            return format!("{} is not a workflow", self.path.display());
        };
        let (line, column) = self.line_and_column(first);
        let more = match self.diagnostics.len() - 1 {
            0 => String::new(),
            more if more < Diagnostics::MAX_REPORTED => format!(" (and {more} more)"),
            more => format!(" (and at least {more} more)"),
        };
        format!("{}:{line}:{column}: {}{more}", self.path.display(), first.message)
    }

    /// Returns the hint for the first mistake.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.diagnostics.first()?.hint.as_deref()
    }

    /// Renders every mistake with its line.
    pub(crate) fn render(&self, renderer: &Renderer) -> String {
        let mut parts: Vec<String> =
            self.reported().map(|diagnostic| self.render_one(renderer, diagnostic)).collect();
        if self.diagnostics.len() > Diagnostics::MAX_REPORTED {
            parts.push("… and more; correct these first".to_owned());
        }
        parts.join("\n\n")
    }

    pub(crate) fn mistakes(&self) -> Vec<Mistake> {
        let mistake = |diagnostic: &Diagnostic| {
            let (line, column) = self.line_and_column(diagnostic);
            let hint = diagnostic.hint.as_deref().map(escape_control_chars);
            Mistake { line, column, message: escape_control_chars(&diagnostic.message), hint }
        };
        self.reported().map(mistake).collect()
    }

    fn reported(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().take(Diagnostics::MAX_REPORTED)
    }

    /// Returns line and column, both from 1; the column counts characters.
    fn line_and_column(&self, diagnostic: &Diagnostic) -> (usize, usize) {
        let at = self.text.floor_char_boundary(diagnostic.at.start);
        let line = self.lines.line_range(&self.text, at);
        let before = self.text.get(line.start..at).unwrap_or_default();
        (self.lines.number(at), before.chars().count() + 1)
    }

    /// Renders the line on which the diagnostic begins: a whole file is never copied to a terminal. The renderer
    /// counts columns in the text that it gets, so a note has the position if the beginning of the line is left out.
    fn render_one(&self, renderer: &Renderer, diagnostic: &Diagnostic) -> String {
        let (line, column) = self.line_and_column(diagnostic);
        let path = escape_control_chars(&self.path.display().to_string());
        let shown = self.excerpt(diagnostic);
        let snippet = Snippet::source(shown.text)
            .line_start(line)
            .annotation(AnnotationKind::Primary.span(shown.span));
        let (snippet, note) = match shown.start {
            ExcerptStart::LineStart => (snippet.path(path), None),
            ExcerptStart::MidLine => {
                let place = format!("at {path}:{line}:{column}");
                (snippet, Some(Level::NOTE.message(place)))
            }
        };
        let hint =
            diagnostic.hint.as_deref().map(|hint| Level::HELP.message(escape_control_chars(hint)));
        let title = Level::ERROR.primary_title(escape_control_chars(&diagnostic.message));
        renderer.render(&[title.element(snippet).elements(note).elements(hint)])
    }

    fn excerpt(&self, diagnostic: &Diagnostic) -> SourceExcerpt {
        let text = &self.text;
        let at = text.floor_char_boundary(diagnostic.at.start);
        let line = self.lines.line_range(text, at);
        let mut seen = line.clone();
        if line.len() > MAX_LINE_BYTES {
            let (before, after) = EXCERPT_BYTES;
            seen.start = text.floor_char_boundary(at.saturating_sub(before)).max(line.start);
            seen.end = text.floor_char_boundary(at + after).min(line.end);
        }
        let (begins, left) = if seen.start > line.start {
            (ExcerptStart::MidLine, "…")
        } else {
            (ExcerptStart::LineStart, "")
        };
        let right = if seen.end < line.end { "…" } else { "" };
        let start = at.saturating_sub(seen.start);
        let end = diagnostic.at.end.min(seen.end).saturating_sub(seen.start).max(start);
        let text = format!("{left}{}{right}", &text[seen]);
        SourceExcerpt { text, span: start + left.len()..end + left.len(), start: begins }
    }
}
