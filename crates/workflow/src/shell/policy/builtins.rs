//! Builtins that run text, set variables by name, or change how the shell reads the script.
//!
//! The shell runs these itself, so their arguments are checked also where they have no value: a literal text may name a
//! variable that has one.

use agent_worker_protocol::shell_words::{WrappedCommand, is_option, wrapped_command};

use super::{
    Check,
    arguments::{DECLARATIONS, EVALUATORS, NAME_TAKERS, is_printf_v},
};
use crate::shell::{
    facts::{CommandFacts, UNKNOWN_CHAR, Word},
    refusal::PlacementRefusal,
};

/// Builtins that run text from anywhere as code: no script with a value has one.
const REFUSED: [&str; 7] = ["bind", "compgen", "complete", "compopt", "enable", "eval", "fc"];

/// Options of `read` and `mapfile` that take a value.
const VALUE_OPTIONS: &str = "cdinNOpstu";

/// Returns the literal code of a `trap`.
pub(crate) fn trap_code(command: &CommandFacts) -> Option<&str> {
    let at = shell_command(&command.words);
    let words = command.words.get(at..)?;
    let [name, rest @ ..] = words else { return None };
    let code = rest.iter().find(|word| word.text != "--")?;
    let is_trap = name.text == "trap" && !code.text.starts_with('-');
    // The brackets and braces in a quoted text are no pattern.
    (is_trap && !code.text.contains(UNKNOWN_CHAR)).then_some(code.text.as_str())
}

/// Returns the place of the command that the shell runs: behind `command` and `builtin`.
fn shell_command(words: &[Word]) -> usize {
    let known: Vec<_> = words.iter().map(Word::beginning).collect();
    match wrapped_command(&known) {
        WrappedCommand::At(at) => at,
        WrappedCommand::NotNamed => 0,
        // Such as `command eval`.
        WrappedCommand::Unclear => {
            let is_known = |word: &Word| {
                let text = &word.text.as_str();
                [&EVALUATORS[..], &NAME_TAKERS, &DECLARATIONS, &REFUSED]
                    .iter()
                    .any(|names| names.contains(text))
            };
            words.iter().position(is_known).unwrap_or(0)
        }
    }
}

/// Returns true if the name of the command that the shell itself runs is not known.
fn is_dynamic(words: &[Word]) -> bool {
    let is_passed_on = |word: &Word| ["command", "builtin"].contains(&word.text.as_str());
    let mut names = words.iter().skip_while(|word| is_passed_on(word));
    let skipped = words.iter().take_while(|word| is_passed_on(word)).count();
    let mut name = names.next();
    while let Some(option) = name.filter(|word| skipped > 0 && is_option(&word.text)) {
        // `command -v name` runs nothing.
        if option.text.contains(['v', 'V']) {
            return false;
        }
        name = names.next();
    }
    name.is_some_and(|name| name.literal().is_none())
}

