//! What is wrong with a file, gathered: one mistake does not hide the next.
//!
//! Whoever reads a value puts what is wrong with it here and goes on with anything in its place. Invariant:
//! where something was complained about, nobody gets to see what was read.

use std::ops::Range;

/// One thing that is wrong, at one place of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diagnostic {
    /// Bytes of the file's text.
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

/// What is wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// How many of one file are told. Each costs time to find words for, so a file made of mistakes is not
    /// looked at to its end.
    pub(crate) const MAX_REPORTED: usize = 20;

    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
        if !self.is_full() {
            self.0.push(diagnostic);
        }
    }

    pub(crate) fn add_all(&mut self, diagnostics: impl IntoIterator<Item = Diagnostic>) {
        let room = (Self::MAX_REPORTED + 1).saturating_sub(self.0.len());
        self.0.extend(diagnostics.into_iter().take(room));
    }

    /// What was read, if it is right.
    pub(crate) fn ok_or_add<T>(&mut self, read: Result<T, Diagnostic>) -> Option<T> {
        read.map_err(|diagnostic| self.add(diagnostic)).ok()
    }

    /// Whether looking on is pointless. One more is kept than is told, to know that there are more.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() > Self::MAX_REPORTED
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the order of the file.
    pub(crate) fn into_sorted(mut self) -> Vec<Diagnostic> {
        self.0.sort_by_key(|diagnostic| diagnostic.at.start);
        self.0
    }
}
