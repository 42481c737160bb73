//! An approval request as a person reads it: a command as `$ …`, an edit as a diff, any other call as JSON. Pure.
//!
//! Invariants: every argument of a call is shown, with every character visible; a call with an unexpected field is shown
//! as JSON. The start of each row is ours: no argument can imitate the row of another.

use serde::Deserialize;
use serde_json::{Map, Value};
use similar::{ChangeTag, TextDiff};

use super::{
    styled_line::{StyledLine, Tone},
    text::{self, escape_invisible, fitting_prefix},
};

/// Number of unchanged lines around a change.
const CONTEXT_LINES: usize = 3;
/// Start of the further rows of a line that is too long for one row.
const CONTINUATION: &str = "↳ ";

/// Stands for a tab, which indents the code of many languages.
const VISIBLE_TAB: &str = "⇥ ";

/// Starts of lines.
const COMMAND: &str = "$ ";
const FURTHER_COMMAND: &str = "> ";
const OTHER_ARGUMENT: &str = "& ";
const FILE: &str = "file ";
const ADDED: &str = "+ ";
const REMOVED: &str = "- ";
const UNCHANGED: &str = "  ";
const NOTE: &str = "@ ";

/// A line of a request before it is wrapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestLine {
    /// Start of the first row.
    lead: &'static str,
    tone: Tone,
    /// Text with every character visible.
    text: String,
}

impl RequestLine {
    /// Creates a line; every character of its text is made visible.
    pub(crate) fn new(lead: &'static str, tone: Tone, text: &str) -> Self {
        let text = text.split('\t').map(escape_invisible).collect::<Vec<_>>().join(VISIBLE_TAB);
        Self { lead, tone, text }
    }

    /// Returns the part of the line in a summary; the lines of a diff are left out.
    fn summary(&self) -> Option<String> {
        match self.lead {
            COMMAND | FURTHER_COMMAND | OTHER_ARGUMENT => Some(self.unwrapped().text()),
            FILE => Some(self.text.clone()),
            _ => None,
        }
    }

    /// Returns the line on one row.
    pub(crate) fn unwrapped(&self) -> StyledLine {
        StyledLine::new(self.tone, format!("{}{}", self.lead, self.text))
    }

    /// Returns the line as rows of at most `columns` columns. Nothing is left out, also no blanks at the end of a row.
    pub(crate) fn rows(&self, columns: usize) -> Vec<StyledLine> {
        let mut lead = self.lead;
        let (mut rows, mut rest) = (Vec::new(), self.text.as_str());
        loop {
            let prefix = fitting_prefix(rest, columns.saturating_sub(text::width(lead)).max(1));
            // A character wider than the whole width gets a row of its own.
            let first = rest.chars().next().map_or(0, char::len_utf8);
            let (row, after) = rest.split_at(prefix.len().max(first));
            rows.push(StyledLine::new(self.tone, format!("{lead}{row}")));
            if after.is_empty() {
                return rows;
            }
            (lead, rest) = (CONTINUATION, after);
        }
    }
}

/// Returns the arguments of a call as lines.
pub(crate) fn request_lines(args: &Value) -> Vec<RequestLine> {
    let shaped = args.as_object().and_then(|args| {
        command_lines(args).or_else(|| edit_lines(args)).or_else(|| changes_lines(args))
    });
    shaped.unwrap_or_else(|| json_lines(args))
}

/// Returns the arguments of a call on one line: a command with its other arguments, the path of an edit with the numbers
/// of its added and removed lines, or JSON.
pub(crate) fn request_summary(args: &Value) -> String {
    let lines = request_lines(args);
    if lines.iter().all(|line| line.lead.is_empty()) {
        return escape_invisible(&args.to_string());
    }
    let count = |lead| lines.iter().filter(|line| line.lead == lead).count();
    let mut parts: Vec<String> = lines.iter().filter_map(RequestLine::summary).collect();
    match (count(ADDED), count(REMOVED)) {
        (0, 0) => {}
        (added, removed) => parts.push(format!("(+{added} -{removed})")),
    }
    parts.join(" ")
}

fn json_lines(args: &Value) -> Vec<RequestLine> {
    let json = serde_json::to_string_pretty(args).unwrap_or_default();
    json.lines().map(|line| RequestLine::new("", Tone::Plain, line)).collect()
}

