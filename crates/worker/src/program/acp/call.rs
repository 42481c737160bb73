//! One tool call of an agent, assembled from its updates.

use agent_worker_backends::{ACP_TOOL_KINDS, AcpToolNaming};
use agent_worker_protocol::{
    Keyword as _, ToolName, api::PermitRequest, shell_words::is_installed_shell,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{model::ToolResult, tool_server::TEAM_SERVER_NAME};

/// The state of a call so far. Fields that a later update omits keep their values.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AcpToolCall {
    tool_call_id: String,
    title: Option<String>,
    /// Name of the tool. Few agents send it here; some send it in `_meta`.
    name: Option<String>,
    kind: Option<String>,
    status: Option<String>,
    content: Option<Value>,
    locations: Option<Value>,
    raw_input: Option<Value>,
    raw_output: Option<Value>,
    #[serde(rename = "_meta")]
    meta: Option<Value>,
    /// Arguments of the permission request. Later updates of the same fields carry the result instead.
    #[serde(skip)]
    permit_args: Option<Value>,
    /// True once the start of the call was reported.
    #[serde(skip)]
    pub(super) is_reported: bool,
}

/// The stage of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcpCallStage {
    /// The call is known; its arguments may still be incomplete.
    Announced,
    Started,
    Ended,
}

impl AcpToolCall {
    pub(super) fn id(&self) -> &str {
        &self.tool_call_id
    }

    /// Merges an update into the call.
    pub(super) fn merge_update(&mut self, said: Self) {
        let newer = |old: &mut Option<Value>, new: Option<Value>| {
            if new.as_ref().is_some_and(is_present) || old.is_none() {
                *old = new;
            }
        };
        self.tool_call_id = said.tool_call_id;
        self.title = said.title.or(self.title.take());
        self.name = said.name.or(self.name.take());
        self.kind = said.kind.or(self.kind.take());
        self.status = said.status.or(self.status.take());
        match said.content {
            // At the end the content is the result, even if it is empty.
            Some(content) if matches!(self.stage(), AcpCallStage::Ended) => {
                self.content = Some(content);
            }
            content => newer(&mut self.content, content),
        }
        newer(&mut self.locations, said.locations);
        newer(&mut self.raw_input, said.raw_input);
        newer(&mut self.raw_output, said.raw_output);
        newer(&mut self.meta, said.meta);
    }

    pub(super) fn stage(&self) -> AcpCallStage {
        match self.status.as_deref() {
            Some("completed" | "failed") => AcpCallStage::Ended,
            Some("in_progress") => AcpCallStage::Started,
            _ if self.raw_input.as_ref().is_some_and(is_present) => AcpCallStage::Started,
            _ => AcpCallStage::Announced,
        }
    }

    /// Returns the tool's name for events: its own name, else its kind. The team's tools have one spelling for all
    /// agents.
    pub(super) fn tool_name(&self, says: AcpToolNaming) -> String {
        match self.team_tool(says) {
            Some(tool) => format!("mcp__{TEAM_SERVER_NAME}__{tool}"),
            None => self.reported_name().unwrap_or_else(|| self.kind()).to_owned(),
        }
    }

    /// Returns the arguments for display.
    pub(super) fn args(&self, says: AcpToolNaming) -> Value {
        match (&self.permit_args, &self.raw_input) {
            (Some(asked), _) => asked.clone(),
            (None, Some(input))
                if says == AcpToolNaming::RawInput && input["command"].is_array() =>
            {
                shell_args(input)
            }
            (None, Some(input)) if is_present(input) => input.clone(),
            (None, Some(_) | None) => Value::Object(self.described_args(says)),
        }
    }

