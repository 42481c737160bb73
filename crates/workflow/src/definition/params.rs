//! `params:` section: values that the user may or must give: `agent-worker run review.yaml --target main`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    definition::param_value::{yaml_json, yaml_number},
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    template::{
        number::{NumberKind, canonical_number},
        reference::{NAME_SHAPE, is_name},
        scope::ScopeValue,
    },
    yaml::{
        Yaml,
        fields::{AllowedKeys, YamlField, YamlFields},
    },
};

const PARAM_KEYS: AllowedKeys = AllowedKeys {
    known: &["name", "type", "choices", "short", "description", "required", "default"],
    planned: &[],
};

/// Options of `run` and `start`: a parameter of such a name could never be given.
pub const RESERVED_OPTIONS: [&str; 12] = [
    "tag",
    "instance",
    "verbose",
    "detach",
    "background",
    "replace",
    "lazy",
    "allow-missing",
    "params-file",
    "ci",
    "json",
    "help",
];

/// Letters of the options of `run` and `start`.
pub const RESERVED_LETTERS: [char; 2] = ['h', 'v'];

/// Names of the types and their values, in the order of messages.
const TYPES: [(&str, ParamType); 7] = [
    ("string", ParamType::Text),
    ("text", ParamType::Text),
    ("number", ParamType::Number),
    ("boolean", ParamType::Boolean),
    ("choice", ParamType::Choice),
    ("file", ParamType::File),
    ("json", ParamType::Json),
];

/// Maximum number of choices of one parameter.
const MAX_CHOICES: usize = 100;

/// One parameter of a workflow. Without a value and a default, an optional parameter is empty text, or `false`, or `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Param {
    /// Name, such as `target` for `--target` and `${{ params.target }}`.
    pub name: String,
    /// Type of the value.
    #[serde(default, rename = "type", skip_serializing_if = "ParamType::is_text")]
    pub value_type: ParamType,
    /// Values of a choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Letter of the option, such as `t` for `-t`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<char>,
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
    #[serde(alias = "string")]
    Text,
    /// Number, checked before the run: in a command it may be part of code.
    Number,
    /// The text `true` or `false`.
    Boolean,
    /// One of the texts that the file lists.
    Choice,
    /// Content of a file, which the command reads when it requests the run.
    File,
    /// JSON document of any type.
    Json,
}

impl ParamType {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_text(&self) -> bool {
        *self == Self::Text
    }

