//! Follows a shell's quoting from left to right, to determine the context of each reference.
//!
//! The scanner does not decide about the meaning of a command: it collects the facts for the policy. Invariant: if it
//! is not certain about the shell's interpretation of the text, it stops, and the script is refused.

use super::{
    Dialect, Quotes,
    command::{RedirectKind, SimpleCommand, WordEnd},
    facts::{CommandFacts, Facts, Pipe, Source, identifiers},
    heredoc::Heredoc,
    policy,
    quoting::QuoteContext,
    refusal::PlacementRefusal,
};
use crate::diagnostics::diagnostic::Diagnostics;

/// Deeper than any practical script; each level uses stack.
const MAX_DEPTH: usize = 30;

/// One character of the script, or a reference in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    Char(char),
    Reference,
    /// Reference to a number, which is written into the script. The scanner reads it as a digit.
    Number,
}

/// Reference, counted from 0, at a position where it cannot be placed.
#[derive(Debug)]
pub(super) struct MisplacedReference {
    pub(super) index: usize,
    pub(super) why: PlacementRefusal,
}

/// Failure of the scan before the end of the script: nothing after this point is certain.
pub(super) struct ScanError(pub(super) &'static str);

/// End of a list of commands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandsEnd {
    End,
    Paren,
}

/// Finds the quotes around each reference, in order.
pub(super) fn quotes(
    symbols: &[Symbol],
    dialect: Dialect,
) -> Result<Vec<Quotes>, Vec<MisplacedReference>> {
    let total = symbols.iter().filter(|symbol| **symbol == Symbol::Reference).count();
    let mut scanner = Scanner {
        symbols,
        dialect,
        at: 0,
        end: symbols.len(),
        placed: Vec::new(),
        misplaced: Vec::new(),
        barriers: Vec::new(),
        depth: 0,
        substitution: 0,
        heredocs: Vec::new(),
        facts: Facts { has_numbered_names: has_numbered_names(symbols), ..Facts::default() },
    };
    let result = scanner.scan_commands(CommandsEnd::End, SimpleCommand::default());
    let (placed, mut misplaced) = (scanner.placed, scanner.misplaced);
    if let Err(ScanError(what)) = result {
        // The text after this point is unknown, and may use a value that was placed before.
        let why = PlacementRefusal::ScanFailed(what);
        misplaced.push(MisplacedReference { index: placed.len().min(total - 1), why });
    }
    misplaced.extend(policy::refusals(&scanner.facts));
    // One reason for each reference: the first.
    misplaced.sort_by_key(|one| one.index);
    misplaced.dedup_by_key(|one| one.index);
    misplaced.truncate(Diagnostics::MAX_REPORTED + 1);
    if misplaced.is_empty() { Ok(placed) } else { Err(misplaced) }
}

/// Returns true if a number may be part of a name, which is then unknown.
fn has_numbered_names(symbols: &[Symbol]) -> bool {
    let is_name = |symbol: &Symbol| matches!(symbol, Symbol::Char(c) if c.is_ascii_alphanumeric() || *c == '_');
    symbols.windows(2).any(|pair| is_name(&pair[0]) && pair[1] == Symbol::Number)
}

pub(super) struct Scanner<'a> {
    pub(super) symbols: &'a [Symbol],
    pub(super) dialect: Dialect,
    pub(super) at: usize,
    /// End of the scanned text; before the end of the script during the scan of a here-document.
    pub(super) end: usize,
    /// One entry for each reference so far, including misplaced ones.
    placed: Vec<Quotes>,
    misplaced: Vec<MisplacedReference>,
    /// Constructs around this point in which no reference can be placed.
    barriers: Vec<PlacementRefusal>,
    depth: usize,
    /// Number of `$( )` around this point: a here-document belongs to one of them.
    pub(super) substitution: usize,
    /// Here-documents whose text begins after the next line break.
    pub(super) heredocs: Vec<Heredoc>,
    pub(super) facts: Facts,
}

