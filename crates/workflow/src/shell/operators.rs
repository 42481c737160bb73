//! Operators and the brackets of commands: redirections, `( )`, `(( ))`, `[[ ]]`.
//!
//! An operator ends the word before it, also a keyword: `if((n))` is `if ((n))`.

use super::{
    Dialect, Quotes,
    command::{RedirectKind, SimpleCommand, WordEnd},
    facts::{Sink, SinkKind},
    refusal::PlacementRefusal,
    scanner::{CaseState, CommandsEnd, ScanError, Scanner, Symbol},
};

/// Operators of `[[` that evaluate their operands.
const ARITHMETIC_TESTS: [&str; 8] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"];

impl Scanner<'_> {
    /// Scans `((`, a subshell, a function's `()`, a list `a=(`, or a pattern such as `@(a|b)`.
    pub(super) fn scan_paren(
        &mut self,
        command: &mut SimpleCommand,
        cases: &mut CaseState,
    ) -> Result<(), ScanError> {
        // The `(` before a pattern of `case` changes nothing.
        if cases.in_pattern && command.is_empty() {
            return Ok(());
        }
        if command.is_negation() {
            return Err(ScanError("`!(`; write a space after the `!`"));
        }
        let is_empty = self.closes_paren_next();
        let is_list = command.begins_list();
        let word_goes_on = is_list || command.begins_glob();
        if !command.between_words() && !is_empty && !word_goes_on {
            self.end_word_at_operator(command, cases)?;
            if !command.may_begin_command() {
                return Err(ScanError("a `(` directly after a word"));
            }
        }
        if command.may_begin_arithmetic() && self.eat('(') {
            return match self.dialect {
                Dialect::Bash => {
                    self.scan_without_placement(PlacementRefusal::Arithmetic, Self::scan_arithmetic)
                }
                Dialect::Posix => Err(ScanError("`((`")),
            };
        }
        if is_empty && let Some(name) = command.function_name() {
            self.facts.functions.insert(name.to_owned());
        }
        let (start, at) = (self.source_count(), self.at);
        let inner =
            if word_goes_on { SimpleCommand::list(start) } else { SimpleCommand::new(start) };
        self.scan_nested(|scanner| scanner.scan_commands(CommandsEnd::Paren, inner))?;
        if is_list {
            // The subscripts in it are evaluated, and the elements if the array is one of integers.
            self.add_names(at);
            let (why, sources) = (PlacementRefusal::Array, start..self.source_count());
            self.facts.sinks.push(Sink { why, sources, kind: SinkKind::Text });
        }
        if word_goes_on {
            command.push_unknown();
            command.mark_split();
        } else {
            self.end_command(command);
        }
        Ok(())
    }

    /// Ends the word before an operator. The word `[[` needs a space.
    fn end_word_at_operator(
        &mut self,
        command: &mut SimpleCommand,
        cases: &mut CaseState,
    ) -> Result<(), ScanError> {
        match command.end_word(self.source_count()) {
            WordEnd::ConditionBegins => Err(ScanError("`[[` without a space after it")),
            ended => self.note_word_end(&ended, command, cases),
        }
    }

    fn end_word_before_redirect(
        &mut self,
        command: &mut SimpleCommand,
        cases: &mut CaseState,
    ) -> Result<(), ScanError> {
        if command.is_descriptor_element() {
            return Err(ScanError("a subscript before a redirection"));
        }
        if command.is_descriptor() {
            return Ok(());
        }
        self.end_word_at_operator(command, cases)
    }

    /// Returns true before `)`, with spaces.
    fn closes_paren_next(&self) -> bool {
        let rest = &self.symbols[self.at..self.end];
        let next = rest.iter().find(|symbol| !matches!(symbol, Symbol::Char(' ' | '\t')));
        next == Some(&Symbol::Char(')'))
    }

    pub(super) fn scan_less_than(
        &mut self,
        command: &mut SimpleCommand,
        cases: &mut CaseState,
    ) -> Result<(), ScanError> {
        self.refuse_split_operator()?;
        if self.eat('(') {
            command.push_unknown();
            return self.scan_substitution();
        }
        self.end_word_before_redirect(command, cases)?;
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

    pub(super) fn scan_greater_than(
        &mut self,
        command: &mut SimpleCommand,
        cases: &mut CaseState,
    ) -> Result<(), ScanError> {
        if self.eat('(') {
            command.push_unknown();
            return self.scan_substitution();
        }
        self.end_word_before_redirect(command, cases)?;
        command.begin_redirect(RedirectKind::Other, self.source_count());
        let _ = self.eat('>') || self.eat('|') || self.eat('&');
        Ok(())
    }

    /// Scans `[[ … ]]` after the `[[`.
    pub(super) fn scan_condition(&mut self) -> Result<(), ScanError> {
        if self.dialect == Dialect::Posix {
            // For dash it is a command, and `||` ends it.
            return Err(ScanError("`[[`, which is a command in `sh`; compare with `[ ]`"));
        }
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
        if arithmetic {
            self.add_code_sink(PlacementRefusal::Condition, start, at);
        } else {
            // The names in other conditions are text.
            let sources = start..self.source_count();
            let why = PlacementRefusal::Condition;
            self.facts.sinks.push(Sink { why, sources, kind: SinkKind::Text });
        }
        Ok(())
    }
}
