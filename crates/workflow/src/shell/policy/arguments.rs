//! Values among the words of a command.

use agent_worker_protocol::shell_words::{
    ArgumentRole, WrappedCommand, interpreter, is_assignment, is_builtin, is_option, is_shell,
    precedes_command, program_name, wrapped_command, wrapper,
};

use super::{Check, taint::is_function, variables};
use crate::shell::{
    facts::{CommandFacts, Word},
    refusal::PlacementRefusal,
};

/// Builtins that take every text as data.
const DATA_BUILTINS: [&str; 4] = [":", "cd", "echo", "true"];

/// Builtins that run their arguments as code.
pub(super) const EVALUATORS: [&str; 5] = [".", "eval", "let", "source", "trap"];

/// Builtins that take names of variables, and evaluate the subscripts in them.
pub(super) const NAME_TAKERS: [&str; 5] = ["getopts", "mapfile", "read", "readarray", "unset"];

pub(super) const DECLARATIONS: [&str; 5] = ["declare", "export", "local", "readonly", "typeset"];

/// A command with more values than this behind a wrapper or an interpreter is refused instead of read.
const MAX_READ_VALUES: usize = 200;

impl Check<'_> {
    pub(super) fn check_arguments(&mut self, command: &CommandFacts) {
        let words = &command.words;
        let name = &words[0];
        if self.has_value(name) {
            self.refuse(name.sources.clone(), &PlacementRefusal::CommandWord);
        }
        self.check_builtin(words);
        let values: Vec<usize> =
            (1..words.len()).filter(|at| self.has_value(&words[*at])).collect();
        let is_plain = name.literal().is_some_and(|name| {
            let name = program_name(name);
            wrapper(name).is_none() && interpreter(name).is_none()
        });
        for (count, at) in values.into_iter().enumerate() {
            let why = if is_plain || count < MAX_READ_VALUES {
                self.argument_refusal(words, at)
            } else {
                Some(PlacementRefusal::ScanFailed("too many values in one command"))
            };
            if let Some(why) = why {
                self.refuse(words[at].sources.clone(), &why);
            }
        }
    }

    /// Returns the reason for which the word at `at` cannot have a value.
    fn argument_refusal(&self, words: &[Word], at: usize) -> Option<PlacementRefusal> {
        let known: Vec<_> = words[..at].iter().map(Word::beginning).collect();
        let unclear = || {
            let names =
                words[..at].iter().rev().filter_map(|word| word.literal().map(program_name));
            match names.into_iter().find(|name| wrapper(name).is_some()) {
                Some(name) if EVALUATORS.contains(&name) => PlacementRefusal::Code(name.to_owned()),
                Some(name) => PlacementRefusal::Wrapper(name.to_owned()),
                None => PlacementRefusal::UnknownCommand,
            }
        };
        let begins = match wrapped_command(&known) {
            WrappedCommand::At(begins) => begins,
            // Such as `env x=` and `sudo x=`.
            WrappedCommand::NotNamed if Self::is_wrapper_assignment(words, at) => return None,
            WrappedCommand::NotNamed | WrappedCommand::Unclear => return Some(unclear()),
        };
        let is_exact = |word: &Word| word.literal().is_some() || is_assignment(&word.text);
        let Some(name) = words[begins].literal() else { return Some(unclear()) };
        if !words[..begins].iter().all(is_exact) || is_grammar(name) {
            return Some(unclear());
        }
        if begins == 0 && is_function(self.facts, name) {
            return None;
        }
        let arguments = &words[begins + 1..=at];
        let builtin = is_builtin(name) || name == "coproc";
        if builtin {
            return Self::builtin_refusal(name, &words[begins + 1..], arguments.len() - 1);
        }
        program_refusal(program_name(name), arguments)
    }

    /// Returns true for `NAME=value` among the words of `env` and `sudo`.
    fn is_wrapper_assignment(words: &[Word], at: usize) -> bool {
        let takes_assignments = |word: &Word| {
            let name = word.literal().map(program_name);
            name.is_some_and(|name| ["env", "sudo"].contains(&name))
        };
        let name = words[at].assignment().map(|(name, _)| name);
        name.is_some_and(|name| {
            is_assignment(&words[at].text) && !name.ends_with('+') && !variables::is_special(name)
        }) && words[..at].iter().any(takes_assignments)
            && !words[at].is_several()
    }

    fn builtin_refusal(name: &str, words: &[Word], at: usize) -> Option<PlacementRefusal> {
        let owned = name.to_owned();
        match name {
            _ if DATA_BUILTINS.contains(&name) => None,
            "printf" => printf_refusal(&words[..at], words),
            "test" | "[" => Self::test_refusal(words, at),
            _ if EVALUATORS.contains(&name) => Some(PlacementRefusal::Code(owned)),
            _ if NAME_TAKERS.contains(&name) => Some(PlacementRefusal::Variable(owned)),
            _ if DECLARATIONS.contains(&name) => Some(PlacementRefusal::Declaration(owned)),
            _ => Some(PlacementRefusal::Builtin(owned)),
        }
    }

    /// Checks an operand of `test`. A value may be `-v`, and then the next word is evaluated; so no value follows
    /// another, and none is more than one word.
    fn test_refusal(words: &[Word], at: usize) -> Option<PlacementRefusal> {
        let word = &words[at];
        let before = at.checked_sub(1).map(|before| &words[before]);
        let follows_literal = before.is_none_or(|word| word.literal().is_some());
        if word.is_several() || !follows_literal {
            return Some(PlacementRefusal::TestOperand);
        }
        let takes_name =
            before.and_then(Word::literal).is_some_and(|text| ["-v", "-R"].contains(&text));
        takes_name.then(|| PlacementRefusal::Variable("test".to_owned()))
    }
}

