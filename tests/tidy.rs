//! The house rules that neither rustc nor clippy can check.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::{
    fs,
    path::{Path, PathBuf},
};

const LONGEST_FILE: usize = 500;
const NAMES_THAT_MEAN_NOTHING: [&str; 7] =
    ["utils.rs", "util.rs", "helpers.rs", "common.rs", "misc.rs", "manager.rs", "service.rs"];

/// Which rooms a room may open the door to. Nothing else is allowed.
const DOORS: [(&str, &[&str]); 8] = [
    ("protocol", &[]),
    ("host", &["protocol"]),
    ("store", &["protocol"]),
    ("workflow", &["protocol"]),
    ("kernel", &["protocol", "store", "workflow"]),
    ("daemon", &["protocol", "host", "store", "kernel"]),
    ("worker", &["protocol", "host"]),
    ("cli", &["protocol", "host", "workflow"]),
];

#[test]
fn every_file_says_what_it_is_and_is_short_enough_to_read() {
    let mut complaints = Vec::new();
    for path in rust_files(Path::new(env!("CARGO_MANIFEST_DIR"))) {
        let text = fs::read_to_string(&path).unwrap();
        let shown = path.display();
        let code = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or(&text);
        let lines = code.lines().count();
        if !text.starts_with("//!") {
            complaints
                .push(format!("{shown}: the first line must say what this file is (`//! ...`)"));
        }
        if lines > LONGEST_FILE {
            complaints.push(format!("{shown}: {lines} lines; find the seam and split it"));
        }
        if NAMES_THAT_MEAN_NOTHING.iter().any(|name| path.ends_with(name)) {
            complaints.push(format!("{shown}: name the file after what is in it"));
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn rooms_open_only_the_doors_they_are_given() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let rooms = fs::read_dir(&crates).unwrap().map(|room| room.unwrap().file_name());
    for room in rooms {
        let room = room.into_string().unwrap();
        let manifest = fs::read_to_string(crates.join(&room).join("Cargo.toml")).unwrap();
        let (_, allowed) = DOORS.iter().find(|(name, _)| *name == room).unwrap();
        // What a room's tests open is their own affair.
        let own = manifest.split("[dev-dependencies]").next().unwrap();
        for (other, _) in DOORS {
            let opens = own.lines().any(|line| line.starts_with(&format!("agent-worker-{other}")));
            assert!(!opens || allowed.contains(&other), "{room} may not depend on {other}");
        }
    }
}

#[test]
fn a_room_has_one_door() {
    for (room, _) in DOORS {
        let lib =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(room).join("src/lib.rs");
        let text = fs::read_to_string(&lib).unwrap();
        let stray = text.lines().find(|line| {
            line.starts_with("fn ") || line.starts_with("pub fn ") || line.starts_with("impl")
        });
        assert_eq!(stray, None, "{}: a header, private mods and a list of names", lib.display());
    }
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() && !path.ends_with("target") && !hidden {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}
