//! `history:` key: the mode in which the texts of turns are kept.

use agent_worker_protocol::HistoryMode;

use crate::{diagnostics::diagnostic::Diagnostic, yaml::fields::YamlField};

/// Description of the key in the schema of the file.
pub(crate) const HELP: &str = "History of the turns: `full` keeps prompts, words, arguments and results, `short` their beginnings, \
     `off` no prompts and no words (full).";

/// Reads the key.
pub(crate) fn read(field: &YamlField<'_>) -> Result<HistoryMode, Diagnostic> {
    let words =
        [("full", HistoryMode::Full), ("short", HistoryMode::Short), ("off", HistoryMode::Off)];
    field.one_of(&words, &[])
}
