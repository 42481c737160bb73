//! `mock_tools:` of an agent: tools with scripted results, which replace built-in tools of the same name.
//!
//! Only a worker that offers tools itself can offer them: the backends `api` and `mock`.

use std::collections::BTreeMap;

use agent_worker_backends::{BUILTIN_TOOLS, BackendKind, BackendSpec, find_builtin_tool};
use agent_worker_protocol::{
    AgentSettings, Backend, MockTool, MockToolResult, SHELL_TOOL, ToolName,
};
use serde_json::Value;

use crate::{
    agents::{backend::BackendChoiceError, output_schema, standalone::AgentDraftError},
    diagnostics::{
        diagnostic::{Diagnostic, Diagnostics},
        spelling::nearest,
    },
    yaml::{
        Yaml,
        fields::{AllowedKeys, YamlField, YamlFields},
        text_file::MAX_FILE_BYTES,
    },
};

const TOOL_KEYS: AllowedKeys = AllowedKeys {
    known: &["name", "description", "schema", "result", "error", "results"],
    planned: &[],
};
const RESULT_KEYS: AllowedKeys = AllowedKeys { known: &["when", "result", "error"], planned: &[] };
const ONE_RESULT: &str = "`result`, `error` or `results`";
const MAX_NAME_BYTES: usize = 128;

/// Reads the tools of an agent.
pub(crate) fn read(
    field: &YamlField<'_>,
    backend: Option<&BackendSpec>,
    diagnostics: &mut Diagnostics,
) -> Vec<MockTool> {
    if backend.is_some_and(|spec| ![BackendKind::Api, BackendKind::Mock].contains(&spec.kind)) {
        let message = "`mock_tools` is for `backend: api` and `backend: mock`";
        diagnostics.add(field.diagnostic(message));
        return Vec::new();
    }
    let mut tools: Vec<MockTool> = Vec::new();
    for item in diagnostics.ok_or_add(field.list()).unwrap_or_default() {
        if diagnostics.is_full() {
            break;
        }
        let Some(tool) = read_tool(&item, diagnostics) else { continue };
        if tools.iter().any(|other| other.name == tool.name) {
            let message = format!("there are two mock tools called `{}`", tool.name);
            let hint = "give one tool several results with `results` and `when`";
            diagnostics.add(item.diagnostic(message).with_hint(hint));
            continue;
        }
        tools.push(tool);
    }
    tools
}

/// Returns the names that the section gives, without a check.
pub(crate) fn written_names<'a>(fields: &YamlFields<'a>) -> Vec<&'a str> {
    let items = fields.get("mock_tools").and_then(|field| field.list().ok()).unwrap_or_default();
    let name = |item: &YamlField<'a>| item.fields_unchecked().ok()?.get("name")?.text().ok();
    items.iter().filter_map(name).map(call_name).collect()
}

/// Returns the name that models call: that of the built-in tool for its aliases.
fn call_name(word: &str) -> &str {
    find_builtin_tool(word).map_or(word, |row| row.name)
}

fn read_tool(field: &YamlField<'_>, diagnostics: &mut Diagnostics) -> Option<MockTool> {
    let fields = field.fields(&TOOL_KEYS, diagnostics)?;
    let name = fields.require("name", diagnostics);
    let name = name.and_then(|field| diagnostics.ok_or_add(read_name(&field)));
    let replaced = name.and_then(find_builtin_tool);
    let text = |field: &YamlField<'_>| field.text().map(str::to_owned);
    let description = match replaced {
        Some(row) if !fields.has("description") => Some(row.description.to_owned()),
        Some(_) | None => fields
            .require("description", diagnostics)
            .and_then(|field| diagnostics.ok_or_add(text(&field))),
    };
    let schema = fields.read_with("schema", diagnostics, read_schema);
    let results = read_results(field, &fields, diagnostics);
    let schema = schema.or_else(|| serde_json::from_str(replaced?.schema).ok());
    Some(MockTool { name: name?.to_owned(), description: description?, schema, results: results? })
}

fn read_name<'a>(field: &YamlField<'a>) -> Result<&'a str, Diagnostic> {
    let word = field.literal_text()?;
    check_name(word).map(|()| call_name(word)).map_err(|(message, hint)| {
        let diagnostic = field.diagnostic(message);
        if hint.is_empty() { diagnostic } else { diagnostic.with_hint(hint) }
    })
}

