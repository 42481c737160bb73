//! `list_files`: the files below a folder.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    file_access::WorkFiles,
    file_walk::{MAX_VISITED, PathGlob, shown_path, walk},
    tool_output::{MAX_RESULT_BYTES, ToolStep, read_arguments},
};

const DEFAULT_FILES: usize = 500;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    path: Option<String>,
    pattern: Option<String>,
    limit: Option<usize>,
}

/// Lists the files below a folder.
pub(crate) fn list_files(
    args: Map<String, Value>,
    files: &WorkFiles,
    cancelled: &CancellationToken,
) -> ToolStep<String> {
    let ListArguments { path, pattern, limit } = read_arguments(args)?;
    let root = files.resolve(path.as_deref().unwrap_or("."))?;
    if !root.is_dir() {
        return Err(format!("{} is not a folder", root.display()).into());
    }
    let glob = pattern.as_deref().map(PathGlob::new).transpose()?;
    let limit = limit.unwrap_or(DEFAULT_FILES);
    let (mut shown, mut listed, mut left_out) = (String::new(), 0, 0_usize);
    for (visited, entry) in walk(&root).flatten().enumerate() {
        if cancelled.is_cancelled() {
            return Err("the call was cancelled".into());
        }
        if visited >= MAX_VISITED {
            let _ = writeln!(shown, "[stopped after {MAX_VISITED} entries; name a folder below]");
            break;
        }
        let is_file = entry.file_type().is_some_and(|kind| !kind.is_dir());
        if !is_file || glob.as_ref().is_some_and(|glob| !glob.matches(&root, entry.path())) {
            continue;
        }
        if listed >= limit || shown.len() >= MAX_RESULT_BYTES {
            left_out += 1;
            continue;
        }
        listed += 1;
        shown += &shown_path(entry.path(), files.folder());
        shown.push('\n');
    }
    if left_out > 0 {
        let _ = writeln!(shown, "[{left_out} more; name a folder or a narrower pattern]");
    }
    Ok(if shown.is_empty() { "no files".to_owned() } else { shown })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    #[test]
    fn files_that_git_ignores_are_left_out_and_a_glob_selects() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["src/a.rs", "src/deep/b.rs", "target/c.rs", "README.md", ".git/config", ".env"]
        {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::write(folder.path().join(".gitignore"), "target\n").unwrap();
        let files = WorkFiles::new(folder.path().to_owned());
        let list = |args: Value| {
            let args = serde_json::from_value(args).unwrap();
            list_files(args, &files, &CancellationToken::new())
        };
        let all = ".env\n.gitignore\nREADME.md\nsrc/a.rs\nsrc/deep/b.rs\n";
        assert_eq!(list(json!({})), Ok(all.to_owned()));
        for (args, expected) in [
            (json!({"pattern": "*.rs"}), "src/a.rs\nsrc/deep/b.rs\n"),
            (json!({"pattern": "src/*.rs"}), "src/a.rs\n"),
            (json!({"pattern": "src/**/*.rs"}), "src/a.rs\nsrc/deep/b.rs\n"),
            (json!({"path": "src", "pattern": "deep/*"}), "src/deep/b.rs\n"),
            (json!({"pattern": "*.py"}), "no files"),
            (
                json!({"limit": 3}),
                ".env\n.gitignore\nREADME.md\n[2 more; name a folder or a narrower pattern]\n",
            ),
        ] {
            assert_eq!(list(args.clone()), Ok(expected.to_owned()), "{args}");
        }
        for args in
            [json!({"pattern": "../*"}), json!({"pattern": "/etc/*"}), json!({"path": "README.md"})]
        {
            assert!(list(args.clone()).is_err(), "{args}");
        }
    }
}
