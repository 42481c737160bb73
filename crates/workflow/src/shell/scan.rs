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

/// Why the scan ended before the script did.
pub(super) enum Stop {
    Refused(Misplaced),
    Lost(&'static str),
}

/// Where a run of commands ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    End,
    Paren,
}

/// Finds the quotes around each reference, in order.
pub(super) fn quotes(symbols: &[Symbol], dialect: Dialect) -> Result<Vec<Quotes>, Misplaced> {
    let total = symbols.iter().filter(|symbol| **symbol == Symbol::Reference).count();
    let mut scanner = Scanner {
        symbols,
        dialect,
        at: 0,
        end: symbols.len(),
        placed: Vec::new(),
        walls: Vec::new(),
        depth: 0,
        substitution: 0,
        heredocs: Vec::new(),
    };
    let lost = match scanner.commands(Until::End, Command::default()) {
        Err(Stop::Refused(misplaced)) => return Err(misplaced),
        Err(Stop::Lost(what)) => what,
        Ok(()) => "its end",
    };
    match scanner.placed.len() {
        placed if placed == total => Ok(scanner.placed),
        index => Err(Misplaced { index, why: Why::Lost(lost) }),
    }
}

pub(super) struct Scanner<'a> {
    symbols: &'a [Symbol],
    pub(super) dialect: Dialect,
    pub(super) at: usize,
    /// Before the end of the script while the text of a here-document is read.
    pub(super) end: usize,
    placed: Vec<Quotes>,
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

    pub(super) fn refused<T>(&self, why: Why) -> Result<T, Stop> {
        Err(Stop::Refused(Misplaced { index: self.placed.len(), why }))
    }

    pub(super) fn place(&mut self, quotes: Quotes, command: &mut Command) -> Result<(), Stop> {
        if let Some(why) = self.walls.last().cloned().or_else(|| command.refusal()) {
            return self.refused(why);
        }
        self.placed.push(quotes);
        command.push_unknown();
        Ok(())
    }

    pub(super) fn commands(&mut self, until: Until, mut command: Command) -> Result<(), Stop> {
        let mut cases = 0_usize;
        while let Some(symbol) = self.next() {
            let Symbol::Char(c) = symbol else {
                self.place(Quotes::None, &mut command)?;
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
                ')' => return Err(Stop::Lost("a `)` without its `(`")),
                '<' => self.less(&mut command)?,
                '>' => self.greater(&mut command)?,
                '#' if command.between_words() => self.comment()?,
                c => self.in_word(c, &mut command)?,
            }
        }
        match until {
            Until::End => Ok(()),
            Until::Paren => Err(Stop::Lost("a `(` without its `)`")),
        }
    }

    fn word_ends(&mut self, command: &mut Command, cases: &mut usize) -> Result<(), Stop> {
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
    fn paren(&mut self, command: &mut Command) -> Result<(), Stop> {
        if command.may_begin_arithmetic() && self.eat('(') {
            return match self.dialect {
                Dialect::Bash => self.behind(Why::Arithmetic, Self::arithmetic),
                Dialect::Posix => Err(Stop::Lost("`((`")),
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

    fn less(&mut self, command: &mut Command) -> Result<(), Stop> {
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

    fn greater(&mut self, command: &mut Command) -> Result<(), Stop> {
        if self.eat('(') {
            command.push_unknown();
            return self.substituted();
        }
        command.redirect();
        let _ = self.eat('>') || self.eat('|') || self.eat('&');
        Ok(())
    }

    fn comment(&mut self) -> Result<(), Stop> {
        loop {
            match self.peek() {
                None | Some(Symbol::Char('\n')) => return Ok(()),
                Some(Symbol::Reference) => return self.refused(Why::Comment),
                Some(Symbol::Char(_)) => self.at += 1,
            }
        }
    }

    /// A character of a word, outside quotes.
    fn in_word(&mut self, c: char, command: &mut Command) -> Result<(), Stop> {
        match c {
            '\'' => self.single_quoted(command),
            '"' => self.double_quoted(command),
            '\\' => self.escaped(command),
            '`' => self.backticks(command),
            '$' => self.dollar(Inside::Nothing, command),
            c => {
                command.push(c);
                Ok(())
            }
        }
    }

    /// `[[ … ]]`, after the `[[`. Whether it does arithmetic is known at its end only.
    fn condition(&mut self) -> Result<(), Stop> {
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
                    break Err(Stop::Lost("a here-document before `[[`"));
                }
                None => break Err(Stop::Lost("a `[[` without its `]]`")),
                Some(Symbol::Char(_)) if boundary => Ok(()),
                Some(Symbol::Char(c)) => self.in_word(c, &mut word),
                Some(Symbol::Reference) => self.place(Quotes::None, &mut word),
            };
            if step.is_err() {
                break step;
            }
        };
        let doubtful = arithmetic || matches!(ended, Err(Stop::Lost(_)));
        if doubtful && self.placed.len() > first {
            return Err(Stop::Refused(Misplaced { index: first, why: Why::Condition }));
        }
        ended
    }

    /// Nothing is placed while this goes on.
    pub(super) fn behind(
        &mut self,
        why: Why,
        scan: impl FnOnce(&mut Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.walls.push(why);
        self.deeper(scan)?;
        self.walls.pop();
        Ok(())
    }

    pub(super) fn deeper(
        &mut self,
        scan: impl FnOnce(&mut Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        if self.depth == MAX_DEPTH {
            return Err(Stop::Lost("it is nested too deeply"));
        }
        self.depth += 1;
        scan(self)?;
        self.depth -= 1;
        Ok(())
    }

    /// A shell joins lines before it looks for operators; we do not.
    pub(super) fn refuse_torn(&self) -> Result<(), Stop> {
        match self.symbols[self.at..self.end] {
            [Symbol::Char('\\'), Symbol::Char('\n'), ..] => {
                Err(Stop::Lost("a line break inside an operator"))
            }
            _ => Ok(()),
        }
    }
}

/// Operators of `[[` that evaluate their operands.
const ARITHMETIC_TESTS: [&str; 8] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"];
