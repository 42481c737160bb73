//! Schemas of tools, reduced to what an API accepts. Pure.

use agent_worker_backends::WireShape;
use serde_json::{Map, Value, json};

/// Keywords that the APIs of Anthropic and `OpenAI` refuse at the top of a schema.
const REFUSED_AT_TOP: [&str; 5] = ["oneOf", "anyOf", "allOf", "enum", "not"];

/// A schema that an API accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceptedSchema {
    /// The reduced schema.
    pub schema: Value,
    /// Keywords that were removed.
    pub removed: Vec<&'static str>,
}

/// Reduces the schema of a tool's arguments. The properties of removed alternatives stay, as optional ones.
pub fn accepted_schema(shape: WireShape, schema: &Value) -> AcceptedSchema {
    let mut fields = schema.as_object().cloned().unwrap_or_default();
    let mut removed = Vec::new();
    match shape {
        WireShape::Messages | WireShape::Responses | WireShape::Chat => {
            for keyword in REFUSED_AT_TOP {
                let Some(branches) = fields.remove(keyword) else { continue };
                removed.push(keyword);
                if keyword != "not" {
                    lift_properties(&mut fields, &branches);
                }
            }
        }
        WireShape::Gemini => {}
    }
    fields.entry("type").or_insert_with(|| "object".into());
    fields.entry("properties").or_insert_with(|| json!({}));
    AcceptedSchema { schema: Value::Object(fields), removed }
}

/// Adds the properties of the branches that the schema lacks.
fn lift_properties(fields: &mut Map<String, Value>, branches: &Value) {
    let branches = branches.as_array().into_iter().flatten();
    let lifted: Vec<_> = branches
        .filter_map(|branch| branch["properties"].as_object())
        .flat_map(|properties| properties.iter().map(|(name, value)| (name.clone(), value.clone())))
        .collect();
    if lifted.is_empty() {
        return;
    }
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        for (name, value) in lifted {
            properties.entry(name).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_at_the_top_become_optional_properties_where_an_api_refuses_them() {
        let plain =
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "x"}}});
        let choice = json!({"type": "object", "properties": {"a": {"type": "string"}},
            "anyOf": [{"properties": {"a": {}, "b": {"type": "number"}}}, {"required": ["a"]}]});
        let reduced = json!({"type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "number"}}});
        let nested = json!({"type": "object", "properties": {"a": {"anyOf": [{}]}}});
        let empty = json!({"type": "object", "properties": {}});
        for shape in [WireShape::Messages, WireShape::Responses, WireShape::Chat] {
            for (schema, expected, removed) in [
                (&plain, &plain, &[][..]),
                (&choice, &reduced, &["anyOf"]),
                (&nested, &nested, &[]),
                (&json!({"type": "object"}), &empty, &[]),
                (&json!({}), &empty, &[]),
                (&json!({"type": "object", "not": {}}), &empty, &["not"]),
            ] {
                let accepted = accepted_schema(shape, schema);
                assert_eq!((&accepted.schema, &*accepted.removed), (expected, removed), "{schema}");
            }
        }
        assert_eq!(accepted_schema(WireShape::Gemini, &choice).schema, choice);
    }
}