/// Checks the name of a mock tool.
fn check_name(word: &str) -> Result<(), BackendChoiceError> {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"()*".contains(c);
    if word.is_empty() || word.len() > MAX_NAME_BYTES || !word.chars().all(is_plain) {
        let message = format!("`{word}` is not the name of a tool");
        let hint = "use up to 128 letters, digits, `_` and `-`";
        return Err((message, hint.to_owned()));
    }
    if word == SHELL_TOOL || ToolName::find(word).is_some() {
        let message = format!("`{word}` is a tool of the team, which no mock tool can replace");
        return Err((message, "give the mock tool another name".to_owned()));
    }
    Ok(())
}

fn read_schema(field: &YamlField<'_>) -> Result<Value, Diagnostic> {
    match &field.node.value {
        Yaml::Map(_) => output_schema::read_mapping(field),
        _ => Err(field.must_be("a JSON Schema")),
    }
}

/// Reads the one result of a tool, or a list of them.
fn read_results(
    tool: &YamlField<'_>,
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<MockToolResult>> {
    let Some(list) = fields.get("results") else {
        return read_result(tool, fields, ONE_RESULT, diagnostics).map(|result| vec![result]);
    };
    if ["result", "error"].iter().any(|key| fields.has(key)) {
        diagnostics.add(tool.diagnostic(format!("a mock tool has one of {ONE_RESULT}")));
        return None;
    }
    let items = diagnostics.ok_or_add(list.list())?;
    if items.is_empty() {
        diagnostics.add(list.must_be("a list with at least one result"));
        return None;
    }
    let results = items.iter().map(|item| {
        let fields = item.fields(&RESULT_KEYS, diagnostics)?;
        let when = fields.read_with("when", diagnostics, read_when);
        let result = read_result(item, &fields, "`result` or `error`", diagnostics)?;
        Some(MockToolResult { when: when.unwrap_or_default(), ..result })
    });
    let results: Vec<_> = results.collect();
    results.into_iter().collect()
}

fn read_when(field: &YamlField<'_>) -> Result<BTreeMap<String, Value>, Diagnostic> {
    let entries = field.named_entries()?;
    Ok(entries
        .into_iter()
        .map(|(key, value)| (key.text.to_owned(), value.node.to_json()))
        .collect())
}

fn read_result(
    at: &YamlField<'_>,
    fields: &YamlFields<'_>,
    keys: &str,
    diagnostics: &mut Diagnostics,
) -> Option<MockToolResult> {
    let result = fields.get("result").map(|field| field.node.to_json());
    let error = fields.read_with("error", diagnostics, |field| field.text().map(str::to_owned));
    match (fields.has("result"), fields.has("error")) {
        (false, false) if fields.has_unknown_keys => return None,
        (false, false) => {
            diagnostics.add(at.diagnostic(format!("a mock tool needs {keys}")));
            return None;
        }
        (true, true) => {
            diagnostics.add(at.diagnostic(format!("a mock tool has one of {keys}")));
            return None;
        }
        (true, false) if result.is_none() => {
            let diagnostic = at.diagnostic("the `result` of a mock tool has no value");
            diagnostics.add(diagnostic.with_hint("write `result: \"\"` for an empty text"));
            return None;
        }
        (true, false) | (false, true) => {}
    }
    if result.is_none() && error.is_none() {
        return None;
    }
    Some(MockToolResult { when: BTreeMap::new(), result, error })
}

/// A change of the mock tools of a live agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MockToolChange {
    /// Tools to add, or to replace by their names.
    pub set: Vec<MockTool>,
    /// Names of tools that become as in the workflow file again.
    pub clear: Vec<String>,
}

/// Returns the mock tools of an agent after a change; `file` are those of the workflow file. No change removes one of these, because
/// the rules of the file may allow calls only for the reason that they have no effect.
pub fn change_mock_tools(
    agent: &AgentSettings,
    file: &[MockTool],
    change: MockToolChange,
) -> Result<Vec<MockTool>, AgentDraftError> {
    let refuse = |(message, hint): BackendChoiceError| AgentDraftError { message, hint };
    if change == MockToolChange::default() {
        return Ok(agent.mock_tools.clone());
    }
    check_backend(agent).map_err(refuse)?;
    let mut tools = agent.mock_tools.clone();
    for name in &change.clear {
        clear_tool(&mut tools, file, agent, name).map_err(refuse)?;
    }
    for tool in change.set {
        let tool = complete_mock_tool(tool, &tools, agent).map_err(refuse)?;
        match tools.iter_mut().find(|old| old.name == tool.name) {
            Some(old) => *old = tool,
            None => tools.push(tool),
        }
    }
    let bytes = serde_json::to_vec(&tools).map_or(usize::MAX, |text| text.len());
    if bytes > MAX_FILE_BYTES {
        let message = format!(
            "the mock tools of `{}` would have {bytes} bytes of JSON; at most {MAX_FILE_BYTES} are allowed",
            agent.name
        );
        return Err(refuse((message, "give shorter results".to_owned())));
    }
    Ok(tools)
}

