//! Diagnostics of a file, collected: one mistake does not hide the next.
//!
//! The reader of a value adds a diagnostic and continues with any value in its place. Invariant: if there is a
//! mistake, no caller gets the workflow. A warning does not change the workflow.

use std::ops::Range;

/// One mistake, or one warning, at one position of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diagnostic {
    /// Byte range in the file's text.
    pub(crate) at: Range<usize>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Diagnostic {
    pub(crate) fn new(at: Range<usize>, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), hint: None }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// Diagnostics found so far.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics {
    mistakes: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Maximum number of reported mistakes, and of reported warnings, per file. Each takes time to word, so a file full of mistakes is not
    /// read to its end.
    pub(crate) const MAX_REPORTED: usize = 20;

    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
        if !self.is_full() {
            self.mistakes.push(diagnostic);
        }
    }

    /// Adds a warning, about a part of the file that is valid and has no effect.
    pub(crate) fn warn(&mut self, diagnostic: Diagnostic) {
        if self.warnings.len() < Self::MAX_REPORTED {
            self.warnings.push(diagnostic);
        }
    }

    pub(crate) fn add_all(&mut self, diagnostics: impl IntoIterator<Item = Diagnostic>) {
        let remaining = (Self::MAX_REPORTED + 1).saturating_sub(self.mistakes.len());
        self.mistakes.extend(diagnostics.into_iter().take(remaining));
    }

    /// Returns a correct value, or adds its diagnostic.
    pub(crate) fn ok_or_add<T>(&mut self, read: Result<T, Diagnostic>) -> Option<T> {
        read.map_err(|diagnostic| self.add(diagnostic)).ok()
    }

    /// Returns true if further checks are pointless. One mistake more than reported is kept, to detect that there
    /// are more.
    pub(crate) fn is_full(&self) -> bool {
        self.mistakes.len() > Self::MAX_REPORTED
    }

    /// Returns the number of mistakes.
    pub(crate) fn len(&self) -> usize {
        self.mistakes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.mistakes.is_empty()
    }

    /// Returns the mistakes in the order of the file.
    pub(crate) fn into_sorted(mut self) -> Vec<Diagnostic> {
        self.mistakes.sort_by_key(|diagnostic| diagnostic.at.start);
        self.mistakes
    }

    /// Returns the warnings as the diagnostics of a valid file.
    pub(crate) fn into_warnings(self) -> Self {
        Self { mistakes: self.warnings, warnings: Vec::new() }
    }

    /// Returns the mistakes and the warnings, in the order in which they were found.
    pub(crate) fn into_parts(self) -> (Vec<Diagnostic>, Vec<Diagnostic>) {
        (self.mistakes, self.warnings)
    }
}
