//! Matches commands against patterns. Pure.
//!
//! `allow` accepts only the literal command: one command, in whole words, without shell syntax. `deny` and `ask`
//! search every part of it: behind redirections, assignments and wrapper commands, and behind the options of a
//! program with subcommands. A shell offers endless ways to express the same command: a form that is not found here
//! falls to `default`, and is never allowed by `allow`.

use std::borrow::Cow;

use agent_worker_protocol::{
    ArgumentPattern,
    shell_words::{
        is_assignment, is_option, is_shell, is_variable_name, precedes_command, program_name,
        reads_commands, runs_stdin, subcommand_program, wrapper,
    },
};

use super::{
    embedded_commands::{embedded_commands, expand_braces},
    simple_commands::{COMMAND_SEPARATORS, simple_commands},
};

/// Characters that quote others.
pub(super) const QUOTES: [char; 3] = ['\'', '"', '\\'];
/// Characters that make a command do more than its words show.
pub(super) const EXPANSION_CHARS: [char; 3] = ['$', '<', '>'];
/// Maximum nesting of commands in the arguments of commands, such as `sh -c "sh -c …"`.
const MAX_DEPTH: usize = 3;
/// Maximum number of options that are read before a subcommand.
const MAX_OPTIONS: usize = 32;
/// Maximum number of letters in a group of short options, such as `-vS`.
const MAX_OPTION_LETTERS: usize = 8;

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
    let command = command.replace("\\\n", "").replace("${IFS}", " ").replace("$IFS", " ");
    let fit = &strip_fit_quotes(fit);
    // As it is written, as a shell reads it, and without its quotes: those inside other quotes are not known here.
    let unquoted = command.replace(QUOTES, "");
    begins_with_fit(fit, &strip_quotes(&command))
        || line_matches(fit, &command, MAX_DEPTH)
        || line_matches(fit, &unquoted, 0)
        || expand_braces(&command).is_some_and(|line| line_matches(fit, &line, MAX_DEPTH))
        || command.split(COMMAND_SEPARATORS).any(|part| {
            let part = strip_quotes(part);
            let words: Vec<_> = part.split_whitespace().map(str::to_owned).collect();
            invokes_match(fit, &words, 0)
        })
}

