//! Agent files of Claude Code, such as `.claude/agents/reviewer.md`. Pure.
//!
//! The keys are those of version 2.1.325.

use agent_worker_backends::TEAM_SERVER_NAME;
use agent_worker_protocol::ToolPattern;

use super::{
    FileSettings,
    file_keys::{FileValue, FormatKeys, foreign_tool, read_model, read_steps, read_value},
    tools::{ClaudeTools, FileTools},
};
use crate::{
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    yaml::{
        Yaml,
        fields::{YamlField, YamlFields},
    },
};

pub(super) const KEYS: FormatKeys = FormatKeys {
    effective: &["tools", "disallowedTools", "model", "maxTurns", "effort"],
    descriptive: &["name", "description", "color"],
    ignored: &[
        "autoCompactWindow",
        "background",
        "experimental",
        "hooks",
        "initialPrompt",
        "isolation",
        "mcpServers",
        "memory",
        "observeSubagents",
        "observer",
        "observerMessage",
        "omitClaudeMd",
        "permissionMode",
        "skills",
    ],
};

/// Prefix of the names of tools of MCP servers.
const MCP_PREFIX: &str = "mcp__";
/// The older name of the tool `Agent`.
const AGENT_TOOL_ALIAS: (&str, &str) = ("Task", "Agent");
/// Maximum length of a tool's name in a message.
const MAX_SHOWN_CHARS: usize = 80;
const RULES_HINT: &str =
    "write `permissions:` in the workflow file; it replaces the tools of the agent file";

/// The list in which a tool is named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ToolList {
    Allowed,
    Disallowed,
}

/// A name in a list of tools.
enum ToolWord {
    Every,
    Rule(ToolPattern),
    /// A tool of the team, which the agent always has.
    OfTeam,
    /// A tool of another MCP server, which no agent has.
    Absent,
}

/// Reads the settings apart from the tools.
pub(super) fn read(fields: &YamlFields<'_>, diagnostics: &mut Diagnostics) -> FileSettings {
    FileSettings {
        model: read_model(fields, diagnostics),
        effort: read_value(fields, "effort", diagnostics, read_effort),
        max_steps: read_steps(fields, "maxTurns", diagnostics),
        ..FileSettings::default()
    }
}

/// Reads an effort: a word or a number.
fn read_effort(field: &YamlField<'_>) -> Result<String, Diagnostic> {
    match field.node.value {
        Yaml::Whole(number) => Ok(number.to_string()),
        _ => field.text().map(|word| match word.to_ascii_lowercase().as_str() {
            "med" => "medium".to_owned(),
            word => word.to_owned(),
        }),
    }
}

