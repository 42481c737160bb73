//! References to environment variables that the caller does not have, with their places in the file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    path::Path,
};

use crate::{
    definition::workflow::Workflow,
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    error::Error,
    template::{
        Piece,
        reference::{Reference, parse_reference},
        split_references,
    },
    yaml::text_file,
};

/// Returns the error for references of `workflow` to variables that `env` lacks; a variable may be empty. `file` is the
/// workflow's file, and `path` its name in messages.
pub fn unset_env(
    file: File,
    path: &Path,
    workflow: &Workflow,
    env: &BTreeMap<String, String>,
) -> Option<Error> {
    let missing: BTreeSet<&str> = workflow
        .references()
        .filter_map(|reference| match reference {
            Reference::Env(name) if !env.contains_key(name) => Some(name.as_str()),
            _ => None,
        })
        .collect();
    if missing.is_empty() {
        return None;
    }
    let text = text_file::read(file).ok()?;
    let mut diagnostics = Diagnostics::default();
    diagnostics.add_all(find_references(&text, &missing));
    (!diagnostics.is_empty()).then(|| Error::invalid(path, &text, diagnostics))
}

/// Finds the references to these variables in a file's text, without comments.
fn find_references<'a>(
    text: &'a str,
    missing: &'a BTreeSet<&str>,
) -> impl Iterator<Item = Diagnostic> + 'a {
    let (pieces, _) = split_references(text);
    pieces.into_iter().filter_map(move |piece| {
        let Piece::Reference { inner, .. } = piece else { return None };
        let Ok((Reference::Env(name), _)) = parse_reference(inner) else { return None };
        let start = inner.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
        let line = text[..start].rfind('\n').map_or(0, |end| end + 1);
        let is_comment = text[line..].trim_start().starts_with('#');
        (missing.contains(name.as_str()) && !is_comment).then(|| {
            let trimmed = inner.len() - inner.trim_start().len();
            let at = start + trimmed..start + trimmed + inner.trim().len();
            Diagnostic::new(at, format!("the variable {name} is not set")).with_hint(format!(
                "set it: `export {name}=…`; for a default use a parameter (`params:`)"
            ))
        })
    })
}
