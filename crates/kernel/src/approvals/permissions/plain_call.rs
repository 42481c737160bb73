//! Calls that a person can approve once only: those with shell syntax, or with a path outside of the agent's folder. Pure.
//!
//! A command is split into words without a shell, so every doubt counts as a path outside: an attached option value such
//! as `-I/x`, or a part after `=`, `:`, `,` or `@`.

use super::{
    PathContext,
    command::{EXPANSION_CHARS, QUOTES},
    path::CallPath,
    simple_commands::COMMAND_SEPARATORS,
    subject::{CallSubject, CallSubjects},
};

/// Characters behind which a word may contain a further path.
const PATH_SEPARATORS: [char; 4] = ['=', ':', ',', '@'];
/// Characters with which a path may begin that leaves the folder.
const PATH_STARTS: [char; 3] = ['/', '~', '.'];

/// Returns the part of a call for which it can be approved once only; none if every part consists of plain words and of
/// paths in the agent's folder.
pub(super) fn once_only_cause(
    subjects: &CallSubjects<'_>,
    here: &PathContext<'_>,
) -> Option<String> {
    if let Some(folder) = subjects.outside_folder {
        return Some(format!("`{folder}` is outside of the agent's folder"));
    }
    let mut all = subjects.named.iter().chain(&subjects.suspected);
    all.find_map(|subject| subject_cause(subject, here))
}

fn subject_cause(subject: &CallSubject<'_>, here: &PathContext<'_>) -> Option<String> {
    match subject {
        CallSubject::Command(command) => command_cause(command, here),
        CallSubject::Path(path) if path.is_in_working_folder(here) => None,
        CallSubject::Path(path) => {
            Some(format!("`{}` is outside of the agent's folder", path.lexical().display()))
        }
        CallSubject::Url(_) => None,
        CallSubject::Unknown => Some("an argument cannot be read".to_owned()),
    }
}

fn command_cause(command: &str, here: &PathContext<'_>) -> Option<String> {
    let is_syntax = |c: &char| COMMAND_SEPARATORS.contains(c) || EXPANSION_CHARS.contains(c);
    match command.chars().find(is_syntax) {
        Some('\n' | '\r') => return Some("its command has several lines".to_owned()),
        Some(syntax) => return Some(format!("its command has shell syntax (`{syntax}`)")),
        None => {}
    }
    let unquoted = command.replace(QUOTES, "");
    let mut parts = unquoted.split_whitespace().flat_map(path_candidates);
    let outside = parts.find(|part| !is_inside(part, here))?;
    Some(format!("`{outside}` is outside of the agent's folder"))
}

/// Returns the parts of a word that a program may read as a path.
fn path_candidates(word: &str) -> impl Iterator<Item = &str> {
    word.split(PATH_SEPARATORS).flat_map(|part| {
        let attached = part.starts_with('-').then(|| part.find(PATH_STARTS)).flatten();
        [Some(part), attached.map(|start| &part[start..])].into_iter().flatten()
    })
}

fn is_inside(path: &str, here: &PathContext<'_>) -> bool {
    CallPath::new(path, here).is_some_and(|path| path.is_in_working_folder(here))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use serde_json::{Value, json};

    use super::{super::subject::call_subjects, *};

    fn cause(tool: &str, args: &Value) -> Option<String> {
        let link = |path: &Path| (path == Path::new("/p/out")).then(|| PathBuf::from("/etc"));
        let here = PathContext { cwd: Path::new("/p"), workflow_file: None, resolve_link: &link };
        once_only_cause(&call_subjects(tool, args, &here), &here)
    }

    #[test]
    fn plain_words_about_the_folder_can_be_allowed_for_the_run() {
        for command in [
            "git diff --stat",
            "git diff src/main.rs ./README.md /p/src",
            "make",
            "cargo test -p cli -- --nocapture",
            "git commit -m 'fix it'",
            "grep -rn x src/..",
            "ls *.rs",
            "cc -O2 --out=src/x a:b",
            "",
        ] {
            assert_eq!(cause("Bash", &json!({ "command": command })), None, "{command}");
        }
        for (tool, args) in [
            ("Write", json!({ "file_path": "src/x", "content": "a > /etc/b" })),
            ("WebFetch", json!({ "url": "https://a.b/c?d&e", "prompt": "p" })),
            ("Bash", json!({ "command": "make", "cwd": "src", "description": "a; b" })),
            ("mcp__x__y", json!({ "title": "a/b", "n": 1 })),
        ] {
            assert_eq!(cause(tool, &args), None, "{tool} {args}");
        }
    }

    #[test]
    fn shell_syntax_can_be_approved_once_only() {
        for (command, syntax) in [
            ("a; b", ";"),
            ("a | b", "|"),
            ("a && b", "&"),
            ("a &", "&"),
            ("a < b", "<"),
            ("a >> b", ">"),
            ("echo $HOME", "$"),
            ("echo `b`", "`"),
            ("(a)", "("),
            ("{ a", "{"),
            ("git commit -m 'a; b'", ";"),
        ] {
            let expected = format!("its command has shell syntax (`{syntax}`)");
            assert_eq!(cause("Bash", &json!({ "command": command })), Some(expected), "{command}");
        }
        for command in ["a\nb", "a\rb"] {
            let expected = Some("its command has several lines".to_owned());
            assert_eq!(cause("Bash", &json!({ "command": command })), expected);
        }
        let words = json!({ "command": ["bash", "-c", "a | b"] });
        assert!(cause("execute", &words).is_some());
        let variable = json!({ "command": "make", "env": { "CC": "$(b)" } });
        assert!(cause("Bash", &variable).is_some());
    }

    #[test]
    fn a_path_outside_of_the_folder_can_be_approved_once_only() {
        for (command, outside) in [
            ("cat /etc/passwd", "/etc/passwd"),
            ("rm -r ..", ".."),
            ("git -C../other diff", "../other"),
            ("git -C /q diff", "/q"),
            ("cc -I/usr/include x.c", "/usr/include"),
            ("tool --out=/q", "/q"),
            ("docker run -v /p:/etc x", "/etc"),
            ("curl -d @/etc/passwd x", "/etc/passwd"),
            ("curl https://a.b/c", "//a.b/c"),
            ("ls ~", "~"),
            ("ls ~/x", "~/x"),
            ("ls src/../../q", "src/../../q"),
            ("cat '/etc/a b'", "/etc/a"),
            ("cat out/passwd", "out/passwd"),
            ("/usr/bin/git diff", "/usr/bin/git"),
        ] {
            let expected = format!("`{outside}` is outside of the agent's folder");
            assert_eq!(cause("Bash", &json!({ "command": command })), Some(expected), "{command}");
        }
        for (tool, args, outside) in [
            ("Write", json!({ "file_path": "/etc/x" }), "/etc/x"),
            ("Write", json!({ "file_path": "../x" }), "/x"),
            ("Edit", json!({ "file_path": "out/x" }), "/p/out/x"),
            ("Bash", json!({ "command": "make", "cwd": "/" }), "/"),
            ("Bash", json!({ "command": "make", "cwd": 1 }), "?"),
            ("mcp__x__y", json!({ "note": "/etc" }), "/etc"),
        ] {
            let expected = format!("`{outside}` is outside of the agent's folder");
            assert_eq!(cause(tool, &args), Some(expected), "{tool} {args}");
        }
        assert!(cause("Write", &json!({ "file_path": "~/x" })).is_some());
        assert!(cause("edit", &json!({})).is_some());
    }
}
