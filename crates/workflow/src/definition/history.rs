//! `history:` key: the mode in which the texts of turns are kept.

use agent_worker_protocol::HistoryMode;

use crate::{diagnostics::diagnostic::Diagnostic, yaml::fields::YamlField};

/// Reads the key.
pub(crate) fn read(field: &YamlField<'_>) -> Result<HistoryMode, Diagnostic> {
    let words =
        [("full", HistoryMode::Full), ("short", HistoryMode::Short), ("off", HistoryMode::Off)];
    field.one_of(&words, &[])
}
