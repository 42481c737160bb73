//! Quotes and expansions: where each ends, and what is special in it.

use super::{
    Dialect, Quotes,
    command::Command,
    refusal::Why,
    scan::{Lost, Scanner, Symbol, Until},
};

/// What the text at hand is inside of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    Nothing,
    Double,
    /// The text of a here-document whose delimiter is not quoted.
    Heredoc,
}

impl Scanner<'_> {
    pub(super) fn single_quoted(&mut self, command: &mut Command) -> Result<(), Lost> {
        command.push_quoted("");
        loop {
            match self.next() {
                None => return Err(Lost("a `'` that is never closed")),
                Some(Symbol::Char('\'')) => return Ok(()),
                Some(Symbol::Char(c)) => command.push_quoted(c.encode_utf8(&mut [0; 4])),
                Some(Symbol::Reference) => self.place(Quotes::Single, command),
            }
        }
    }

    pub(super) fn double_quoted(&mut self, command: &mut Command) -> Result<(), Lost> {
        command.push_quoted("");
        loop {
            match self.next() {
                None => return Err(Lost("a `\"` that is never closed")),
                Some(Symbol::Char('"')) => return Ok(()),
                Some(symbol) => self.expanded(symbol, Inside::Double, command)?,
            }
        }
    }

    /// Text in which only `$`, backticks and backslashes are special.
    pub(super) fn expanded(
        &mut self,
        symbol: Symbol,
        inside: Inside,
        command: &mut Command,
    ) -> Result<(), Lost> {
        match symbol {
            Symbol::Reference if inside == Inside::Heredoc => self.place(Quotes::Heredoc, command),
            Symbol::Reference => self.place(Quotes::Double, command),
            Symbol::Char('\\') => self.escaped(command),
            Symbol::Char('`') => self.backticks(command)?,
            Symbol::Char('$') => self.dollar(inside, command)?,
            Symbol::Char(c) => command.push_quoted(c.encode_utf8(&mut [0; 4])),
        }
        Ok(())
    }

    pub(super) fn escaped(&mut self, command: &mut Command) {
        match self.next() {
            Some(Symbol::Reference) => self.refuse(Why::Backslash),
            Some(Symbol::Char(c)) if c != '\n' => {
                command.push_quoted(c.encode_utf8(&mut [0; 4]));
            }
            Some(Symbol::Char(_)) | None => {}
        }
    }

    /// The shell looks for the closing one before it looks at any other quotes.
    pub(super) fn backticks(&mut self, command: &mut Command) -> Result<(), Lost> {
        command.push_unknown();
        loop {
            match self.next() {
                None => return Err(Lost("a backtick that is never closed")),
                Some(Symbol::Char('`')) => return Ok(()),
                Some(Symbol::Char('\\')) if self.peek() != Some(Symbol::Reference) => self.at += 1,
                Some(Symbol::Char(_)) => {}
                Some(Symbol::Reference) => self.refuse(Why::Backticks),
            }
        }
    }

    pub(super) fn dollar(&mut self, inside: Inside, command: &mut Command) -> Result<(), Lost> {
        self.refuse_torn()?;
        command.push_unknown();
        if self.eat('(') {
            if self.eat('(') {
                return self.behind(Why::Arithmetic, Self::arithmetic);
            }
            return self.substituted();
        }
        if self.eat('{') {
            return self.behind(Why::Braces, |scanner| scanner.parameter(inside));
        }
        match (self.peek(), inside) {
            (Some(Symbol::Char('[')), _) => Err(Lost("`$[`")),
            (Some(Symbol::Char('\'')), Inside::Nothing) => self.ansi_quoted(),
            _ => Ok(()),
        }
    }

    fn ansi_quoted(&mut self) -> Result<(), Lost> {
        self.at += 1;
        loop {
            match self.next() {
                None => return Err(Lost("a `$'` that is never closed")),
                Some(Symbol::Char('\'')) => return Ok(()),
                Some(Symbol::Char('\\')) if self.dialect == Dialect::Posix => {
                    return Err(Lost("a backslash in `$'…'`, which shells read differently"));
                }
                Some(Symbol::Char('\\')) if self.peek() != Some(Symbol::Reference) => self.at += 1,
                Some(Symbol::Char(_)) => {}
                Some(Symbol::Reference) => self.refuse(Why::AnsiQuotes),
            }
        }
    }

    /// `$( … )` and `<( … )`, after the `(`: commands with quotes of their own.
    pub(super) fn substituted(&mut self) -> Result<(), Lost> {
        self.substitution += 1;
        self.deeper(|scanner| scanner.commands(Until::Paren, Command::default()))?;
        if self.heredocs.iter().any(|heredoc| heredoc.substitution == self.substitution) {
            return Err(Lost("a `)` before the text of a here-document"));
        }
        self.substitution -= 1;
        Ok(())
    }

    /// `${ … }`, after the `{`.
    fn parameter(&mut self, inside: Inside) -> Result<(), Lost> {
        let mut word = Command::anything();
        if let Some(Symbol::Char(' ' | '\t' | '\n' | '|')) = self.peek() {
            return Err(Lost("a command in `${ … }`"));
        }
        loop {
            match self.next() {
                None => return Err(Lost("a `${` that is never closed")),
                Some(Symbol::Char('}')) => return Ok(()),
                Some(Symbol::Char('"')) if inside == Inside::Heredoc => {
                    return Err(Lost("a `\"` in the `${…}` of a here-document"));
                }
                Some(Symbol::Char('"')) => self.double_quoted(&mut word)?,
                Some(Symbol::Char('\'')) if inside == Inside::Nothing => {
                    self.single_quoted(&mut word)?;
                }
                // After some operators it is a quote there, after others a character.
                Some(Symbol::Char('\'')) => return Err(Lost("a `'` in `\"${…}\"`")),
                Some(symbol) => self.expanded(symbol, inside, &mut word)?,
            }
        }
    }

    /// `(( … ))`, after the `((`.
    pub(super) fn arithmetic(&mut self) -> Result<(), Lost> {
        let mut word = Command::anything();
        let mut open = 0_usize;
        loop {
            match self.next() {
                None => return Err(Lost("a `((` that is never closed")),
                Some(Symbol::Char('(')) => open += 1,
                Some(Symbol::Char(')')) if open > 0 => open -= 1,
                Some(Symbol::Char(')')) if self.eat(')') => return Ok(()),
                Some(Symbol::Char(')')) => return Err(Lost("a `((` that is no arithmetic")),
                Some(Symbol::Char('\'')) => return Err(Lost("a `'` in arithmetic")),
                Some(Symbol::Char('"')) => self.double_quoted(&mut word)?,
                Some(symbol) => self.expanded(symbol, Inside::Double, &mut word)?,
            }
        }
    }
}
