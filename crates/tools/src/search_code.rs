//! `search_code`: the lines of files that match a regular expression.

use std::{fmt::Write as _, io, path::Path};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    file_access::{MAX_FILE_BYTES, WorkFiles},
    file_walk::{MAX_VISITED, PathGlob, shown_path, walk},
    tool_output::{MAX_RESULT_BYTES, ToolStep, beginning, read_arguments},
};

const DEFAULT_MATCHES: usize = 200;
const MAX_CONTEXT_LINES: usize = 20;
const MAX_LINE_BYTES: usize = 500;
/// Maximum size of a compiled expression.
const MAX_REGEX_BYTES: usize = 10 * 1024 * 1024;
/// Maximum memory for the lines of one search.
const MAX_HEAP_BYTES: usize = 4 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    context: usize,
    case_sensitive: Option<bool>,
    limit: Option<usize>,
}

/// Searches the files below a folder.
pub(crate) fn search_code(
    args: Map<String, Value>,
    files: &WorkFiles,
    cancelled: &CancellationToken,
) -> ToolStep<String> {
    let args: SearchArguments = read_arguments(args)?;
    let root = files.resolve(args.path.as_deref().unwrap_or("."))?;
    if !root.exists() {
        return Err(format!("there is no {}", root.display()).into());
    }
    let glob = args.glob.as_deref().map(PathGlob::new).transpose()?;
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(!args.case_sensitive.unwrap_or(true))
        .line_terminator(Some(b'\n'))
        .size_limit(MAX_REGEX_BYTES)
        .build(&args.pattern)
        .map_err(|error| format!("the pattern is not valid: {error}"))?;
    let context = args.context.min(MAX_CONTEXT_LINES);
    let mut searcher = SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(0))
        .before_context(context)
        .after_context(context)
        .heap_limit(Some(MAX_HEAP_BYTES))
        .build();
    let mut found = FoundLines {
        text: String::new(),
        path: String::new(),
        matches: 0,
        limit: args.limit.unwrap_or(DEFAULT_MATCHES).max(1),
        is_full: false,
    };
    let mut unread = 0_usize;
    for (visited, entry) in walk(&root).flatten().enumerate() {
        if cancelled.is_cancelled() {
            return Err("the call was cancelled".into());
        }
        if found.is_full || visited >= MAX_VISITED {
            break;
        }
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if !is_file || glob.as_ref().is_some_and(|glob| !glob.matches(&root, entry.path())) {
            continue;
        }
        let is_small = entry.metadata().is_ok_and(|facts| facts.len() <= MAX_FILE_BYTES);
        let is_read = is_small && found.search(&mut searcher, &matcher, entry.path(), files);
        unread += usize::from(!is_read);
    }
    Ok(found.report(unread))
}

/// The lines that were found so far.
struct FoundLines {
    text: String,
    /// Path of the file that is searched, as it is shown.
    path: String,
    matches: usize,
    limit: usize,
    is_full: bool,
}

impl FoundLines {
    /// Searches a file. Returns false if it cannot be read.
    fn search(
        &mut self,
        searcher: &mut Searcher,
        matcher: &RegexMatcher,
        path: &Path,
        files: &WorkFiles,
    ) -> bool {
        self.path = shown_path(path, files.folder());
        searcher.search_path(matcher, path, &mut *self).is_ok()
    }

    fn push(&mut self, number: Option<u64>, separator: char, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\n', '\r']);
        let cut = beginning(line, MAX_LINE_BYTES);
        let more = if cut.len() < line.len() { " …" } else { "" };
        let number = number.unwrap_or_default();
        let path = &self.path;
        let _ = writeln!(self.text, "{path}{separator}{number}{separator}{cut}{more}");
        self.is_full |= self.text.len() >= MAX_RESULT_BYTES;
    }

    fn report(self, unread: usize) -> String {
        let mut text = self.text;
        if self.matches == 0 {
            text += "no matches\n";
        }
        if self.is_full {
            text += "[more may follow; name a folder, a glob or a narrower pattern]\n";
        }
        if unread > 0 {
            let _ = writeln!(text, "[{unread} files were not searched: unreadable, or too large]");
        }
        text
    }
}

impl Sink for &mut FoundLines {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> io::Result<bool> {
        if self.matches >= self.limit {
            self.is_full = true;
            return Ok(false);
        }
        self.matches += 1;
        self.push(line.line_number(), ':', line.bytes());
        Ok(!self.is_full)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        self.push(line.line_number(), '-', line.bytes());
        Ok(!self.is_full)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.text += "--\n";
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::tool_output::ToolError;

    #[test]
    fn matches_have_their_file_and_line_with_context() {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in [
            ("src/a.rs", "one\ntwo\nthree\nfour\nfive two\n"),
            ("b.txt", "Two\n"),
            ("target/c.rs", "two\n"),
            ("image", "\0two\n"),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        fs::write(folder.path().join(".gitignore"), "target\n").unwrap();
        let files = WorkFiles::new(folder.path().to_owned());
        let search = |args: Value| {
            let args = serde_json::from_value(args).unwrap();
            search_code(args, &files, &CancellationToken::new())
        };
        let full = "[more may follow; name a folder, a glob or a narrower pattern]\n";
        for (args, expected) in [
            (json!({"pattern": "two"}), "src/a.rs:2:two\nsrc/a.rs:5:five two\n".to_owned()),
            (
                json!({"pattern": "^two$", "context": 1}),
                "src/a.rs-1-one\nsrc/a.rs:2:two\nsrc/a.rs-3-three\n".to_owned(),
            ),
            (
                json!({"pattern": "^two", "case_sensitive": false, "glob": "*.txt"}),
                "b.txt:1:Two\n".to_owned(),
            ),
            (
                json!({"pattern": "two", "path": "src/a.rs", "limit": 1}),
                format!("src/a.rs:2:two\n{full}"),
            ),
            (json!({"pattern": "nosuch"}), "no matches\n".to_owned()),
        ] {
            assert_eq!(search(args.clone()), Ok(expected), "{args}");
        }
        let ToolError(why) = search(json!({"pattern": "("})).unwrap_err();
        assert!(why.starts_with("the pattern is not valid: "), "{why}");
    }
}
