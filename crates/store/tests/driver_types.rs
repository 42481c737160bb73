//! The database driver stays behind `src/db/`: no other source file of this crate names it.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    path::{Path, PathBuf},
};

fn source_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { source_files(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

#[test]
fn no_type_of_the_database_driver_is_named_outside_db() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = source_files(&source);
    let names_driver = |path: &&PathBuf| fs::read_to_string(path).unwrap().contains("rusqlite");
    let named: Vec<_> = files.iter().filter(names_driver).collect();
    let (inside, outside): (Vec<_>, Vec<_>) =
        named.into_iter().partition(|path| path.starts_with(source.join("db")));
    assert!(outside.is_empty(), "rusqlite is named outside src/db/: {outside:?}");
    assert!(!inside.is_empty(), "src/db/ names the driver: the walk reads these files");
}

/// Spellings that only SQLite understands, or understands in its own way.
const SQLITE_ONLY: [&str; 6] =
    ["INSERT OR ", "iif(", ".rowid", "<< 62", "ifnull(", "last_insert_rowid"];

#[test]
fn the_statements_of_the_operations_are_portable() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sql");
    for path in source_files(&folder) {
        let text = fs::read_to_string(&path).unwrap();
        let statements = text.split('"').skip(1).step_by(2);
        for statement in statements {
            for spelling in SQLITE_ONLY {
                assert!(!statement.contains(spelling), "{}: `{spelling}`", path.display());
            }
        }
    }
}
