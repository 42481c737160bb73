//! Problems in a workflow file: their positions, their text and spelling suggestions.

pub(crate) mod diagnostic;
pub(crate) mod report;
pub(crate) mod spelling;