/// Returns the lines of a command, with `> ` before each further line of it, as a shell asks for it.
fn command_lines(args: &Map<String, Value>) -> Option<Vec<RequestLine>> {
    let command = args.get("command")?.as_str().filter(|command| !command.trim().is_empty())?;
    let leads = std::iter::once(COMMAND).chain(std::iter::repeat(FURTHER_COMMAND));
    // Splits at line breaks alone: an escaped carriage return stays visible in its line.
    let command = leads.zip(command.split('\n'));
    let mut lines: Vec<_> =
        command.map(|(lead, line)| RequestLine::new(lead, Tone::Strong, line)).collect();
    lines.extend(other_arguments(args, &["command"]));
    Some(lines)
}

/// Returns the lines of an edit of one file: a passage, several passages, or the whole text.
fn edit_lines(args: &Map<String, Value>) -> Option<Vec<RequestLine>> {
    let (name, path) =
        ["file_path", "path"].iter().find_map(|name| Some((name, args.get(*name)?)))?;
    let text = |name: &str| args.get(name).and_then(Value::as_str);
    let (used, diff): (&[&str], _) = match (text("old_string"), text("new_string")) {
        (Some(old), Some(new)) => (&["old_string", "new_string"], diff_lines(old, new)),
        (None, None) if args.contains_key("edits") => {
            let edits = Vec::<Passage>::deserialize(args.get("edits")?).ok()?;
            (&["edits"], edits.iter().flat_map(Passage::lines).collect())
        }
        (None, None) => (&["content"], added_lines(text("content")?)),
        (Some(_), None) | (None, Some(_)) => return None,
    };
    let mut lines = vec![path_line(path.as_str()?)];
    lines.extend(diff);
    lines.extend(other_arguments(args, &[&[*name], used].concat()));
    Some(lines)
}

/// Returns the lines of a change of several files, in the forms of Codex and of the Agent Client Protocol.
fn changes_lines(args: &Map<String, Value>) -> Option<Vec<RequestLine>> {
    let (name, mut lines) = match (args.get("changes"), args.get("content")) {
        (Some(changes), _) => {
            let changes = Vec::<CodexFileChange>::deserialize(changes).ok()?;
            ("changes", changes.iter().flat_map(CodexFileChange::lines).collect::<Vec<_>>())
        }
        (None, Some(content)) => {
            let diffs = Vec::<AcpFileDiff>::deserialize(content).ok()?;
            ("content", diffs.iter().flat_map(AcpFileDiff::lines).collect())
        }
        (None, None) => return None,
    };
    lines.extend(other_arguments(args, &[name]));
    Some(lines)
}

/// A passage of a file and its replacement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Passage {
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

impl Passage {
    fn lines(&self) -> Vec<RequestLine> {
        let scope = if self.replace_all { "each occurrence:" } else { "once:" };
        let mut lines = vec![RequestLine::new(NOTE, Tone::Dim, scope)];
        lines.extend(diff_lines(&self.old_string, &self.new_string));
        lines
    }
}

/// A changed file in a request of Codex.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CodexFileChange {
    path: String,
    kind: CodexFileChangeKind,
    diff: String,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum CodexFileChangeKind {
    Add {},
    Delete {},
    Update {
        #[serde(default)]
        move_path: Option<String>,
    },
}

impl CodexFileChange {
    fn lines(&self) -> Vec<RequestLine> {
        let mut lines = vec![path_line(&self.path)];
        match &self.kind {
            CodexFileChangeKind::Add {} => lines.extend(added_lines(&self.diff)),
            CodexFileChangeKind::Delete {} => {
                lines.push(RequestLine::new(NOTE, Tone::Bad, "deletes the file:"));
                lines.extend(diff_lines(&self.diff, ""));
            }
            CodexFileChangeKind::Update { move_path } => {
                let moved = move_path.as_deref().map(|to| format!("moves the file to {to}"));
                lines.extend(moved.map(|moved| RequestLine::new(NOTE, Tone::Warn, &moved)));
                lines.extend(self.diff.lines().map(unified_line));
            }
        }
        lines
    }
}

/// A changed file in a request over the Agent Client Protocol.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct AcpFileDiff {
    #[serde(rename = "type")]
    _kind: AcpDiffTag,
    path: String,
    #[serde(default)]
    old_text: Option<String>,
    new_text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum AcpDiffTag {
    Diff,
}

