//! Reads the source files of the workspace.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// One Rust file of the workspace.
pub(crate) struct SourceFile {
    /// Path from the root of the workspace.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl SourceFile {
    /// Returns the text before the unit tests at the end of the file.
    pub(crate) fn code(&self) -> &str {
        self.text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or(&self.text)
    }

    /// Returns true if the file is compiled into a crate, not only into its tests.
    pub(crate) fn is_product(&self) -> bool {
        let in_crate = self.path.starts_with("crates/") || self.path.starts_with("src/");
        let in_tests =
            ["/tests/", "/benches/", "/examples/"].iter().any(|dir| self.path.contains(dir));
        in_crate && !in_tests && !self.path.ends_with("/tests.rs")
    }

    /// The name of the file's crate, or of the top-level folder.
    pub(crate) fn crate_name(&self) -> &str {
        let path = self.path.strip_prefix("crates/").unwrap_or(&self.path);
        path.split('/').next().unwrap_or_default()
    }

    /// The documentation lines with their line numbers, without the leading slashes.
    pub(crate) fn doc_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().filter_map(|(index, line)| {
            let line = line.trim_start();
            let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
            Some((index + 1, doc.trim()))
        })
    }
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every Rust file of the workspace.
pub(crate) fn rust_files() -> Vec<SourceFile> {
    let read =
        |path: String| SourceFile { text: fs::read_to_string(root().join(&path)).unwrap(), path };
    files(&["rs"]).into_iter().map(read).collect()
}

/// Returns the paths of the documents and YAML files, from the root of the workspace.
pub(crate) fn text_files() -> Vec<String> {
    files(&["md", "yaml"]).into_iter().filter(|path| !path.starts_with("tests/")).collect()
}

/// Returns the paths of all files with one of the extensions, sorted.
fn files(extensions: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    collect(root(), extensions, &mut found);
    found.sort();
    found.iter().map(|path| path.strip_prefix(root()).unwrap().display().to_string()).collect()
}

fn collect(folder: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() && !path.ends_with("target") && !hidden {
            collect(&path, extensions, found);
        } else if path.extension().is_some_and(|name| extensions.iter().any(|known| name == *known))
        {
            found.push(path);
        }
    }
}
