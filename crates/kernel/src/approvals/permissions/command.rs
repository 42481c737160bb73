//! Matches commands against patterns. Pure.
//!
//! `allow` accepts only the literal command: one command, in whole words, without shell syntax. `deny` and `ask`
//! search every part of it, also behind wrapper commands. A shell offers endless ways to express the same command:
//! a form that is not found here falls to `default`, and is never allowed by `allow`.

use std::borrow::Cow;

use agent_worker_protocol::ArgumentPattern;

/// Characters that join several commands, or embed one in another.
const COMMAND_SEPARATORS: [char; 10] = [';', '|', '&', '\n', '\r', '(', ')', '{', '}', '`'];
/// Characters that make a command do more than its words show.
const EXPANSION_CHARS: [char; 3] = ['$', '<', '>'];
/// Words that may precede a command.
const SHELL_KEYWORDS: [&str; 9] =
    ["!", "do", "elif", "else", "if", "then", "time", "until", "while"];
/// Commands that run another command, which is one of their arguments.
const WRAPPER_COMMANDS: [&str; 27] = [
    "bash", "builtin", "busybox", "chroot", "command", "dash", "doas", "env", "eval", "exec",
    "find", "flock", "ionice", "ksh", "nice", "nohup", "parallel", "script", "setsid", "sh", "ssh",
    "stdbuf", "su", "sudo", "timeout", "xargs", "zsh",
];

/// Returns true if a command is exactly the one that a pattern names.
pub(super) fn covers(fit: &ArgumentPattern, command: &str) -> bool {
    match fit {
        ArgumentPattern::Any => true,
        ArgumentPattern::Exact(text) => command == text,
        ArgumentPattern::Prefix(start) => {
            let rest = command.strip_prefix(start.as_str());
            rest.is_some_and(|rest| ends_at_word_boundary(start, rest))
                && !command.contains(COMMAND_SEPARATORS)
                && !command.contains(EXPANSION_CHARS)
        }
    }
}

/// Checks the end of a prefix: `git diff` is no prefix of `git difftool`; `./run-` is one of `./run-tests`.
fn ends_at_word_boundary(start: &str, rest: &str) -> bool {
    rest.is_empty() || rest.starts_with([' ', '\t']) || !start.ends_with(char::is_alphanumeric)
}

/// Returns true if a command contains the one that a pattern names.
pub(super) fn may_match(fit: &ArgumentPattern, command: &str) -> bool {
    let command = command.replace("\\\n", "");
    let fit = &strip_fit_quotes(fit);
    begins_with_fit(fit, &strip_quotes(&command))
        || command.split(COMMAND_SEPARATORS).any(|part| invokes_match(fit, part))
}

/// Returns true if one command is the one that a pattern names, or runs it.
fn invokes_match(fit: &ArgumentPattern, part: &str) -> bool {
    let part = strip_quotes(part);
    let mut words: Vec<_> =
        part.split_whitespace().map(|word| (word, program_name(word))).collect();
    let before =
        words.iter().take_while(|(word, _)| SHELL_KEYWORDS.contains(word) || is_assignment(word));
    words.drain(..before.count());
    let is_it = |at: usize| {
        let Some((word, name)) = words.get(at) else { return false };
        let rest: Vec<&str> = words.iter().skip(at + 1).map(|(word, _)| *word).collect();
        let call = |first| [&[first][..], &rest].concat().join(" ");
        begins_with_fit(fit, &call(*word)) || begins_with_fit(fit, &call(*name))
    };
    let is_carrier = words.first().is_some_and(|(_, name)| WRAPPER_COMMANDS.contains(name));
    let places = if is_carrier { words.len() } else { 1 };
    (0..places).any(is_it)
}

fn begins_with_fit(fit: &ArgumentPattern, call: &str) -> bool {
    match fit {
        ArgumentPattern::Any => true,
        ArgumentPattern::Exact(text) => call == text,
        // `rm *` matches `rm` with and without arguments.
        ArgumentPattern::Prefix(start) => {
            call.starts_with(start.as_str()) || start.trim_end() == call
        }
    }
}

