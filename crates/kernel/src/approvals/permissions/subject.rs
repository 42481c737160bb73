//! The subjects of a call: the command, the paths and the addresses in its arguments. Pure.
//!
//! Invariant: an argument that is neither a subject nor harmless is noted, so that no `allow` pattern with brackets
//! accepts the call; `deny` and `ask` search its texts.

use std::borrow::Cow;

use serde_json::Value;
use url::Url;

use super::{
    PathContext,
    arguments::{ArgumentPlace, ArgumentUse, CallKind},
    command::quoted_line,
    path::CallPath,
};

/// Maximum length in bytes of all commands that are read. A search of longer ones would occupy the daemon for seconds.
const MAX_COMMAND_BYTES: usize = 64 * 1024;
/// Maximum number of subjects of a call.
const MAX_SUBJECTS: usize = 1000;
/// Stands for a working folder that is no text.
const UNKNOWN_FOLDER: &str = "?";
/// Kinds of calls of the Agent Client Protocol. Without a known subject they may be about any.
const KINDS_WITH_SUBJECT: [&str; 6] = ["delete", "edit", "execute", "fetch", "move", "read"];

/// The subject of a call. A call may have several.
pub(super) enum CallSubject<'a> {
    Command(Cow<'a, str>),
    Path(CallPath),
    Url(&'a str),
    /// A subject that cannot be determined.
    Unknown,
}

/// The subjects of a call.
#[derive(Default)]
pub(super) struct CallSubjects<'a> {
    pub(super) named: Vec<CallSubject<'a>>,
    /// Texts that may be subjects.
    pub(super) suspected: Vec<CallSubject<'a>>,
    /// True if an argument may change the call in a way that its subjects do not show.
    pub(super) has_unknown_argument: bool,
    /// A working folder of the call that is outside of the agent's.
    pub(super) outside_folder: Option<&'a str>,
}

/// Returns the subjects of a call of `tool`.
pub(super) fn call_subjects<'a>(
    tool: &'a str,
    args: &'a Value,
    here: &PathContext<'_>,
) -> CallSubjects<'a> {
    let kind = CallKind::of(tool, |name| given(args, name).is_some());
    let mut reader =
        ArgumentReader { tool, kind, here, found: CallSubjects::default(), command_bytes: 0 };
    reader.read_command(args);
    match args {
        Value::Object(fields) => {
            for (name, value) in fields {
                reader.read_argument(name, value, ArgumentPlace::Top);
            }
        }
        other => reader.suspect(other),
    }
    let mut found = reader.found;
    if KINDS_WITH_SUBJECT.contains(&tool) && found.named.is_empty()
        || found.named.len() + found.suspected.len() > MAX_SUBJECTS
    {
        found.suspected = vec![CallSubject::Unknown];
        found.has_unknown_argument = true;
    }
    found
}

/// Returns an argument, unless it is null.
pub(super) fn given<'a>(args: &'a Value, name: &str) -> Option<&'a Value> {
    args.get(name).filter(|value| !value.is_null())
}

/// Collects the subjects of one call.
struct ArgumentReader<'a, 'h> {
    tool: &'a str,
    kind: CallKind,
    here: &'h PathContext<'h>,
    found: CallSubjects<'a>,
    command_bytes: usize,
}