impl Check<'_> {
    /// Checks literal code, literal names and names that are made at run time.
    pub(super) fn check_builtin(&mut self, words: &[Word]) {
        if is_dynamic(words) {
            self.refuse_script(PlacementRefusal::DynamicCommand);
        }
        let at = shell_command(words);
        let (name, rest) = (words[at].text.as_str(), &words[at + 1..]);
        let owned = || name.to_owned();
        let is_map = name == "mapfile" || name == "readarray";
        if name == "alias" || is_map && has_option(rest, 'C') {
            self.refuse_script(PlacementRefusal::Alias(owned()));
        }
        if REFUSED.contains(&name) || name == "jobs" && has_option(rest, 'x') {
            self.refuse_script(PlacementRefusal::Evaluator(owned()));
        }
        match name {
            "set" => self.check_set(rest),
            "let" | "trap" => self.check_code(name, rest),
            "test" | "[" => self.check_test(rest),
            "printf" => self.check_printf(rest),
            "wait" => self.check_subscripts(name, rest),
            _ if NAME_TAKERS.contains(&name) => self.check_names(name, rest),
            _ if DECLARATIONS.contains(&name) => self.check_declaration(name, rest),
            _ if EVALUATORS.contains(&name) => {
                for word in rest {
                    self.refuse_names(&word.text, &PlacementRefusal::Code(owned()));
                }
            }
            _ => {}
        }
    }

    /// Checks `let` and `trap`: the code is written out.
    fn check_code(&mut self, name: &str, words: &[Word]) {
        let why = PlacementRefusal::Code(name.to_owned());
        if words.iter().any(|word| word.text.contains(UNKNOWN_CHAR)) {
            self.refuse_script(PlacementRefusal::DynamicCode(name.to_owned()));
        }
        for word in words {
            match name {
                "let" => self.refuse_evaluated_names(&word.text, &why),
                _ => self.refuse_names(&word.text, &why),
            }
        }
    }

    /// Refuses `set -k`, which makes assignments of arguments.
    fn check_set(&mut self, words: &[Word]) {
        let Some(first) = words.first() else { return };
        let is_unclear = first.beginning().is_none();
        let is_keyword = |word: &Word| {
            word.text == "keyword" || (is_set_option(word) && word.text.contains('k'))
        };
        let options = words.iter().take_while(|word| word.text != "--");
        if is_unclear || options.into_iter().any(is_keyword) {
            self.refuse_script(PlacementRefusal::Evaluator("set -k".to_owned()));
        }
    }

    fn check_test(&mut self, words: &[Word]) {
        let is_name_test = |word: &Word| ["-v", "-R"].contains(&word.text.as_str());
        let is_unclear = |word: &Word| word.literal().is_none();
        // An operand that is not written out may be `-v`.
        if words.iter().any(|word| is_name_test(word) || is_unclear(word)) {
            self.check_subscripts("test", words);
        }
        let mut before: Option<&Word> = None;
        for word in words {
            let follows_name_test = before.is_some_and(is_name_test);
            let follows_unclear = before.is_some_and(is_unclear);
            if follows_name_test && is_unclear(word) {
                self.refuse_script(PlacementRefusal::DynamicName("test".to_owned()));
            }
            if word.splits || follows_unclear {
                self.refuse_computed(word.sources.clone(), &PlacementRefusal::TestOperand);
            }
            before = Some(word);
        }
    }

    fn check_printf(&mut self, words: &[Word]) {
        let Some(first) = words.first() else { return };
        let is_unclear = first.beginning().is_none();
        if is_unclear {
            self.refuse_computed(first.sources.clone(), &PlacementRefusal::Format);
        }
        if !is_unclear && !is_printf_v("printf", words) {
            return;
        }
        self.check_subscripts("printf", words);
        let target = if first.text == "-v" { words.get(1) } else { Some(first) };
        if let Some(target) = target.filter(|_| !is_unclear) {
            self.check_target(target.text.trim_start_matches("-v"));
            if target.literal().is_none() {
                self.refuse_script(PlacementRefusal::DynamicName("printf".to_owned()));
            }
        }
    }

    /// Checks the subscripts in the names of variables.
    fn check_subscripts(&mut self, name: &str, words: &[Word]) {
        let why = PlacementRefusal::Variable(name.to_owned());
        for word in words.iter().filter(|word| word.text.contains('[')) {
            self.refuse_evaluated_names(&word.text, &why);
        }
    }

    /// Checks the names of variables that `read` and similar take: they are written out.
    fn check_names(&mut self, name: &str, words: &[Word]) {
        self.check_subscripts(name, words);
        // Only one argument of `getopts` is a name.
        let words = if name == "getopts" { words.get(1..2).unwrap_or_default() } else { words };
        let mut before: Option<&Word> = None;
        for word in words {
            let is_value = before.is_some_and(|before| {
                let takes_value = before.text.ends_with(|c| VALUE_OPTIONS.contains(c));
                name != "unset" && is_option(&before.text) && takes_value
            });
            if !is_value && word.text.contains(UNKNOWN_CHAR) {
                self.refuse_script(PlacementRefusal::DynamicName(name.to_owned()));
            }
            self.check_target(&word.text);
            before = Some(word);
        }
    }

    fn check_declaration(&mut self, name: &str, words: &[Word]) {
        let why = PlacementRefusal::Declaration(name.to_owned());
        let has_options =
            words.iter().any(|word| is_option(&word.text) || word.text.starts_with('+'));
        // `export name` and `local name` take the name itself.
        let declares = ["declare", "typeset"].contains(&name) || has_options;
        if has_option(words, 'n') && name != "export" {
            self.refuse_script(PlacementRefusal::Evaluator(format!("{name} -n")));
        }
        let is_integer = has_option(words, 'i');
        for word in words {
            let target = word.text.split('=').next().unwrap_or_default();
            self.check_target(target);
            if target.contains(UNKNOWN_CHAR) || (word.splits && !word.text.contains('=')) {
                self.refuse_script(PlacementRefusal::DynamicName(name.to_owned()));
            }
            if is_integer {
                self.refuse_evaluated_names(&word.text, &why);
                self.refuse_computed(word.sources.clone(), &why);
            } else if declares || word.text.contains('[') {
                self.refuse_names(&word.text, &why);
            }
        }
    }
}

fn has_option(words: &[Word], letter: char) -> bool {
    words.iter().any(|word| is_option(&word.text) && word.text.contains(letter))
}

fn is_set_option(word: &Word) -> bool {
    word.text.starts_with(['-', '+'])
}
