//! Values of parameters, from a command line, a file of values or a request: checked by the type before anything runs.
//!
//! A message has no part of a value, which may be a secret.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;

use crate::{
    definition::params::{Param, ParamType},
    diagnostics::spelling::nearest,
    template::number::{NumberKind, canonical_number},
    yaml::{Node, Yaml},
};

/// Problem of one value, or of one that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamProblem {
    /// Name of the parameter, as the caller wrote it.
    pub name: String,
    /// Description of the problem.
    pub message: String,
    /// Correction, as an option of the command line.
    pub hint: String,
}

impl Param {
    /// Returns the type of value that a text should have, and a similar choice, if the text does not have it.
    pub(crate) fn value_problem(&self, text: &str) -> Option<(String, Option<&str>)> {
        let expected = match self.value_type {
            ParamType::Text | ParamType::File => return None,
            ParamType::Number if canonical_number(text, NumberKind::Decimal).is_some() => {
                return None;
            }
            ParamType::Number => "a number".to_owned(),
            ParamType::Boolean if text == "true" || text == "false" => return None,
            ParamType::Boolean => "`true` or `false`".to_owned(),
            ParamType::Choice if self.choices.iter().any(|choice| choice == text) => return None,
            ParamType::Choice => {
                let list: Vec<String> =
                    self.choices.iter().map(|choice| format!("`{choice}`")).collect();
                let near = nearest(text, self.choices.iter().map(String::as_str));
                return Some((list.join(" or "), near));
            }
            ParamType::Json => match serde_json::from_str::<IgnoredAny>(text) {
                Ok(_) => return None,
                Err(error) => {
                    format!("JSON (it is not at line {}, column {})", error.line(), error.column())
                }
            },
        };
        Some((expected, None))
    }

    /// Returns the value without one that is given.
    pub(crate) fn value_by_default(&self) -> &str {
        match (&self.default, self.value_type) {
            (Some(default), _) => default,
            (None, ParamType::Boolean) => "false",
            (None, ParamType::Json) => "null",
            (None, ParamType::Text | ParamType::Number | ParamType::Choice | ParamType::File) => "",
        }
    }

    /// Returns a value for the option in hints.
    fn sample(&self) -> String {
        let name = &self.name;
        match self.value_type {
            ParamType::Text => format!("--{name} VALUE"),
            ParamType::Number => format!("--{name} 5"),
            ParamType::Boolean => format!("--{name}"),
            ParamType::Choice => {
                format!("--{name} {}", self.choices.first().map_or("", String::as_str))
            }
            ParamType::File => format!("--{name} FILE"),
            ParamType::Json => format!("--{name} '{{}}'"),
        }
    }
}

/// Returns every problem of the given values, in the order of the names, then every parameter that is missing.
pub(crate) fn problems(params: &[Param], given: &BTreeMap<String, String>) -> Vec<ParamProblem> {
    let of_value = |(name, text): (&String, &String)| {
        let Some(param) = params.iter().find(|param| param.name == *name) else {
            return Some(unknown(params, name));
        };
        let (expected, near) = param.value_problem(text)?;
        let message = format!("the value of `params.{name}` must be {expected}");
        let hint = match (near, param.value_type) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, ParamType::Number) => format!("give a number: `{}`", param.sample()),
            (None, _) => format!("such as `{}`", param.sample()),
        };
        Some(ParamProblem { name: name.clone(), message, hint })
    };
    let names = || params.iter().map(|param| param.name.as_str());
    // An unknown name may be the missing one, misspelt.
    let misspelt: Vec<&str> = given
        .keys()
        .filter(|name| !names().any(|known| known == *name))
        .filter_map(|name| nearest(name, names()))
        .collect();
    let is_missing = |param: &&Param| {
        param.required
            && !given.contains_key(&param.name)
            && !misspelt.contains(&param.name.as_str())
    };
    let missing = params.iter().filter(is_missing);
    let missing = missing.map(|param| ParamProblem {
        name: param.name.clone(),
        message: format!("the parameter `{}` is required", param.name),
        hint: format!("add `{}`", param.sample()),
    });
    given.iter().filter_map(of_value).chain(missing).collect()
}

fn unknown(params: &[Param], name: &str) -> ParamProblem {
    let message = format!("the workflow has no parameter `{name}`");
    let hint = unknown_hint(params, name, "--");
    ParamProblem { name: name.to_owned(), message, hint }
}

/// Returns the similar name, or the list of names. `prefix` is the spelling of the place: `--` on a command line.
pub(crate) fn unknown_hint(params: &[Param], name: &str, prefix: &str) -> String {
    let names: Vec<&str> = params.iter().map(|param| param.name.as_str()).collect();
    match (nearest(name, names.iter().copied()), names.is_empty()) {
        (Some(near), _) => format!("did you mean `{prefix}{near}`?"),
        (None, false) => format!("the parameters are: {}", names.join(", ")),
        (None, true) => "the workflow takes no parameters".to_owned(),
    }
}

/// Returns the text of a number.
pub(crate) fn yaml_number(value: &Yaml) -> Option<String> {
    match value {
        Yaml::Whole(number) => Some(number.to_string()),
        Yaml::Decimal(number) => Some(number.to_string()),
        Yaml::Null | Yaml::Bool(_) | Yaml::Text(_) | Yaml::List(_) | Yaml::Map(_) => None,
    }
}

/// Returns a value as compact JSON, with the keys in their order; none for a number that JSON does not have.
pub(crate) fn yaml_json(node: &Node) -> Option<String> {
    Some(match &node.value {
        Yaml::Null => "null".to_owned(),
        Yaml::Bool(value) => value.to_string(),
        Yaml::Whole(number) => number.to_string(),
        Yaml::Decimal(number) => serde_json::Number::from_f64(*number)?.to_string(),
        Yaml::Text(text) => json_text(text)?,
        Yaml::List(items) => {
            let items: Option<Vec<String>> = items.iter().map(yaml_json).collect();
            format!("[{}]", items?.join(","))
        }
        Yaml::Map(entries) => {
            let entry = |entry: &crate::yaml::YamlEntry| {
                Some(format!("{}:{}", json_text(&entry.key)?, yaml_json(&entry.value)?))
            };
            let entries: Option<Vec<String>> = entries.iter().map(entry).collect();
            format!("{{{}}}", entries?.join(","))
        }
    })
}

fn json_text(text: &str) -> Option<String> {
    serde_json::to_string(text).ok()
}
