//! Mentions that a program would replace by the content of a file, as a pure function of a text and a folder.
//!
//! `@coder` in a message names an agent. A program that has a file `coder` in its folder would insert that file, regardless
//! of the author of the message and of the permissions. Only such mentions are escaped: an `@` in code or in an address
//! stays as it is.

use std::path::Path;

use agent_worker_protocol::AgentName;

/// Characters that end a path in a mention. A full stop ends it too, if a blank or the end follows.
const PATH_ENDS: &str = " \t\n\r,;!?()[]{}";

/// Puts a backslash before each `@` that starts the name of an existing file or folder, relative to `folder`.
pub(super) fn escape_file_mentions(text: &str, folder: &Path) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('@') {
        let (before, mention) = rest.split_at(at);
        let after = &mention['@'.len_utf8()..];
        escaped.push_str(before);
        if !escaped.ends_with('\\') && names_file(mentioned_path(after), folder) {
            escaped.push('\\');
        }
        escaped.push('@');
        rest = after;
    }
    escaped.push_str(rest);
    escaped
}

/// Puts a character without width before each `@` that mentions an agent of the team at the start of a word, so that a
/// program does not take the name for a file. A model that repeats the character still mentions the agent.
pub(super) fn mask_agent_mentions(text: &str, team: &[AgentName]) -> String {
    const ZERO_WIDTH: char = '\u{200b}';
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('@') {
        let (before, mention) = rest.split_at(at);
        let after = &mention['@'.len_utf8()..];
        masked.push_str(before);
        let starts_word = masked
            .chars()
            .next_back()
            .is_none_or(|c| c.is_whitespace() || "\u{feff}。、？！".contains(c));
        let name: &str = after
            .split(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)))
            .next()
            .unwrap_or_default();
        if starts_word && is_addressee(name, team) {
            masked.push(ZERO_WIDTH);
        }
        masked.push('@');
        rest = after;
    }
    masked.push_str(rest);
    masked
}

fn is_addressee(name: &str, team: &[AgentName]) -> bool {
    // `@name` is the example in the description of the team.
    let general = ["all", "user", "name"].iter().any(|word| word.eq_ignore_ascii_case(name));
    general || team.iter().any(|agent| agent.as_str().eq_ignore_ascii_case(name))
}

/// Returns the text after an `@` that a program reads as a path.
fn mentioned_path(text: &str) -> &str {
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        match c {
            '\\' => {
                chars.next();
            }
            '"' => {
                if let Some(length) = text[at + 1..].find('"') {
                    let end = at + 1 + length;
                    while chars.next_if(|(inside, _)| *inside <= end).is_some() {}
                }
            }
            '.' if next.is_none_or(|next| " \t\n\r".contains(next)) => return &text[..at],
            c if PATH_ENDS.contains(c) => return &text[..at],
            _ => {}
        }
    }
    text
}

fn names_file(path: &str, folder: &Path) -> bool {
    let plain: String = path.chars().filter(|c| !"\\\"".contains(*c)).collect();
    [path, &plain].iter().any(|path| !path.is_empty() && folder.join(path).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mentions_of_the_team_at_the_start_of_a_word_are_masked() {
        let team: Vec<AgentName> = ["coder", "lead"].map(|name| name.parse().unwrap()).to_vec();
        for (text, expected) in [
            ("@coder fix it", "\u{200b}@coder fix it"),
            ("ask @Lead, @all.", "ask \u{200b}@Lead, \u{200b}@all."),
            ("line\n@lead", "line\n\u{200b}@lead"),
            ("(@lead) a@lead", "(@lead) a@lead"),
            ("@Override @leader @", "@Override @leader @"),
            ("no mention", "no mention"),
        ] {
            assert_eq!(mask_agent_mentions(text, &team), expected);
        }
    }

    #[test]
    fn only_names_of_files_are_escaped() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["coder", "notes.md", "my file", "a,b"] {
            std::fs::write(folder.path().join(file), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("src")).unwrap();
        for (text, expected) in [
            ("@coder fix it", r"\@coder fix it"),
            ("ask @coder.", r"ask \@coder."),
            ("ask @coder, then @lead", r"ask \@coder, then @lead"),
            ("see @notes.md.", r"see \@notes.md."),
            ("see @./notes.md!", r"see \@./notes.md!"),
            ("see @src and @src/none", r"see \@src and @src/none"),
            ("see @/etc/passwd", r"see \@/etc/passwd"),
            (r#"see @"my file" now"#, r#"see \@"my file" now"#),
            (r"see @my\ file now", r"see \@my\ file now"),
            (r"see @a\,b", r"see \@a\,b"),
            (r"already \@coder", r"already \@coder"),
            ("@Override\nvoid run() {}", "@Override\nvoid run() {}"),
            ("let s = @\"Hello\";", "let s = @\"Hello\";"),
            ("me@example.com, @lead", "me@example.com, @lead"),
            ("a @ b @", "a @ b @"),
            ("@lead@coder", r"@lead\@coder"),
            ("„@coder“", "„@coder“"),
            ("(@coder)", r"(\@coder)"),
        ] {
            assert_eq!(escape_file_mentions(text, folder.path()), expected);
        }
    }
}
