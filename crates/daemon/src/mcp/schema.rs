//! How a tool's fields are written as JSON Schema. Short: every byte of it is paid for on every turn.

use serde_json::{Value, json};

use super::rpc::JsonObject;

/// One field of what a tool takes or gives.
#[derive(Clone, Copy)]
pub(super) struct Field {
    name: &'static str,
    kind: Kind,
    need: Need,
    about: &'static str,
}

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) enum Kind {
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
    Things,
    /// Objects with these fields.
    List(&'static [Field]),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Always,
    Sometimes,
}

/// A field that must be there.
pub(super) const fn needed(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, need: Need::Always, about: "" }
}

/// A field that may be left out.
pub(super) const fn optional(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, need: Need::Sometimes, about: "" }
}

impl Field {
    /// Says what its name does not.
    pub(super) const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    fn schema(&self) -> Value {
        let mut schema = match self.kind {
            Kind::Text => json!({"type": "string"}),
            Kind::Number => json!({"type": "integer"}),
            Kind::Flag => json!({"type": "boolean"}),
            Kind::Texts => json!({"type": "array", "items": {"type": "string"}}),
            Kind::Numbers => json!({"type": "array", "items": {"type": "integer"}}),
            Kind::Things => json!({"type": "array", "items": {"type": "object"}}),
            Kind::List(fields) => {
                json!({"type": "array", "items": {"type": "object", "required": names(fields)}})
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
pub(super) fn gives(fields: &[Field]) -> JsonObject {
    let properties = fields.iter().map(|field| (field.name.to_owned(), field.schema()));
    let mut schema = JsonObject::new();
    schema.insert("type".into(), "object".into());
    schema.insert("properties".into(), Value::Object(properties.collect()));
    schema
}

/// What a tool takes. That it takes nothing else is not worth its bytes: whoever tries is told.
pub(super) fn takes(fields: &[Field]) -> JsonObject {
    let mut schema = gives(fields);
    let needed = names(fields);
    if !needed.is_empty() {
        schema.insert("required".into(), json!(needed));
    }
    schema
}

/// The fields that must be there. Of what a list holds only these are told: the rest explains itself to whoever reads one.
fn names(fields: &[Field]) -> Vec<&'static str> {
    let needed = fields.iter().filter(|field| field.need == Need::Always);
    needed.map(|field| field.name).collect()
}
