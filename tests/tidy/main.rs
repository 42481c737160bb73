//! Project rules that neither rustc nor clippy checks.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod documents;
mod names;
mod prose;
mod source;
mod structure;
