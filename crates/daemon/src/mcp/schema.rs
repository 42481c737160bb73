//! Writes a tool's fields as JSON Schema. Short: every turn pays for each byte.

use serde_json::{Value, json};

use super::rpc::JsonObject;

/// One field of a tool's input or output.
#[derive(Clone, Copy)]
pub(super) struct ToolField {
    pub(super) name: &'static str,
    pub(super) kind: ToolFieldKind,
    presence: FieldPresence,
    about: &'static str,
}

/// The type of a field.
#[derive(Clone, Copy)]
pub(super) enum ToolFieldKind {
    /// One text value.
    Text,
    /// A whole number.
    Number,
    /// A boolean value.
    Flag,
    /// A list of texts.
    Texts,
    /// A list of whole numbers.
    Numbers,
    /// A list of objects without a schema here.
    Objects,
    /// A list of objects with these fields.
    ObjectsWithFields(&'static [ToolField]),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldPresence {
    Required,
    Optional,
}

/// Creates a required field.
pub(super) const fn required(name: &'static str, kind: ToolFieldKind) -> ToolField {
    ToolField { name, kind, presence: FieldPresence::Required, about: "" }
}

/// Creates an optional field.
pub(super) const fn optional(name: &'static str, kind: ToolFieldKind) -> ToolField {
    ToolField { name, kind, presence: FieldPresence::Optional, about: "" }
}

impl ToolField {
    /// Adds a description for what the name does not express.
    pub(super) const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    fn schema(&self) -> Value {
        let mut schema = match self.kind {
            ToolFieldKind::Text => json!({"type": "string"}),
            ToolFieldKind::Number => json!({"type": "integer"}),
            ToolFieldKind::Flag => json!({"type": "boolean"}),
            ToolFieldKind::Texts => json!({"type": "array", "items": {"type": "string"}}),
            ToolFieldKind::Numbers => json!({"type": "array", "items": {"type": "integer"}}),
            ToolFieldKind::Objects => json!({"type": "array", "items": {"type": "object"}}),
            ToolFieldKind::ObjectsWithFields(fields) => {
                json!({"type": "array", "items": {"type": "object", "required": required_names(fields)}})
            }
        };
        if !self.about.is_empty() {
            schema["description"] = self.about.into();
        }
        schema
    }
}

/// Builds the output schema of a tool. No field is required at the top: a refusal is also an output, and some
/// clients validate it against the same schema.
pub(super) fn output_schema(fields: &[ToolField]) -> JsonObject {
    let properties = fields.iter().map(|field| (field.name.to_owned(), field.schema()));
    let mut schema = JsonObject::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), Value::Object(properties.collect()));
    schema
}

/// Builds the input schema of a tool. It does not forbid further fields, to save bytes: a call with one is refused
/// anyway.
pub(super) fn input_schema(fields: &[ToolField]) -> JsonObject {
    let mut schema = output_schema(fields);
    let needed = required_names(fields);
    if !needed.is_empty() {
        schema.insert("required".into(), json!(needed));
    }
    schema
}

/// Returns the names of the required fields. Lists describe only these; the other fields are self-explanatory.
fn required_names(fields: &[ToolField]) -> Vec<&'static str> {
    let needed = fields.iter().filter(|field| field.presence == FieldPresence::Required);
    needed.map(|field| field.name).collect()
}
