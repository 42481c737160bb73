//! Rewrites schemas into a form that generators of client code understand. Pure.
//!
//! The derived schema of an enum without data is a `oneOf` of constants; generators expect an `enum`. The derived schema
//! of a struct with a flattened enum has `properties` beside `oneOf`, and generators ignore one of the two. Such a struct
//! becomes one object with the fields of all variants: a field that some variant lacks is optional. The result accepts
//! every document that the derived schema accepts, and its description names the fields of each variant.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Prefix of a reference to a named schema.
const SCHEMAS: &str = "#/components/schemas/";

type Schema = Map<String, Value>;

/// Rewrites the named schemas of a document, and every schema inside them.
pub(super) fn rewrite(schemas: &mut Schema) {
    for schema in schemas.values_mut() {
        constants_to_enums(schema);
    }
    // Merging looks other schemas up, and those must be complete.
    let derived = schemas.clone();
    for schema in schemas.values_mut() {
        merge_all(schema, &derived);
    }
}

fn children(schema: &mut Value) -> Box<dyn Iterator<Item = &mut Value> + '_> {
    match schema {
        Value::Object(fields) => Box::new(fields.values_mut()),
        Value::Array(values) => Box::new(values.iter_mut()),
        _ => Box::new(std::iter::empty()),
    }
}

fn constants_to_enums(schema: &mut Value) {
    children(schema).for_each(constants_to_enums);
    let Some(fields) = schema.as_object_mut() else { return };
    let Some(Value::Array(variants)) = fields.get("oneOf") else { return };
    let is_constant = |one: &Value| one.get("const").is_some_and(Value::is_string);
    let (constants, others): (Vec<Value>, Vec<Value>) =
        variants.iter().cloned().partition(is_constant);
    if constants.is_empty() {
        return;
    }
    let words: Vec<Value> = constants.iter().map(|one| one["const"].clone()).collect();
    let meanings = constants.iter().zip(&words).map(|(one, word)| meaning(word, one, &[]));
    let description = describe(fields, "Values", &meanings.collect::<Vec<_>>());
    fields.insert("description".into(), description);
    if others.is_empty() {
        fields.remove("oneOf");
        fields.insert("type".into(), json!("string"));
        fields.insert("enum".into(), Value::Array(words));
    } else {
        let words = json!({ "type": "string", "enum": words });
        let variants: Vec<Value> = std::iter::once(words).chain(others).collect();
        fields.insert("oneOf".into(), Value::Array(variants));
    }
}

fn merge_all(schema: &mut Value, derived: &Schema) {
    if let Some(fields) = schema.as_object() {
        let is_extended = ["oneOf", "anyOf", "$ref"].iter().any(|key| fields.contains_key(*key));
        if is_extended && fields.contains_key("properties") {
            *schema = Value::Object(merged(fields.clone(), derived).into_schema());
        }
    }
    children(schema).for_each(|child| merge_all(child, derived));
}

/// An object whose variants are merged.
#[derive(Default)]
struct MergedObject {
    /// All keys of the schema except the three below.
    rest: Schema,
    /// The schemas of each field, each once.
    properties: BTreeMap<String, Vec<Value>>,
    /// Fields that every document has.
    required: Vec<String>,
}

impl MergedObject {
    fn add_property(&mut self, name: String, schemas: Vec<Value>) {
        let known = self.properties.entry(name).or_default();
        for schema in schemas {
            if !known.iter().any(|other| is_same(other, &schema)) {
                known.push(schema);
            }
        }
    }

    fn into_schema(self) -> Schema {
        let mut schema = self.rest;
        let properties = self.properties.into_iter().map(|(name, kinds)| (name, union(kinds)));
        schema.insert("type".into(), json!("object"));
        schema.insert("properties".into(), Value::Object(properties.collect()));
        schema.insert("required".into(), json!(self.required));
        schema
    }
}

