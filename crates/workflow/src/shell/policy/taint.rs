//! Variables that hold a value at some time, wherever in the script.
//!
//! The order of the commands does not count: functions and loops run in another order than the text.

use std::collections::{BTreeMap, BTreeSet};

use agent_worker_protocol::shell_words::is_option;

use super::variables::may_hold_value;
use crate::shell::facts::{
    COMPUTED, CommandFacts, Facts, INHERITED_INPUT, POSITIONAL, Source, UNKNOWN_CHAR, Word,
    identifiers,
};

/// Variables that hold values, each with one reference that is its origin.
#[derive(Debug, Default)]
pub(super) struct TaintedNames {
    names: BTreeMap<String, usize>,
    /// Variables with text that is made at run time.
    computed: BTreeSet<String>,
    has_numbered_names: bool,
}

/// Assignment of what a variable may hold.
struct Flow<'a> {
    target: &'a str,
    sources: Vec<&'a str>,
    origin: Option<usize>,
    /// True if the text is made of several parts.
    is_computed: bool,
}

impl TaintedNames {
    pub(super) fn of(facts: &Facts) -> Self {
        let mut tainted = Self { has_numbered_names: facts.has_numbered_names, ..Self::default() };
        let environment = facts.environment.iter().map(|name| Flow::from_input(name));
        let mut flows: Vec<_> = environment.collect();
        for (name, sources) in &facts.flows {
            flows.push(Flow::new(name, &facts.sources[sources.clone()], ""));
        }
        for command in &facts.commands {
            add_flows(facts, command, &mut flows);
        }
        // Flows by the variables that they read.
        let mut readers: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut reached = Vec::new();
        for (n, flow) in flows.iter().enumerate() {
            for source in &flow.sources {
                readers.entry(source).or_default().push(n);
                if flow.origin.is_none() && tainted.name_origin(source).is_some() {
                    reached.push((n, 0));
                }
            }
            reached.extend(flow.origin.map(|origin| (n, origin)));
        }
        while let Some((n, origin)) = reached.pop() {
            let target = flows[n].target;
            if tainted.names.contains_key(target) {
                continue;
            }
            tainted.names.insert(target.to_owned(), origin);
            for reader in readers.get(target).into_iter().flatten() {
                reached.push((*reader, origin));
            }
        }
        tainted.computed = computed_names(&flows, &readers);
        tainted
    }

    /// Returns true if the variable may hold text that is made at run time.
    pub(super) fn is_computed(&self, name: &str) -> bool {
        name == COMPUTED || self.computed.contains(name)
    }

    /// Returns the reference whose value the variable may hold.
    pub(super) fn name_origin(&self, name: &str) -> Option<usize> {
        let is_unclear = self.has_numbered_names && name.contains(|c: char| c.is_ascii_digit());
        let always = (may_hold_value(name) || is_unclear).then_some(0);
        self.names.get(name).copied().or(always)
    }

    /// Returns the reference that a source brings, and the name of the variable that holds its value.
    pub(super) fn origin<'a>(&self, source: &'a Source) -> Option<(usize, Option<&'a str>)> {
        match source {
            Source::Reference(index) => Some((*index, None)),
            Source::Variable(name) => {
                self.name_origin(name).map(|index| (index, Some(name.as_str())))
            }
        }
    }
}

