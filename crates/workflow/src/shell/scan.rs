//! Follows a shell's quoting from left to right, to know what surrounds each reference.
//!
//! Not a parser: it need not know what a command means. Invariant: where it cannot be sure how the
//! shell reads the text, it stops, and every reference behind that point is refused.

use super::{
    Dialect, Quotes,
    command::{Command, Ended},
    heredoc::Heredoc,
    quoting::Inside,
    refusal::Why,
};
use crate::complaint::Complaints;

/// Deeper than anybody writes; each level costs stack.
const MAX_DEPTH: usize = 30;

/// One character of the script, or a reference in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    Char(char),
    Reference,
}

/// A reference, counted from 0, that cannot stay where it is.
#[derive(Debug)]
pub(super) struct Misplaced {
    pub(super) index: usize,
    pub(super) why: Why,
}

/// The scan ended before the script did: from here on nothing is sure.
pub(super) struct Lost(pub(super) &'static str);

/// Where a run of commands ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    End,
    Paren,
}

/// Finds the quotes around each reference, in order.
pub(super) fn quotes(symbols: &[Symbol], dialect: Dialect) -> Result<Vec<Quotes>, Vec<Misplaced>> {
    let total = symbols.iter().filter(|symbol| **symbol == Symbol::Reference).count();
    let mut scanner = Scanner {
        symbols,
        dialect,
        at: 0,
        end: symbols.len(),
        placed: Vec::new(),
        misplaced: Vec::new(),
        walls: Vec::new(),
        depth: 0,
        substitution: 0,
        heredocs: Vec::new(),
    };
    let lost = match scanner.commands(Until::End, Command::default()) {
        Err(Lost(what)) => what,
        Ok(()) => "its end",
    };
    let (placed, mut misplaced) = (scanner.placed, scanner.misplaced);
    if placed.len() != total {
        misplaced.push(Misplaced { index: placed.len(), why: Why::Lost(lost) });
    }
    if misplaced.is_empty() { Ok(placed) } else { Err(misplaced) }
}

