//! `params:` what the user may or must give: `agent-worker run review.yaml --target main`.

use serde::{Deserialize, Serialize};

use crate::{
    error::Complaint,
    fields::{Field, Keys},
    reference::{NAME_SHAPE, is_name},
};

const KEYS: Keys = Keys { known: &["name", "required", "default"], later: &[] };

/// One parameter of a workflow. Neither required nor given nor defaulted, it is empty text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Param {
    /// `target`, for `--target` and `${{ params.target }}`.
    pub name: String,
    /// Whether a run without it is refused.
    pub required: bool,
    /// Its value when it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// The names there would be if all were right: one mistake here is not one more at each use.
pub(crate) fn names(field: &Field<'_>) -> Vec<String> {
    let name = |item: &Field<'_>| {
        item.fields_unchecked().ok()?.get("name")?.text().ok().map(str::to_owned)
    };
    field.list().unwrap_or_default().iter().filter_map(name).collect()
}

pub(crate) fn read(field: &Field<'_>) -> Result<Vec<Param>, Complaint> {
    let mut params: Vec<Param> = Vec::new();
    for item in field.list()? {
        let fields = item.fields(&KEYS)?;
        let named = fields.need("name")?;
        let name = named.text()?;
        if !is_name(name) {
            return Err(named
                .complaint(format!("`{name}` cannot be a parameter's name"))
                .hint(NAME_SHAPE));
        }
        if params.iter().any(|param| param.name == name) {
            return Err(named.complaint(format!("there are two parameters `{name}`")));
        }
        let required = fields.get("required").map_or(Ok(false), |field| field.truth())?;
        let default = fields.get("default").map(|field| field.text()).transpose()?;
        if let (true, Some(field)) = (required, fields.get("default")) {
            return Err(field
                .complaint(format!("`{name}` is required, so its default is never used"))
                .hint("remove `required` or `default`"));
        }
        params.push(Param { name: name.to_owned(), required, default: default.map(str::to_owned) });
    }
    Ok(params)
}