impl Scanner<'_> {
    pub(super) fn next(&mut self) -> Option<Symbol> {
        let symbol = self.peek()?;
        self.at += 1;
        Some(symbol)
    }

    pub(super) fn peek(&self) -> Option<Symbol> {
        let symbol = self.symbols[..self.end].get(self.at).copied()?;
        Some(if symbol == Symbol::Number { Symbol::Char('0') } else { symbol })
    }

    pub(super) fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(Symbol::Char(c));
        self.at += usize::from(found);
        found
    }

    /// Refuses the current reference, and with it the script. The scan continues, to find further mistakes.
    pub(super) fn refuse(&mut self, why: PlacementRefusal) {
        if self.misplaced.len() <= Diagnostics::MAX_REPORTED {
            self.misplaced.push(MisplacedReference { index: self.placed.len(), why });
        }
        self.placed.push(Quotes::None);
    }

    pub(super) fn place_reference(&mut self, quotes: Quotes, command: &mut SimpleCommand) {
        if let Some(why) = self.barriers.last().cloned() {
            self.refuse(why);
        } else {
            self.facts.sources.push(Source::Reference(self.placed.len()));
            self.placed.push(quotes);
        }
        command.push_unknown();
    }

    /// Notes that the value of a variable reaches this point.
    pub(super) fn add_variable(&mut self, name: &str) {
        self.facts.sources.push(Source::Variable(name.to_owned()));
    }

    pub(super) fn source_count(&self) -> usize {
        self.facts.sources.len()
    }

    /// Refuses values of the sources since `start`, and of the variables that the text since `at` names.
    pub(super) fn add_code_sink(&mut self, why: PlacementRefusal, start: usize, at: usize) {
        let char_of = |symbol: &Symbol| match symbol {
            Symbol::Char(c) => *c,
            Symbol::Number => '0',
            Symbol::Reference => ' ',
        };
        let text: String = self.symbols[at..self.at].iter().map(char_of).collect();
        // The length in `${#name}` is a number.
        let parts = text.split("${#").enumerate();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for (n, part) in parts {
            let part = if n > 0 { part.trim_start_matches(is_name) } else { part };
            for name in identifiers(part) {
                self.add_variable(name);
            }
        }
        self.facts.sinks.push((why, start..self.source_count()));
    }

    fn end_command(&mut self, command: &mut SimpleCommand) {
        let facts = command.end_command(self.source_count());
        self.add_command(facts);
    }

    fn add_command(&mut self, facts: CommandFacts) {
        // The folder may have been chosen by a value.
        if facts.words.first().is_some_and(|word| word.text == "pwd") {
            self.add_variable("PWD");
        }
        let has_input = !facts.inputs.is_empty() || facts.pipe.is_some();
        if !facts.words.is_empty() || !facts.assignments.is_empty() || has_input {
            self.facts.commands.push(facts);
        }
    }

    pub(super) fn scan_commands(
        &mut self,
        until: CommandsEnd,
        mut command: SimpleCommand,
    ) -> Result<(), ScanError> {
        let mut cases = 0_usize;
        let mut pipeline = self.source_count();
        while let Some(symbol) = self.next() {
            let Symbol::Char(c) = symbol else {
                self.place_reference(Quotes::None, &mut command);
                continue;
            };
            if " \t\n;|&)".contains(c) {
                self.finish_word(&mut command, &mut cases)?;
            }
            match c {
                ' ' | '\t' => {}
                // A line may end after a `|`.
                '\n' if command.is_empty() && self.heredocs.is_empty() => {}
                '\n' => {
                    self.end_command(&mut command);
                    self.scan_heredoc_texts()?;
                    command.skip_sources(self.source_count());
                    pipeline = self.source_count();
                }
                '&' if self.eat('>') => {
                    self.eat('>');
                    command.begin_redirect(RedirectKind::Other, self.source_count());
                }
                '|' if !self.eat('|') => {
                    self.eat('&');
                    // The commands before the end of a compound command are not known here.
                    let start = if command.is_closer() { 0 } else { pipeline };
                    self.end_command(&mut command);
                    let heredocs = self.heredocs.iter().map(|heredoc| heredoc.number).collect();
                    command.set_pipe(Pipe { sources: start..self.source_count(), heredocs });
                }
                ';' | '|' | '&' => {
                    self.end_command(&mut command);
                    pipeline = self.source_count();
                }
                '(' => {
                    self.scan_paren(&mut command)?;
                    pipeline = if command.is_empty() { 0 } else { pipeline };
                }
                // In a `case`, a `)` without a `(` ends a pattern.
                ')' if cases > 0 => {
                    self.end_command(&mut command);
                    pipeline = self.source_count();
                }
                ')' if until == CommandsEnd::Paren => {
                    self.end_command(&mut command);
                    return Ok(());
                }
                ')' => return Err(ScanError("a `)` without its `(`")),
                '<' => self.scan_less_than(&mut command)?,
                '>' => self.scan_greater_than(&mut command)?,
                '#' if command.between_words() => self.scan_comment(),
                c => self.scan_word_char(c, &mut command)?,
            }
        }
        self.finish_word(&mut command, &mut cases)?;
        self.end_command(&mut command);
        match until {
            CommandsEnd::End => Ok(()),
            CommandsEnd::Paren => Err(ScanError("a `(` without its `)`")),
        }
    }

    fn finish_word(
        &mut self,
        command: &mut SimpleCommand,
        cases: &mut usize,
    ) -> Result<(), ScanError> {
        match command.end_word(self.source_count()) {
            WordEnd::Word => {}
            WordEnd::Case => *cases += 1,
            WordEnd::Esac => *cases = cases.saturating_sub(1),
            WordEnd::ConditionBegins => {
                // The character that ended the word is scanned again: it may be a line break.
                self.at -= 1;
                self.scan_condition()?;
                command.skip_sources(self.source_count());
            }
            WordEnd::Coproc => return Err(ScanError("`coproc`")),
            WordEnd::OpenSubscript => return Err(ScanError("a subscript with spaces")),
        }
        if let Some(name) = command.named_function() {
            self.facts.functions.insert(name.to_owned());
        }
        if command.is_head() {
            self.end_command(command);
        }
        Ok(())
    }

    /// Scans `((`, a subshell, a function's `()`, a list `a=(`, or a pattern such as `@(a|b)`.
    fn scan_paren(&mut self, command: &mut SimpleCommand) -> Result<(), ScanError> {
        if command.may_begin_arithmetic() && self.eat('(') {
            return match self.dialect {
                Dialect::Bash => {
                    self.scan_without_placement(PlacementRefusal::Arithmetic, Self::scan_arithmetic)
                }
                Dialect::Posix => Err(ScanError("`((`")),
            };
        }
        let (start, is_list) = (self.source_count(), command.begins_list());
        let is_empty = self.closes_paren_next();
        if is_empty && let Some(name) = command.function_name() {
            self.facts.functions.insert(name.to_owned());
        }
        let word_goes_on = is_list || (!command.between_words() && !is_empty);
        let inner =
            if word_goes_on { SimpleCommand::list(start) } else { SimpleCommand::new(start) };
        self.scan_nested(|scanner| scanner.scan_commands(CommandsEnd::Paren, inner))?;
        if is_list {
            self.facts.sinks.push((PlacementRefusal::Array, start..self.source_count()));
        }
        if word_goes_on {
            command.push_unknown();
            command.mark_split();
        } else {
            self.end_command(command);
        }
        Ok(())
    }

    /// Returns true before `)`, with spaces.
    fn closes_paren_next(&self) -> bool {
        let rest = &self.symbols[self.at..self.end];
        let next = rest.iter().find(|symbol| !matches!(symbol, Symbol::Char(' ' | '\t')));
        next == Some(&Symbol::Char(')'))
    }

    fn scan_less_than(&mut self, command: &mut SimpleCommand) -> Result<(), ScanError> {
        self.refuse_split_operator()?;
        if self.eat('(') {
            command.push_unknown();
            return self.scan_substitution();
        }
        if !self.eat('<') {
            let is_descriptor = self.eat('&');
            let kind =
                if is_descriptor { RedirectKind::InputDescriptor } else { RedirectKind::Input };
            command.begin_redirect(kind, self.source_count());
            self.eat('>');
            return Ok(());
        }
        self.refuse_split_operator()?;
        if self.eat('<') {
            command.begin_redirect(RedirectKind::HereString, self.source_count());
            return Ok(());
        }
        command.begin_redirect(RedirectKind::Input, self.source_count());
        self.scan_heredoc_operator(command)
    }

    fn scan_greater_than(&mut self, command: &mut SimpleCommand) -> Result<(), ScanError> {
        if self.eat('(') {
            command.push_unknown();
            return self.scan_substitution();
        }
        command.begin_redirect(RedirectKind::Other, self.source_count());
        let _ = self.eat('>') || self.eat('|') || self.eat('&');
        Ok(())
    }

    fn scan_comment(&mut self) {
        while let Some(symbol) = self.peek().filter(|symbol| *symbol != Symbol::Char('\n')) {
            self.at += 1;
            if symbol == Symbol::Reference {
                self.refuse(PlacementRefusal::Comment);
            }
        }
    }

    /// Scans a character of a word, outside quotes.
    fn scan_word_char(&mut self, c: char, command: &mut SimpleCommand) -> Result<(), ScanError> {
        match c {
            '\'' => self.scan_single_quotes(command)?,
            '"' => self.scan_double_quotes(command)?,
            '\\' => self.scan_escape(command),
            '`' => self.scan_backticks(command)?,
            '$' => self.scan_dollar(QuoteContext::Unquoted, command)?,
            c => command.push(c),
        }
        Ok(())
    }

    /// Scans `[[ … ]]` after the `[[`.
    fn scan_condition(&mut self) -> Result<(), ScanError> {
        let (start, at) = (self.source_count(), self.at);
        let mut word = SimpleCommand::opaque();
        let mut arithmetic = false;
        loop {
            let symbol = self.next();
            let boundary = match symbol {
                None => true,
                Some(Symbol::Char(c)) => " \t\n()<>&|;".contains(c),
                Some(Symbol::Reference | Symbol::Number) => false,
            };
            if boundary {
                let text = word.take_plain_word();
                arithmetic |= ARITHMETIC_TESTS.contains(&text.as_str());
                if text == "]]" {
                    self.at -= usize::from(symbol.is_some());
                    break;
                }
            }
            match symbol {
                Some(Symbol::Char('\n')) if !self.heredocs.is_empty() => {
                    return Err(ScanError("a here-document before `[[`"));
                }
                None => return Err(ScanError("a `[[` without its `]]`")),
                Some(Symbol::Char(_)) if boundary => {}
                Some(Symbol::Char(c)) => self.scan_word_char(c, &mut word)?,
                Some(Symbol::Reference | Symbol::Number) => {
                    self.place_reference(Quotes::None, &mut word);
                }
            }
        }
        // The names in other conditions are text.
        let at = if arithmetic { at } else { self.at };
        self.add_code_sink(PlacementRefusal::Condition, start, at);
        Ok(())
    }

    /// Runs `scan` and refuses every reference in it.
    pub(super) fn scan_without_placement(
        &mut self,
        why: PlacementRefusal,
        scan: impl FnOnce(&mut Self) -> Result<(), ScanError>,
    ) -> Result<(), ScanError> {
        self.barriers.push(why);
        self.scan_nested(scan)?;
        self.barriers.pop();
        Ok(())
    }

    pub(super) fn scan_nested(
        &mut self,
        scan: impl FnOnce(&mut Self) -> Result<(), ScanError>,
    ) -> Result<(), ScanError> {
        if self.depth == MAX_DEPTH {
            return Err(ScanError("it is nested too deeply"));
        }
        self.depth += 1;
        scan(self)?;
        self.depth -= 1;
        Ok(())
    }

    /// Refuses a line break inside an operator: a shell joins lines before it finds operators, this scanner does not.
    pub(super) fn refuse_split_operator(&self) -> Result<(), ScanError> {
        match self.symbols[self.at..self.end] {
            [Symbol::Char('\\'), Symbol::Char('\n'), ..] => {
                Err(ScanError("a line break inside an operator"))
            }
            _ => Ok(()),
        }
    }
}

/// Operators of `[[` that evaluate their operands.
const ARITHMETIC_TESTS: [&str; 8] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"];
