//! A tool call of an agent on one line: `Edit src/main.rs`, `Bash git diff`. Pure.
//!
//! The texts are those of the agent: the caller sanitizes or escapes them.

use std::{borrow::Cow, path::Path};

use serde_json::Value;

/// Arguments that name the subject of a call, the most telling first.
const SUBJECT_ARGUMENTS: [&str; 20] = [
    "command",
    "cmd",
    "file_path",
    "path",
    "notebook_path",
    "filePath",
    "absolute_path",
    "target_file",
    "url",
    "uri",
    "pattern",
    "query",
    "file",
    "message",
    "question",
    "answer",
    "description",
    "prompt",
    "title",
    "name",
];

/// Returns a call as its tool and its subject; paths below `folder` are relative to it.
pub(crate) fn call_text(tool: &str, args: &Value, folder: &Path) -> String {
    match call_subject(args, folder) {
        Some(subject) => format!("{tool} {subject}"),
        None => tool.to_owned(),
    }
}

/// Returns the command, the path or the text that a call is about, if its arguments name one.
fn call_subject<'a>(args: &'a Value, folder: &Path) -> Option<Cow<'a, str>> {
    let named = SUBJECT_ARGUMENTS.iter().find_map(|name| subject_text(args.get(name)?));
    named.or_else(|| changed_paths(args.get("changes")?)).map(|subject| relative(subject, folder))
}

fn subject_text(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(Cow::Borrowed(text.trim())),
        Value::Array(words) => {
            let words: Option<Vec<_>> = words.iter().map(Value::as_str).collect();
            words.filter(|words| !words.is_empty()).map(|words| Cow::Owned(words.join(" ")))
        }
        _ => None,
    }
}

/// Returns the first path of a change of several files, with the number of further ones.
fn changed_paths(changes: &Value) -> Option<Cow<'_, str>> {
    let paths: Vec<&str> = match changes {
        Value::Array(items) => items.iter().filter_map(|item| item["path"].as_str()).collect(),
        Value::Object(items) => items.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    match paths.as_slice() {
        [] => None,
        [only] => Some(Cow::Borrowed(only)),
        [first, more @ ..] => Some(Cow::Owned(format!("{first} +{}", more.len()))),
    }
}

fn relative<'a>(subject: Cow<'a, str>, folder: &Path) -> Cow<'a, str> {
    let below = folder.to_str().and_then(|folder| subject.strip_prefix(folder)?.strip_prefix('/'));
    match below {
        Some(below) if !below.is_empty() => Cow::Owned(below.to_owned()),
        Some(_) | None => subject,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_named_by_its_tool_and_its_subject() {
        for (tool, args, expected) in [
            ("Bash", json!({"command": "git diff", "description": "x"}), "Bash git diff"),
            ("execute", json!({"command": ["git", "diff"]}), "execute git diff"),
            ("Edit", json!({"file_path": "/p/src/main.rs", "old_string": "a"}), "Edit src/main.rs"),
            ("Read", json!({"file_path": "/q/x"}), "Read /q/x"),
            ("Read", json!({"file_path": "/p"}), "Read /p"),
            ("edit", json!({"changes": [{"path": "/p/a"}, {"path": "b"}]}), "edit a +1"),
            ("edit", json!({"changes": {"src/a": {}}}), "edit src/a"),
            ("Grep", json!({"pattern": "fn main", "glob": "*.rs"}), "Grep fn main"),
            ("channel_send", json!({"message": "@lead done"}), "channel_send @lead done"),
            ("inbox_check", json!({}), "inbox_check"),
            ("odd", json!({"command": 7, "path": " "}), "odd"),
            ("odd", json!("text"), "odd"),
        ] {
            assert_eq!(call_text(tool, &args, Path::new("/p")), expected);
        }
    }
}
