//! `edit_file`: exact replacements in a text file, all or none.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    file_access::{MAX_FILE_BYTES, WorkFiles},
    tool_output::{ToolStep, read_arguments},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EditArguments {
    path: String,
    edits: Vec<PassageEdit>,
}

/// A passage and its replacement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PassageEdit {
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

/// Edits a file that the model has read in its present state.
pub(crate) fn edit_file(args: Map<String, Value>, files: &WorkFiles) -> ToolStep<String> {
    let EditArguments { path, edits } = read_arguments(args)?;
    if edits.is_empty() {
        return Err("`edits` is empty".into());
    }
    let target = files.resolve(&path)?;
    let content = files.read_seen(&target)?;
    let Ok(old) = String::from_utf8(content) else {
        return Err(format!("{path} is a binary file").into());
    };
    let (new, replaced) = apply_edits(&old, &edits, &path)?;
    files.write(&target, new.as_bytes())?;
    let passages = if replaced == 1 { "passage" } else { "passages" };
    Ok(format!("replaced {replaced} {passages} in {path}"))
}

/// Returns the text after all edits, and the number of replaced passages.
fn apply_edits(old: &str, edits: &[PassageEdit], path: &str) -> ToolStep<(String, usize)> {
    // The model sees no carriage returns.
    let has_returns = old.contains("\r\n") && !old.replace("\r\n", "").contains('\n');
    let as_in_file = |text: &str| {
        if has_returns && !text.contains('\r') {
            text.replace('\n', "\r\n")
        } else {
            text.to_owned()
        }
    };
    let (mut text, mut replaced) = (old.to_owned(), 0);
    for (place, edit) in edits.iter().enumerate() {
        let (passage, new) = (as_in_file(&edit.old_string), as_in_file(&edit.new_string));
        let which = match edits.len() {
            1 => "old_string".to_owned(),
            _ => format!("old_string of edit {}", place + 1),
        };
        if passage.is_empty() {
            return Err(format!("{which} is empty; write_file writes a whole file").into());
        }
        if passage == new {
            return Err(format!("{which} equals its new_string").into());
        }
        let count = text.matches(&passage).count();
        // Checked before the replacement: a few edits that double a passage would fill the memory.
        let added = count.saturating_mul(new.len().saturating_sub(passage.len()));
        let size = u64::try_from(text.len().saturating_add(added)).unwrap_or(u64::MAX);
        if size > MAX_FILE_BYTES {
            let why = format!(
                "{path} would have {size} bytes, more than {MAX_FILE_BYTES}; nothing was changed. Change it with bash"
            );
            return Err(why.into());
        }
        match (count, edit.replace_all) {
            (0, _) => {
                let why = format!(
                    "{which} does not occur in {path}; nothing was changed. Copy it exactly, without line numbers"
                );
                return Err(why.into());
            }
            (1, _) | (_, true) => text = text.replace(&passage, &new),
            (count, false) => {
                let why = format!(
                    "{which} occurs {count} times in {path}; nothing was changed. Add lines around it, or set \
                     replace_all"
                );
                return Err(why.into());
            }
        }
        replaced += count;
    }
    Ok((text, replaced))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::tool_output::ToolError;

    /// Edits a file with this content, and returns its new content with the result.
    fn edit(content: &str, edits: &Value) -> (String, ToolStep<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, content).unwrap();
        let files = WorkFiles::new(folder.path().to_owned());
        files.read(&path).unwrap();
        let args = json!({"path": "x", "edits": edits});
        let done = edit_file(serde_json::from_value(args).unwrap(), &files);
        (fs::read_to_string(path).unwrap(), done)
    }

    #[test]
    fn edits_apply_in_order() {
        let edits = json!([
            {"old_string": "a", "new_string": "bb"},
            {"old_string": "b", "new_string": "c", "replace_all": true},
        ]);
        let done = Ok("replaced 4 passages in x".to_owned());
        assert_eq!(edit("a b", &edits), ("cc c".to_owned(), done));
        let lines = json!([{"old_string": "a\nb", "new_string": "a\nc"}]);
        assert_eq!(edit("a\r\nb\r\n", &lines).0, "a\r\nc\r\n", "line ends are kept");
    }

    #[test]
    fn an_edit_that_does_not_fit_changes_nothing_and_says_how_often_it_occurs() {
        for (edits, part) in [
            (json!([{"old_string": "z", "new_string": "y"}]), "old_string does not occur in x"),
            (json!([{"old_string": "a", "new_string": "y"}]), "old_string occurs 2 times in x"),
            (json!([{"old_string": "", "new_string": "y"}]), "is empty"),
            (json!([{"old_string": "a", "new_string": "a"}]), "equals its new_string"),
            (
                json!([{"old_string": "b", "new_string": "y"}, {"old_string": "b", "new_string": "z"}]),
                "old_string of edit 2 does not occur in x",
            ),
            (json!([]), "`edits` is empty"),
        ] {
            let (content, done) = edit("a a b", &edits);
            let ToolError(why) = done.unwrap_err();
            assert!(why.contains(part), "{why}");
            assert_eq!(content, "a a b");
        }
    }

    #[test]
    fn edits_that_make_a_file_too_large_change_nothing() {
        let doubled = json!({"old_string": "a", "new_string": "aa", "replace_all": true});
        let (content, done) = edit(&"a".repeat(1024), &vec![doubled; 15].into());
        let ToolError(why) = done.unwrap_err();
        assert!(why.contains("more than 16777216; nothing was changed"), "{why}");
        assert_eq!(content.len(), 1024);
    }

    #[test]
    fn a_file_that_was_not_read_or_changed_since_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "a").unwrap();
        let files = WorkFiles::new(folder.path().to_owned());
        let edit = |old: &str, new: &str| {
            let args = json!({"path": "x", "edits": [{"old_string": old, "new_string": new}]});
            edit_file(serde_json::from_value(args).unwrap(), &files)
        };
        let ToolError(why) = edit("a", "b").unwrap_err();
        assert!(why.ends_with("x was not read in this turn; read it first"), "{why}");
        files.read(&path).unwrap();
        assert!(edit("a", "b").is_ok() && edit("b", "c").is_ok(), "its own edits are known");
        fs::write(&path, "c by a person").unwrap();
        let ToolError(why) = edit("c", "d").unwrap_err();
        assert!(why.ends_with("x changed since it was read; read it again"), "{why}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "c by a person");
    }
}