    /// Returns the typed value of a parameter, which was checked before. A text without a value of the type stays text.
    pub(crate) fn scope_value(self, text: &str) -> ScopeValue {
        match self {
            Self::Number => match canonical_number(text, NumberKind::Decimal) {
                Some(json) => ScopeValue::Number { written: text.to_owned(), json },
                None => ScopeValue::Text(text.to_owned()),
            },
            Self::Boolean | Self::Json if !text.is_empty() => ScopeValue::Json(text.to_owned()),
            Self::Text | Self::Boolean | Self::Choice | Self::File | Self::Json => {
                ScopeValue::Text(text.to_owned())
            }
        }
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
    let (mut names, mut letters) = (BTreeSet::new(), BTreeSet::new());
    for item in diagnostics.ok_or_add(field.list()).unwrap_or_default() {
        if diagnostics.is_full() {
            break;
        }
        let Some(fields) = item.fields(&PARAM_KEYS, diagnostics) else { continue };
        let name = fields.require("name", diagnostics);
        let name = name.and_then(|field| diagnostics.ok_or_add(checked_name(&field, &mut names)));
        let short =
            fields.read_with("short", diagnostics, |field| checked_letter(field, &mut letters));
        let param = read_param(&item, &fields, diagnostics);
        params.extend(name.map(|name| Param { name, short, ..param }));
    }
    params
}

/// Reads everything but the names.
fn read_param(
    item: &YamlField<'_>,
    fields: &YamlFields<'_>,
    diagnostics: &mut Diagnostics,
) -> Param {
    let required = fields.read_with("required", diagnostics, YamlField::boolean);
    let description =
        fields.read_with("description", diagnostics, |field| field.text().map(str::to_owned));
    let value_type = fields.read_with("type", diagnostics, |field| field.one_of(&TYPES, &[]));
    let has_type = value_type.is_some() || !fields.has("type");
    let value_type = value_type.unwrap_or_default();
    let choices = match fields.get("choices") {
        Some(field) if value_type != ParamType::Choice && has_type => {
            let diagnostic = field.diagnostic("`choices` are the values of `type: choice`");
            diagnostics.add(diagnostic.with_hint("add `type: choice`"));
            None
        }
        Some(field) => read_choices(&field, diagnostics),
        None if value_type == ParamType::Choice => fields.require("choices", diagnostics).and(None),
        None => None,
    };
    let param = Param {
        value_type,
        choices: choices.unwrap_or_default(),
        description,
        required: required.unwrap_or_default(),
        ..Param::default()
    };
    let has_choices = value_type != ParamType::Choice || !param.choices.is_empty();
    let default = fields
        .get("default")
        // A value of a type that is not known is no second mistake.
        .filter(|_| has_type && has_choices)
        .and_then(|field| diagnostics.ok_or_add(read_default(&field, &param)));
    let has_default = fields.has("default");
    let what = match value_type {
        ParamType::Number => "a number",
        ParamType::Choice => "a choice",
        ParamType::Text | ParamType::Boolean | ParamType::File | ParamType::Json => "",
    };
    if !what.is_empty() && has_choices && !param.required && !has_default {
        let diagnostic = item.diagnostic(format!("{what} has no empty value"));
        diagnostics.add(diagnostic.with_hint("add `required: true` or a `default`"));
    }
    if let (true, Some(field)) = (param.required, fields.get("default")) {
        let name = fields.get("name").and_then(|name| name.text().ok()).unwrap_or("it");
        diagnostics.add(
            field
                .diagnostic(format!("`{name}` is required, so its default is never used"))
                .with_hint("remove `required` or `default`"),
        );
    }
    Param { default, ..param }
}

fn read_default(field: &YamlField<'_>, param: &Param) -> Result<String, Diagnostic> {
    match param.value_type {
        // The daemon could not read it where the command can.
        ParamType::File => Err(field
            .diagnostic("a file has no default")
            .with_hint("without a file the value is empty text")),
        _ => read_value(field, param),
    }
}

/// Reads a value of a parameter from YAML.
pub(crate) fn read_value(field: &YamlField<'_>, param: &Param) -> Result<String, Diagnostic> {
    match param.value_type {
        ParamType::Text | ParamType::File => field.text().map(str::to_owned),
        ParamType::Number => yaml_number(&field.node.value)
            .map_or_else(|| field.text().map(str::to_owned), Ok)
            .and_then(|text| checked(field, param, text)),
        ParamType::Boolean => match &field.node.value {
            Yaml::Bool(value) => Ok(value.to_string()),
            Yaml::Text(text) if text == "true" || text == "false" => Ok(text.clone()),
            _ => field.boolean().map(|value| value.to_string()),
        },
        ParamType::Choice => checked(field, param, field.text()?.to_owned()),
        ParamType::Json => yaml_json(field.node).ok_or_else(|| field.must_be("JSON")),
    }
}

fn checked(field: &YamlField<'_>, param: &Param, text: String) -> Result<String, Diagnostic> {
    match param.value_problem(&text) {
        None => Ok(text),
        Some((expected, near)) => {
            let diagnostic = field.must_be(expected);
            Err(match near {
                Some(near) => diagnostic.with_hint(format!("did you mean `{near}`?")),
                None => diagnostic,
            })
        }
    }
}

fn read_choices(field: &YamlField<'_>, diagnostics: &mut Diagnostics) -> Option<Vec<String>> {
    let items = diagnostics.ok_or_add(field.list())?;
    if items.is_empty() || items.len() > MAX_CHOICES {
        diagnostics.add(field.must_be(format_args!("a list of 1 to {MAX_CHOICES} texts")));
        return None;
    }
    let mut choices: Vec<String> = Vec::new();
    for item in items {
        let text = diagnostics.ok_or_add(item.text())?;
        if text.is_empty() || text.contains(char::is_control) {
            diagnostics.add(item.must_be("text of one line, not empty"));
        } else if choices.iter().any(|one| one == text) {
            diagnostics.add(item.diagnostic(format!("the choice `{text}` is there twice")));
        }
        choices.push(text.to_owned());
    }
    Some(choices)
}

fn checked_letter(field: &YamlField<'_>, letters: &mut BTreeSet<char>) -> Result<char, Diagnostic> {
    let mut chars = field.text()?.chars();
    let letter = match (chars.next(), chars.next()) {
        (Some(letter), None) if letter.is_ascii_alphabetic() => letter,
        _ => return Err(field.must_be("one letter, such as `t` for `-t`")),
    };
    if RESERVED_LETTERS.contains(&letter) {
        return Err(field
            .diagnostic(format!("`-{letter}` is an option of `run`"))
            .with_hint("choose another letter"));
    }
    if !letters.insert(letter) {
        return Err(field.diagnostic(format!("there are two parameters with `short: {letter}`")));
    }
    Ok(letter)
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