/// Reads `tools` and `disallowedTools`; none if the file has every tool.
pub(super) fn read_tools(
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<FileValue<FileTools>> {
    let allow = read_list(fields, ("tools", ToolList::Allowed), diagnostics);
    let deny = read_list(fields, ("disallowedTools", ToolList::Disallowed), diagnostics);
    let (key, at) = match (&allow, &deny) {
        (Some(list), _) | (None, Some(list)) => (list.key, list.at.clone()),
        (None, None) => return None,
    };
    let deny = deny.and_then(|list| list.value).unwrap_or_default();
    let allow = allow.and_then(|list| list.value);
    let tools = ClaudeTools { allow, deny };
    (!tools.is_empty()).then_some(FileValue { key, at, value: FileTools::Claude(tools) })
}

/// Reads a list of tools: none if the key is absent; no value if it means every tool. A key without a value is an empty
/// list, as for the program.
fn read_list(
    fields: &YamlFields<'_>,
    (key, list): (&'static str, ToolList),
    diagnostics: &mut Diagnostics,
) -> Option<FileValue<Option<Vec<ToolPattern>>>> {
    let (_, field) = fields.iter().find(|(found, _)| found.text == key)?;
    let mut value = Some(Vec::new());
    for (word, item) in diagnostics.ok_or_add(read_words(field)).unwrap_or_default() {
        match diagnostics.ok_or_add(read_word(&word, &item, list)) {
            Some(ToolWord::Every) => value = None,
            Some(ToolWord::Rule(rule)) => {
                if let Some(rules) = &mut value {
                    rules.push(rule);
                }
            }
            Some(ToolWord::Absent) if list == ToolList::Allowed => {
                diagnostics.warn(foreign_tool(&word, &item));
            }
            Some(ToolWord::Absent | ToolWord::OfTeam) | None => {}
        }
    }
    Some(FileValue { key, at: field.node.at.clone(), value })
}

/// Returns the words of a list, each with its place: a text with commas or spaces, or a list of such texts.
fn read_words<'a>(field: &YamlField<'a>) -> Result<Vec<(String, YamlField<'a>)>, Diagnostic> {
    let items = match field.node.value {
        Yaml::Null => Vec::new(),
        Yaml::Text(_) => vec![field.clone()],
        _ => field.list()?,
    };
    let mut words = Vec::new();
    for item in items {
        words.extend(split_words(item.text()?).into_iter().map(|word| (word, item.clone())));
    }
    Ok(words)
}

/// Splits at commas and spaces outside of brackets.
fn split_words(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let is_separator = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (c == ',' || c.is_whitespace())
    };
    text.split(is_separator).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn read_word(word: &str, field: &YamlField<'_>, list: ToolList) -> Result<ToolWord, Diagnostic> {
    let refused = |why: &str| {
        let word: String = word.chars().take(MAX_SHOWN_CHARS).collect();
        Err(field
            .diagnostic(format!("cannot translate the tool `{word}`: {why}"))
            .with_hint(RULES_HINT))
    };
    if let Some(tool) = word.strip_prefix(MCP_PREFIX) {
        let (server, tool) = tool.split_once("__").unwrap_or((tool, "*"));
        return match (server == TEAM_SERVER_NAME, list) {
            (false, _) => Ok(ToolWord::Absent),
            (true, ToolList::Allowed) => Ok(ToolWord::OfTeam),
            (true, ToolList::Disallowed) if tool == "*" => refused("name the tools of the team"),
            (true, ToolList::Disallowed) => match word.parse() {
                Ok(pattern) => Ok(ToolWord::Rule(pattern)),
                Err(why) => refused(&format!("{why}")),
            },
        };
    }
    if word == "*" {
        return match list {
            ToolList::Allowed => Ok(ToolWord::Every),
            ToolList::Disallowed => refused("no tool would be left"),
        };
    }
    let (name, rule) = match word.split_once('(') {
        None => (word, None),
        Some((name, rest)) => match rest.strip_suffix(')') {
            Some(rule) => (name, Some(rule)),
            None => return refused("its bracket is not closed at the end"),
        },
    };
    let name = if name == AGENT_TOOL_ALIAS.0 { AGENT_TOOL_ALIAS.1 } else { name };
    let pattern = match (name, rule) {
        (_, None | Some("" | "*" | ":*")) => name.to_owned(),
        ("Bash", Some(rule)) => match bash_pattern(rule, list) {
            Ok(pattern) => pattern,
            Err(why) => return refused(why),
        },
        (_, Some(_)) => return refused("a team has rules with brackets for `Bash` alone"),
    };
    match pattern.parse() {
        Ok(pattern) => Ok(ToolWord::Rule(pattern)),
        Err(why) => refused(&format!("{why}")),
    }
}

/// Translates a rule for commands: `git diff:*` means the words `git diff` and anything behind them.
fn bash_pattern(rule: &str, list: ToolList) -> Result<String, &'static str> {
    let inner_star = "`*` is translated only at its end";
    if rule.contains('\\') {
        return Err("escapes are not translated");
    }
    let Some(start) = rule.strip_suffix('*') else {
        return if rule.contains('*') { Err(inner_star) } else { Ok(format!("Bash({rule})")) };
    };
    if start.contains('*') {
        return Err(inner_star);
    }
    let Some(words) = start.strip_suffix(':') else {
        return match (start.strip_suffix(' '), list) {
            // Our own rule would miss `rmdir` for `rm*`.
            (None, ToolList::Disallowed) => Err("write `:*` at its end"),
            // The command without arguments is denied too.
            (Some(words), ToolList::Disallowed) => Ok(format!("Bash({words}*)")),
            (Some(_) | None, ToolList::Allowed) => Ok(format!("Bash({start}*)")),
        };
    };
    match (words.ends_with(char::is_alphanumeric), list) {
        (true, _) | (false, ToolList::Disallowed) => Ok(format!("Bash({words}*)")),
        // Our rule for `./run-*` would include `./run-all`.
        (false, ToolList::Allowed) => Ok(format!("Bash({words} *)")),
    }
}
