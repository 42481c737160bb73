//! Decides which references a script may have, from the facts that the scanner found. Pure.
//!
//! The policy is an allow-list. A value may be an argument of a program, of a function of the script, or of one of the
//! few builtins that take every text as data; the target of a redirection; the word of a `case` or in the list of a
//! `for`; text for the standard input of a command that does not run it; and the content of an ordinary variable. A
//! variable that received a value is then treated like the value. Everything else is refused.
//!
//! Text that the script makes at run time may be a value that came through a file or the environment, and may be the
//! name of a variable with a value. It is refused where the shell always evaluates it. A construct that can run text
//! from anywhere, such as `eval`, is refused in every script with a value.

mod arguments;
mod builtins;
mod inputs;
mod taint;
mod variables;

pub(crate) use variables::is_special;

use std::ops::Range;

use super::{
    facts::{COMPUTED, CommandFacts, Facts, SinkKind, Source, UNKNOWN_CHAR, Word},
    refusal::PlacementRefusal,
    scanner::MisplacedReference,
};
pub(super) use builtins::trap_code;
use taint::TaintedNames;

/// Functions that the shell calls itself, with words of other commands.
const HANDLERS: [&str; 1] = ["command_not_found_handle"];

/// Returns the references that cannot be at their places.
pub(super) fn refusals(facts: &Facts) -> Vec<MisplacedReference> {
    let mut check = Check {
        facts,
        tainted: TaintedNames::of(facts),
        misplaced: Vec::new(),
        script_refusals: Vec::new(),
    };
    for sink in &facts.sinks {
        check.refuse(sink.sources.clone(), &sink.why);
        if sink.kind == SinkKind::Evaluated {
            check.refuse_computed(sink.sources.clone(), &sink.why);
        }
    }
    for why in &facts.script_refusals {
        check.refuse_script(why.clone());
    }
    for handler in HANDLERS.iter().filter(|name| facts.functions.contains(**name)) {
        check.refuse_script(PlacementRefusal::Evaluator((*handler).to_owned()));
    }
    for command in &facts.commands {
        check.check_command(command);
    }
    // The reason at the place of a value is the better one.
    let script = check.script_refusals.into_iter();
    check.misplaced.extend(script.map(|why| MisplacedReference { index: 0, why }));
    check.misplaced
}

struct Check<'a> {
    facts: &'a Facts,
    tainted: TaintedNames,
    misplaced: Vec<MisplacedReference>,
    /// Reasons for which the script takes no value at all.
    script_refusals: Vec<PlacementRefusal>,
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

    /// Refuses text in this range that is made at run time.
    fn refuse_computed(&mut self, sources: Range<usize>, why: &PlacementRefusal) {
        let variable = self.facts.sources[sources].iter().find_map(|source| match source {
            Source::Variable(name) if self.tainted.is_computed(name) => Some(name),
            Source::Variable(_) | Source::Reference(_) => None,
        });
        if let Some(name) = variable {
            let variable = (name != COMPUTED).then(|| name.clone());
            let why = Box::new(why.clone());
            self.refuse_script(PlacementRefusal::Computed { variable, why });
        }
    }

    /// Refuses the first reference of the script, because its value may arrive at a place by a way that is not
    /// followed.
    fn refuse_script(&mut self, why: PlacementRefusal) {
        self.script_refusals.push(why);
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

    /// Refuses names in a text that is evaluated, also those of variables with text that is made at run time.
    fn refuse_evaluated_names(&mut self, text: &str, why: &PlacementRefusal) {
        self.refuse_names(text, why);
        if let Some(name) =
            super::facts::identifiers(text).find(|name| self.tainted.is_computed(name))
        {
            let (variable, why) = (Some(name.to_owned()), Box::new(why.clone()));
            self.refuse_script(PlacementRefusal::Computed { variable, why });
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
        if command.is_pattern {
            for word in &command.words {
                self.refuse(word.sources.clone(), &PlacementRefusal::CommandWord);
            }
            return;
        }
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
        if let Some(name) = words.get(1) {
            self.check_target(&name.text);
        }
        if !has_list {
            self.refuse_script(PlacementRefusal::ScanFailed("a `for` without `in`"));
        }
    }

    fn check_assignment(&mut self, word: &Word) {
        let Some((name, _)) = word.assignment() else { return };
        self.check_target(name);
        let why = if word.text.contains("]=") || word.text.contains("]+=") {
            let subscript = word.text.split("]=").next().unwrap_or_default();
            let subscript = subscript.split_once('[').map_or("", |(_, subscript)| subscript);
            self.refuse_evaluated_names(subscript, &PlacementRefusal::Subscript);
            if subscript.contains(UNKNOWN_CHAR) {
                self.refuse_computed(word.sources.clone(), &PlacementRefusal::Subscript);
            }
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

    /// Refuses the script if it sets a variable whose text the shell runs.
    fn check_target(&mut self, name: &str) {
        let name = name.split(['[', '+']).next().unwrap_or_default();
        if name == "BASH_ALIASES" || name == "BASH_CMDS" {
            self.refuse_script(PlacementRefusal::Alias(name.to_owned()));
        } else if variables::is_code(name) {
            self.refuse_script(PlacementRefusal::CodeVariable(name.to_owned()));
        }
    }
}
