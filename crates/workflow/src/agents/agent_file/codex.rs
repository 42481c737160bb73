//! Agent files of Codex, such as `.codex/agents/reviewer.toml`. Pure.
//!
//! The keys are those of version 0.166.0. Any other setting of Codex may be in the file too, and has no effect.

use super::{
    FileSettings,
    file_keys::{FileValue, FormatKeys, read_model, read_text, read_value},
    tools::{CodexSandbox, FileTools},
};
use crate::{
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    yaml::fields::YamlFields,
};

pub(super) const KEYS: FormatKeys = FormatKeys {
    effective: &["developer_instructions", "model", "model_reasoning_effort", "sandbox_mode"],
    descriptive: &["name", "description", "nickname_candidates"],
    // Settings with names similar to those above.
    ignored: &["model_provider", "model_verbosity", "instructions", "sandbox_workspace_write"],
};

/// Reads the settings apart from the sandbox. The program refuses a file without instructions.
pub(super) fn read(fields: &YamlFields<'_>, diagnostics: &mut Diagnostics) -> FileSettings {
    const PROMPT: &str = "developer_instructions";
    let prompt = read_text(fields, PROMPT, diagnostics);
    if prompt.is_none() && fields.get(PROMPT).is_none_or(|field| field.text().is_ok()) {
        diagnostics.add(
            Diagnostic::new(0..0, "`developer_instructions` is missing")
                .with_hint("it is the prompt of the agent"),
        );
    }
    FileSettings {
        prompt: prompt.map(|prompt| prompt.value.trim().to_owned()),
        model: read_model(fields, diagnostics),
        effort: read_text(fields, "model_reasoning_effort", diagnostics),
        ..FileSettings::default()
    }
}

/// Reads the sandbox of the agent.
pub(super) fn read_sandbox(
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<FileValue<FileTools>> {
    let words = [
        ("read-only", CodexSandbox::ReadOnly),
        ("workspace-write", CodexSandbox::WorkspaceWrite),
        ("danger-full-access", CodexSandbox::Unlimited),
    ];
    let sandbox =
        read_value(fields, "sandbox_mode", diagnostics, |field| field.one_of(&words, &[]))?;
    let FileValue { key, at, value } = sandbox;
    Some(FileValue { key, at, value: FileTools::Codex(value) })
}