/// Checks an argument of `printf`: the format is written out, so that no value is the option `-v`.
fn printf_refusal(before: &[Word], words: &[Word]) -> Option<PlacementRefusal> {
    if is_printf_v("printf", words) {
        return Some(PlacementRefusal::Variable("printf".to_owned()));
    }
    let format =
        |word: &Word| word.literal().is_some_and(|text| text == "--" || !text.starts_with('-'));
    (!before.first().is_some_and(format)).then_some(PlacementRefusal::Format)
}

/// Checks an argument of a program; the last word of `arguments` has the value.
fn program_refusal(name: &str, arguments: &[Word]) -> Option<PlacementRefusal> {
    let (word, before) = arguments.split_last()?;
    let known: Vec<_> = before.iter().map(Word::beginning).collect();
    let prefix = word.beginning().unwrap_or_default();
    if name == "find" {
        // Three values one after the other may be an action.
        let follows_literal = before.last().is_none_or(|word| word.literal().is_some());
        let unclear = word.is_several() || !follows_literal;
        return unclear.then(|| PlacementRefusal::Wrapper(name.to_owned()));
    }
    if let Some(known_interpreter) = interpreter(name)
        && known_interpreter.role_after(&known, prefix) != ArgumentRole::Data
    {
        return Some(PlacementRefusal::Code(name.to_owned()));
    }
    // A program may run another: `docker run image sh -c code`.
    let inner = known.iter().enumerate().rev().find_map(|(at, word)| {
        let name = program_name((*word)?);
        interpreter(name).map(|inner| (at, name, inner))
    });
    let (at, inner_name, inner) = inner?;
    let has_code_option = |word: &str| is_option(word) && word.contains(['c', 'e', 'C', 'E']);
    let follows_option = known.last().is_some_and(|word| word.is_none_or(has_code_option));
    let is_code = inner.role_after(&known[at + 1..], prefix) == ArgumentRole::Code;
    let is_option_value = follows_option || has_code_option(prefix) || is_shell(inner_name);
    let has_code = is_code && is_option_value && known.len() > at + 1;
    has_code.then(|| PlacementRefusal::Code(inner_name.to_owned()))
}

pub(super) fn is_printf_v(name: &str, words: &[Word]) -> bool {
    let first = words.first();
    name == "printf" && first.is_some_and(|word| word.text.starts_with("-v") || word.text == "-")
}

/// Returns true for a word of the shell's grammar, which begins a command that was not read.
fn is_grammar(name: &str) -> bool {
    precedes_command(name) || ["case", "for", "select", "function", "[[", "time"].contains(&name)
}