fn computed_names(flows: &[Flow<'_>], readers: &BTreeMap<&str, Vec<usize>>) -> BTreeSet<String> {
    let begins = |flow: &Flow<'_>| flow.is_computed || flow.sources.contains(&COMPUTED);
    let mut reached: Vec<usize> = (0..flows.len()).filter(|n| begins(&flows[*n])).collect();
    let mut computed = BTreeSet::new();
    while let Some(n) = reached.pop() {
        let target = flows[n].target;
        if computed.insert(target.to_owned()) {
            reached.extend(readers.get(target).into_iter().flatten());
        }
    }
    computed
}

impl<'a> Flow<'a> {
    /// Creates a flow from sources, and from the variables that a literal text names: arithmetic evaluates the name
    /// in `m=n` when it reads `m`.
    fn new(target: &'a str, sources: &'a [Source], text: &'a str) -> Self {
        let origin = sources.iter().find_map(|source| match source {
            Source::Reference(index) => Some(*index),
            Source::Variable(_) => None,
        });
        let names: BTreeSet<&str> = sources
            .iter()
            .filter_map(|source| match source {
                Source::Reference(_) => None,
                Source::Variable(name) => Some(name.as_str()),
            })
            .chain(identifiers(text))
            .filter(|name| *name != target)
            .collect();
        // Parts of a text may be a name together.
        let is_computed = text.len() > 1 && text.contains(UNKNOWN_CHAR);
        Self { target, sources: names.into_iter().collect(), origin, is_computed }
    }

    /// Creates a flow from a word that the shell may expand to others.
    fn from_word(target: &'a str, sources: &'a [Source], text: &'a str, word: &Word) -> Self {
        let flow = Self::new(target, sources, text);
        Self { is_computed: flow.is_computed || word.is_expanded(), ..flow }
    }

    /// Creates a flow from the standard input, which may be a value.
    fn from_input(target: &'a str) -> Self {
        Self { target, sources: Vec::new(), origin: Some(0), is_computed: false }
    }
}

fn add_flows<'a>(facts: &'a Facts, command: &'a CommandFacts, flows: &mut Vec<Flow<'a>>) {
    let sources = |word: &Word| &facts.sources[word.sources.clone()];
    for word in &command.assignments {
        if let Some((name, value)) = word.assignment() {
            let name = name.split('[').next().unwrap_or(name).trim_end_matches('+');
            flows.push(Flow::new(name, sources(word), value));
        }
    }
    if passes_input_on(facts, command) {
        let inputs = facts.input_sources(command).into_iter();
        flows.extend(inputs.map(|range| Flow::new(INHERITED_INPUT, &facts.sources[range], "")));
    }
    let Some((first, rest)) = command.words.split_first() else { return };
    match first.text.as_str() {
        "for" | "select" => {
            let Some((name, list)) = rest.split_first() else { return };
            let flow =
                |word: &'a Word| Flow::from_word(&name.text, sources(word), &word.text, word);
            flows.extend(list.iter().map(flow));
            // The list may follow on the next line.
            if list.is_empty() {
                flows.push(Flow::from_input(&name.text));
            }
        }
        "declare" | "export" | "local" | "readonly" | "typeset" => {
            for word in rest {
                if let Some((name, value)) = word.assignment() {
                    flows.push(Flow::from_word(name, sources(word), value, word));
                }
            }
        }
        "cd" | "pushd" | "popd" => {
            flows.extend(rest.iter().map(|word| Flow::new("PWD", sources(word), "")));
        }
        "set" => flows.extend(rest.iter().map(|word| positional(facts, word))),
        _ => {}
    }
    // Behind `command` and `builtin` any word may be the name.
    for (at, word) in command.words.iter().enumerate() {
        if at == 0 && is_function(facts, &word.text) {
            flows.extend(rest.iter().map(|word| positional(facts, word)));
        }
        let rest = &command.words[at + 1..];
        match word.text.as_str() {
            "read" | "mapfile" | "readarray" | "getopts" | "wait" => {
                flows.extend(rest.iter().flat_map(target_names).map(Flow::from_input));
            }
            // The option `-v` may also come from a variable.
            "printf" => {
                flows.extend(rest.iter().take(2).flat_map(target_names).map(Flow::from_input));
            }
            _ => {}
        }
    }
}

/// Returns the names of variables that an argument of `read` and similar may be, also behind an option: `-aname`.
fn target_names(word: &Word) -> Vec<&str> {
    let text = word.text.split('[').next().unwrap_or_default();
    if !is_option(text) {
        return vec![text];
    }
    // Behind `-a`, `-p` and `-v`.
    let names = text.match_indices(['a', 'p', 'v']).map(|(at, _)| &text[at + 1..]);
    names.filter(|name| !name.is_empty()).collect()
}

/// Returns true if commands inside this one may read its input: those of a compound command, of a function or of a
/// substitution, and after `exec` all.
fn passes_input_on(facts: &Facts, command: &CommandFacts) -> bool {
    let inherited = Source::Variable(INHERITED_INPUT.to_owned());
    let reads = |word: &Word| facts.sources[word.sources.clone()].contains(&inherited);
    let heads = ["fi", "done", "}", "esac", "exec"];
    let is_head = command
        .words
        .first()
        .is_none_or(|word| heads.contains(&word.text.as_str()) || is_function(facts, &word.text));
    is_head || command.is_compound || command.words.iter().chain(&command.assignments).any(reads)
}

fn positional<'a>(facts: &'a Facts, word: &'a Word) -> Flow<'a> {
    Flow::from_word(POSITIONAL, &facts.sources[word.sources.clone()], &word.text, word)
}

/// Returns true for a function of the script, also if a number is part of its name.
pub(super) fn is_function(facts: &Facts, name: &str) -> bool {
    let has_digit = |name: &String| name.contains(|c: char| c.is_ascii_digit());
    facts.functions.contains(name)
        || (facts.has_numbered_names && facts.functions.iter().any(has_digit))
}
