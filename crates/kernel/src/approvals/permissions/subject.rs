//! The subjects of a call: the command, the paths and the address in its arguments. Pure.

use std::borrow::Cow;

use serde_json::Value;

use super::{PathContext, command::quoted_line, path::CallPath};

const COMMAND_ARGUMENT: &str = "command";
/// Maximum length in bytes of a command that is read. A search of a longer one would occupy the daemon for seconds.
const MAX_COMMAND_BYTES: usize = 64 * 1024;
/// Arguments of the program that `command` names.
const PROGRAM_ARGUMENTS: &str = "args";
/// Names of the folder in which a command runs.
const FOLDER_ARGUMENTS: [&str; 4] = ["cwd", "directory", "workdir", "working_directory"];
const PATH_ARGUMENTS: [&str; 6] =
    ["absolute_path", "filePath", "file_path", "filepath", "notebook_path", "path"];
/// Further names of paths, in calls of [`FILE_KINDS`].
const FILE_ARGUMENTS: [&str; 9] = [
    "destination",
    "dir_path",
    "newPath",
    "new_path",
    "oldPath",
    "old_path",
    "source",
    "target_file",
    "uri",
];
/// Lists of the Agent Client Protocol whose items name a path.
const PATH_LISTS: [&str; 3] = ["changes", "content", "locations"];
const URL_ARGUMENT: &str = "url";

/// Kinds of calls of the Agent Client Protocol that are about files. Without a path they may be about any file.
const FILE_KINDS: [&str; 4] = ["delete", "edit", "move", "read"];
/// Kinds whose patterns name no path.
const PATHLESS_KINDS: [&str; 2] = ["execute", "fetch"];

/// The subject of a call. A call may have several.
pub(super) enum CallSubject<'a> {
    Command(Cow<'a, str>),
    Path(CallPath),
    Url(&'a str),
    /// A command runs outside of the agent's working folder, so that its words mean something else there.
    ForeignFolder,
    /// A subject that cannot be determined.
    Unknown,
}

/// Returns the subjects of a call of `tool`.
pub(super) fn call_subjects<'a>(
    tool: &str,
    args: &'a Value,
    here: &PathContext<'_>,
) -> Vec<CallSubject<'a>> {
    let mut subjects: Vec<_> = command_subjects(args, here);
    let url = given(args, URL_ARGUMENT);
    subjects.extend(url.map(|url| url.as_str().map_or(CallSubject::Unknown, CallSubject::Url)));
    let paths = path_subjects(tool, args, here);
    if paths.is_empty() && FILE_KINDS.contains(&tool) {
        subjects.push(CallSubject::Unknown);
    }
    subjects.extend(paths);
    subjects
}

fn given<'a>(args: &'a Value, name: &str) -> Option<&'a Value> {
    args.get(name).filter(|value| !value.is_null())
}

/// Returns the command of a call, and a mark if it runs elsewhere.
fn command_subjects<'a>(args: &'a Value, here: &PathContext<'_>) -> Vec<CallSubject<'a>> {
    let Some(command) = given(args, COMMAND_ARGUMENT) else { return Vec::new() };
    let line = command_line(command, given(args, PROGRAM_ARGUMENTS))
        .filter(|line| line.len() <= MAX_COMMAND_BYTES);
    let is_foreign = |folder: &Value| {
        let path = folder.as_str().and_then(|folder| CallPath::new(folder, here));
        !path.is_some_and(|path| path.is_in_working_folder(here))
    };
    let folders = FOLDER_ARGUMENTS.iter().filter_map(|name| given(args, name));
    let foreign = folders.into_iter().find(|folder| is_foreign(folder));
    std::iter::once(line.map_or(CallSubject::Unknown, CallSubject::Command))
        .chain(foreign.map(|_| CallSubject::ForeignFolder))
        .collect()
}

/// Returns the command line of a line, or of a program with its arguments.
fn command_line<'a>(command: &'a Value, arguments: Option<&Value>) -> Option<Cow<'a, str>> {
    match (command, arguments) {
        (Value::String(line), None) => Some(Cow::Borrowed(line)),
        (Value::String(line), Some(Value::Array(list))) if list.is_empty() => {
            Some(Cow::Borrowed(line))
        }
        (Value::String(program), Some(Value::Array(list))) => {
            let words: Option<Vec<_>> = list.iter().map(Value::as_str).collect();
            Some(Cow::Owned(quoted_line(&[&[program.as_str()], &words?[..]].concat())))
        }
        (Value::Array(list), None) if !list.is_empty() => {
            let words: Option<Vec<_>> = list.iter().map(Value::as_str).collect();
            Some(Cow::Owned(quoted_line(&words?)))
        }
        _ => None,
    }
}

/// Returns every path of a call.
fn path_subjects<'a>(tool: &str, args: &Value, here: &PathContext<'_>) -> Vec<CallSubject<'a>> {
    let file_arguments = if FILE_KINDS.contains(&tool) { &FILE_ARGUMENTS[..] } else { &[] };
    let mut paths: Vec<_> = PATH_ARGUMENTS
        .iter()
        .chain(file_arguments)
        .filter_map(|name| given(args, name).map(Value::as_str))
        .collect();
    if !PATHLESS_KINDS.contains(&tool) {
        paths.extend(PATH_LISTS.iter().filter_map(|name| args.get(name)).flat_map(listed_paths));
    }
    let resolve = |path: Option<&str>| {
        path.and_then(|path| CallPath::new(path, here))
            .map_or(CallSubject::Unknown, CallSubject::Path)
    };
    paths.into_iter().map(resolve).collect()
}

/// Returns the paths in a list of items, or the keys of an object with one item per path. None is no path.
fn listed_paths(list: &Value) -> Vec<Option<&str>> {
    match list {
        Value::Array(items) => items.iter().flat_map(item_paths).collect(),
        Value::Object(items) => items
            .iter()
            .flat_map(|(path, item)| std::iter::once(Some(path.as_str())).chain(item_paths(item)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn item_paths(item: &Value) -> impl Iterator<Item = Option<&str>> {
    let names = ["path", "move_path", "movePath"];
    names.into_iter().filter_map(|name| given(item, name).map(Value::as_str))
}