/// Removes quotes, which only mark the ends of words.
fn strip_quotes(text: &str) -> String {
    let text: String = text.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn strip_fit_quotes(fit: &ArgumentPattern) -> Cow<'_, ArgumentPattern> {
    match fit {
        ArgumentPattern::Any => Cow::Borrowed(fit),
        ArgumentPattern::Exact(text) => Cow::Owned(ArgumentPattern::Exact(strip_quotes(text))),
        ArgumentPattern::Prefix(start) => {
            let end = if start.ends_with(char::is_whitespace) { " " } else { "" };
            Cow::Owned(ArgumentPattern::Prefix(strip_quotes(start) + end))
        }
    }
}

/// Returns the name of a program without its folder: `rm` for `/bin/rm`.
fn program_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns true for `NAME=value`, which only sets the environment of a command.
fn is_assignment(word: &str) -> bool {
    let named = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    word.split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && named(name.trim_end_matches('+')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins(start: &str) -> ArgumentPattern {
        ArgumentPattern::Prefix(start.to_owned())
    }

    #[test]
    fn only_a_command_that_is_nothing_else_is_taken_at_its_word() {
        for (start, command, expected) in [
            ("git diff", "git diff", true),
            ("git diff", "git diff\t--stat 'a file'", true),
            ("git diff", "git difftool -x sh", false),
            ("git diff", "git diff-files", false),
            ("npm run test:", "npm run test:unit", true),
            ("./run-", "./run-tests", true),
            ("git diff", " git diff", false),
            ("git diff", "GIT_PAGER=sh git diff", false),
            ("git diff", "env git diff", false),
            ("git diff", "bash -c 'git diff'", false),
            ("git diff", "git diff; rm x", false),
            ("git diff", "git diff 'a;b'", false),
            ("git diff", "git diff\nrm x", false),
            ("git diff", "git diff \\\n rm x", false),
            ("git diff", "git diff & rm x", false),
            ("git diff", "git diff `rm x`", false),
            ("git diff", "git diff $(rm x)", false),
            ("git diff", "git diff ${IFS}", false),
            ("git diff", "git diff <(rm x)", false),
            ("git diff", "git diff > x", false),
            ("git diff", "Git Diff", false),
        ] {
            assert_eq!(covers(&begins(start), command), expected, "{start}*: {command}");
        }
        let exactly = ArgumentPattern::Exact("a; b".to_owned());
        assert!(covers(&exactly, "a; b") && !covers(&exactly, "a; b "));
    }

    #[test]
    fn what_is_denied_is_found_behind_what_people_put_before_it() {
        for command in [
            "rm x",
            "rm",
            "  rm x",
            "/bin/rm x",
            "\\rm x",
            "'rm' x",
            "r\"\"m x",
            "r\\\nm x",
            "A=1 B+=2 rm x",
            "env -i A=1 rm x",
            "sudo -u root rm x",
            "bash -c 'rm x'",
            "sh -lc \"cd /; rm x\"",
            "ls | xargs -0 rm",
            "find . -name a -exec rm {} +",
            "if true; then rm x; fi",
            "while read a; do rm $a; done",
            "! rm x",
            "time rm x",
            "cd / && rm x",
            "true\nrm x",
            "echo $(rm x)",
            "echo `rm x`",
            "(rm x)",
            "sleep 1 & rm x",
        ] {
            assert!(may_match(&begins("rm "), command), "{command}");
        }
        for command in ["ls rm", "echo 'rm x'", "rmdir x", "git commit -m 'rm x'", "RM x", "a=rm"] {
            assert!(!may_match(&begins("rm "), command), "{command}");
        }
        assert!(may_match(&begins("rm"), "rmdir x"), "as it is written");
        assert!(may_match(&begins("git push"), "git  push --force"));
        assert!(may_match(&begins("git commit -m \"a"), "git commit -m 'a b'"));
        assert!(may_match(&ArgumentPattern::Exact("git push".to_owned()), "cd x; git 'push'"));
        assert!(!may_match(&ArgumentPattern::Exact("git push".to_owned()), "git push -f"));
    }
}
