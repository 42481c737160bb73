//! Writes a tool's fields as JSON Schema. Short: every turn pays for each byte.

use serde_json::{Map, Value, json};

/// One field of a tool's input or output.
#[derive(Clone, Copy, Debug)]
pub struct ToolField {
    /// Name of the field.
    pub name: &'static str,
    /// Type of the field.
    pub kind: ToolFieldKind,
    presence: FieldPresence,
    about: &'static str,
}

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub enum ToolFieldKind {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldPresence {
    Required,
    Optional,
}

/// Creates a required field.
pub const fn required(name: &'static str, kind: ToolFieldKind) -> ToolField {
    ToolField { name, kind, presence: FieldPresence::Required, about: "" }
}

/// Creates an optional field.
pub const fn optional(name: &'static str, kind: ToolFieldKind) -> ToolField {
    ToolField { name, kind, presence: FieldPresence::Optional, about: "" }
}

impl ToolField {
    /// Adds a description for what the name does not express.
    #[must_use]
    pub const fn about(self, about: &'static str) -> Self {
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
pub fn output_schema(fields: &[ToolField]) -> Map<String, Value> {
    let properties = fields.iter().map(|field| (field.name.to_owned(), field.schema()));
    let mut schema = Map::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), Value::Object(properties.collect()));
    schema
}

/// Builds the input schema of a tool. It does not forbid further fields, to save bytes: a call with one is refused
/// anyway.
pub(super) fn input_schema(fields: &[ToolField]) -> Map<String, Value> {
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
