//! Formats of agent files: which program defines an agent in a file, by its folder, its ending or its keys. Pure.

use std::path::{Component, Path};

use agent_worker_backends::{BackendKind, BackendSpec, find_backend};

use super::{claude, codex, file_keys::FormatKeys, gemini, opencode};
use crate::yaml::{Yaml, fields::YamlFields};

/// The program that an agent file is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentFileFormat {
    /// Markdown of Claude Code.
    Claude,
    /// TOML of Codex.
    Codex,
    /// Markdown of Gemini CLI.
    Gemini,
    /// Markdown of opencode.
    Opencode,
}

/// The format of a file, as far as its path shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilePlace {
    Format(AgentFileFormat),
    /// A Markdown file of any folder.
    AnyMarkdown,
}

/// Folders in which programs keep agent files.
const FOLDERS: [(&str, &str, AgentFileFormat); 5] = [
    (".claude", "agents", AgentFileFormat::Claude),
    (".codex", "agents", AgentFileFormat::Codex),
    (".gemini", "agents", AgentFileFormat::Gemini),
    (".opencode", "agent", AgentFileFormat::Opencode),
    (".opencode", "agents", AgentFileFormat::Opencode),
];

/// Keys that occur in one Markdown format only.
const TYPICAL_KEYS: [(AgentFileFormat, &[&str]); 3] = [
    (
        AgentFileFormat::Claude,
        &["disallowedTools", "permissionMode", "maxTurns", "mcpServers", "hooks", "skills"],
    ),
    (
        AgentFileFormat::Gemini,
        &["kind", "display_name", "mcp_servers", "max_turns", "timeout_mins"],
    ),
    (AgentFileFormat::Opencode, &["mode", "permission", "steps", "maxSteps", "top_p", "variant"]),
];

impl AgentFileFormat {
    /// Returns the word of the program in `backend:`, and in `agent:` of the backend `acp`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }

    /// Returns the name of the program, for people.
    pub(super) fn program(self) -> &'static str {
        self.backend().map_or(self.word(), |spec| spec.description)
    }

    /// Returns the backend of the program.
    pub(super) fn backend(self) -> Option<&'static BackendSpec> {
        find_backend(self.word())
    }

    /// Returns the format of the program that a workflow file names.
    pub(super) fn of_backend(backend: Option<&str>, agent: Option<&str>) -> Option<Self> {
        let spec = find_backend(backend?)?;
        let word = if spec.kind == BackendKind::Acp { agent? } else { spec.name };
        [Self::Claude, Self::Codex, Self::Gemini, Self::Opencode]
            .into_iter()
            .find(|format| format.word() == word)
    }

    /// Returns the keys of the format.
    pub(super) fn keys(self) -> &'static FormatKeys {
        match self {
            Self::Claude => &claude::KEYS,
            Self::Codex => &codex::KEYS,
            Self::Gemini => &gemini::KEYS,
            Self::Opencode => &opencode::KEYS,
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Self::Codex => "toml",
            Self::Claude | Self::Gemini | Self::Opencode => "md",
        }
    }
}

/// Returns the format that a path shows, or a message and a hint.
pub(super) fn format_of_place(path: &str) -> Result<FilePlace, (String, &'static str)> {
    let path = Path::new(path);
    let names: Vec<_> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => name.to_str(),
            Component::CurDir
            | Component::ParentDir
            | Component::RootDir
            | Component::Prefix(_) => None,
        })
        .collect();
    let of_folder = FOLDERS.iter().find_map(|(outer, inner, format)| {
        names.windows(2).any(|pair| pair == [*outer, *inner]).then_some(*format)
    });
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    match (of_folder, ending) {
        (Some(format), ending) if ending == format.ending() => Ok(FilePlace::Format(format)),
        (Some(format), _) => Err((
            format!("an agent file of {} ends in `.{}`", format.program(), format.ending()),
            "name the file itself, with its ending",
        )),
        (None, "toml") => Ok(FilePlace::Format(AgentFileFormat::Codex)),
        (None, "md") => Ok(FilePlace::AnyMarkdown),
        (None, _) => Err((
            "an agent file ends in `.md` or `.toml`".to_owned(),
            "such as `use: .claude/agents/reviewer.md`",
        )),
    }
}

