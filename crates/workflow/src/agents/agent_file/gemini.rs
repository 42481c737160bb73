//! Agent files of Gemini CLI, such as `.gemini/agents/reviewer.md`. Pure.
//!
//! The keys are those of version 0.61.0.

use agent_worker_protocol::Span;

use super::{
    FileSettings,
    file_keys::{FileValue, FormatKeys, foreign_tool, read_model, read_steps, read_value},
    tools::FileTools,
};
use crate::{
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    yaml::fields::{YamlField, YamlFields},
};

pub(super) const KEYS: FormatKeys = FormatKeys {
    effective: &["tools", "model", "max_turns", "timeout_mins", "kind"],
    descriptive: &["name", "description", "display_name"],
    ignored: &["agent_card_json", "agent_card_url", "auth", "mcp_servers", "temperature"],
};

/// A week, the longest timeout of an agent.
const MAX_MINUTES: u32 = 7 * 24 * 60;
/// Prefix of the names of tools of MCP servers.
const MCP_PREFIX: &str = "mcp_";
const TEAM_PREFIX: &str = "mcp_team_";

/// Reads the settings apart from the tools.
pub(super) fn read(fields: &YamlFields<'_>, diagnostics: &mut Diagnostics) -> FileSettings {
    read_value(fields, "kind", diagnostics, read_kind);
    FileSettings {
        model: read_model(fields, diagnostics),
        max_steps: read_steps(fields, "max_turns", diagnostics),
        timeout: read_value(fields, "timeout_mins", diagnostics, |field| {
            let minutes = field.integer(1..=MAX_MINUTES)?;
            Ok(Span::from_secs(u64::from(minutes) * 60))
        }),
        ..FileSettings::default()
    }
}

fn read_kind(field: &YamlField<'_>) -> Result<(), Diagnostic> {
    match field.text()? {
        "local" => Ok(()),
        kind => Err(field
            .diagnostic(format!("an agent of the kind `{kind}` cannot be in a team"))
            .with_hint("use an agent with `kind: local`")),
    }
}

/// Reads `tools`; none if the file has every tool.
pub(super) fn read_tools(
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<FileValue<FileTools>> {
    let field = fields.get("tools")?;
    let mut tools = Vec::new();
    for item in diagnostics.ok_or_add(field.list())? {
        match diagnostics.ok_or_add(item.text()) {
            Some("*") => return None,
            Some(name) if name.starts_with(TEAM_PREFIX) => {}
            Some(name) if name.starts_with(MCP_PREFIX) => {
                diagnostics.warn(foreign_tool(name, &item));
            }
            Some(name) => tools.push(name.to_owned()),
            None => {}
        }
    }
    Some(FileValue { key: "tools", at: field.node.at.clone(), value: FileTools::Gemini(tools) })
}