impl<'a> ArgumentReader<'a, '_> {
    fn read_command(&mut self, args: &'a Value) {
        let command = given(args, "command").filter(|_| self.kind == CallKind::Command);
        let Some(command) = command else { return };
        let line = command_line(command, given(args, "args"));
        let subject = self.command_subject(line);
        self.found.named.push(subject);
    }

    fn read_argument(&mut self, name: &'a str, value: &'a Value, place: ArgumentPlace) {
        if value.is_null() || self.found.named.len() > MAX_SUBJECTS {
            return;
        }
        match self.kind.use_of(self.tool, name, place) {
            ArgumentUse::ProgramArguments if self.found.named.is_empty() => self.suspect(value),
            // `read_command` has read both.
            ArgumentUse::Command | ArgumentUse::ProgramArguments => {}
            ArgumentUse::Folder => self.read_folder(value.as_str()),
            ArgumentUse::Path => self.read_paths(name, value),
            ArgumentUse::ItemsByPath => self.read_items_by_path(value),
            ArgumentUse::Url => self.read_urls(value),
            ArgumentUse::Prompt => self.read_prompt(value),
            ArgumentUse::FilePattern => self.read_file_pattern(value),
            ArgumentUse::Harmless => self.read_harmless(value),
            ArgumentUse::Unknown => {
                if place == ArgumentPlace::Item && self.is_about_files() {
                    self.suspect_text(name);
                }
                self.suspect(value);
            }
        }
    }

    fn is_about_files(&self) -> bool {
        matches!(self.kind, CallKind::Files | CallKind::Search)
    }

    /// Notes a folder in which a command runs. Elsewhere the words of the command mean something else.
    fn read_folder(&mut self, folder: Option<&'a str>) {
        let path = folder.and_then(|folder| CallPath::new(folder, self.here));
        let is_inside = path.is_some_and(|path| path.is_in_working_folder(self.here));
        if !is_inside {
            self.found.has_unknown_argument = true;
            self.found.outside_folder = folder.or(Some(UNKNOWN_FOLDER));
        }
    }

    fn read_paths(&mut self, name: &str, value: &'a Value) {
        match value {
            Value::String(path) => {
                let paths = path_subjects(name, path, self.here);
                self.found.named.extend(paths);
            }
            Value::Array(items) if name.ends_with('s') => {
                // One more than the maximum is enough to refuse the call.
                for item in items.iter().take(MAX_SUBJECTS + 1) {
                    self.read_paths(name, item);
                }
            }
            Value::Object(_) if name == "files" => self.read_harmless(value),
            _ => self.found.named.push(CallSubject::Unknown),
        }
    }

    fn read_items_by_path(&mut self, value: &'a Value) {
        let Value::Object(items) = value else { return self.read_harmless(value) };
        for (name, item) in items {
            if item.is_object() || item.is_array() {
                let paths = path_subjects("path", name, self.here);
                self.found.named.extend(paths);
                self.read_harmless(item);
            } else {
                self.read_argument(name, item, ArgumentPlace::Item);
            }
        }
    }

    fn read_urls(&mut self, value: &'a Value) {
        match value {
            Value::String(url) => self.found.named.push(CallSubject::Url(url)),
            Value::Array(items) => items.iter().for_each(|item| self.read_urls(item)),
            _ => self.found.named.push(CallSubject::Unknown),
        }
    }

    fn read_prompt(&mut self, value: &'a Value) {
        let names_url = value.as_str().is_none_or(|text| text.contains("://"));
        if names_url {
            self.suspect(value);
        }
    }

    /// A pattern that leaves the path of the call is a path of its own.
    fn read_file_pattern(&mut self, value: &'a Value) {
        match value.as_str() {
            Some(text) if text.starts_with(['/', '~']) || text.contains("..") => {
                self.read_paths("pattern", value);
            }
            Some(_) => {}
            None => self.suspect(value),
        }
    }

    /// Searches the lists and objects in a value that does not matter itself.
    fn read_harmless(&mut self, value: &'a Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.read_harmless(item)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    self.read_argument(name, value, ArgumentPlace::Item);
                }
            }
            // Gemini shows the folder of a command in this way.
            Value::String(text) if self.kind == CallKind::Command && text.starts_with("[in ") => {
                self.read_folder(shown_folder(text));
            }
            Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {}
        }
    }

    /// Notes a value with an unknown meaning.
    fn suspect(&mut self, value: &'a Value) {
        self.found.has_unknown_argument = true;
        if self.found.suspected.len() > MAX_SUBJECTS {
            return;
        }
        match value {
            Value::String(text) => self.suspect_text(text),
            Value::Array(items) => {
                let words: Option<Vec<_>> = items.iter().map(Value::as_str).collect();
                if let Some(words) = words.filter(|_| self.kind == CallKind::Command) {
                    let line = self.command_subject(Some(Cow::Owned(quoted_line(&words))));
                    self.found.suspected.push(line);
                }
                for item in items {
                    self.suspect(item);
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    if self.is_about_files() {
                        self.suspect_text(name);
                    }
                    self.suspect(value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn suspect_text(&mut self, text: &'a str) {
        match self.kind {
            CallKind::Command => {
                let line = self.command_subject(Some(Cow::Borrowed(text)));
                self.found.suspected.push(line);
            }
            // A patch names its files inside of the text.
            CallKind::Files | CallKind::Search if text.contains('\n') => {
                self.found.suspected.push(CallSubject::Unknown);
            }
            CallKind::Files | CallKind::Search => {
                self.found.suspected.extend(path_subjects("", text, self.here));
            }
            CallKind::Fetch => {
                let urls = text.split_whitespace().filter(|word| word.contains("://"));
                self.found.suspected.extend(urls.map(CallSubject::Url));
            }
        }
    }

    fn command_subject(&mut self, line: Option<Cow<'a, str>>) -> CallSubject<'a> {
        self.command_bytes += line.as_ref().map_or(0, |line| line.len());
        line.filter(|_| self.command_bytes <= MAX_COMMAND_BYTES)
            .map_or(CallSubject::Unknown, CallSubject::Command)
    }
}

/// Returns the folder in `[in folder]`, if no other text can be part of it.
fn shown_folder(text: &str) -> Option<&str> {
    let (folder, rest) = text.strip_prefix("[in ")?.split_once(']')?;
    (rest.is_empty() || rest.starts_with(" (") || rest == " [background]").then_some(folder)
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

/// Returns every path that a program may read in a text: the text itself, and the path of a `file:` URI.
fn path_subjects<'a>(name: &str, text: &str, here: &PathContext<'_>) -> Vec<CallSubject<'a>> {
    let resolve =
        |path: &str| CallPath::new(path, here).map_or(CallSubject::Unknown, CallSubject::Path);
    let decode = |text: &str| {
        percent_encoding::percent_decode_str(text).decode_utf8().map(Cow::into_owned).ok()
    };
    let mut paths = vec![resolve(text)];
    match Url::parse(text) {
        Ok(uri) if uri.scheme() == "file" => {
            let path = uri.to_file_path().ok().and_then(|path| path.to_str().map(str::to_owned));
            paths.push(path.map_or(CallSubject::Unknown, |path| resolve(&path)));
            // Some programs only remove the scheme.
            let rest = text.trim().get("file://".len()..).filter(|rest| rest.starts_with('/'));
            let rests = rest.map(|rest| [Some(rest.to_owned()), decode(rest)]);
            for rest in rests.into_iter().flatten() {
                paths.push(rest.map_or(CallSubject::Unknown, |rest| resolve(&rest)));
            }
        }
        Ok(_) | Err(_) if text.contains("://") => paths.push(CallSubject::Unknown),
        Ok(_) | Err(_) if name == "uri" => {
            paths.push(decode(text).map_or(CallSubject::Unknown, |path| resolve(&path)));
        }
        Ok(_) | Err(_) => {}
    }
    paths
}

#[cfg(test)]
mod tests;
