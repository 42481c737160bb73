//! Nodes of a JSON Schema.

use serde_json::{Map, Value, json};

const SPAN_PATTERN: &str = "^[0-9]+(ms|s|m|h|d)$";

/// Creates the schema of a mapping with these keys and no others.
pub(super) fn mapping<'a>(
    description: &str,
    required: &[&str],
    properties: impl IntoIterator<Item = (&'a str, Value)>,
) -> Value {
    let properties: Map<String, Value> =
        properties.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let mut mapping = with_description(description, json!({ "type": "object" }));
    mapping["properties"] = properties.into();
    mapping["additionalProperties"] = false.into();
    if !required.is_empty() {
        mapping["required"] = json!(required);
    }
    mapping
}

pub(super) fn list(description: &str, items: &Value) -> Value {
    with_description(description, json!({ "type": "array", "items": items }))
}

pub(super) fn text(description: &str) -> Value {
    with_description(description, json!({ "type": "string" }))
}

pub(super) fn text_matching(description: &str, pattern: &str) -> Value {
    with_description(description, json!({ "type": "string", "pattern": pattern }))
}

pub(super) fn span(description: &str) -> Value {
    let mut span = text_matching(description, SPAN_PATTERN);
    span["examples"] = json!(["30s", "5m"]);
    span
}

pub(super) fn integer(description: &str, least: u32, most: u32) -> Value {
    with_description(description, json!({ "type": "integer", "minimum": least, "maximum": most }))
}

pub(super) fn one_of(description: &str, words: &[&str]) -> Value {
    with_description(description, json!({ "enum": words }))
}

fn with_description(description: &str, mut schema: Value) -> Value {
    if !description.is_empty() {
        schema["description"] = description.into();
    }
    schema
}
