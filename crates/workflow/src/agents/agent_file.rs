//! `use:` of an agent: a file in which Claude Code, Codex, Gemini CLI or opencode define an agent of their own. It fills
//! the prompt, the tools and the model.
//!
//! The file is beneath the workflow's folder, as prompts are. A diagnostic has a position in the workflow file only, so
//! that one about the agent file is at the value of `use:` and begins with the file and its line. Keys of the workflow
//! file have priority over those of the agent file.

mod claude;
mod codex;
mod file_keys;
mod fit;
mod format;
mod front_matter;
mod gemini;
mod opencode;
pub(crate) mod toml_tree;
mod tools;

use agent_worker_backends::BackendSpec;
use agent_worker_protocol::Span;

pub(crate) use self::format::AgentFileFormat;
use self::{
    file_keys::FileValue,
    format::{FilePlace, format_of_keys, format_of_place},
    tools::FileTools,
};
use crate::{
    agents::prompt::PromptFolder,
    diagnostics::{
        diagnostic::{Diagnostic, Diagnostics},
        report::LineIndex,
    },
    yaml::{
        Node,
        fields::{YamlField, YamlFields},
    },
};

/// Mark with which some editors begin a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The value of `use:`.
pub(crate) enum AgentFileUse<'a> {
    /// The agent uses no file.
    Absent,
    /// The file has a mistake, which has a diagnostic.
    Invalid,
    /// The file was read.
    Read(Box<AgentFile<'a>>),
}

/// An agent file that was read.
pub(crate) struct AgentFile<'a> {
    /// The value of `use:`.
    field: YamlField<'a>,
    /// The path as written.
    path: &'a str,
    lines: LineIndex,
    format: AgentFileFormat,
    settings: FileSettings,
}

/// Settings of an agent file in our own terms, before they are fitted to a backend.
#[derive(Debug, Default, PartialEq)]
struct FileSettings {
    prompt: Option<String>,
    model: Option<FileValue<String>>,
    /// The word of the file, which the backend may not know.
    effort: Option<FileValue<String>>,
    max_steps: Option<FileValue<u32>>,
    timeout: Option<FileValue<Span>>,
    tools: Option<FileValue<FileTools>>,
}

/// Facts of the workflow file that decide how an agent file is read.
#[derive(Clone, Copy)]
struct FileContext {
    /// Format of the backend that the workflow file names.
    expected: Option<AgentFileFormat>,
    tool_rules: ToolRules,
}

/// The source of an agent's permission rules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ToolRules {
    /// The agent file.
    OfAgentFile,
    /// `permissions:` of the workflow file.
    OfWorkflow,
}

impl AgentFileUse<'_> {
    /// Returns the backend that the format of the file implies.
    pub(crate) fn implied_backend(&self) -> Option<&'static BackendSpec> {
        match self {
            Self::Absent | Self::Invalid => None,
            Self::Read(file) => file.format.backend(),
        }
    }
}

/// Reads the agent file of an agent with these keys.
pub(crate) fn read<'a>(
    fields: &YamlFields<'a>,
    folder: PromptFolder<'_>,
    diagnostics: &mut Diagnostics,
) -> AgentFileUse<'a> {
    let Some(field) = fields.get("use") else { return AgentFileUse::Absent };
    let text_of = |key: &str| fields.get(key).and_then(|field| field.text().ok());
    let context = FileContext {
        expected: AgentFileFormat::of_backend(text_of("backend"), text_of("agent")),
        tool_rules: match fields.get("permissions") {
            None => ToolRules::OfAgentFile,
            Some(_) => ToolRules::OfWorkflow,
        },
    };
    let Some((path, place, text)) = diagnostics.ok_or_add(open(&field, folder)) else {
        return AgentFileUse::Invalid;
    };
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text);
    let lines = LineIndex::of(text);
    let mut found = Diagnostics::default();
    let read = parse(text, place, context, &mut found);
    let at_use = |one: Diagnostic| at_use(&field, path, &lines, one);
    let (mistakes, warnings) = found.into_parts();
    let is_valid = mistakes.is_empty();
    diagnostics.add_all(mistakes.into_iter().map(at_use));
    warnings.into_iter().map(at_use).for_each(|warning| diagnostics.warn(warning));
    match read {
        Some((format, settings)) if is_valid => {
            AgentFileUse::Read(Box::new(AgentFile { field, path, lines, format, settings }))
        }
        Some(_) | None => AgentFileUse::Invalid,
    }
}