/// Returns the names of the mock tools that differ from those of the workflow file.
pub fn changed_mock_tools<'a>(tools: &'a [MockTool], file: &[MockTool]) -> Vec<&'a str> {
    tools.iter().filter(|tool| !file.contains(tool)).map(|tool| tool.name.as_str()).collect()
}

fn check_backend(agent: &AgentSettings) -> Result<(), BackendChoiceError> {
    match agent.backend {
        Backend::Api(_) | Backend::Mock { .. } => Ok(()),
        Backend::Native(_) | Backend::Acp(_) | Backend::Command { .. } => Err((
            format!(
                "`{}` has the backend `{}`, whose tools cannot be mocked",
                agent.name,
                agent.backend.word()
            ),
            "mock tools are for `backend: api` and `backend: mock`".to_owned(),
        )),
    }
}

fn clear_tool(
    tools: &mut Vec<MockTool>,
    file: &[MockTool],
    agent: &AgentSettings,
    word: &str,
) -> Result<(), BackendChoiceError> {
    let name = call_name(word);
    let changed = changed_mock_tools(tools, file);
    if !changed.contains(&name) {
        let message = if file.iter().any(|tool| tool.name == name) {
            format!("the mock tool `{name}` of `{}` is that of the workflow file", agent.name)
        } else {
            format!("`{}` has no mock tool `{word}`", agent.name)
        };
        let hint = match changed.as_slice() {
            [] => "none of its mock tools was changed, so there is nothing to clear".to_owned(),
            changed => format!("the changed ones are: {}", changed.join(", ")),
        };
        return Err((message, hint));
    }
    match file.iter().find(|tool| tool.name == name) {
        Some(own) => {
            for tool in tools.iter_mut().filter(|tool| tool.name == name) {
                *tool = own.clone();
            }
        }
        None => tools.retain(|tool| tool.name != name),
    }
    Ok(())
}

/// Checks a mock tool for a live agent, and completes it from the mock tool or the built-in tool that it replaces.
fn complete_mock_tool(
    tool: MockTool,
    tools: &[MockTool],
    agent: &AgentSettings,
) -> Result<MockTool, BackendChoiceError> {
    check_name(&tool.name)?;
    let is_one = |result: &MockToolResult| result.result.is_some() != result.error.is_some();
    if tool.results.is_empty() || !tool.results.iter().all(is_one) {
        let message = "each result of a mock tool has a `result` or an `error`".to_owned();
        return Err((message, "give one of the two".to_owned()));
    }
    let name = call_name(&tool.name);
    let old = tools.iter().find(|old| old.name == name);
    let row = find_builtin_tool(name);
    let (own, schema) = match (old, row) {
        (Some(old), _) => (old.description.clone(), old.schema.clone()),
        (None, Some(row)) => (row.description.to_owned(), serde_json::from_str(row.schema).ok()),
        (None, None) => (String::new(), None),
    };
    let description = if tool.description.is_empty() { own } else { tool.description };
    if description.is_empty() && old.is_none() {
        return Err(unknown_tool(name, tools, agent));
    }
    let schema = tool.schema.or(schema);
    Ok(MockTool { name: name.to_owned(), description, schema, results: tool.results })
}

/// Returns the error for a new tool without a description, which is more often a misspelt one.
fn unknown_tool(word: &str, tools: &[MockTool], agent: &AgentSettings) -> BackendChoiceError {
    let builtin = BUILTIN_TOOLS
        .iter()
        .flat_map(|row| [row.name].into_iter().chain(row.aliases.iter().copied()));
    let hint = match nearest(word, builtin.chain(tools.iter().map(|tool| tool.name.as_str()))) {
        Some(near) => format!("did you mean `{near}`? a new tool needs a description"),
        None => "a new tool needs a description".to_owned(),
    };
    (format!("`{}` has no tool `{word}`", agent.name), hint)
}
