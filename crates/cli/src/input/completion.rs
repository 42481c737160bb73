//! The place of the cursor in a command line: the command, and the argument that is being typed. Pure.

use clap::{Arg, ArgAction, Command};

/// The kind of word that is being typed.
#[derive(Debug)]
pub(crate) enum WordKind<'a> {
    /// An option of the command; its parameters too if the command runs a workflow file.
    Option,
    /// A subcommand of the command.
    Subcommand,
    /// The value of an option or of an argument.
    Value(&'a Arg),
    /// A word that the command does not take.
    Nothing,
}

/// The command line up to the cursor.
#[derive(Debug)]
pub(crate) struct TypedLine<'a> {
    /// Names of the command and its subcommands.
    pub(crate) path: Vec<&'a str>,
    pub(crate) command: &'a Command,
    /// Words that are values of arguments, in their order.
    pub(crate) values: Vec<&'a str>,
    /// The unfinished word; without the option of `--option=value`.
    pub(crate) word: &'a str,
    /// The option and the `=` before the unfinished word.
    pub(crate) option_prefix: &'a str,
    pub(crate) kind: WordKind<'a>,
}

/// Reads the words after the program's name; the last one is unfinished. `grammar` must be built.
pub(crate) fn read_line<'a>(grammar: &'a Command, words: &'a [String]) -> TypedLine<'a> {
    let (word, before) = match words.split_last() {
        Some((word, before)) => (word.as_str(), before),
        None => ("", &[][..]),
    };
    let mut command = grammar;
    let (mut path, mut values) = (Vec::new(), Vec::new());
    let mut pending: Option<&Arg> = None;
    let mut has_options_ended = false;
    for one in before {
        if pending.take().is_some() {
            continue;
        }
        match one.as_str() {
            "--" if !has_options_ended => has_options_ended = true,
            text if !has_options_ended && text.starts_with('-') && text.len() > 1 => {
                pending = option_awaiting_value(command, text);
            }
            text => match command.find_subcommand(text).filter(|_| values.is_empty()) {
                Some(inner) => {
                    command = inner;
                    path.push(inner.get_name());
                }
                None => values.push(text),
            },
        }
    }
    let mut line =
        TypedLine { path, command, values, word, option_prefix: "", kind: WordKind::Nothing };
    line.kind = match (pending, word.split_once('=')) {
        (Some(option), _) => WordKind::Value(option),
        (None, Some((name, value))) if !has_options_ended && name.starts_with("--") => {
            (line.option_prefix, line.word) = (&word[..=name.len()], value);
            find_long(command, name).map_or(WordKind::Nothing, WordKind::Value)
        }
        _ if !has_options_ended && word.starts_with('-') => WordKind::Option,
        _ if line.values.is_empty() && command.has_subcommands() => WordKind::Subcommand,
        _ => next_positional(command, line.values.len()).map_or(WordKind::Nothing, WordKind::Value),
    };
    line
}

/// Returns the option of a word whose value is the next word.
fn option_awaiting_value<'a>(command: &'a Command, text: &str) -> Option<&'a Arg> {
    let option = if text.starts_with("--") {
        find_long(command, text)
    } else {
        let short = text.chars().last()?;
        command.get_opts().find(|arg| arg.get_short() == Some(short))
    };
    option.filter(|arg| takes_value(arg))
}

fn find_long<'a>(command: &'a Command, text: &str) -> Option<&'a Arg> {
    let name = text.strip_prefix("--")?;
    let has_name =
        |arg: &&Arg| arg.get_long_and_visible_aliases().is_some_and(|all| all.contains(&name));
    command.get_opts().find(has_name)
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

/// Returns the argument at a position; the last one may take several words.
fn next_positional(command: &Command, position: usize) -> Option<&Arg> {
    let mut last = None;
    for (at, arg) in command.get_positionals().enumerate() {
        if at == position {
            return Some(arg);
        }
        last = Some(arg);
    }
    last.filter(|arg| matches!(arg.get_action(), ArgAction::Append))
}

/// Returns the name of an argument's value, as help shows it.
pub(crate) fn value_name(arg: &Arg) -> &str {
    arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str())
}

/// Splits a command line as a shell does up to the cursor; an open quote ends with the line.
pub(crate) fn split_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut is_between = true;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let last = words.len() - 1;
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"') | None, '\\') => words[last].extend(chars.next()),
            (None, '\'' | '"') => quote = Some(c),
            (None, c) if c.is_whitespace() => {
                if !is_between {
                    words.push(String::new());
                }
                is_between = true;
                continue;
            }
            (_, c) => words[last].push(c),
        }
        is_between = false;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::invocation::full_clap_command;

    #[test]
    fn the_place_of_the_cursor_decides_what_is_completed() {
        let mut grammar = full_clap_command();
        grammar.build();
        for (typed, path, kind) in [
            ("", "", "subcommand"),
            ("st", "", "subcommand"),
            ("doc ", "doc", "subcommand"),
            ("doc read ", "doc read", "FILE"),
            ("doc read notes.md ", "doc read", "TARGET"),
            ("status ", "status", "TARGET"),
            ("status --t", "status", "option"),
            ("status --target ", "status", "TARGET"),
            ("status --target=@r", "status", "TARGET"),
            ("status -t ", "status", "TARGET"),
            ("status --json ", "status", "TARGET"),
            ("approve ", "approve", "NUMBER"),
            ("run ", "run", "FILE"),
            ("send coder -- -", "send", "TARGET> <MESSAGE"),
            ("status a b ", "status", "nothing"),
        ] {
            let words = split_words(typed);
            let line = read_line(&grammar, &words);
            let shown = match line.kind {
                WordKind::Option => "option".to_owned(),
                WordKind::Subcommand => "subcommand".to_owned(),
                WordKind::Nothing => "nothing".to_owned(),
                WordKind::Value(arg) => value_name(arg).to_owned(),
            };
            assert_eq!((line.path.join(" ").as_str(), shown.as_str()), (path, kind), "{typed}");
        }
        let words = split_words("status --target=@r");
        let line = read_line(&grammar, &words);
        assert_eq!((line.option_prefix, line.word), ("--target=", "@r"));
    }

    #[test]
    fn a_line_is_split_like_a_shell_does() {
        for (line, expected) in [
            ("", &[""][..]),
            ("run ", &["run", ""]),
            ("run  'a b' c\\ d", &["run", "a b", "c d"]),
            ("run \"a 'b", &["run", "a 'b"]),
            ("run '' ", &["run", "", ""]),
        ] {
            assert_eq!(split_words(line), expected, "{line}");
        }
    }
}
