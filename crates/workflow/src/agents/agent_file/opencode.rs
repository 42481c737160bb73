//! Agent files of opencode, such as `.opencode/agent/reviewer.md`. Pure.
//!
//! The keys are those of version 1.18.33.

use agent_worker_protocol::{Keyword as _, PermissionAction};

use super::{
    FileSettings,
    file_keys::{FileValue, FormatKeys, read_model, read_steps, read_text},
    tools::{FileTools, OpencodeRules},
};
use crate::{
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    yaml::{
        Yaml,
        fields::{YamlField, YamlFields},
    },
};

pub(super) const KEYS: FormatKeys = FormatKeys {
    effective: &["tools", "permission", "model", "variant", "steps", "maxSteps"],
    descriptive: &["name", "description", "mode", "hidden", "color"],
    ignored: &["disable", "options", "prompt", "temperature", "top_p"],
};

/// Reads the settings apart from the rules.
pub(super) fn read(fields: &YamlFields<'_>, diagnostics: &mut Diagnostics) -> FileSettings {
    let steps = read_steps(fields, "steps", diagnostics);
    FileSettings {
        model: read_model(fields, diagnostics),
        effort: read_text(fields, "variant", diagnostics),
        max_steps: steps.or_else(|| read_steps(fields, "maxSteps", diagnostics)),
        ..FileSettings::default()
    }
}

/// Reads `tools`, and `permission`, which has priority.
pub(super) fn read_rules(
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<FileValue<FileTools>> {
    let mut rules = OpencodeRules::default();
    let mut place = None;
    for key in ["tools", "permission"] {
        let Some(field) = fields.get(key) else { continue };
        place = Some((key, field.node.at.clone()));
        let read = match key {
            "tools" => add_tools(&field, &mut rules),
            _ => add_permissions(&field, &mut rules),
        };
        diagnostics.ok_or_add(read);
    }
    let (key, at) = place?;
    rules.is_restricted().then_some(FileValue { key, at, value: FileTools::Opencode(rules) })
}

fn add_tools(field: &YamlField<'_>, rules: &mut OpencodeRules) -> Result<(), Diagnostic> {
    for (key, value) in field.named_entries()? {
        let action =
            if value.boolean()? { PermissionAction::Allow } else { PermissionAction::Deny };
        let tool = match key.text {
            "write" | "patch" => "edit",
            tool => tool,
        };
        rules.set(tool, action);
    }
    Ok(())
}

fn add_permissions(field: &YamlField<'_>, rules: &mut OpencodeRules) -> Result<(), Diagnostic> {
    if let Yaml::Text(_) = field.node.value {
        rules.set("*", read_action(field)?);
        return Ok(());
    }
    for (key, value) in field.named_entries()? {
        rules.set(key.text, read_uniform_action(&value)?);
    }
    Ok(())
}

/// Reads the action for a tool: a word, or patterns that all have the same action.
fn read_uniform_action(field: &YamlField<'_>) -> Result<PermissionAction, Diagnostic> {
    if let Yaml::Text(_) = field.node.value {
        return read_action(field);
    }
    let mut actions = Vec::new();
    for (key, value) in field.named_entries()? {
        actions.push((key.text, read_action(&value)?));
    }
    match actions[..] {
        [("*", action)] => Ok(action),
        _ => Err(field.diagnostic("patterns of a permission are not translated").with_hint(
            "write `permissions:` in the workflow file; it replaces the rules of the agent file",
        )),
    }
}

fn read_action(field: &YamlField<'_>) -> Result<PermissionAction, Diagnostic> {
    let words = [PermissionAction::Allow, PermissionAction::Ask, PermissionAction::Deny]
        .map(|action| (action.word(), action));
    field.one_of(&words, &[])
}
