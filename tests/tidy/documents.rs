//! ARCHITECTURE.md and CONTRIBUTING.md name only paths and types that exist.

use std::{collections::BTreeSet, fs, process::Command};

use crate::{
    names::type_names,
    source::{root, rust_files},
};

const DOCUMENTS: [&str; 2] = ["ARCHITECTURE.md", "CONTRIBUTING.md"];
const MAX_SUBJECT: usize = 72;
/// Names of the standard library that the documents may use.
const STANDARD_NAMES: [&str; 2] = ["None", "Some"];

/// Returns the texts between single backticks.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| !line.starts_with("```"))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Returns true if a file or folder exists: from the root, or from `crates/X/src` with the crate's name in front.
fn exists(path: &str) -> bool {
    if root().join(path).exists() {
        return true;
    }
    let Some((name, rest)) = path.split_once('/') else { return false };
    root().join("crates").join(name).join("src").join(rest).exists()
}

#[test]
fn every_path_in_the_documents_exists() {
    for document in DOCUMENTS {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let is_path = |span: &&str| {
            let plain = span.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
            plain
                && span.contains('/')
                && !span.starts_with('/')
                && !span.starts_with('.')
                && (span.ends_with('/')
                    || span.rsplit_once('.').is_some_and(|(_, end)| matches!(end, "rs" | "md")))
        };
        let missing: Vec<_> =
            code_spans(&text).filter(is_path).filter(|path| !exists(path)).collect();
        assert!(missing.is_empty(), "{document}: {missing:?}");
    }
}

#[test]
fn every_type_in_the_documents_exists() {
    let files = rust_files();
    let types: BTreeSet<&str> = files.iter().flat_map(|file| type_names(&file.text)).collect();
    for document in DOCUMENTS {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let is_type = |span: &&str| {
            span.chars().all(char::is_alphanumeric)
                && span.starts_with(|c: char| c.is_ascii_uppercase())
                && span.contains(|c: char| c.is_ascii_lowercase())
        };
        let missing: Vec<_> = code_spans(&text)
            .filter(is_type)
            .filter(|name| !types.contains(name) && !STANDARD_NAMES.contains(name))
            .collect();
        assert!(missing.is_empty(), "{document}: {missing:?}");
    }
}

#[test]
fn commit_subjects_have_at_most_72_characters() {
    // A source archive has no history.
    if !root().join(".git").exists() {
        return;
    }
    let history = Command::new("git")
        .args([
            "-c",
            "safe.directory=*",
            "-C",
            &root().to_string_lossy(),
            "log",
            "--format=%s",
            "-n",
            "50",
        ])
        .output()
        .unwrap();
    assert!(history.status.success(), "{history:?}");
    let subjects = String::from_utf8(history.stdout).unwrap();
    let long: Vec<_> = subjects.lines().filter(|line| line.chars().count() > MAX_SUBJECT).collect();
    assert!(long.is_empty(), "{long:#?}");
}