/// Returns the format that the keys of a Markdown file show, unless they show none or several.
pub(super) fn format_of_keys(fields: &YamlFields<'_>) -> Option<AgentFileFormat> {
    let by_key = TYPICAL_KEYS.iter().filter(|(_, keys)| keys.iter().any(|key| fields.has(key)));
    let mut found: Vec<_> = by_key.map(|(format, _)| *format).collect();
    if let Some(format) = fields.get("tools").and_then(|field| format_of_tools(&field.node.value)) {
        found.push(format);
    }
    found.dedup();
    match found[..] {
        [only] => Some(only),
        _ => None,
    }
}

/// Returns the format of a value of `tools`: a mapping for opencode; names in capitals for Claude Code.
fn format_of_tools(tools: &Yaml) -> Option<AgentFileFormat> {
    let first = match tools {
        Yaml::Map(_) => return Some(AgentFileFormat::Opencode),
        Yaml::Text(text) => text,
        Yaml::List(items) => match &items.first()?.value {
            Yaml::Text(text) => text,
            _ => return None,
        },
        Yaml::Null | Yaml::Bool(_) | Yaml::Whole(_) | Yaml::Decimal(_) => return None,
    };
    match (first.starts_with(|c: char| c.is_ascii_uppercase()), tools) {
        (true, _) => Some(AgentFileFormat::Claude),
        (false, Yaml::List(_)) => Some(AgentFileFormat::Gemini),
        (false, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::{self, fields::YamlField};

    #[test]
    fn the_folder_and_the_ending_of_a_path_show_the_format() {
        use AgentFileFormat::{Claude, Codex, Gemini, Opencode};
        for (path, expected) in [
            (".claude/agents/a.md", Ok(FilePlace::Format(Claude))),
            ("./sub/.claude/agents/team/a.md", Ok(FilePlace::Format(Claude))),
            (".gemini/agents/a.md", Ok(FilePlace::Format(Gemini))),
            (".opencode/agent/a.md", Ok(FilePlace::Format(Opencode))),
            (".opencode/agents/deep/a.md", Ok(FilePlace::Format(Opencode))),
            (".codex/agents/a.toml", Ok(FilePlace::Format(Codex))),
            ("any/a.toml", Ok(FilePlace::Format(Codex))),
            ("agents/a.md", Ok(FilePlace::AnyMarkdown)),
            (".claude/commands/a.md", Ok(FilePlace::AnyMarkdown)),
            (".claude/agents/a.toml", Err("an agent file of Claude Code ends in `.md`")),
            (".codex/agents/a.md", Err("an agent file of Codex CLI ends in `.toml`")),
            (".claude/agents", Err("an agent file of Claude Code ends in `.md`")),
            (".env", Err("an agent file ends in `.md` or `.toml`")),
            ("", Err("an agent file ends in `.md` or `.toml`")),
        ] {
            let found = format_of_place(path).map_err(|(message, _)| message);
            assert_eq!(found, expected.map_err(str::to_owned), "{path}");
        }
    }

    #[test]
    fn typical_keys_show_the_format_unless_they_contradict() {
        use AgentFileFormat::{Claude, Gemini, Opencode};
        for (text, expected) in [
            ("{ tools: 'Read, Grep' }", Some(Claude)),
            ("{ tools: [Read] }", Some(Claude)),
            ("{ name: a, permissionMode: plan }", Some(Claude)),
            ("{ tools: [read_file] }", Some(Gemini)),
            ("{ timeout_mins: 3 }", Some(Gemini)),
            ("{ tools: { write: false } }", Some(Opencode)),
            ("{ mode: subagent }", Some(Opencode)),
            ("{ name: a, description: b, model: c }", None),
            ("{ mode: subagent, maxTurns: 3 }", None),
            ("{ tools: { write: false }, maxTurns: 3 }", None),
            ("{ tools: 'read' }", None),
        ] {
            let root = yaml::read(text).unwrap();
            let fields = YamlField::root(&root).fields_unchecked().unwrap();
            assert_eq!(format_of_keys(&fields), expected, "{text}");
        }
    }

    #[test]
    fn the_backend_of_the_workflow_file_shows_the_expected_format() {
        for (backend, agent, expected) in [
            (Some("claude"), None, Some(AgentFileFormat::Claude)),
            (Some("acp"), Some("gemini"), Some(AgentFileFormat::Gemini)),
            (Some("acp"), None, None),
            (Some("mock"), None, None),
            (None, None, None),
        ] {
            assert_eq!(AgentFileFormat::of_backend(backend, agent), expected, "{backend:?}");
        }
    }
}
