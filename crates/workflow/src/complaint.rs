//! What is wrong with a file, gathered: one mistake does not hide the next.
//!
//! Whoever reads a value puts what is wrong with it here and goes on with anything in its place. Invariant:
//! where something was complained about, nobody gets to see what was read.

use std::ops::Range;

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

/// What is wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Complaints(Vec<Complaint>);

impl Complaints {
    /// How many of one file are told. Each costs time to find words for, so a file made of mistakes is not
    /// looked at to its end.
    pub(crate) const TOLD: usize = 20;

    pub(crate) fn add(&mut self, complaint: Complaint) {
        if !self.is_full() {
            self.0.push(complaint);
        }
    }

    pub(crate) fn add_all(&mut self, complaints: impl IntoIterator<Item = Complaint>) {
        let room = (Self::TOLD + 1).saturating_sub(self.0.len());
        self.0.extend(complaints.into_iter().take(room));
    }

    /// What was read, if it is right.
    pub(crate) fn keep<T>(&mut self, read: Result<T, Complaint>) -> Option<T> {
        read.map_err(|complaint| self.add(complaint)).ok()
    }

    /// Whether looking on is pointless. One more is kept than is told, to know that there are more.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() > Self::TOLD
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the order of the file.
    pub(crate) fn sorted(mut self) -> Vec<Complaint> {
        self.0.sort_by_key(|complaint| complaint.at.start);
        self.0
    }
}
