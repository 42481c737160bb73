//! References to environment variables that the caller does not have, with their places in the file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    ops::Range,
    path::Path,
};

use crate::{
    definition::{
        env_mentions::{EnvMention, env_mentions},
        workflow::Workflow,
    },
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    error::Error,
    yaml::{self, text_file},
};

/// Returns the error for references of `workflow` to variables that `env` lacks; a variable may be empty. `file` is the
/// workflow's file, and `path` its name in messages.
pub fn unset_env(
    file: File,
    path: &Path,
    workflow: &Workflow,
    env: &BTreeMap<String, String>,
) -> Option<Error> {
    let missing: BTreeSet<&str> =
        workflow.env_references().filter(|name| !env.contains_key(*name)).collect();
    if missing.is_empty() {
        return None;
    }
    let text = text_file::read(file).ok()?;
    let mut diagnostics = Diagnostics::default();
    diagnostics.add_all(find_references(&text, &missing));
    (!diagnostics.is_empty()).then(|| Error::invalid(path, &text, diagnostics))
}

/// Finds the references to these variables in the values of a file.
fn find_references(text: &str, missing: &BTreeSet<&str>) -> Vec<Diagnostic> {
    let Ok(root) = yaml::read(text) else { return Vec::new() };
    let mentions = env_mentions(&root, text).into_iter();
    let unset = mentions.filter(|one| missing.contains(one.name.as_str()));
    let mut found: Vec<Diagnostic> =
        unset.map(|EnvMention { name, at }| unset_diagnostic(&name, at)).collect();
    found.sort_by_key(|diagnostic| diagnostic.at.start);
    // An alias repeats the value of its anchor.
    found.dedup();
    found
}

fn unset_diagnostic(name: &str, at: Range<usize>) -> Diagnostic {
    Diagnostic::new(at, format!("the variable {name} is not set"))
        .with_hint(format!("set it: `export {name}=…`; for a default use a parameter (`params:`)"))
}
