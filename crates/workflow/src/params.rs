//! `params:` what the user may or must give: `agent-worker run review.yaml --target main`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    complaint::{Complaint, Complaints},
    fields::{Field, Keys},
    reference::{NAME_SHAPE, is_name},
};

const KEYS: Keys = Keys { known: &["name", "description", "required", "default"], later: &[] };

/// What `run` and `start` take themselves: a parameter of that name could never be given.
pub const SWITCHES: [&str; 9] =
    ["tag", "instance", "verbose", "detach", "background", "replace", "lazy", "json", "help"];

/// One parameter of a workflow. Neither required nor given nor defaulted, it is empty text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Param {
    /// `target`, for `--target` and `${{ params.target }}`.
    pub name: String,
    /// What it is for, in the author's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether a run without it is refused.
    pub required: bool,
    /// Its value when it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// The names there would be if all were right: one mistake here is not one more at each use.
pub(crate) fn names(field: &Field<'_>) -> BTreeSet<String> {
    let name = |item: &Field<'_>| {
        item.fields_unchecked().ok()?.get("name")?.text().ok().map(str::to_owned)
    };
    field.list().unwrap_or_default().iter().filter_map(name).collect()
}

pub(crate) fn read(field: &Field<'_>, complaints: &mut Complaints) -> Vec<Param> {
    let mut params = Vec::new();
    let mut names = BTreeSet::new();
    for item in complaints.keep(field.list()).unwrap_or_default() {
        if complaints.is_full() {
            break;
        }
        let Some(fields) = item.fields(&KEYS, complaints) else { continue };
        let name = fields.need("name", complaints);
        let name = name.and_then(|field| complaints.keep(checked_name(&field, &mut names)));
        let required = fields.take("required", complaints, Field::truth).unwrap_or_default();
        let text = |field: &Field<'_>| field.text().map(str::to_owned);
        let description = fields.take("description", complaints, text);
        let default = fields.take("default", complaints, text);
        if let (true, Some(field)) = (required, fields.get("default")) {
            let whose = name.as_deref().unwrap_or("it");
            complaints.add(
                field
                    .complaint(format!("`{whose}` is required, so its default is never used"))
                    .hint("remove `required` or `default`"),
            );
        }
        params.extend(name.map(|name| Param { name, description, required, default }));
    }
    params
}

fn checked_name(field: &Field<'_>, names: &mut BTreeSet<String>) -> Result<String, Complaint> {
    let name = field.text()?;
    if !is_name(name) {
        return Err(field
            .complaint(format!("`{name}` cannot be a parameter's name"))
            .hint(NAME_SHAPE));
    }
    if SWITCHES.contains(&name) {
        return Err(field
            .complaint(format!("the parameter `{name}` is spelt like a switch of `run`"))
            .hint("give it another name"));
    }
    if !names.insert(name.to_owned()) {
        return Err(field.complaint(format!("there are two parameters `{name}`")));
    }
    Ok(name.to_owned())
}
