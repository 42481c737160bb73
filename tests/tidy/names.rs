//! One type name has one meaning in the whole workspace.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{SourceFile, rust_files};

/// Names that every module may define.
const EXEMPT: [&str; 4] = ["Args", "Error", "Options", "Result"];
const MAX_SHARED_NAMES: usize = 20;

/// Names that more than one module defines, each with its reason.
const SHARED_NAMES: [(&str, &str); 0] = [];

#[test]
fn a_type_name_is_defined_once_or_listed_with_a_reason() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in rust_files().into_iter().filter(SourceFile::is_product) {
        for name in type_names(file.code()) {
            places.entry(name.to_owned()).or_default().push(file.path.clone());
        }
    }
    let shared: BTreeSet<&str> = SHARED_NAMES.iter().map(|(name, _)| *name).collect();
    let repeated = places.iter().filter(|(name, places)| {
        places.len() > 1 && !EXEMPT.contains(&name.as_str()) && !shared.contains(name.as_str())
    });
    let problems: Vec<String> =
        repeated.map(|(name, places)| format!("{name}: {}", places.join(" "))).collect();
    assert!(problems.is_empty(), "{} names\n{}", problems.len(), problems.join("\n"));
    assert!(shared.len() <= MAX_SHARED_NAMES, "{} shared names", shared.len());
    for (name, reason) in SHARED_NAMES {
        assert!(places.get(name).is_some_and(|places| places.len() > 1), "{name} is not shared");
        assert!(reason.split_whitespace().count() > 3, "{name} needs a reason");
    }
}

/// Returns the types that a module defines, without associated types.
pub(crate) fn type_names(code: &str) -> impl Iterator<Item = &str> {
    code.lines().filter_map(|line| {
        let item = line.trim_start();
        let is_nested = item.len() < line.len();
        let item = match item.strip_prefix("pub") {
            Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
            Some(rest) => rest.trim_start(),
            None => item,
        };
        let (keyword, rest) = item.split_once(' ')?;
        let is_type = matches!(keyword, "struct" | "enum" | "trait" | "union")
            || (keyword == "type" && !is_nested);
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let is_name = rest.starts_with(|c: char| c.is_ascii_uppercase());
        (is_type && is_name).then_some(&rest[..end])
    })
}
