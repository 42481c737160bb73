//! The schema of a structured answer in the requests of an API. Pure.

use serde_json::{Value, json};

/// Keywords of a schema that every API with structured answers knows.
const STRICT_KEYWORDS: [&str; 12] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "$ref",
    "$defs",
    "title",
    "description",
];

/// Returns the fields of a schema that `OpenAI` and its followers expect.
pub(crate) fn json_schema_format(schema: &Value) -> Value {
    json!({"name": "answer", "schema": schema, "strict": is_strict_schema(schema)})
}

/// Returns true if an API can enforce the schema: an object that requires all its properties, permits no others, and uses only
/// the keywords that every API knows, at any depth.
pub fn is_strict_schema(schema: &Value) -> bool {
    schema["type"] == "object" && schema.get("anyOf").is_none() && is_strict_part(schema)
}

fn is_strict_part(schema: &Value) -> bool {
    let Some(fields) = schema.as_object() else { return false };
    let all_strict = |parts: &Value| match parts {
        Value::Object(parts) => parts.values().all(is_strict_part),
        Value::Array(parts) => parts.iter().all(is_strict_part),
        _ => false,
    };
    let is_closed = schema["type"] != "object" || is_closed_object(schema);
    is_closed
        && fields.iter().all(|(keyword, value)| match keyword.as_str() {
            "properties" | "$defs" | "anyOf" => all_strict(value),
            "items" => is_strict_part(value),
            _ => STRICT_KEYWORDS.contains(&keyword.as_str()),
        })
}

fn is_closed_object(schema: &Value) -> bool {
    let required: Vec<&Value> = schema["required"].as_array().into_iter().flatten().collect();
    let names = schema["properties"].as_object();
    let mut names = names.into_iter().flat_map(|names| names.keys());
    schema["additionalProperties"] == false
        && names.all(|name| required.iter().any(|it| it.as_str() == Some(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strict_schema_is_a_closed_object_of_known_keywords_at_any_depth() {
        let closed = |properties: Value, required: Value| {
            json!({"type": "object", "properties": properties, "required": required,
                "additionalProperties": false})
        };
        let text = json!({"type": "string"});
        let open = json!({"type": "object", "properties": {"a": text}, "required": ["a"]});
        for (schema, expected) in [
            (closed(json!({"a": text}), json!(["a"])), true),
            (closed(json!({}), json!([])), true),
            (closed(json!({"a": {"type": "array", "items": text}}), json!(["a"])), true),
            (closed(json!({"a": {"anyOf": [text, {"type": "null"}]}}), json!(["a"])), true),
            (closed(json!({"a": text}), json!([])), false),
            (open.clone(), false),
            (closed(json!({"a": open}), json!(["a"])), false),
            (closed(json!({"a": {"type": "string", "pattern": "x"}}), json!(["a"])), false),
            (closed(json!({"a": true}), json!(["a"])), false),
            (json!({"type": "array", "items": text}), false),
            (json!({}), false),
            (json!(true), false),
        ] {
            assert_eq!(is_strict_schema(&schema), expected, "{schema}");
        }
    }
}
