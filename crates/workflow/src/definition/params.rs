//! `params:` section: values that the user may or must give: `agent-worker run review.yaml --target main`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    template::reference::{NAME_SHAPE, is_name},
    yaml::fields::{AllowedKeys, YamlField},
};

const PARAM_KEYS: AllowedKeys =
    AllowedKeys { known: &["name", "description", "required", "default"], planned: &[] };

/// Options of `run` and `start`: a parameter of such a name could never be given.
pub const RESERVED_OPTIONS: [&str; 9] =
    ["tag", "instance", "verbose", "detach", "background", "replace", "lazy", "json", "help"];

/// One parameter of a workflow. Without a value and a default, an optional parameter is empty text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Param {
    /// Name, such as `target` for `--target` and `${{ params.target }}`.
    pub name: String,
    /// Purpose of the parameter, in the author's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// True if a run without it is refused.
    pub required: bool,
    /// Value of a parameter that is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
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
        let default = fields.read_with("default", diagnostics, text);
        if let (true, Some(field)) = (required, fields.get("default")) {
            let whose = name.as_deref().unwrap_or("it");
            diagnostics.add(
                field
                    .diagnostic(format!("`{whose}` is required, so its default is never used"))
                    .with_hint("remove `required` or `default`"),
            );
        }
        params.extend(name.map(|name| Param { name, description, required, default }));
    }
    params
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
