//! Keys of an agent file: with an effect in a team, without one, or unknown. Pure.

use std::ops::Range;

use super::format::AgentFileFormat;
use crate::{
    diagnostics::{
        diagnostic::{Diagnostic, Diagnostics},
        spelling::nearest,
    },
    yaml::fields::{YamlField, YamlFields},
};

/// Keys of a format.
pub(super) struct FormatKeys {
    /// Keys that become settings of the agent.
    pub(super) effective: &'static [&'static str],
    /// Keys without a meaning for a turn: names and descriptions.
    pub(super) descriptive: &'static [&'static str],
    /// Keys that the program knows and a team does not; a warning names each.
    pub(super) ignored: &'static [&'static str],
}

/// A value of an agent file with its key.
#[derive(Debug, PartialEq)]
pub(super) struct FileValue<T> {
    pub(super) key: &'static str,
    /// Byte range in the agent file.
    pub(super) at: Range<usize>,
    pub(super) value: T,
}

impl<T> FileValue<T> {
    /// Creates a diagnostic at the value.
    pub(super) fn diagnostic(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(self.at.clone(), message)
    }
}

impl FormatKeys {
    /// Warns about each key without an effect. A misspelt key is a mistake: it may be the one that restricts the agent.
    pub(super) fn check(
        &self,
        fields: &YamlFields<'_>,
        format: AgentFileFormat,
        diagnostics: &mut Diagnostics,
    ) {
        let program = format.program();
        for (key, _) in fields.iter() {
            if self.effective.contains(&key.text) || self.descriptive.contains(&key.text) {
                continue;
            }
            let is_ignored = self.ignored.contains(&key.text);
            match nearest(key.text, self.effective.iter().copied()).filter(|_| !is_ignored) {
                Some(near) => diagnostics.add(
                    key.diagnostic(format!("{program} has no key `{}`", key.text))
                        .with_hint(format!("did you mean `{near}`?")),
                ),
                None => diagnostics.warn(
                    key.diagnostic(format!("`{}` has no effect in a team", key.text)).with_hint(
                        format!("keys with an effect are {}", self.effective.join(", ")),
                    ),
                ),
            }
        }
    }
}

/// Reads the value of a key; none if the key is absent, or wrong and reported.
pub(super) fn read_value<T>(
    fields: &YamlFields<'_>,
    key: &'static str,
    diagnostics: &mut Diagnostics,
    read: impl FnOnce(&YamlField<'_>) -> Result<T, Diagnostic>,
) -> Option<FileValue<T>> {
    let field = fields.get(key)?;
    let value = diagnostics.ok_or_add(read(&field))?;
    Some(FileValue { key, at: field.node.at.clone(), value })
}

/// Reads a text; none if it is empty.
pub(super) fn read_text(
    fields: &YamlFields<'_>,
    key: &'static str,
    diagnostics: &mut Diagnostics,
) -> Option<FileValue<String>> {
    let text = read_value(fields, key, diagnostics, |field| field.text().map(str::to_owned))?;
    (!text.value.trim().is_empty()).then_some(text)
}

/// Reads the name of a model; `inherit` is none.
pub(super) fn read_model(
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<FileValue<String>> {
    read_text(fields, "model", diagnostics)
        .filter(|model| !model.value.trim().eq_ignore_ascii_case("inherit"))
}

/// Reads a maximum number of steps.
pub(super) fn read_steps(
    fields: &YamlFields<'_>,
    key: &'static str,
    diagnostics: &mut Diagnostics,
) -> Option<FileValue<u32>> {
    read_value(fields, key, diagnostics, |field| field.integer(1..=10_000))
}

/// Creates the warning for a tool of an MCP server of the user.
pub(super) fn foreign_tool(name: &str, field: &YamlField<'_>) -> Diagnostic {
    field
        .diagnostic(format!("`{name}` has no effect in a team"))
        .with_hint("an agent has the tools of its program and those of the team")
}
