//! The tools of a request: a number, names and schemas that every API accepts. Pure.
//!
//! Invariant: the names of a request are unique, and a name that is valid stays as it is.

use std::collections::HashMap;

use agent_worker_backends::{WireShape, request_tool_names};
use agent_worker_models::{AcceptedSchema, ToolDefinition, accepted_schema};

/// Maximum number of tools of a request.
const MAX_TOOLS: usize = 128;

/// Tools as a request offers them.
#[derive(Debug, Default)]
pub(crate) struct ApiTools {
    definitions: Vec<ToolDefinition>,
    /// The tool of each name that differs from it.
    tools_by_name: HashMap<String, String>,
    /// Parts of the schemas that the API does not get.
    reductions: Vec<String>,
}

impl ApiTools {
    /// Prepares tools for an API. The error says what to do.
    pub(crate) fn new(shape: WireShape, tools: Vec<ToolDefinition>) -> Result<Self, String> {
        if tools.len() > MAX_TOOLS {
            let count = tools.len();
            return Err(format!(
                "the agent has {count} tools, and an API takes at most {MAX_TOOLS}; select fewer with `tools:`"
            ));
        }
        let own: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let names = request_tool_names(&own);
        let mut prepared = Self::default();
        for (mut tool, name) in tools.into_iter().zip(names) {
            let AcceptedSchema { schema, removed } = accepted_schema(shape, &tool.schema);
            if !removed.is_empty() {
                let reduction = format!("`{}` of {}", removed.join("`, `"), tool.name);
                prepared.reductions.push(reduction);
            }
            tool.schema = schema;
            if name != tool.name {
                let own = std::mem::replace(&mut tool.name, name.clone());
                prepared.tools_by_name.insert(name, own);
            }
            prepared.definitions.push(tool);
        }
        Ok(prepared)
    }

    pub(crate) fn definitions(&self) -> &[ToolDefinition] {
        &self.definitions
    }

    /// Returns the tool of a name in a call of the model.
    pub(crate) fn tool_of<'a>(&'a self, name: &'a str) -> &'a str {
        self.tools_by_name.get(name).map_or(name, String::as_str)
    }

    /// Returns the name of a tool in requests.
    pub(crate) fn name_of<'a>(&'a self, tool: &'a str) -> &'a str {
        let mut names = self.tools_by_name.iter();
        names.find(|(_, own)| *own == tool).map_or(tool, |(name, _)| name)
    }

    /// Returns a warning about the parts of the schemas that the API does not get; none without any.
    pub(crate) fn warning(&self) -> Option<String> {
        let parts = self.reductions.join(", ");
        (!parts.is_empty()).then(|| {
            format!("the API accepts no such keyword at the top of a schema, so the model does not get {parts}")
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prepare(names: &[&str]) -> Result<ApiTools, String> {
        let tools = names.iter().map(|name| ToolDefinition {
            name: (*name).to_owned(),
            description: String::new(),
            schema: json!({"type": "object"}),
        });
        ApiTools::new(WireShape::Chat, tools.collect())
    }

    #[test]
    fn names_are_valid_unique_and_lead_back_to_their_tools() {
        let long = "x".repeat(70);
        let own = ["a.b", "a_b", "a/b", "größe", "ok-1", &long, "", "日本"];
        let tools = prepare(&own).unwrap();
        let names: Vec<_> = tools.definitions().iter().map(|tool| tool.name.as_str()).collect();
        let expected = ["a_b_2", "a_b", "a_b_3", "gr__e", "ok-1", &long[..64], "tool", "__"];
        assert_eq!(names, expected);
        for (name, own) in names.iter().zip(own) {
            assert_eq!((tools.tool_of(name), tools.name_of(own)), (own, *name));
        }
        assert_eq!((tools.tool_of("unknown"), tools.name_of("unknown")), ("unknown", "unknown"));
    }

    #[test]
    fn more_than_128_tools_are_refused() {
        let names: Vec<_> = (0..129).map(|number| format!("t{number}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        assert_eq!(prepare(&names[..128]).unwrap().definitions().len(), 128);
        let why =
            "the agent has 129 tools, and an API takes at most 128; select fewer with `tools:`";
        assert_eq!(prepare(&names).unwrap_err(), why);
    }

    #[test]
    fn a_reduced_schema_is_named_in_a_warning() {
        let tool = |name: &str, schema| ToolDefinition {
            name: name.to_owned(),
            description: String::new(),
            schema,
        };
        let tools = vec![tool("a", json!({"oneOf": []})), tool("b", json!({}))];
        let warning = ApiTools::new(WireShape::Messages, tools.clone()).unwrap().warning();
        assert!(warning.unwrap().ends_with("does not get `oneOf` of a"));
        assert_eq!(ApiTools::new(WireShape::Gemini, tools).unwrap().warning(), None);
    }
}