/// Merges an object with the object that it refers to and with all its variants.
fn merged(mut fields: Schema, derived: &Schema) -> MergedObject {
    let mut object = MergedObject::default();
    let referenced = fields.remove("$ref");
    let referenced = referenced.as_ref().and_then(Value::as_str);
    if let Some(base) = referenced.and_then(|name| derived.get(name.strip_prefix(SCHEMAS)?)) {
        let base = merged(base.as_object().cloned().unwrap_or_default(), derived);
        base.properties.into_iter().for_each(|(name, kinds)| object.add_property(name, kinds));
        object.required = base.required;
    }
    let variants = fields.remove("oneOf").or_else(|| fields.remove("anyOf"));
    if let Some(Value::Object(own)) = fields.remove("properties") {
        own.into_iter().for_each(|(name, kind)| object.add_property(name, vec![kind]));
    }
    let required = fields.remove("required").unwrap_or_default();
    object.required.extend(strings(&required));
    if let Some(Value::Array(variants)) = variants {
        let description = add_variants(&mut object, &fields, &variants, derived);
        fields.insert("description".into(), description);
    }
    object.rest = fields;
    object
}

/// Adds the fields of all variants; returns the description of the whole.
fn add_variants(
    object: &mut MergedObject,
    fields: &Schema,
    variants: &[Value],
    derived: &Schema,
) -> Value {
    let own: Vec<String> = object.properties.keys().cloned().collect();
    let mut meanings = Vec::new();
    let mut in_all: Option<Vec<String>> = None;
    let mut tag = None;
    for variant in variants {
        let part = merged(variant.as_object().cloned().unwrap_or_default(), derived);
        let constant = part.properties.iter().find_map(|(name, kinds)| match kinds.as_slice() {
            [one] => Some((name.clone(), one.get("const")?.clone())),
            _ => None,
        });
        if let Some((name, word)) = constant {
            let more = part.properties.iter().filter(|(field, _)| **field != name);
            let more = more.filter(|(field, _)| !own.contains(field));
            let more: Vec<String> = more.map(|(field, kinds)| field_text(field, kinds)).collect();
            meanings.push(meaning(&word, variant, &more));
            tag = Some(name);
        }
        match &mut in_all {
            Some(names) => names.retain(|name| part.required.contains(name)),
            None => in_all = Some(part.required.clone()),
        }
        part.properties.into_iter().for_each(|(name, kinds)| object.add_property(name, kinds));
    }
    object.required.extend(in_all.unwrap_or_default());
    let heading = tag.map_or_else(|| "Variants".to_owned(), |tag| format!("Values of `{tag}`"));
    describe(fields, &heading, &meanings)
}

/// Names a field of a variant, with the name of its schema if it has one.
fn field_text(name: &str, kinds: &[Value]) -> String {
    let named = kinds.first().and_then(|kind| kind.get("$ref")?.as_str()?.strip_prefix(SCHEMAS));
    named.map_or_else(|| format!("`{name}`"), |schema| format!("`{name}` ({schema})"))
}

/// Returns one line of a description: a value, its meaning and the fields that it brings.
fn meaning(word: &Value, variant: &Value, fields: &[String]) -> String {
    let about = variant.get("description").and_then(Value::as_str).unwrap_or_default();
    let with = match fields {
        [] => String::new(),
        fields => format!(" With {}.", fields.join(", ")),
    };
    let line = format!("- `{}`: {}{with}", word.as_str().unwrap_or_default(), about.trim());
    line.trim_end_matches([' ', ':']).replace('\n', " ")
}

fn describe(fields: &Schema, heading: &str, lines: &[String]) -> Value {
    let about = fields.get("description").and_then(Value::as_str).unwrap_or_default();
    match lines {
        [] => json!(about),
        lines => json!(format!("{about}\n\n{heading}:\n\n{}", lines.join("\n")).trim_start()),
    }
}

/// Returns the schema of a field that has one of several schemas.
fn union(kinds: Vec<Value>) -> Value {
    let is_word = |kind: &Value| kind.get("const").is_some_and(Value::is_string);
    let (words, mut others): (Vec<Value>, Vec<Value>) = kinds.into_iter().partition(is_word);
    if others.contains(&Value::Bool(true)) {
        return json!({});
    }
    if !words.is_empty() {
        let words: Vec<_> = words.iter().map(|word| word["const"].clone()).collect();
        others.insert(0, json!({"type": "string", "enum": words}));
    }
    match others.len() {
        1 => others.remove(0),
        _ => json!({ "anyOf": others }),
    }
}

