//! Tools of an agent with scripted results, which need no files, no processes and no network.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A tool whose results the workflow file or a person gives. It replaces the built-in tool of its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MockTool {
    /// Name that models call.
    pub name: String,
    /// Description for models.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// JSON schema of the arguments; absent: any object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// Results; the first that matches the arguments of a call is used.
    pub results: Vec<MockToolResult>,
}

/// One result of a mock tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MockToolResult {
    /// Arguments that a call must have; `*` in a text stands for any text. Absent: every call matches.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub when: BTreeMap<String, Value>,
    /// Result of the call: a text as it is, another value as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Reason of a failed call, instead of a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl MockTool {
    /// Returns the schema of the arguments.
    pub fn argument_schema(&self) -> Value {
        self.schema.clone().unwrap_or_else(|| serde_json::json!({ "type": "object" }))
    }

    /// Returns the text of the result of a call; the error is the reason of its failure.
    pub fn call(&self, args: &Map<String, Value>) -> Result<String, String> {
        let Some(found) = self.results.iter().find(|result| result.matches(args)) else {
            return Err(format!(
                "no result of the mock tool `{}` matches these arguments",
                self.name
            ));
        };
        match (&found.error, &found.result) {
            (Some(why), _) => Err(why.clone()),
            (None, Some(Value::String(text))) => Ok(text.clone()),
            (None, Some(value)) => Ok(value.to_string()),
            (None, None) => Ok(String::new()),
        }
    }
}

impl MockToolResult {
    fn matches(&self, args: &Map<String, Value>) -> bool {
        self.when.iter().all(|(name, pattern)| {
            args.get(name).is_some_and(|value| matches_value(pattern, value))
        })
    }
}

fn matches_value(pattern: &Value, value: &Value) -> bool {
    match (pattern, value) {
        (Value::String(pattern), Value::String(text)) => matches_text(pattern, text),
        (pattern, value) => pattern == value,
    }
}

/// Compares a text with a pattern, whose `*` stands for any text.
fn matches_text(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let mut parts: Vec<_> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        // The first occurrence leaves the most for the rest.
        let Some((_, tail)) = text.split_once(part) else { return false };
        text = tail;
    }
    text.ends_with(end)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(tool: &Value, args: &Value) -> Result<String, String> {
        let tool: MockTool = serde_json::from_value(tool.clone()).unwrap();
        tool.call(args.as_object().unwrap())
    }

    #[test]
    fn the_first_result_that_matches_the_arguments_is_used() {
        let tool = json!({"name": "deploy", "description": "", "results": [
            {"when": {"to": "prod*"}, "error": "forbidden"},
            {"when": {"to": "test", "count": 2}, "result": {"ok": true}},
            {"when": {"to": "test"}, "result": "done"},
        ]});
        for (args, expected) in [
            (json!({"to": "production"}), Err("forbidden")),
            (json!({"to": "test", "count": 2, "more": 1}), Ok("{\"ok\":true}")),
            (json!({"to": "test", "count": 3}), Ok("done")),
            (json!({"to": 5}), Err("no result of the mock tool `deploy` matches these arguments")),
            (json!({}), Err("no result of the mock tool `deploy` matches these arguments")),
        ] {
            let found = call(&tool, &args);
            assert_eq!(found.as_ref().map(String::as_str).map_err(String::as_str), expected);
        }
    }

    #[test]
    fn a_star_in_a_pattern_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxcyyb", false),
            ("ab*b", "ab", false),
            ("*ä*", "häh", true),
            ("a**b", "ab", true),
        ] {
            assert_eq!(matches_text(pattern, text), expected, "{pattern} {text}");
        }
    }
}
