//! References to environment variables that the caller does not have, with their places in the file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    ops::Range,
    path::Path,
};

use crate::{
    definition::workflow::Workflow,
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    error::Error,
    template::{
        Piece, ReferencePlaces,
        reference::{Reference, parse_reference},
        split_references,
    },
    yaml::{self, Node, Yaml, text_file},
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
        .flat_map(Reference::env_names)
        .filter(|name| !env.contains_key(*name))
        .collect();
    if missing.is_empty() {
        return None;
    }
    let text = text_file::read(file).ok()?;
    let mut diagnostics = Diagnostics::default();
    diagnostics.add_all(find_references(&text, &missing));
    (!diagnostics.is_empty()).then(|| Error::invalid(path, &text, diagnostics))
}

/// Finds the references to these variables in the values of a file. A comment is no value; a line of a block that starts
/// with `#` is part of one.
fn find_references(text: &str, missing: &BTreeSet<&str>) -> Vec<Diagnostic> {
    let Ok(root) = yaml::read(text) else { return Vec::new() };
    let mut found = Vec::new();
    for_each_text(&root, &mut |node, value| {
        let places = ReferencePlaces::new(&node.at, value, text);
        for piece in split_references(value).0 {
            let Piece::Reference { inner, nth } = piece else { continue };
            let Ok((Reference::Env(name), _)) = parse_reference(inner) else { continue };
            if missing.contains(name.as_str()) {
                found.push(unset_diagnostic(&name, inside_braces(places.range(nth), text)));
            }
        }
    });
    found.sort_by_key(|diagnostic| diagnostic.at.start);
    // An alias repeats the value of its anchor.
    found.dedup();
    found
}

fn for_each_text<'a>(node: &'a Node, visit: &mut impl FnMut(&'a Node, &'a str)) {
    match &node.value {
        Yaml::Text(value) => visit(node, value),
        Yaml::List(items) => items.iter().for_each(|item| for_each_text(item, visit)),
        Yaml::Map(entries) => entries.iter().for_each(|entry| for_each_text(&entry.value, visit)),
        Yaml::Null | Yaml::Bool(_) | Yaml::Whole(_) | Yaml::Decimal(_) => {}
    }
}

fn unset_diagnostic(name: &str, at: Range<usize>) -> Diagnostic {
    Diagnostic::new(at, format!("the variable {name} is not set"))
        .with_hint(format!("set it: `export {name}=…`; for a default use a parameter (`params:`)"))
}

/// Returns the place of the name inside the braces of a reference; of anything else, the whole place.
fn inside_braces(whole: Range<usize>, text: &str) -> Range<usize> {
    let written = text.get(whole.clone()).unwrap_or_default();
    let inner = written.strip_prefix("${{").and_then(|rest| rest.strip_suffix("}}"));
    let Some(inner) = inner else { return whole };
    let start = whole.start + "${{".len() + (inner.len() - inner.trim_start().len());
    start..start + inner.trim().len()
}
