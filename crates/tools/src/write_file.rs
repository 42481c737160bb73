//! `write_file`: a whole text file.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    file_access::WorkFiles,
    tool_output::{ToolStep, read_arguments},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteArguments {
    path: String,
    content: String,
}

/// Writes a file. One that exists must have been read in its present state.
pub(crate) fn write_file(args: Map<String, Value>, files: &WorkFiles) -> ToolStep<String> {
    let WriteArguments { path, content } = read_arguments(args)?;
    let target = files.resolve(&path)?;
    let exists = target.symlink_metadata().is_ok() && target.exists();
    if exists {
        files.read_seen(&target)?;
    }
    files.write(&target, content.as_bytes())?;
    let verb = if exists { "replaced" } else { "created" };
    Ok(format!("{verb} {path} ({} bytes)", content.len()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::tool_output::ToolError;

    #[test]
    fn a_new_file_is_created_and_a_file_that_was_not_read_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let files = WorkFiles::new(folder.path().to_owned());
        let write = |path: &str, content: &str| {
            let args = json!({"path": path, "content": content});
            write_file(serde_json::from_value(args).unwrap(), &files)
        };
        assert_eq!(write("a/b/c", "one"), Ok("created a/b/c (3 bytes)".to_owned()));
        assert_eq!(write("a/b/c", "two!"), Ok("replaced a/b/c (4 bytes)".to_owned()));
        fs::write(folder.path().join("other"), "x").unwrap();
        let ToolError(why) = write("other", "y").unwrap_err();
        assert!(why.ends_with("other was not read in this turn; read it first"), "{why}");
        fs::write(folder.path().join("a/b/c"), "by a person").unwrap();
        let ToolError(why) = write("a/b/c", "three").unwrap_err();
        assert!(why.ends_with("c changed since it was read; read it again"), "{why}");
        assert_eq!(fs::read_to_string(folder.path().join("a/b/c")).unwrap(), "by a person");
    }
}
