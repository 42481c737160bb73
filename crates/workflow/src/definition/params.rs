//! `params:` section: values that the user may or must give: `agent-worker run review.yaml --target main`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    template::{
        number::{NumberKind, canonical_number},
        reference::{NAME_SHAPE, is_name},
    },
    yaml::{
        Yaml,
        fields::{AllowedKeys, YamlField},
    },
};

const PARAM_KEYS: AllowedKeys =
    AllowedKeys { known: &["name", "type", "description", "required", "default"], planned: &[] };

/// Options of `run` and `start`: a parameter of such a name could never be given.
pub const RESERVED_OPTIONS: [&str; 11] = [
    "tag",
    "instance",
    "verbose",
    "detach",
    "background",
    "replace",
    "lazy",
    "allow-missing",
    "ci",
    "json",
    "help",
];

/// One parameter of a workflow. Without a value and a default, an optional parameter is empty text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Param {
    /// Name, such as `target` for `--target` and `${{ params.target }}`.
    pub name: String,
    /// Type of the value.
    #[serde(default, rename = "type", skip_serializing_if = "ParamType::is_text")]
    pub value_type: ParamType,
    /// Purpose of the parameter, in the author's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// True if a run without it is refused.
    pub required: bool,
    /// Value of a parameter that is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// Type of a parameter's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParamType {
    /// Any text of one line or more.
    #[default]
    Text,
    /// Number, checked before the run: in a command it may be part of code.
    Number,
}

impl ParamType {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_text(&self) -> bool {
        *self == Self::Text
    }
}

/// Returns the declared names of numbers.
pub(crate) fn declared_numbers(field: &YamlField<'_>) -> BTreeSet<String> {
    let name = |item: &YamlField<'_>| {
        let fields = item.fields_unchecked().ok()?;
        let is_number = fields.get("type")?.text().ok()? == "number";
        is_number.then(|| fields.get("name")?.text().ok().map(str::to_owned))?
    };
    field.list().unwrap_or_default().iter().filter_map(name).collect()
}

/// Returns all declared names, also invalid ones, so that one mistake here does not become another one at each use.
pub(crate) fn declared_names(field: &YamlField<'_>) -> BTreeSet<String> {
    let name = |item: &YamlField<'_>| {
        item.fields_unchecked().ok()?.get("name")?.text().ok().map(str::to_owned)
    };
    field.list().unwrap_or_default().iter().filter_map(name).collect()
}

pub(crate) fn read(field: &YamlField<'_>, diagnostics: &mut Diagnostics) -> Vec<Param> {
    let mut params = Vec::new();
    let mut names = BTreeSet::new();
    for item in diagnostics.ok_or_add(field.list()).unwrap_or_default() {
        if diagnostics.is_full() {
            break;
        }
        let Some(fields) = item.fields(&PARAM_KEYS, diagnostics) else { continue };
        let name = fields.require("name", diagnostics);
        let name = name.and_then(|field| diagnostics.ok_or_add(checked_name(&field, &mut names)));
        let required =
            fields.read_with("required", diagnostics, YamlField::boolean).unwrap_or_default();
        let text = |field: &YamlField<'_>| field.text().map(str::to_owned);
        let description = fields.read_with("description", diagnostics, text);
        let types = [("text", ParamType::Text), ("number", ParamType::Number)];
        let value_type = fields.read_with("type", diagnostics, |field| field.one_of(&types, &[]));
        let value_type = value_type.unwrap_or_default();
        let default = fields.read_with("default", diagnostics, |field| match value_type {
            ParamType::Text => text(field),
            ParamType::Number => read_number(field),
        });
        if value_type == ParamType::Number && !required && !fields.has("default") {
            let diagnostic = item.diagnostic("a number has no empty value");
            diagnostics.add(diagnostic.with_hint("add `required: true` or a `default`"));
        }
        if let (true, Some(field)) = (required, fields.get("default")) {
            let whose = name.as_deref().unwrap_or("it");
            diagnostics.add(
                field
                    .diagnostic(format!("`{whose}` is required, so its default is never used"))
                    .with_hint("remove `required` or `default`"),
            );
        }
        params.extend(name.map(|name| Param { name, value_type, description, required, default }));
    }
    params
}

fn read_number(field: &YamlField<'_>) -> Result<String, Diagnostic> {
    let text = match &field.node.value {
        Yaml::Whole(number) => number.to_string(),
        Yaml::Decimal(number) => number.to_string(),
        _ => field.text()?.to_owned(),
    };
    canonical_number(&text, NumberKind::Decimal).ok_or_else(|| field.must_be("a number"))
}

fn checked_name(field: &YamlField<'_>, names: &mut BTreeSet<String>) -> Result<String, Diagnostic> {
    let name = field.text()?;
    if !is_name(name) {
        return Err(field
            .diagnostic(format!("`{name}` cannot be a parameter's name"))
            .with_hint(NAME_SHAPE));
    }
    if RESERVED_OPTIONS.contains(&name) {
        return Err(field
            .diagnostic(format!("the parameter `{name}` has the name of an option of `run`"))
            .with_hint("rename the parameter"));
    }
    if !names.insert(name.to_owned()) {
        return Err(field.diagnostic(format!("there are two parameters `{name}`")));
    }
    Ok(name.to_owned())
}