pub(super) struct Scanner<'a> {
    symbols: &'a [Symbol],
    pub(super) dialect: Dialect,
    pub(super) at: usize,
    /// Before the end of the script while the text of a here-document is read.
    pub(super) end: usize,
    /// One for each reference so far, the misplaced ones too.
    placed: Vec<Quotes>,
    misplaced: Vec<Misplaced>,
    /// Constructs around this point in which nothing can be placed.
    walls: Vec<Why>,
    depth: usize,
    /// How many `$( )` are around this point: a here-document belongs to one of them.
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

    /// Refuses the reference at hand, and with it the script. What follows is looked at all the same, for
    /// what else is wrong with it.
    pub(super) fn refuse(&mut self, why: Why) {
        if self.misplaced.len() <= Complaints::TOLD {
            self.misplaced.push(Misplaced { index: self.placed.len(), why });
        }
        self.placed.push(Quotes::None);
    }

    pub(super) fn place(&mut self, quotes: Quotes, command: &mut Command) {
        match self.walls.last().cloned().or_else(|| command.refusal()) {
            Some(why) => self.refuse(why),
            None => self.placed.push(quotes),
        }
        command.push_unknown();
    }

    pub(super) fn commands(&mut self, until: Until, mut command: Command) -> Result<(), Lost> {
        let mut cases = 0_usize;
        while let Some(symbol) = self.next() {
            let Symbol::Char(c) = symbol else {
                self.place(Quotes::None, &mut command);
                continue;
            };
            if " \t\n;|&)".contains(c) {
                self.word_ends(&mut command, &mut cases)?;
            }
            match c {
                ' ' | '\t' => {}
                '\n' => {
                    command.end();
                    self.heredoc_texts()?;
                }
                '&' if self.eat('>') => {
                    self.eat('>');
                    command.redirect();
                }
                ';' | '|' | '&' => command.end(),
                '(' => self.paren(&mut command)?,
                // In a `case`, a `)` without a `(` ends a pattern.
                ')' if cases > 0 => command.end(),
                ')' if until == Until::Paren => return Ok(()),
                ')' => return Err(Lost("a `)` without its `(`")),
                '<' => self.less(&mut command)?,
                '>' => self.greater(&mut command)?,
                '#' if command.between_words() => self.comment(),
                c => self.in_word(c, &mut command)?,
            }
        }
        match until {
            Until::End => Ok(()),
            Until::Paren => Err(Lost("a `(` without its `)`")),
        }
    }

    fn word_ends(&mut self, command: &mut Command, cases: &mut usize) -> Result<(), Lost> {
        match command.end_word() {
            Ended::Word => {}
            Ended::Case => *cases += 1,
            Ended::Esac => *cases = cases.saturating_sub(1),
            Ended::ConditionBegins => {
                // What ended the word is looked at again: it may be a line break.
                self.at -= 1;
                self.condition()?;
            }
        }
        Ok(())
    }

    /// `((`, a subshell, a function's `()`, a list `a=(`, or a pattern such as `@(a|b)`.
    fn paren(&mut self, command: &mut Command) -> Result<(), Lost> {
        if command.may_begin_arithmetic() && self.eat('(') {
            return match self.dialect {
                Dialect::Bash => self.behind(Why::Arithmetic, Self::arithmetic),
                Dialect::Posix => Err(Lost("`((`")),
            };
        }
        let inner = if command.begins_list() { Command::list() } else { Command::default() };
        let word_goes_on = !command.between_words() && self.peek() != Some(Symbol::Char(')'));
        self.deeper(|scanner| scanner.commands(Until::Paren, inner))?;
        if word_goes_on {
            command.push_unknown();
        } else {
            command.end();
        }
        Ok(())
    }

    fn less(&mut self, command: &mut Command) -> Result<(), Lost> {
        self.refuse_torn()?;
        if self.eat('(') {
            command.push_unknown();
            return self.substituted();
        }
        command.redirect();
        if !self.eat('<') {
            let _ = self.eat('&') || self.eat('>');
            return Ok(());
        }
        self.refuse_torn()?;
        if self.eat('<') { Ok(()) } else { self.heredoc_operator(command) }
    }

    fn greater(&mut self, command: &mut Command) -> Result<(), Lost> {
        if self.eat('(') {
            command.push_unknown();
            return self.substituted();
        }
        command.redirect();
        let _ = self.eat('>') || self.eat('|') || self.eat('&');
        Ok(())
    }

    fn comment(&mut self) {
        while let Some(symbol) = self.peek().filter(|symbol| *symbol != Symbol::Char('\n')) {
            self.at += 1;
            if symbol == Symbol::Reference {
                self.refuse(Why::Comment);
            }
        }
    }

    /// A character of a word, outside quotes.
    fn in_word(&mut self, c: char, command: &mut Command) -> Result<(), Lost> {
        match c {
            '\'' => self.single_quoted(command)?,
            '"' => self.double_quoted(command)?,
            '\\' => self.escaped(command),
            '`' => self.backticks(command)?,
            '$' => self.dollar(Inside::Nothing, command)?,
            c => command.push(c),
        }
        Ok(())
    }

    /// `[[ … ]]`, after the `[[`. Whether it does arithmetic is known at its end only.
    fn condition(&mut self) -> Result<(), Lost> {
        let first = self.placed.len();
        let mut word = Command::anything();
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
                    break Err(Lost("a here-document before `[[`"));
                }
                None => break Err(Lost("a `[[` without its `]]`")),
                Some(Symbol::Char(_)) if boundary => Ok(()),
                Some(Symbol::Char(c)) => self.in_word(c, &mut word),
                Some(Symbol::Reference) => {
                    self.place(Quotes::None, &mut word);
                    Ok(())
                }
            };
            if step.is_err() {
                break step;
            }
        };
        let doubtful = arithmetic || ended.is_err();
        if doubtful && self.placed.len() > first {
            self.misplaced.push(Misplaced { index: first, why: Why::Condition });
        }
        ended
    }

    /// Nothing is placed while this goes on.
    pub(super) fn behind(
        &mut self,
        why: Why,
        scan: impl FnOnce(&mut Self) -> Result<(), Lost>,
    ) -> Result<(), Lost> {
        self.walls.push(why);
        self.deeper(scan)?;
        self.walls.pop();
        Ok(())
    }

    pub(super) fn deeper(
        &mut self,
        scan: impl FnOnce(&mut Self) -> Result<(), Lost>,
    ) -> Result<(), Lost> {
        if self.depth == MAX_DEPTH {
            return Err(Lost("it is nested too deeply"));
        }
        self.depth += 1;
        scan(self)?;
        self.depth -= 1;
        Ok(())
    }

    /// A shell joins lines before it looks for operators; we do not.
    pub(super) fn refuse_torn(&self) -> Result<(), Lost> {
        match self.symbols[self.at..self.end] {
            [Symbol::Char('\\'), Symbol::Char('\n'), ..] => {
                Err(Lost("a line break inside an operator"))
            }
            _ => Ok(()),
        }
    }
}

/// Operators of `[[` that evaluate their operands.
const ARITHMETIC_TESTS: [&str; 8] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"];
