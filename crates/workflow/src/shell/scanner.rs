//! Follows a shell's quoting from left to right, to determine the context of each reference.
//!
//! The scanner is not a parser and does not need the meaning of a command. Invariant: if it is not certain about the
//! shell's interpretation of the text, it stops, and every reference after that point is refused.

use super::{
    Dialect, Quotes,
    command::{SimpleCommand, WordEnd},
    heredoc::Heredoc,
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
    };
    let lost = match scanner.scan_commands(CommandsEnd::End, SimpleCommand::default()) {
        Err(ScanError(what)) => what,
        Ok(()) => "its end",
    };
    let (placed, mut misplaced) = (scanner.placed, scanner.misplaced);
    if placed.len() != total {
        misplaced.push(MisplacedReference {
            index: placed.len(),
            why: PlacementRefusal::ScanFailed(lost),
        });
    }
    if misplaced.is_empty() { Ok(placed) } else { Err(misplaced) }
}

pub(super) struct Scanner<'a> {
    symbols: &'a [Symbol],
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
}

impl Scanner<'_> {
    pub(super) fn next(&mut self) -> Option<Symbol> {
        let symbol = self.peek()?;
        self.at += 1;
        Some(symbol)
    }

    pub(super) fn peek(&self) -> Option<Symbol> {
        self.symbols[..self.end].get(self.at).copied()
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
        match self.barriers.last().cloned().or_else(|| command.refusal()) {
            Some(why) => self.refuse(why),
            None => self.placed.push(quotes),
        }
        command.push_unknown();
    }

    pub(super) fn scan_commands(
        &mut self,
        until: CommandsEnd,
        mut command: SimpleCommand,
    ) -> Result<(), ScanError> {
        let mut cases = 0_usize;
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
                '\n' => {
                    command.end_command();
                    self.scan_heredoc_texts()?;
                }
                '&' if self.eat('>') => {
                    self.eat('>');
                    command.begin_redirect();
                }
                ';' | '|' | '&' => command.end_command(),
                '(' => self.scan_paren(&mut command)?,
                // In a `case`, a `)` without a `(` ends a pattern.
                ')' if cases > 0 => command.end_command(),
                ')' if until == CommandsEnd::Paren => return Ok(()),
                ')' => return Err(ScanError("a `)` without its `(`")),
                '<' => self.scan_less_than(&mut command)?,
                '>' => self.scan_greater_than(&mut command)?,
                '#' if command.between_words() => self.scan_comment(),
                c => self.scan_word_char(c, &mut command)?,
            }
        }
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
        match command.end_word() {
            WordEnd::Word => {}
            WordEnd::Case => *cases += 1,
            WordEnd::Esac => *cases = cases.saturating_sub(1),
            WordEnd::ConditionBegins => {
                // The character that ended the word is scanned again: it may be a line break.
                self.at -= 1;
                self.scan_condition()?;
            }
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
        let inner =
            if command.begins_list() { SimpleCommand::array() } else { SimpleCommand::default() };
        let word_goes_on = !command.between_words() && self.peek() != Some(Symbol::Char(')'));
        self.scan_nested(|scanner| scanner.scan_commands(CommandsEnd::Paren, inner))?;
        if word_goes_on {
            command.push_unknown();
        } else {
            command.end_command();
        }
        Ok(())
    }

    fn scan_less_than(&mut self, command: &mut SimpleCommand) -> Result<(), ScanError> {
        self.refuse_split_operator()?;
        if self.eat('(') {
            command.push_unknown();
            return self.scan_substitution();
        }
        command.begin_redirect();
        if !self.eat('<') {
            let _ = self.eat('&') || self.eat('>');
            return Ok(());
        }
        self.refuse_split_operator()?;
        if self.eat('<') { Ok(()) } else { self.scan_heredoc_operator(command) }
    }

    fn scan_greater_than(&mut self, command: &mut SimpleCommand) -> Result<(), ScanError> {
        if self.eat('(') {
            command.push_unknown();
            return self.scan_substitution();
        }
        command.begin_redirect();
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

    /// Scans `[[ … ]]` after the `[[`. Only at its end is it known to be arithmetic or not.
    fn scan_condition(&mut self) -> Result<(), ScanError> {
        let first = self.placed.len();
        let mut word = SimpleCommand::opaque();
        let mut arithmetic = false;
        let ended = loop {
            let symbol = self.next();
            let boundary = match symbol {
                None => true,
                Some(Symbol::Char(c)) => " \t\n()<>&|;".contains(c),
                Some(Symbol::Reference) => false,
            };
            if boundary {
                let text = word.take_plain_word();
                arithmetic |= ARITHMETIC_TESTS.contains(&text.as_str());
                if text == "]]" {
                    self.at -= usize::from(symbol.is_some());
                    break Ok(());
                }
            }
            let step = match symbol {
                Some(Symbol::Char('\n')) if !self.heredocs.is_empty() => {
                    break Err(ScanError("a here-document before `[[`"));
                }
                None => break Err(ScanError("a `[[` without its `]]`")),
                Some(Symbol::Char(_)) if boundary => Ok(()),
                Some(Symbol::Char(c)) => self.scan_word_char(c, &mut word),
                Some(Symbol::Reference) => {
                    self.place_reference(Quotes::None, &mut word);
                    Ok(())
                }
            };
            if step.is_err() {
                break step;
            }
        };
        let doubtful = arithmetic || ended.is_err();
        if doubtful && self.placed.len() > first {
            self.misplaced
                .push(MisplacedReference { index: first, why: PlacementRefusal::Condition });
        }
        ended
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
