//! The beginning of `${…}`: the variable, and what the shell does with its value.

use super::{
    facts::{COMPUTED, POSITIONAL, Sink, SinkKind},
    refusal::PlacementRefusal,
    scanner::{Scanner, Symbol},
};

/// The beginning of a parameter expansion.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of the text of its own")]
pub(super) struct ParameterHead {
    /// Variable whose value becomes part of the word.
    name: Option<String>,
    /// True for a form that is not known here.
    pub(super) is_unknown: bool,
    /// True for `${!name}`, whose value is a name.
    is_indirect: bool,
    /// True for `${name@P}` and similar.
    is_transformed: bool,
    /// True for `${name:=text}`.
    is_assigned: bool,
    /// True for `${name[expression]}`.
    has_subscript: bool,
    /// True for `${name:expression}`.
    has_offset: bool,
    /// True for `${name:-text}` and similar, which may give the text itself.
    has_alternative: bool,
    /// True if the result is only a part of the value, or another text.
    is_computed: bool,
    /// True for `${@}` and `${name[@]}`, which are several words.
    pub(super) is_list: bool,
}

impl Scanner<'_> {
    fn char_at(&self, at: usize) -> Option<char> {
        match self.symbols[..self.end].get(at)? {
            Symbol::Char(c) => Some(*c),
            Symbol::Number => Some('0'),
            Symbol::Reference => None,
        }
    }

    /// Returns the number of characters from a position on that match.
    fn run_length(&self, at: usize, matches: impl Fn(char) -> bool) -> usize {
        (at..self.end).take_while(|at| self.char_at(*at).is_some_and(&matches)).count()
    }

    /// Returns the length of the name at a position, which may be a digit or one of the special parameters.
    fn name_length(&self, at: usize) -> usize {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match self.char_at(at) {
            Some('@' | '*' | '?' | '$' | '-') => 1,
            Some(c) if is_name(c) => self.run_length(at, is_name),
            _ => 0,
        }
    }

    /// Returns the variable whose name begins at a position. All positional parameters are one.
    pub(super) fn variable_name_at(&self, at: usize) -> Option<String> {
        let name: String =
            (at..at + self.name_length(at)).filter_map(|at| self.char_at(at)).collect();
        // A number that is written into the script may be any of them.
        if self.symbols[..self.end].get(at) == Some(&Symbol::Number) {
            return Some(POSITIONAL.to_owned());
        }
        match name.chars().next()? {
            '@' | '*' => Some(POSITIONAL.to_owned()),
            '?' | '$' => None,
            '-' => Some(COMPUTED.to_owned()),
            c if c.is_ascii_digit() => (name != "0").then(|| POSITIONAL.to_owned()),
            _ => Some(name),
        }
    }

    /// Reads the beginning of `${…}` after the `{`, and stays there.
    pub(super) fn parameter_head(&self) -> ParameterHead {
        let mut head = ParameterHead::default();
        let mut at = self.at;
        let closes = |at: usize| self.char_at(at) == Some('}');
        let prefix = self.char_at(at).filter(|c| "#!".contains(*c));
        if prefix.is_some() && closes(at + 1) {
            return head;
        }
        at += usize::from(prefix.is_some());
        let length = self.name_length(at);
        // The barrier of `${…}` refuses a reference.
        head.is_unknown = length == 0 && self.char_at(at).is_some();
        if prefix == Some('!') {
            head.is_indirect = !self.lists_keys(at + length);
            head.is_list = true;
            return head;
        }
        // A length is a number.
        head.name = self.variable_name_at(at).filter(|_| prefix != Some('#'));
        head.is_list = self.char_at(at) == Some('@');
        at += length;
        if prefix == Some('#') {
            head.is_unknown |= !closes(at) && self.char_at(at) != Some('[');
        }
        if self.char_at(at) == Some('[') {
            let simple = |c: char| c.is_ascii_digit() || "@*-".contains(c);
            let length = self.run_length(at + 1, simple);
            head.has_subscript = self.char_at(at + 1 + length) != Some(']');
            head.is_list |= self.char_at(at + 1) == Some('@');
            // The rest follows the subscript; an unclear subscript is refused as a whole.
            at += length + 2;
        }
        match (self.char_at(at), self.char_at(at + 1)) {
            (Some('@'), _) => head.is_transformed = true,
            (Some('='), _) | (Some(':'), Some('=')) => {
                head.is_assigned = true;
                head.has_alternative = true;
            }
            (Some('-' | '?' | '+'), _) | (Some(':'), Some('-' | '?' | '+')) => {
                head.has_alternative = true;
            }
            (Some(':'), _) => {
                let simple = |c: char| c.is_ascii_digit() || ": -".contains(c);
                let length = self.run_length(at, simple);
                head.has_offset = self.char_at(at + length) != Some('}');
                head.is_computed = true;
            }
            (Some('%' | '#' | '/' | '^' | ',' | '~'), _) => head.is_computed = true,
            (Some('}') | None, _) => {}
            _ => head.is_unknown |= !head.has_subscript,
        }
        head
    }

    /// Returns true for the end of `${!name[@]}`, the keys of an array.
    fn lists_keys(&self, at: usize) -> bool {
        let end: String = (at..at + 4).filter_map(|at| self.char_at(at)).collect();
        end == "[@]}" || end == "[*]}"
    }

    /// Notes the variable of `${…}`.
    pub(super) fn add_parameter(&mut self, head: &ParameterHead) {
        if head.is_indirect {
            self.facts.script_refusals.push(PlacementRefusal::Indirect);
        }
        let Some(name) = &head.name else { return };
        let start = self.source_count();
        self.add_variable(name);
        if head.is_transformed {
            let (why, sources) = (PlacementRefusal::Transformation, start..self.source_count());
            self.facts.sinks.push(Sink { why, sources, kind: SinkKind::Evaluated });
        }
    }

    /// Notes the use of the text after the variable, which has the sources since `start` and begins at `at`.
    pub(super) fn end_parameter(&mut self, head: ParameterHead, start: usize, at: usize) {
        let has_expansion = self.symbols[at..self.at].contains(&Symbol::Char('$'));
        if head.is_computed || (head.has_alternative && has_expansion) {
            self.add_variable(COMPUTED);
        }
        if head.has_alternative {
            // Arithmetic evaluates the name in `${m:-n}`.
            self.add_names(at);
        }
        if head.has_subscript {
            self.add_code_sink(PlacementRefusal::Subscript, start, at);
        }
        if head.has_offset {
            self.add_code_sink(PlacementRefusal::Arithmetic, start, at);
        }
        if let (true, Some(name)) = (head.is_assigned, head.name) {
            self.facts.flows.push((name, start..self.source_count()));
        }
    }
}