impl AcpFileDiff {
    fn lines(&self) -> Vec<RequestLine> {
        let old = self.old_text.as_deref().unwrap_or_default();
        let mut lines = vec![path_line(&self.path)];
        lines.extend(diff_lines(old, &self.new_text));
        lines
    }
}

fn path_line(path: &str) -> RequestLine {
    RequestLine::new(FILE, Tone::Strong, path)
}

/// Returns the remaining arguments, each with its name and its JSON.
fn other_arguments(args: &Map<String, Value>, used: &[&str]) -> Vec<RequestLine> {
    let rest = args.iter().filter(|(name, _)| !used.contains(&name.as_str()));
    rest.map(|(name, value)| {
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        let name = if is_plain { name.clone() } else { Value::from(name.as_str()).to_string() };
        RequestLine::new(OTHER_ARGUMENT, Tone::Dim, &format!("{name}: {value}"))
    })
    .collect()
}

fn added_lines(content: &str) -> Vec<RequestLine> {
    if content.is_empty() {
        return vec![RequestLine::new(NOTE, Tone::Warn, "an empty text")];
    }
    content.split_terminator('\n').map(|line| RequestLine::new(ADDED, Tone::Good, line)).collect()
}

/// Returns the changed lines, with a few unchanged ones around them.
fn diff_lines(old: &str, new: &str) -> Vec<RequestLine> {
    if old == new {
        return vec![RequestLine::new(NOTE, Tone::Dim, "changes nothing")];
    }
    let diff = TextDiff::from_lines(old, new);
    let mut lines = Vec::new();
    for group in diff.grouped_ops(CONTEXT_LINES) {
        if !lines.is_empty() {
            lines.push(RequestLine::new(NOTE, Tone::Dim, "…"));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (lead, tone) = match change.tag() {
                ChangeTag::Equal => (UNCHANGED, Tone::Dim),
                ChangeTag::Delete => (REMOVED, Tone::Bad),
                ChangeTag::Insert => (ADDED, Tone::Good),
            };
            let text = change.value();
            lines.push(RequestLine::new(lead, tone, text.strip_suffix('\n').unwrap_or(text)));
        }
    }
    if old.ends_with('\n') != new.ends_with('\n') && !old.is_empty() && !new.is_empty() {
        let which = if new.ends_with('\n') { "old" } else { "new" };
        let note = format!("no line break at the end of the {which} text");
        lines.push(RequestLine::new(NOTE, Tone::Dim, &note));
    }
    lines
}

