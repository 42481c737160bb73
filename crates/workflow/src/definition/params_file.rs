//! File with values of parameters (`--params-file`): a mapping in YAML or JSON.

use std::{collections::BTreeMap, fs::File, io, path::Path};

use crate::{
    definition::{
        param_value::unknown_hint,
        params::{Param, read_value},
    },
    diagnostics::diagnostic::Diagnostics,
    error::Error,
    yaml::{
        self,
        fields::YamlField,
        text_file::{self, FileReadError, MAX_FILE_BYTES},
    },
};

/// Reads the values of a file. The value of a parameter with `type: file` is the path as written.
pub fn load_params_file(path: &Path, params: &[Param]) -> Result<BTreeMap<String, String>, Error> {
    let unreadable = |error: io::Error| Error::unreadable(path, &error.into());
    let file = File::open(path).map_err(unreadable)?;
    let text = text_file::read(file).map_err(|why| Error::unreadable(path, &why))?;
    parse_params(&text, path, params)
}

/// Reads the values of a text. `path` is the name in messages.
pub fn parse_params(
    text: &str,
    path: &Path,
    params: &[Param],
) -> Result<BTreeMap<String, String>, Error> {
    if text.len() > MAX_FILE_BYTES {
        return Err(Error::unreadable(path, &FileReadError::TooLarge));
    }
    let mut diagnostics = Diagnostics::default();
    let root = diagnostics.ok_or_add(yaml::read(text));
    let mut values = BTreeMap::new();
    if let Some(root) = &root {
        let entries = YamlField::root(root).named_entries().map_err(|diagnostic| {
            diagnostic
                .with_hint("write the names of the parameters with their values: `target: main`")
        });
        for (key, field) in diagnostics.ok_or_add(entries).unwrap_or_default() {
            if diagnostics.is_full() {
                break;
            }
            let Some(param) = params.iter().find(|param| param.name == key.text) else {
                let message = format!("the workflow has no parameter `{}`", key.text);
                let hint = unknown_hint(params, key.text, "");
                diagnostics.add(key.diagnostic(message).with_hint(hint));
                continue;
            };
            let value = diagnostics.ok_or_add(read_value(&field, param));
            values.extend(value.map(|value| (param.name.clone(), value)));
        }
    }
    if diagnostics.is_empty() { Ok(values) } else { Err(Error::invalid(path, text, diagnostics)) }
}