    pub(super) fn result(&self) -> ToolResult {
        let text = match self.content.as_ref().map(content_text).filter(|text| !text.is_empty()) {
            Some(text) => text,
            None => match &self.raw_output {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Null) | None => String::new(),
                Some(other) => other.to_string(),
            },
        };
        match self.status.as_deref() {
            Some("failed") => ToolResult::Failed(text),
            _ => ToolResult::Done(text),
        }
    }

    /// Builds the permission request: the kind of the tool, exactly the known arguments, and the paths that only
    /// other fields of the call name.
    pub(super) fn permit_request(&mut self, says: AcpToolNaming) -> PermitRequest {
        let (call, tool) = (self.tool_call_id.clone(), self.kind().to_owned());
        self.permit_args = None;
        let mut args = self.args(says);
        if !["execute", "fetch"].contains(&self.kind()) {
            add_locations(&mut args, &self.named_paths());
        }
        self.permit_args = Some(args.clone());
        PermitRequest { call, tool, args }
    }

    /// Returns the team's tool that this call is for. A call that changes files or runs a command is for none of
    /// them, and neither is a call that only the model's own text names.
    pub(super) fn team_tool(&self, says: AcpToolNaming) -> Option<&'static str> {
        if !["other", "read"].contains(&self.kind()) {
            return None;
        }
        let named = self.reported_name().map(str::to_owned).or_else(|| match says {
            AcpToolNaming::NameField => None,
            AcpToolNaming::Title => self.title.clone(),
            AcpToolNaming::RawInput => {
                let input = self.raw_input.as_ref()?;
                Some(format!("{}/{}", input["server"].as_str()?, input["tool"].as_str()?))
            }
        });
        team_tool_named(&named?)
    }

    fn reported_name(&self) -> Option<&str> {
        let meta = self.meta.as_ref();
        let said = meta.and_then(|meta| {
            meta.pointer("/claudeCode/toolName").or_else(|| meta.get("toolName"))?.as_str()
        });
        self.name.as_deref().or(said)
    }

    /// Returns the paths that the protocol's own fields name.
    fn named_paths(&self) -> Vec<&str> {
        let lists = [self.content.as_ref(), self.locations.as_ref()];
        let items = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
        let mut paths = Vec::new();
        for path in items.filter_map(|item| item["path"].as_str()) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }

    fn kind(&self) -> &'static str {
        let kind = self.kind.as_deref();
        ACP_TOOL_KINDS.into_iter().find(|known| Some(*known) == kind).unwrap_or("other")
    }

    /// Describes a call without input, by its other fields, under the names that permission rules match.
    fn described_args(&self, says: AcpToolNaming) -> Map<String, Value> {
        let mut args = Map::new();
        if let Some(title) = self.title.as_deref() {
            let is_command = says == AcpToolNaming::Title && self.kind() == "execute";
            let name = if is_command { "command" } else { "title" };
            args.insert(name.to_owned(), json!(title));
        }
        let content = self.content.as_ref().filter(|content| is_present(content));
        let places = self.locations.as_ref().filter(|places| is_present(places));
        if let [path] = &self.named_paths()[..] {
            args.insert("path".to_owned(), json!(path));
        }
        for (name, value) in [("content", content), ("locations", places)] {
            if let Some(value) = value {
                args.insert(name.to_owned(), value.clone());
            }
        }
        args
    }
}

/// Adds the paths that the arguments do not contain, as `locations`.
fn add_locations(args: &mut Value, paths: &[&str]) {
    let is_known = |path: &&&str| {
        let listed = [&args["content"], &args["locations"]];
        let mut listed = listed.into_iter().filter_map(Value::as_array).flatten();
        listed.any(|item| item["path"] == ***path)
            || args.as_object().is_some_and(|fields| fields.values().any(|it| *it == ***path))
    };
    let missing: Vec<Value> =
        paths.iter().filter(|path| !is_known(path)).map(|path| json!({"path": path})).collect();
    if missing.is_empty() {
        return;
    }
    if !args.is_object() {
        *args = json!({"input": args.take()});
    }
    match &mut args["locations"] {
        Value::Array(listed) => listed.extend(missing),
        other => *other = Value::Array(missing),
    }
}

fn team_tool_names() -> impl Iterator<Item = &'static str> {
    ToolName::ALL.iter().map(|tool| tool.word())
}

/// Finds one of the team's tools by the spellings of the agents.
fn team_tool_named(name: &str) -> Option<&'static str> {
    team_tool_names().find(|tool| {
        [
            format!("mcp__{TEAM_SERVER_NAME}__{tool}"),
            format!("mcp_{TEAM_SERVER_NAME}_{tool}"),
            format!("{tool} ({TEAM_SERVER_NAME} MCP Server)"),
            format!("{TEAM_SERVER_NAME}_{tool}"),
            format!("{TEAM_SERVER_NAME}-{tool}"),
            format!("{TEAM_SERVER_NAME}/{tool}"),
        ]
        .iter()
        .any(|spelt| spelt == name)
    })
}

fn is_present(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::String(_) | Value::Number(_) | Value::Bool(_) => true,
    }
}

/// Returns the command without the ids and times of this one call, so that the same call is equal in every attempt.
/// A line for a shell of the system is the command; the words of every other program stay together.
fn shell_args(input: &Value) -> Value {
    let command = match input["command"].as_array().map(Vec::as_slice) {
        Some([Value::String(shell), Value::String(flag), line @ Value::String(_)])
            if ["-c", "-lc"].contains(&flag.as_str()) && is_installed_shell(shell) =>
        {
            line
        }
        _ => &input["command"],
    };
    let mut args = json!({"command": command});
    // These change what an approval permits, so that the rules and the person must see them.
    for name in ["additional_permissions", "cwd", "env", "network_approval_context", "reason"] {
        if let Some(value) = input.get(name).filter(|value| is_present(value)) {
            args[name] = value.clone();
        }
    }
    args
}

/// Joins the texts of a content value.
fn content_text(content: &Value) -> String {
    let blocks = content.as_array().into_iter().flatten();
    let texts = blocks.filter_map(|block| block.pointer("/content/text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}
