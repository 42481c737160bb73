//! The commands of a script with the values that may reach them, as the scanner found them.
//!
//! Everything that may bring a value to a place is a source: a reference, or a variable. The sources of a script are one
//! list in the order of the text, so that a word, a substitution and a pipeline are ranges of it. A range contains
//! the sources of the commands inside it: their output is part of the word.

use std::{collections::BTreeSet, ops::Range};

use super::refusal::PlacementRefusal;

/// Placeholder in a word for text that is unknown before the script runs.
pub(super) const UNKNOWN_CHAR: char = '\0';

/// Name of the standard input that a command inherits, as a variable.
pub(super) const INHERITED_INPUT: &str = "<";

/// Name of all positional parameters together: `$1`, `$@`.
pub(super) const POSITIONAL: &str = "@";

/// Name, as a variable, of text that the script makes at run time: the output of a command, a part of another text.
/// It may be a value that came through a file, and it may be the name of a variable that holds one.
pub(super) const COMPUTED: &str = "$";

/// Origin of a value at some place of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Reference, counted from 0.
    Reference(usize),
    /// Variable with this name.
    Variable(String),
}

/// One word of a command.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of the text of its own")]
pub(super) struct Word {
    pub(super) text: String,
    /// True if part of the word is quoted or expanded, so that it is not a keyword.
    pub(super) quoted: bool,
    /// True if the shell may make several words of it, or none.
    pub(super) splits: bool,
    /// True if the word has unquoted characters of a pattern.
    pub(super) has_pattern: bool,
    /// True if the word has an unquoted brace.
    pub(super) has_brace: bool,
    pub(super) sources: Range<usize>,
}

/// Standard input that a command sets for itself.
#[derive(Clone, Debug)]
pub(super) enum Input {
    /// File that the command reads: `<name`.
    File(Word),
    /// Here-document with this number.
    Heredoc(usize),
    /// Text of a here-string: `<<<text`.
    Text(Word),
    /// Another descriptor: `<&3`.
    Descriptor,
}

/// One simple command, or the head of a compound one.
#[derive(Clone, Debug, Default)]
pub(super) struct CommandFacts {
    pub(super) assignments: Vec<Word>,
    pub(super) words: Vec<Word>,
    pub(super) inputs: Vec<Input>,
    pub(super) pipe: Option<Pipe>,
    /// True if the pipe ends in a compound command: `| while …`.
    pub(super) is_compound: bool,
    /// True for a pattern of a `case`, which is no command.
    pub(super) is_pattern: bool,
}

/// Output of other commands as the input of a command.
#[derive(Clone, Debug, Default)]
pub(super) struct Pipe {
    /// Sources of these commands.
    pub(super) sources: Range<usize>,
    /// Numbers of their here-documents, whose text follows later.
    pub(super) heredocs: Vec<usize>,
}

/// Facts of a whole script.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) sources: Vec<Source>,
    pub(super) commands: Vec<CommandFacts>,
    pub(super) sinks: Vec<Sink>,
    /// Variables that receive sources other than by an assignment: `${name:=…}`.
    pub(super) flows: Vec<(String, Range<usize>)>,
    /// Sources of each here-document, by its number.
    pub(super) heredocs: Vec<Range<usize>>,
    pub(super) functions: BTreeSet<String>,
    /// True if a number is part of a name: `n${{ int(x) }}`.
    pub(super) has_numbered_names: bool,
    /// Variables of the environment that a client may set.
    pub(super) environment: Vec<String>,
    /// Constructs for which a script takes no value at all.
    pub(super) script_refusals: Vec<PlacementRefusal>,
}

/// Place in which every value is refused.
#[derive(Debug)]
pub(super) struct Sink {
    pub(super) why: PlacementRefusal,
    pub(super) sources: Range<usize>,
    pub(super) kind: SinkKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SinkKind {
    /// The text may be code if it has a value.
    Text,
    /// The text is always evaluated, so that text which is made at run time is refused, too.
    Evaluated,
}

impl Facts {
    /// Returns the sources of everything that a pipe or a redirection of the command brings.
    pub(super) fn input_sources(&self, command: &CommandFacts) -> Vec<Range<usize>> {
        let heredoc = |number: &usize| self.heredocs[*number].clone();
        let mut all: Vec<_> = command
            .inputs
            .iter()
            .filter_map(|input| match input {
                Input::File(word) | Input::Text(word) => Some(word.sources.clone()),
                Input::Heredoc(number) => Some(heredoc(number)),
                Input::Descriptor => None,
            })
            .collect();
        if let Some(pipe) = &command.pipe {
            all.push(pipe.sources.clone());
            all.extend(pipe.heredocs.iter().map(heredoc));
        }
        all
    }
}

impl Word {
    /// Returns the text of a word that is known before the script runs.
    pub(super) fn literal(&self) -> Option<&str> {
        let known = !self.text.contains(UNKNOWN_CHAR) && !self.is_several();
        known.then_some(self.text.as_str())
    }

    /// Returns true if the shell may make other words of this one.
    pub(super) fn is_several(&self) -> bool {
        let is_pattern = self.has_pattern && self.text != "[";
        let is_list = self.has_brace && (self.text.contains(',') || self.text.contains(".."));
        self.splits || is_pattern || is_list
    }

    /// Returns the text if its beginning is known, so that the word is known to be an option or not.
    pub(super) fn beginning(&self) -> Option<&str> {
        let known = !self.is_several() && !self.text.starts_with(UNKNOWN_CHAR);
        known.then_some(self.text.as_str())
    }

    /// Returns true if the shell makes several words of the text itself: `{a,b}`, `a*`.
    pub(super) fn is_expanded(&self) -> bool {
        self.has_pattern || (self.has_brace && self.text.contains([',', '.']))
    }

    /// Returns the name and the rest of an assignment.
    pub(super) fn assignment(&self) -> Option<(&str, &str)> {
        self.text.split_once('=')
    }
}

/// Returns the names of variables that a text may mention.
pub(super) fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}
