//! Decides which references a script may have, from the facts that the scanner found. Pure.
//!
//! The policy is an allow-list. A value may be an argument of a program, of a function of the script, or of one of the
//! few builtins that take every text as data; the target of a redirection; the word of a `case` or in the list of a
//! `for`; text for the standard input of a command that does not run it; and the content of an ordinary variable. A
//! variable that received a value is then treated like the value. Everything else is refused.
//!
//! The policy does not follow a value through a file, or through a program that the script starts.

mod arguments;
mod inputs;
mod taint;
mod variables;

use std::ops::Range;

use super::{
    facts::{CommandFacts, Facts, Word},
    refusal::PlacementRefusal,
    scanner::MisplacedReference,
};
use taint::TaintedNames;

/// Returns the references that cannot be at their places.
pub(super) fn refusals(facts: &Facts) -> Vec<MisplacedReference> {
    let mut check = Check { facts, tainted: TaintedNames::of(facts), misplaced: Vec::new() };
    for (why, sources) in &facts.sinks {
        check.refuse(sources.clone(), why);
    }
    for command in &facts.commands {
        check.check_command(command);
    }
    check.misplaced
}

struct Check<'a> {
    facts: &'a Facts,
    tainted: TaintedNames,
    misplaced: Vec<MisplacedReference>,
}

impl Check<'_> {
    /// Refuses the references whose values reach this range.
    fn refuse(&mut self, sources: Range<usize>, why: &PlacementRefusal) {
        for source in &self.facts.sources[sources] {
            let Some((index, variable)) = self.tainted.origin(source) else { continue };
            let why = match variable {
                None => why.clone(),
                Some(name) => PlacementRefusal::through(name, why.clone()),
            };
            self.misplaced.push(MisplacedReference { index, why });
        }
    }

    /// Refuses the first reference of the script, because its value may arrive at a place by a way that is not
    /// followed.
    fn refuse_script(&mut self, why: PlacementRefusal) {
        self.misplaced.push(MisplacedReference { index: 0, why });
    }

    /// Refuses the references whose values are in variables that the text names.
    fn refuse_names(&mut self, text: &str, why: &PlacementRefusal) {
        for name in super::facts::identifiers(text) {
            if let Some(index) = self.tainted.name_origin(name) {
                let why = PlacementRefusal::through(name, why.clone());
                self.misplaced.push(MisplacedReference { index, why });
            }
        }
    }

    fn is_tainted(&self, sources: Range<usize>) -> bool {
        self.facts.sources[sources].iter().any(|source| self.tainted.origin(source).is_some())
    }

    fn has_value(&self, word: &Word) -> bool {
        self.is_tainted(word.sources.clone())
    }

    fn check_command(&mut self, command: &CommandFacts) {
        for word in &command.assignments {
            self.check_assignment(word);
        }
        let Some(first) = command.words.first() else { return };
        let keyword = if first.quoted { "" } else { first.text.as_str() };
        match keyword {
            "fi" | "done" | "}" | "esac" | "[[" | "case" | "function" => return,
            "for" | "select" => return self.check_loop(&command.words),
            _ => {}
        }
        self.check_arguments(command);
        self.check_inputs(command);
    }

    /// Checks the head of `for name in …`: the list takes values.
    fn check_loop(&mut self, words: &[Word]) {
        // In `for name do …` the words after `do` are a command that was not read.
        let has_list = words.get(2).is_none_or(|word| !word.quoted && word.text == "in");
        if !has_list {
            self.refuse_script(PlacementRefusal::ScanFailed("a `for` without `in`"));
        }
    }

    fn check_assignment(&mut self, word: &Word) {
        let Some((name, _)) = word.assignment() else { return };
        if name.starts_with("BASH_ALIASES") || name.starts_with("BASH_CMDS") {
            self.refuse_script(PlacementRefusal::Alias("BASH_ALIASES".to_owned()));
        }
        let why = if word.text.contains("]=") || word.text.contains("]+=") {
            let subscript = word.text.split("]=").next().unwrap_or_default();
            self.refuse_names(subscript, &PlacementRefusal::Subscript);
            PlacementRefusal::Subscript
        } else if name.ends_with('+') {
            PlacementRefusal::Append
        } else if variables::is_special(name) {
            PlacementRefusal::SpecialVariable(name.to_owned())
        } else {
            return;
        };
        self.refuse(word.sources.clone(), &why);
    }
}
