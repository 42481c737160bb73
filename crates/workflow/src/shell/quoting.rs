//! Quotes and expansions: the end of each, and the special characters in it.

use super::{
    Dialect, Quotes,
    command::SimpleCommand,
    facts::{COMPUTED, INHERITED_INPUT},
    refusal::PlacementRefusal,
    scanner::{CommandsEnd, ScanError, Scanner, Symbol},
};

/// Quoting around the current text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum QuoteContext {
    Unquoted,
    Double,
    /// Text of a here-document whose delimiter is not quoted.
    Heredoc,
}

impl Scanner<'_> {
    pub(super) fn scan_single_quotes(
        &mut self,
        command: &mut SimpleCommand,
    ) -> Result<(), ScanError> {
        command.push_quoted("");
        loop {
            match self.next() {
                None => return Err(ScanError("a `'` that is never closed")),
                Some(Symbol::Char('\'')) => return Ok(()),
                Some(Symbol::Char(c)) => command.push_quoted(c.encode_utf8(&mut [0; 4])),
                Some(Symbol::Number) => command.push_quoted("0"),
                Some(Symbol::Reference) => self.place_reference(Quotes::Single, command),
            }
        }
    }

    pub(super) fn scan_double_quotes(
        &mut self,
        command: &mut SimpleCommand,
    ) -> Result<(), ScanError> {
        command.push_quoted("");
        loop {
            match self.next() {
                None => return Err(ScanError("a `\"` that is never closed")),
                Some(Symbol::Char('"')) => return Ok(()),
                Some(symbol) => self.scan_expansions(symbol, QuoteContext::Double, command)?,
            }
        }
    }

    /// Scans text in which only `$`, backticks and backslashes are special.
    pub(super) fn scan_expansions(
        &mut self,
        symbol: Symbol,
        inside: QuoteContext,
        command: &mut SimpleCommand,
    ) -> Result<(), ScanError> {
        match symbol {
            Symbol::Reference if inside == QuoteContext::Heredoc => {
                self.place_reference(Quotes::Heredoc, command);
            }
            Symbol::Reference => self.place_reference(Quotes::Double, command),
            Symbol::Char('\\') => self.scan_escape(inside, command)?,
            Symbol::Char('`') => self.scan_backticks(command)?,
            Symbol::Char('$') => self.scan_dollar(inside, command)?,
            Symbol::Number => command.push_quoted("0"),
            Symbol::Char(c) => command.push_quoted(c.encode_utf8(&mut [0; 4])),
        }
        Ok(())
    }

    pub(super) fn scan_escape(
        &mut self,
        inside: QuoteContext,
        command: &mut SimpleCommand,
    ) -> Result<(), ScanError> {
        match self.next() {
            Some(Symbol::Reference) => self.refuse(PlacementRefusal::Backslash),
            Some(Symbol::Char('\n')) if self.splits_token(inside) => {
                return Err(ScanError(
                    "a line break inside a word or an operator; write a space before the backslash",
                ));
            }
            Some(Symbol::Char(c)) if c != '\n' => {
                command.push_quoted(c.encode_utf8(&mut [0; 4]));
            }
            Some(Symbol::Char(_) | Symbol::Number) | None => {}
        }
        Ok(())
    }

    /// Returns true if the backslash and line break before this point may be inside a token: a shell joins the lines
    /// before it finds words and names, this scanner does not.
    fn splits_token(&self, inside: QuoteContext) -> bool {
        let is_blank = |at: usize| {
            matches!(self.symbols[..self.end].get(at), None | Some(Symbol::Char(' ' | '\t' | '\n')))
        };
        let backslash = self.at - 2;
        if backslash == 0 || is_blank(backslash - 1) {
            return false;
        }
        match inside {
            // A blank after it ends the token in any case.
            QuoteContext::Unquoted => !is_blank(self.at),
            // Only the name after a `$` is a token there.
            QuoteContext::Double | QuoteContext::Heredoc => {
                let is_name = |at: &usize| match self.symbols[*at] {
                    Symbol::Char(c) => c.is_ascii_alphanumeric() || c == '_',
                    Symbol::Number => true,
                    Symbol::Reference => false,
                };
                let before = (0..backslash).rev().find(|at| !is_name(at));
                before.is_some_and(|at| self.symbols[at] == Symbol::Char('$'))
            }
        }
    }

    /// Scans to the closing backtick, and fails: the commands inside have escapes of their own and are not followed.
    pub(super) fn scan_backticks(&mut self, command: &mut SimpleCommand) -> Result<(), ScanError> {
        command.push_unknown();
        loop {
            match self.next() {
                None => return Err(ScanError("a backtick that is never closed")),
                Some(Symbol::Char('`')) => {
                    return Err(ScanError("backticks; use `$( … )`"));
                }
                Some(Symbol::Char('\\')) if self.peek() != Some(Symbol::Reference) => self.at += 1,
                Some(Symbol::Char(_) | Symbol::Number) => {}
                Some(Symbol::Reference) => self.refuse(PlacementRefusal::Backticks),
            }
        }
    }

    pub(super) fn scan_dollar(
        &mut self,
        inside: QuoteContext,
        command: &mut SimpleCommand,
    ) -> Result<(), ScanError> {
        self.refuse_split_operator()?;
        command.push_unknown();
        if inside == QuoteContext::Unquoted && self.peek() != Some(Symbol::Char('\'')) {
            command.mark_split();
        }
        if self.eat('(') {
            if self.eat('(') {
                return self
                    .scan_without_placement(PlacementRefusal::Arithmetic, Self::scan_arithmetic);
            }
            return self.scan_substitution();
        }
        if self.eat('{') {
            if self.parameter_head().is_list {
                command.mark_split();
            }
            return self.scan_without_placement(PlacementRefusal::Braces, |scanner| {
                scanner.scan_parameter(inside)
            });
        }
        match (self.peek(), inside) {
            (Some(Symbol::Char('[')), _) => Err(ScanError("`$[`")),
            (Some(Symbol::Char('\'')), QuoteContext::Unquoted) => self.scan_ansi_quotes(),
            // A file that the environment names may replace the text, and the result is expanded.
            (Some(Symbol::Char('"')), QuoteContext::Unquoted) => {
                Err(ScanError("`$\"…\"`; write the text without the `$`"))
            }
            (Some(Symbol::Char(c)), _) => {
                if c == '@' {
                    command.mark_split();
                }
                if let Some(name) = self.variable_name_at(self.at) {
                    self.add_variable(&name);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn scan_ansi_quotes(&mut self) -> Result<(), ScanError> {
        self.at += 1;
        loop {
            match self.next() {
                None => return Err(ScanError("a `$'` that is never closed")),
                Some(Symbol::Char('\'')) => return Ok(()),
                Some(Symbol::Char('\\')) if self.dialect == Dialect::Posix => {
                    return Err(ScanError("a backslash in `$'…'`, which shells read differently"));
                }
                Some(Symbol::Char('\\')) if self.peek() != Some(Symbol::Reference) => self.at += 1,
                Some(Symbol::Char(_) | Symbol::Number) => {}
                Some(Symbol::Reference) => self.refuse(PlacementRefusal::AnsiQuotes),
            }
        }
    }

    /// Scans `$( … )` and `<( … )` after the `(`: commands with quotes of their own.
    pub(super) fn scan_substitution(&mut self) -> Result<(), ScanError> {
        self.substitution += 1;
        self.add_variable(INHERITED_INPUT);
        self.add_variable(COMPUTED);
        let inner = SimpleCommand::new(self.source_count());
        self.scan_nested(|scanner| scanner.scan_commands(CommandsEnd::Paren, inner))?;
        if self.heredocs.iter().any(|heredoc| heredoc.substitution == self.substitution) {
            return Err(ScanError("a `)` before the text of a here-document"));
        }
        self.substitution -= 1;
        Ok(())
    }

    /// Scans `${ … }` after the `{`.
    fn scan_parameter(&mut self, inside: QuoteContext) -> Result<(), ScanError> {
        let head = self.parameter_head();
        if head.is_unknown {
            return Err(ScanError("an unsupported `${…}`"));
        }
        self.add_parameter(&head);
        let (start, at) = (self.source_count(), self.at);
        let mut word = SimpleCommand::opaque();
        if let Some(Symbol::Char(' ' | '\t' | '\n' | '|')) = self.peek() {
            return Err(ScanError("a command in `${ … }`"));
        }
        loop {
            match self.next() {
                None => return Err(ScanError("a `${` that is never closed")),
                Some(Symbol::Char('}')) => {
                    self.end_parameter(head, start, at);
                    return Ok(());
                }
                Some(Symbol::Char('"')) if inside == QuoteContext::Heredoc => {
                    return Err(ScanError("a `\"` in the `${…}` of a here-document"));
                }
                Some(Symbol::Char('"')) => self.scan_double_quotes(&mut word)?,
                Some(Symbol::Char('\'')) if inside == QuoteContext::Unquoted => {
                    self.scan_single_quotes(&mut word)?;
                }
                Some(Symbol::Char('\\')) if self.peek() == Some(Symbol::Char('\n')) => {
                    return Err(ScanError("a line break in `${…}`"));
                }
                // After some operators it is a quote there, after others a character.
                Some(Symbol::Char('\'')) => return Err(ScanError("a `'` in `\"${…}\"`")),
                Some(symbol) => self.scan_expansions(symbol, inside, &mut word)?,
            }
        }
    }

    /// Scans `(( … ))` after the `((`.
    pub(super) fn scan_arithmetic(&mut self) -> Result<(), ScanError> {
        let (start, at) = (self.source_count(), self.at);
        let mut word = SimpleCommand::opaque();
        let mut open = 0_usize;
        loop {
            match self.next() {
                None => return Err(ScanError("a `((` that is never closed")),
                Some(Symbol::Char('(')) => open += 1,
                Some(Symbol::Char(')')) if open > 0 => open -= 1,
                Some(Symbol::Char(')')) if self.eat(')') => {
                    self.add_code_sink(PlacementRefusal::Arithmetic, start, at);
                    return Ok(());
                }
                Some(Symbol::Char(')')) => return Err(ScanError("a `((` that is not arithmetic")),
                Some(Symbol::Char('\'')) => return Err(ScanError("a `'` in arithmetic")),
                Some(Symbol::Char('\\')) => self.scan_escape(QuoteContext::Unquoted, &mut word)?,
                Some(Symbol::Char('"')) => self.scan_double_quotes(&mut word)?,
                Some(symbol) => self.scan_expansions(symbol, QuoteContext::Double, &mut word)?,
            }
        }
    }
}
