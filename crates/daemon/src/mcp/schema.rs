//! How a tool's fields are written as JSON Schema. Short: every byte of it is paid for on every turn.

use serde_json::{Value, json};

use super::rpc::JsonObject;

/// One field of what a tool takes or gives.
#[derive(Clone, Copy)]
pub(super) struct ToolField {
    name: &'static str,
    kind: ToolFieldKind,
    presence: FieldPresence,
    about: &'static str,
}

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) enum ToolFieldKind {
    /// A text.
    Text,
    /// A whole number.
    Number,
    /// Yes or no.
    Flag,
    /// Texts.
    Texts,
    /// Whole numbers.
    Numbers,
    /// Objects that are described elsewhere.
    Objects,
    /// Objects with these fields.
    ObjectsWithFields(&'static [ToolField]),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldPresence {
    Required,
    Optional,
}

/// A field that must be there.
pub(super) const fn required(name: &'static str, kind: ToolFieldKind) -> ToolField {
    ToolField { name, kind, presence: FieldPresence::Required, about: "" }
}

/// A field that may be left out.
pub(super) const fn optional(name: &'static str, kind: ToolFieldKind) -> ToolField {
    ToolField { name, kind, presence: FieldPresence::Optional, about: "" }
}

impl ToolField {
    /// Says what its name does not.
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

/// What a tool gives. Nothing is required at the top: a refusal is an answer too, and some clients
/// hold it against the same schema.
pub(super) fn output_schema(fields: &[ToolField]) -> JsonObject {
    let properties = fields.iter().map(|field| (field.name.to_owned(), field.schema()));
    let mut schema = JsonObject::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), Value::Object(properties.collect()));
    schema
}

/// What a tool takes. That it takes nothing else is not worth its bytes: whoever tries is told.
pub(super) fn input_schema(fields: &[ToolField]) -> JsonObject {
    let mut schema = output_schema(fields);
    let needed = required_names(fields);
    if !needed.is_empty() {
        schema.insert("required".into(), json!(needed));
    }
    schema
}

/// The fields that must be there. Of what a list holds only these are told: the rest explains itself to whoever reads one.
fn required_names(fields: &[ToolField]) -> Vec<&'static str> {
    let needed = fields.iter().filter(|field| field.presence == FieldPresence::Required);
    needed.map(|field| field.name).collect()
}