/// Returns the line that a shell would read for a program and its arguments.
pub(super) fn quoted_line(words: &[&str]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+=,./:@%^".contains(c);
    let quoted = words.iter().map(|word| {
        if word.chars().all(is_plain) && !word.is_empty() {
            (*word).to_owned()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Returns true if a line runs the command that a pattern names.
fn line_matches(fit: &ArgumentPattern, line: &str, depth: usize) -> bool {
    let commands = simple_commands(line);
    // `echo 'rm x' | bash`: every word may become code.
    let runs_words = depth > 0 && commands.iter().any(|words| runs_input(words));
    let contains_match = |words: &[String]| {
        runs_words && (0..words.len()).any(|at| carried_match(fit, &words[at..], depth))
    };
    commands.iter().any(|words| invokes_match(fit, words, depth) || contains_match(words))
}

/// Returns true if a command runs its input, or a file that another command of the line may have made.
fn runs_input(words: &[String]) -> bool {
    let words = without_prefix(words);
    let Some(name) = words.first().map(|word| program_name(word)) else { return false };
    let places = if wrapper(name).is_some() { words.len() } else { 1 };
    let is_fed_shell = |at: usize| {
        let arguments: Vec<_> = words[at + 1..].iter().map(|word| Some(word.as_str())).collect();
        runs_stdin(program_name(&words[at]), &arguments)
    };
    let mut behind_wrappers = words.iter().take(places);
    name == "."
        || words.iter().take(places).any(|word| word == "source")
        || behind_wrappers
            .position(|word| reads_commands(program_name(word)))
            .is_some_and(is_fed_shell)
        || ["xargs", "gxargs"].contains(&name) && words[1..].iter().any(|word| is_carrier(word))
}

/// Returns true for a program that runs its arguments.
fn is_carrier(word: &str) -> bool {
    let name = program_name(word);
    wrapper(name).is_some() || is_shell(name)
}

/// Returns a command without the keywords and assignments before it.
fn without_prefix(words: &[String]) -> &[String] {
    let before = words.iter().take_while(|word| precedes_command(word) || sets_variable(word));
    &words[before.count()..]
}

/// Returns true if one command is the one that a pattern names, or runs it. `depth` limits the nesting of commands in
/// its words.
fn invokes_match(fit: &ArgumentPattern, words: &[String], depth: usize) -> bool {
    let words = without_prefix(words);
    let Some((first, rest)) = words.split_first() else { return false };
    let name = program_name(first);
    // `$(…)` and `` `…` `` run also inside double quotes.
    let runs_substitution = |word: &String| {
        depth > 0
            && (word.contains("$(") || word.contains('`'))
            && line_matches(fit, word, depth - 1)
    };
    let runs_embedded = |word: &String| {
        depth > 0
            && embedded_commands(name, word).iter().any(|line| line_matches(fit, line, depth - 1))
    };
    let carried = if is_carrier(first) { 0 } else { runner_end(name, rest) };
    call_matches(fit, first, rest)
        || words.iter().any(runs_substitution)
        || name == "git" && rest.iter().any(|word| setting_matches(fit, word, depth))
        || rest.iter().any(runs_embedded)
        || (carried..rest.len()).any(|at| carried_match(fit, &rest[at..], depth))
}

/// Returns the place after a subcommand that runs its arguments, such as `docker exec`; the end if there is none.
fn runner_end(name: &str, rest: &[String]) -> usize {
    let Some(program) = subcommand_program(name) else { return rest.len() };
    let words: Vec<_> = rest.iter().take(MAX_OPTIONS).map(String::as_str).collect();
    program.runner_end(&words).unwrap_or(rest.len())
}

/// Returns true if the first of the words that follow a wrapper is, or contains, the command that a pattern names.
fn carried_match(fit: &ArgumentPattern, words: &[String], depth: usize) -> bool {
    let Some((word, rest)) = words.split_first() else { return false };
    let is_line =
        |text: &str| text.contains(char::is_whitespace) || text.contains(COMMAND_SEPARATORS);
    let runs = |text: &str| {
        call_matches(fit, text, rest)
            || depth > 0 && is_line(text) && line_matches(fit, text, depth - 1)
    };
    // A command may be attached to its option: `env -S'rm x'`, `--split-string=rm`,
    // or to the last of a group of short options: `env -vS'rm x'`.
    let has_short = is_option(word) && !word.starts_with("--");
    let letters = if has_short { MAX_OPTION_LETTERS } else { 0 };
    let mut attached = word.char_indices().skip(2).take(letters).map(|(at, _)| &word[at..]);
    let long = word.split_once('=').map(|(_, value)| value);
    runs(word) || long.is_some_and(runs) || attached.any(runs)
}

/// Returns true if a setting of git, such as `core.pager=…` or an alias, runs the command that a pattern names.
fn setting_matches(fit: &ArgumentPattern, word: &str, depth: usize) -> bool {
    let setting = word.split_once('=').filter(|(name, _)| depth > 0 && name.contains('.'));
    let Some((name, value)) = setting else { return false };
    let is_alias = name.contains("alias.") && !value.starts_with('!');
    is_alias && line_matches(fit, &format!("git {value}"), depth - 1)
        || line_matches(fit, value.trim_start_matches('!'), depth - 1)
}

/// Returns true if a program with its arguments is the call that a pattern names, also without the options before
/// its subcommand.
fn call_matches(fit: &ArgumentPattern, first: &str, rest: &[String]) -> bool {
    let name = program_name(first);
    begins_with_call(fit, first, rest)
        || begins_with_call(fit, name, rest)
        || subcommand_places(name, rest).iter().any(|at| begins_with_call(fit, name, &rest[*at..]))
}

/// Returns the places where a subcommand may be behind options. The options of an unknown program may take a value.
fn subcommand_places(name: &str, rest: &[String]) -> Vec<usize> {
    if !rest.first().is_some_and(|word| is_option(word)) {
        return Vec::new();
    }
    let options = rest.iter().take(MAX_OPTIONS).map(String::as_str).collect::<Vec<_>>();
    if let Some(program) = subcommand_program(name) {
        return vec![program.options.leading_words(&options)];
    }
    let (mut places, mut at) = (Vec::new(), 0);
    while options.get(at).is_some_and(|word| is_option(word)) {
        at += 1;
        if options.get(at).is_some_and(|word| !is_option(word)) {
            places.extend([at, at + 1]);
            at += 1;
        }
    }
    places
}

fn begins_with_fit(fit: &ArgumentPattern, call: &str) -> bool {
    begins_with_call(fit, call, &[])
}

/// Compares a call with a pattern. Reads no more words than the pattern is long.
fn begins_with_call(fit: &ArgumentPattern, first: &str, rest: &[String]) -> bool {
    let text = match fit {
        ArgumentPattern::Any => return true,
        ArgumentPattern::Exact(text) | ArgumentPattern::Prefix(text) => text.as_str(),
    };
    let mut call = Cow::Borrowed(first);
    for word in rest {
        if call.len() > text.len() {
            break;
        }
        let call = call.to_mut();
        call.push(' ');
        call.push_str(word);
    }
    match fit {
        ArgumentPattern::Any => true,
        ArgumentPattern::Exact(text) => call == text.as_str(),
        // `rm *` matches `rm` with and without arguments.
        ArgumentPattern::Prefix(start) => {
            call.starts_with(start.as_str()) || start.trim_end() == call
        }
    }
}

/// Removes quotes, which only mark the ends of words.
fn strip_quotes(text: &str) -> String {
    text.replace(QUOTES, "").split_whitespace().collect::<Vec<_>>().join(" ")
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

/// Returns true for `NAME=value` and `NAME[0]=value`, which precede a command.
fn sets_variable(word: &str) -> bool {
    let name = word.split_once(['=', '[']).map(|(name, _)| name);
    is_assignment(word) || name.is_some_and(is_variable_name) && word.contains("]=")
}

#[cfg(test)]
mod tests;