/// Reads the text of the file, with its path as written and the format that the path shows.
fn open<'a>(
    field: &YamlField<'a>,
    folder: PromptFolder<'_>,
) -> Result<(&'a str, FilePlace, String), Diagnostic> {
    let path = field.literal_text()?;
    if path.starts_with('~') {
        let hint =
            format!("`~` is not expanded: copy the file beneath {}", folder.path().display());
        return Err(field
            .diagnostic(format!("the agent file `{path}` is outside the workflow's folder"))
            .with_hint(hint));
    }
    let place = format_of_place(path).map_err(|(message, hint)| {
        field.diagnostic(format!("{path}: {message}")).with_hint(hint)
    })?;
    Ok((path, place, folder.read_text(field, "agent file", path)?))
}

/// Moves a diagnostic about the agent file to the value of `use:`.
fn at_use(field: &YamlField<'_>, path: &str, lines: &LineIndex, one: Diagnostic) -> Diagnostic {
    let line = lines.number(one.at.start);
    let moved = field.diagnostic(format!("{path}:{line}: {}", one.message));
    match one.hint {
        Some(hint) => moved.with_hint(hint),
        None => moved,
    }
}

/// Parses the text of an agent file. The positions of its diagnostics are those in the text.
fn parse(
    text: &str,
    place: FilePlace,
    context: FileContext,
    diagnostics: &mut Diagnostics,
) -> Option<(AgentFileFormat, FileSettings)> {
    let (root, body) = match place {
        FilePlace::Format(AgentFileFormat::Codex) => {
            (diagnostics.ok_or_add(toml_tree::read(text))?, None)
        }
        FilePlace::Format(
            AgentFileFormat::Claude | AgentFileFormat::Gemini | AgentFileFormat::Opencode,
        )
        | FilePlace::AnyMarkdown => {
            let parts = diagnostics.ok_or_add(front_matter::read(text))?;
            (parts.root, Some(parts.body))
        }
    };
    let fields = diagnostics.ok_or_add(YamlField::root(&root).fields_unchecked())?;
    let format = match place {
        FilePlace::Format(format) => Some(format),
        FilePlace::AnyMarkdown => format_of_keys(&fields).or(context.expected),
    };
    let Some(format) = format else {
        diagnostics.add(unknown_format(&root));
        return None;
    };
    format.keys().check(&fields, format, diagnostics);
    let mut settings = match format {
        AgentFileFormat::Claude => claude::read(&fields, diagnostics),
        AgentFileFormat::Gemini => gemini::read(&fields, diagnostics),
        AgentFileFormat::Opencode => opencode::read(&fields, diagnostics),
        AgentFileFormat::Codex => codex::read(&fields, diagnostics),
    };
    if let Some(body) = body.map(str::trim).filter(|body| !body.is_empty()) {
        settings.prompt = Some(body.to_owned());
    }
    if context.tool_rules == ToolRules::OfAgentFile {
        settings.tools = match format {
            AgentFileFormat::Claude => claude::read_tools(&fields, diagnostics),
            AgentFileFormat::Gemini => gemini::read_tools(&fields, diagnostics),
            AgentFileFormat::Opencode => opencode::read_rules(&fields, diagnostics),
            AgentFileFormat::Codex => codex::read_sandbox(&fields, diagnostics),
        };
    }
    Some((format, settings))
}

fn unknown_format(root: &Node) -> Diagnostic {
    Diagnostic::new(root.at.clone(), "no key of the file shows which program it is for").with_hint(
        "add `backend:` to the agent, or move the file into `.claude/agents`, `.gemini/agents` or `.opencode/agents`",
    )
}

#[cfg(test)]
mod tests;