/// Returns true if two schemas differ at most in their description.
fn is_same(one: &Value, other: &Value) -> bool {
    let bare = |schema: &Value| {
        let mut schema = schema.clone();
        if let Some(fields) = schema.as_object_mut() {
            fields.remove("description");
        }
        schema
    };
    bare(one) == bare(other)
}

fn strings(list: &Value) -> impl Iterator<Item = String> + '_ {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(schemas: Value) -> Value {
        let Value::Object(mut schemas) = schemas else { panic!("{schemas}") };
        rewrite(&mut schemas);
        Value::Object(schemas)
    }

    #[test]
    fn constants_become_an_enum_and_their_meanings_a_list() {
        let colour = json!({"description": "A colour.", "oneOf": [
            {"const": "red", "type": "string", "description": "Stop."},
            {"const": "green", "type": "string"},
        ]});
        let expected = json!({
            "type": "string", "enum": ["red", "green"],
            "description": "A colour.\n\nValues:\n\n- `red`: Stop.\n- `green`",
        });
        assert_eq!(rewritten(json!({"Colour": colour}))["Colour"], expected);
    }

    #[test]
    fn constants_next_to_an_object_become_one_variant() {
        let exit = json!({"type": "object", "properties": {"exit": {"type": "integer"}}});
        let failure = json!({"description": "A failure.", "oneOf": [
            {"const": "crash", "type": "string", "description": "Dies."},
            {"const": "hang", "type": "string"},
            exit,
        ]});
        let expected = json!({
            "description": "A failure.\n\nValues:\n\n- `crash`: Dies.\n- `hang`",
            "oneOf": [{"type": "string", "enum": ["crash", "hang"]}, exit],
        });
        assert_eq!(rewritten(json!({"Failure": failure}))["Failure"], expected);
    }

    #[test]
    fn an_object_with_variants_has_the_fields_of_all_and_requires_those_that_all_require() {
        let word = |word| json!({"const": word, "type": "string"});
        let text = json!({"type": "string"});
        let run = json!({
            "type": "object", "description": "A run.", "properties": {"id": text}, "required": ["id"],
            "oneOf": [
                {"description": "At work.", "properties": {"state": word("live")}, "required": ["state"]},
                {
                    "description": "Over.", "required": ["state", "end"],
                    "properties": {"state": word("over"), "end": {"$ref": "#/components/schemas/End"}},
                },
            ],
        });
        let expected = json!({
            "type": "object", "required": ["id", "state"],
            "description": "A run.\n\nValues of `state`:\n\n- `live`: At work.\n- `over`: Over. With `end` (End).",
            "properties": {
                "end": {"$ref": "#/components/schemas/End"}, "id": text,
                "state": {"type": "string", "enum": ["live", "over"]},
            },
        });
        assert_eq!(rewritten(json!({"Run": run}))["Run"], expected);
    }

    #[test]
    fn variants_inside_variants_and_references_are_merged_too() {
        let word = |word| json!({"const": word, "type": "string"});
        let schemas = json!({
            "Usage": {"type": "object", "properties": {"tokens": {"type": "integer"}}, "required": ["tokens"]},
            "Report": {"type": "object", "properties": {"no": {"type": "integer"}}, "oneOf": [
                {"$ref": "#/components/schemas/Usage", "properties": {"kind": word("usage")}, "required": ["kind"]},
                {"properties": {"kind": word("end")}, "required": ["kind"], "oneOf": [
                    {"properties": {"how": word("ok")}, "required": ["how"]},
                    {"properties": {"how": word("failed"), "tokens": {"type": "string"}}, "required": ["how"]},
                ]},
            ]},
        });
        let report = rewritten(schemas)["Report"].clone();
        let fields = &report["properties"];
        assert_eq!(fields["kind"], json!({"type": "string", "enum": ["usage", "end"]}));
        assert_eq!(fields["how"], json!({"type": "string", "enum": ["ok", "failed"]}));
        assert_eq!(fields["tokens"], json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}));
        assert_eq!(report["required"], json!(["kind"]));
    }
}
