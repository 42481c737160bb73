//! `output_schema:` JSON Schema of an agent's answers, inline or in a file beneath the workflow's folder.
//!
//! The check never reads another document: a reference that leads out of the schema is a mistake.

use jsonschema::{ValidationError, draft202012};
use serde_json::Value;

use crate::{
    agents::prompt::PromptFolder,
    diagnostics::diagnostic::Diagnostic,
    yaml::{Node, Yaml, fields::YamlField},
};

const FILE_ENDING: &str = ".json";
const HINT: &str = "write a schema of JSON Schema 2020-12, or the path of a `.json` file with one";

/// A mistake in a schema and its place.
#[derive(Debug, PartialEq, Eq)]
struct SchemaMistake {
    /// The place, as a JSON Pointer.
    at: String,
    why: String,
}

/// Reads the schema and checks it.
pub(crate) fn read(field: &YamlField<'_>, folder: PromptFolder<'_>) -> Result<Value, Diagnostic> {
    match &field.node.value {
        Yaml::Text(_) => read_file(field, folder),
        Yaml::Map(_) => read_mapping(field),
        Yaml::Null | Yaml::Bool(_) | Yaml::Whole(_) | Yaml::Decimal(_) | Yaml::List(_) => {
            Err(field.must_be("a JSON Schema, or the path of a `.json` file"))
        }
    }
}

/// Reads a schema that is a mapping in the workflow file.
pub(crate) fn read_mapping(field: &YamlField<'_>) -> Result<Value, Diagnostic> {
    let schema = field.node.to_json();
    check(&schema).map(|()| schema).map_err(|mistake| {
        let node = node_at(field.node, &mistake.at);
        let message = format!("the schema is not valid: {}", mistake.why);
        field.with_node(node).diagnostic(message).with_hint(HINT)
    })
}

fn read_file(field: &YamlField<'_>, folder: PromptFolder<'_>) -> Result<Value, Diagnostic> {
    let path = field.literal_text()?;
    if !path.ends_with(FILE_ENDING) || path.contains(char::is_whitespace) {
        return Err(field.must_be("a JSON Schema, or the path of a `.json` file"));
    }
    let text = folder.read_text(field, "schema", path)?;
    let schema: Value = serde_json::from_str(&text)
        .map_err(|error| field.diagnostic(format!("the schema `{path}` is not JSON: {error}")))?;
    match check(&schema) {
        Ok(()) => Ok(schema),
        Err(SchemaMistake { at, why }) => {
            let at = if at.is_empty() { "/".to_owned() } else { at };
            let message = format!("the schema `{path}` is not valid at `{at}`: {why}");
            Err(field.diagnostic(message).with_hint(HINT))
        }
    }
}

/// Checks that the schema is valid and needs no other document.
fn check(schema: &Value) -> Result<(), SchemaMistake> {
    if !schema.is_object() {
        let why = "it must be an object".to_owned();
        return Err(SchemaMistake { at: String::new(), why });
    }
    let mut ids = Vec::new();
    collect_ids(schema, &mut ids);
    find_outer_reference(schema, "", &ids).map_or(Ok(()), Err)?;
    draft202012::meta::validate(schema).map_err(|error| mistake(&error))?;
    draft202012::new(schema).map(|_| ()).map_err(|error| mistake(&error))
}

fn mistake(error: &ValidationError<'_>) -> SchemaMistake {
    SchemaMistake { at: error.instance_path().to_string(), why: error.to_string() }
}

/// Collects the ids that parts of the schema give themselves.
fn collect_ids<'a>(part: &'a Value, ids: &mut Vec<&'a str>) {
    match part {
        Value::Object(fields) => {
            ids.extend(fields.get("$id").and_then(Value::as_str));
            fields.values().for_each(|value| collect_ids(value, ids));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_ids(item, ids)),
        _ => {}
    }
}

/// Returns the first reference to another document.
fn find_outer_reference(part: &Value, at: &str, ids: &[&str]) -> Option<SchemaMistake> {
    let below = |key: &str| format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
    match part {
        Value::Object(fields) => fields.iter().find_map(|(key, value)| match value.as_str() {
            Some(target) if ["$ref", "$dynamicRef"].contains(&key.as_str()) => {
                let document = target.split('#').next().unwrap_or_default();
                let is_inside = document.is_empty() || ids.contains(&document);
                let why = format!("the reference `{target}` leads out of the schema");
                (!is_inside).then(|| SchemaMistake { at: below(key), why })
            }
            _ => find_outer_reference(value, &below(key), ids),
        }),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| find_outer_reference(item, &below(&index.to_string()), ids)),
        _ => None,
    }
}

/// Returns the node at a JSON Pointer, or the last one on the way to it.
fn node_at<'a>(node: &'a Node, pointer: &str) -> &'a Node {
    let mut node = node;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        let next = match &node.value {
            Yaml::Map(entries) => {
                entries.iter().find(|entry| entry.key == step).map(|entry| &entry.value)
            }
            Yaml::List(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        };
        let Some(next) = next else { break };
        node = next;
    }
    node
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_valid_and_needs_no_other_document() {
        let local =
            json!({"$defs": {"a": {"type": "string"}}, "properties": {"x": {"$ref": "#/$defs/a"}}});
        let bundled = json!({"$defs": {"a": {"$id": "https://a.example/x", "type": "string"}},
            "$ref": "https://a.example/x"});
        for schema in [json!({}), json!({"type": "object"}), local, bundled] {
            assert_eq!(check(&schema), Ok(()), "{schema}");
        }
        for (schema, at, why) in [
            (json!([]), "", "must be an object"),
            (json!({"type": "objekt"}), "/type", "objekt"),
            (json!({"properties": {"a": {"minLength": -1}}}), "/properties/a/minLength", "-1"),
            (
                json!({"properties": {"a": {"$ref": "https://a.example/x.json"}}}),
                "/properties/a/$ref",
                "`https://a.example/x.json` leads out of the schema",
            ),
            (json!({"items": {"$ref": "other.json#/a"}}), "/items/$ref", "leads out"),
            (json!({"$ref": "#/$defs/none"}), "", "none"),
            (json!({"pattern": "("}), "/pattern", "("),
        ] {
            let mistake = check(&schema).unwrap_err();
            assert_eq!(mistake.at, at, "{schema}: {mistake:?}");
            assert!(mistake.why.contains(why), "{schema}: {mistake:?}");
        }
    }
}
