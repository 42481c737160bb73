//! The names of arguments, by kind of call. The table in `docs/reference/permissions.md` lists the same names.
//!
//! A name that is not listed may change the call in any way, so that no `allow` pattern with brackets accepts it.

use agent_worker_backends::{BuiltinEffect, builtin_tool};

/// The kind of a call, which decides the meaning of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    Command,
    Files,
    Search,
    Fetch,
}

/// The place of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentPlace {
    Top,
    /// In a list or an object.
    Item,
}

/// The meaning of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArgumentUse {
    Command,
    /// Arguments of the program that the command names.
    ProgramArguments,
    /// The folder in which a command runs.
    Folder,
    Path,
    /// A list of items, or an object with one item per path.
    ItemsByPath,
    Url,
    /// A text that may name a further URL.
    Prompt,
    /// A pattern of names of files, relative to the path of the call.
    FilePattern,
    /// A value that does not change the subject of the call. Lists and objects in it are searched.
    Harmless,
    Unknown,
}

const FOLDERS: [&str; 5] = ["cwd", "dir_path", "directory", "workdir", "working_directory"];
const PATHS: [&str; 20] = [
    "absolute_path",
    "destination",
    "dir_path",
    "filePath",
    "file_path",
    "filepath",
    "files",
    "movePath",
    "move_path",
    "newPath",
    "new_path",
    "notebook_path",
    "oldPath",
    "old_path",
    "path",
    "paths",
    "relativePath",
    "source",
    "target_file",
    "uri",
];
const URLS: [&str; 3] = ["uri", "url", "urls"];

/// Names without meaning for the subject, in calls of every kind. `content` and `locations` are fields of the protocol.
const HARMLESS: [&str; 7] =
    ["content", "description", "locations", "offset", "reason", "timeout", "title"];
const COMMAND_HARMLESS: [&str; 2] = ["is_background", "run_in_background"];
const FILES_HARMLESS: [&str; 22] = [
    "allow_large",
    "call_id",
    "cell_id",
    "cell_type",
    "contents",
    "diff",
    "edit_mode",
    "edits",
    "end_line",
    "expected_replacements",
    "instruction",
    "limit",
    "newString",
    "new_source",
    "new_string",
    "oldString",
    "old_string",
    "pages",
    "replaceAll",
    "replace_all",
    "start_line",
    "turn_id",
];
const SEARCH_HARMLESS: [&str; 16] = [
    "-A",
    "-B",
    "-C",
    "-i",
    "-n",
    "-o",
    "case_sensitive",
    "context",
    "glob",
    "head_limit",
    "ignore",
    "include",
    "limit",
    "multiline",
    "output_mode",
    "type",
];
const FETCH_HARMLESS: [&str; 1] = ["format"];
/// Names in the items of lists: those of the protocol, of Codex and of opencode.
const ITEM_HARMLESS: [&str; 17] = [
    "_meta",
    "add",
    "additions",
    "after",
    "before",
    "content",
    "delete",
    "deletions",
    "kind",
    "line",
    "newText",
    "oldText",
    "terminalId",
    "text",
    "type",
    "unified_diff",
    "update",
];

impl CallKind {
    /// Returns the kind of a call: by the name of the tool, else by its arguments.
    pub(super) fn of(tool: &str, has_argument: impl Fn(&str) -> bool) -> Self {
        match builtin_tool(tool).map(|row| row.effect) {
            Some(BuiltinEffect::Runs | BuiltinEffect::Follows) => return Self::Command,
            Some(BuiltinEffect::Edits) => return Self::Files,
            Some(BuiltinEffect::Fetches) => return Self::Fetch,
            Some(BuiltinEffect::Reads) if tool == "read_file" => return Self::Files,
            Some(BuiltinEffect::Reads) => return Self::Search,
            None => {}
        }
        match tool {
            "execute" | "Bash" => Self::Command,
            "delete" | "edit" | "move" | "read" | "Edit" | "MultiEdit" | "NotebookEdit"
            | "Read" | "Write" => Self::Files,
            "search" | "Glob" | "Grep" | "LS" => Self::Search,
            "fetch" | "WebFetch" => Self::Fetch,
            _ if has_argument("command") => Self::Command,
            _ if has_argument("url") => Self::Fetch,
            _ => Self::Files,
        }
    }

    /// Returns the meaning of an argument of `tool`.
    pub(super) fn use_of(self, tool: &str, name: &str, place: ArgumentPlace) -> ArgumentUse {
        let is_item = place == ArgumentPlace::Item;
        let own_harmless: &[&str] = match self {
            Self::Command => &COMMAND_HARMLESS,
            Self::Files => &FILES_HARMLESS,
            Self::Search => &SEARCH_HARMLESS,
            Self::Fetch => &FETCH_HARMLESS,
        };
        let is_about_files = matches!(self, Self::Files | Self::Search);
        match (self, name) {
            (Self::Command, "command") if !is_item => ArgumentUse::Command,
            (Self::Command, "args") if !is_item => ArgumentUse::ProgramArguments,
            (Self::Command, name) if !is_item && FOLDERS.contains(&name) => ArgumentUse::Folder,
            // A command does not act on the places that an agent shows for it.
            (Self::Command | Self::Fetch, "path") if is_item => ArgumentUse::Harmless,
            (Self::Fetch, name) if URLS.contains(&name) => ArgumentUse::Url,
            (Self::Fetch, "prompt") if tool == "WebFetch" => ArgumentUse::Harmless,
            (Self::Fetch, "prompt") => ArgumentUse::Prompt,
            (Self::Files, "changes") => ArgumentUse::ItemsByPath,
            // The pattern of `Grep` is compared with the content of files.
            (Self::Search, "pattern") if ["Grep", "search_code"].contains(&tool) => {
                ArgumentUse::Harmless
            }
            (Self::Search, "pattern") => ArgumentUse::FilePattern,
            (_, name) if is_about_files && PATHS.contains(&name) => ArgumentUse::Path,
            (_, name) if HARMLESS.contains(&name) || own_harmless.contains(&name) => {
                ArgumentUse::Harmless
            }
            (_, name) if is_item && ITEM_HARMLESS.contains(&name) => ArgumentUse::Harmless,
            _ => ArgumentUse::Unknown,
        }
    }
}
