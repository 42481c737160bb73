//! The dependencies between crates and the structure of files.

use std::fs;

use crate::source::{root, rust_files};

const MAX_FILE_LINES: usize = 500;
const MEANINGLESS_NAMES: [&str; 7] =
    ["utils.rs", "util.rs", "helpers.rs", "common.rs", "misc.rs", "manager.rs", "service.rs"];

/// The crates that each crate may depend on.
const DEPENDENCIES: [(&str, &[&str]); 13] = [
    ("protocol", &[]),
    ("backends", &["protocol"]),
    ("expressions", &[]),
    ("host", &["protocol"]),
    ("models", &["protocol", "backends"]),
    ("sandbox", &["protocol", "host"]),
    ("store", &["protocol"]),
    ("workflow", &["protocol", "backends", "expressions"]),
    ("kernel", &["protocol", "backends", "expressions", "store", "workflow"]),
    ("daemon", &["protocol", "expressions", "host", "store", "kernel"]),
    ("tools", &["protocol", "backends", "host"]),
    ("worker", &["protocol", "backends", "host", "models", "sandbox", "tools"]),
    ("cli", &["protocol", "backends", "host", "models", "sandbox", "tools", "workflow"]),
];

#[test]
fn every_file_has_a_header_a_meaningful_name_and_at_most_500_lines_of_code() {
    let mut problems = Vec::new();
    for file in rust_files() {
        let path = &file.path;
        if !file.text.starts_with("//!") {
            problems.push(format!("{path}: start the file with a `//!` header"));
        }
        let lines = file.code().lines().count();
        if lines > MAX_FILE_LINES {
            problems.push(format!("{path}: {lines} lines; split it"));
        }
        if MEANINGLESS_NAMES.iter().any(|name| path.ends_with(&format!("/{name}"))) {
            problems.push(format!("{path}: name the file after its content"));
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn crates_depend_only_on_the_crates_listed_for_them() {
    let crates = root().join("crates");
    for entry in fs::read_dir(&crates).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let manifest = fs::read_to_string(crates.join(&name).join("Cargo.toml")).unwrap();
        let listed = DEPENDENCIES.iter().find(|(listed, _)| *listed == name);
        let (_, allowed) = listed.unwrap_or_else(|| panic!("{name} is not in DEPENDENCIES"));
        // Tests may depend on any crate.
        let product = manifest.split("[dev-dependencies]").next().unwrap();
        for (other, _) in DEPENDENCIES {
            let depends =
                product.lines().any(|line| line.starts_with(&format!("agent-worker-{other}")));
            assert!(!depends || allowed.contains(&other), "{name} may not depend on {other}");
        }
    }
}

#[test]
fn lib_rs_contains_only_a_header_modules_and_exports() {
    for (name, _) in DEPENDENCIES {
        let path = root().join("crates").join(name).join("src/lib.rs");
        let text = fs::read_to_string(&path).unwrap();
        let code = text.lines().find(|line| {
            line.starts_with("fn ") || line.starts_with("pub fn ") || line.starts_with("impl")
        });
        assert_eq!(code, None, "{}", path.display());
    }
}

#[test]
fn only_the_host_crate_watches_files_with_an_interface_of_one_system() {
    let names = ["inotify::", "kqueue::", "Kqueue::"];
    let found: Vec<String> = rust_files()
        .into_iter()
        .filter(|file| file.is_product() && file.crate_name() != "host")
        .filter(|file| names.iter().any(|name| file.code().contains(name)))
        .map(|file| file.path)
        .collect();
    assert!(found.is_empty(), "use `FileWatch` or `FolderQueue` of crates/host: {found:?}");
}