/// Returns a line of a diff in the format of `diff -u`.
fn unified_line(line: &str) -> RequestLine {
    let (lead, tone, text) = match line.split_at_checked(1) {
        Some(("+", text)) => (ADDED, Tone::Good, text),
        Some(("-", text)) => (REMOVED, Tone::Bad, text),
        Some((" ", text)) => (UNCHANGED, Tone::Dim, text),
        Some(_) | None => (NOTE, Tone::Dim, line),
    };
    RequestLine::new(lead, tone, text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::styled_line::Colour;

    fn shown(args: &Value) -> String {
        request_lines(args).iter().map(|line| line.unwrapped().paint(Colour::Off) + "\n").collect()
    }

    #[test]
    fn a_command_is_shown_as_in_a_shell_with_its_other_arguments() {
        let args = json!({"command": "git push\nrm -rf x", "description": "Pushes", "timeout": 5});
        insta::assert_snapshot!(shown(&args), @r#"
        $ git push
        > rm -rf x
        & description: "Pushes"
        & timeout: 5
        "#);
    }

    #[test]
    fn an_edit_is_shown_as_a_diff() {
        let old = "fn main() {\n    let a = 1;\n    run(a);\n}\n";
        let new = "fn main() {\n    let a = 2;\n    run(a);\n}\n";
        let args = json!({"file_path": "src/main.rs", "old_string": old, "new_string": new});
        insta::assert_snapshot!(shown(&args), @r"
        file src/main.rs
          fn main() {
        -     let a = 1;
        +     let a = 2;
              run(a);
          }
        ");
        let colours = request_lines(&args).iter().map(|line| line.tone).collect::<Vec<_>>();
        let (plus, minus) = (Tone::Good, Tone::Bad);
        assert_eq!(colours, [Tone::Strong, Tone::Dim, minus, plus, Tone::Dim, Tone::Dim]);
        let all =
            json!({"file_path": "x", "old_string": "a", "new_string": "b\n", "replace_all": true});
        insta::assert_snapshot!(shown(&all), @r#"
        file x
        - a
        + b
        @ no line break at the end of the old text
        & replace_all: true
        "#);
    }

    #[test]
    fn every_known_form_of_an_edit_is_shown_as_one() {
        let passages = json!({"file_path": "x", "edits": [
            {"old_string": "a", "new_string": "b"},
            {"old_string": "c", "new_string": "c", "replace_all": true},
        ]});
        insta::assert_snapshot!(shown(&passages), @r"
        file x
        @ once:
        - a
        + b
        @ each occurrence:
        @ changes nothing
        ");
        insta::assert_snapshot!(shown(&json!({"file_path": "x", "content": "a\n\tb"})), @r"
        file x
        + a
        + ⇥ b
        ");
        insta::assert_snapshot!(shown(&json!({"path": "x", "content": ""})), @r"
        file x
        @ an empty text
        ");
        let codex = json!({"changes": [
            {"path": "new", "kind": {"type": "add"}, "diff": "a\n"},
            {"path": "old", "kind": {"type": "delete"}, "diff": "b\n"},
            {"path": "x", "kind": {"type": "update", "move_path": "y"}, "diff": "@@ -1 +1 @@\n-a\n+b\n c\n"},
        ]});
        insta::assert_snapshot!(shown(&codex), @r"
        file new
        + a
        file old
        @ deletes the file:
        - b
        file x
        @ moves the file to y
        @ @@ -1 +1 @@
        - a
        + b
          c
        ");
        let acp = json!({"content": [{"type": "diff", "path": "x", "oldText": null, "newText": "a\n"}], "title": "t"});
        insta::assert_snapshot!(shown(&acp), @r#"
        file x
        + a
        & title: "t"
        "#);
    }

    #[test]
    fn a_summary_has_the_command_or_the_path_and_the_size_of_the_change() {
        for (args, expected) in [
            (json!({"command": "make"}), "$ make"),
            (json!({"command": "a\nb", "cwd": "/"}), r#"$ a > b & cwd: "/""#),
            (json!({"file_path": "x", "old_string": "a\nb", "new_string": "c\nb"}), "x (+1 -1)"),
            (json!({"odd": "a\u{a0}b"}), r#"{"odd":"a\u{a0}b"}"#),
        ] {
            assert_eq!(request_summary(&args), expected);
        }
    }

    #[test]
    fn a_call_with_an_unexpected_field_is_shown_as_json() {
        for args in [
            json!({"anything": 1}),
            json!({"command": ["git", "push"]}),
            json!({"command": " "}),
            json!({"file_path": "x", "old_string": "a"}),
            json!({"file_path": "x", "edits": [{"old_string": "a", "new_string": "b", "odd": 1}]}),
            json!({"file_path": 7, "content": "a"}),
            json!({"changes": [{"path": "x", "kind": {"type": "add", "odd": 1}, "diff": "a"}]}),
            json!({"content": [{"type": "text", "path": "x", "newText": "a"}]}),
            json!("text"),
        ] {
            let json = serde_json::to_string_pretty(&args).unwrap() + "\n";
            assert_eq!(shown(&args), json);
        }
    }

    #[test]
    fn no_argument_imitates_the_row_of_another_and_every_character_is_visible() {
        let args = json!({"command": "a\u{1b}[2J\r\u{202e}b\n& description: \"harmless\"", "$ ls": "\n$ ls"});
        insta::assert_snapshot!(shown(&args), @r#"
        $ a\u{1b}[2J\u{d}\u{202e}b
        > & description: "harmless"
        & "$ ls": "\n$ ls"
        "#);
        let long = RequestLine::new("$ ", Tone::Plain, "rm aaaa  & \"description\": 请看");
        let rows = |columns| -> Vec<String> {
            long.rows(columns).iter().map(|row| row.paint(Colour::Off)).collect()
        };
        assert_eq!(rows(11), ["$ rm aaaa  ", "↳ & \"descri", "↳ ption\": ", "↳ 请看"]);
        assert_eq!(rows(100), [long.unwrapped().paint(Colour::Off)]);
        assert_eq!(rows(1).len(), long.text.chars().count());
    }
}
