//! Follows a shell's quoting from left to right, to determine the context of each reference.
//!
//! The scanner does not decide about the meaning of a command: it collects the facts for the policy. Invariant: if it
//! is not certain about the shell's interpretation of the text, it stops, and the script is refused.

use super::{
    Dialect, Quotes,
    command::{RedirectKind, SimpleCommand, WordEnd},
    facts::{COMPUTED, CommandFacts, Facts, Pipe, Sink, SinkKind, Source, identifiers},
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

/// The `case` commands around a point.
#[derive(Default)]
pub(super) struct CaseState {
    open: usize,
    /// True before the `)` that ends a pattern.
    pub(super) in_pattern: bool,
}

/// Finds the quotes around each reference, in order. `environment` are variables that a client may set.
pub(super) fn quotes(
    symbols: &[Symbol],
    dialect: Dialect,
    environment: Vec<String>,
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
        facts: Facts {
            has_numbered_names: has_numbered_names(symbols),
            environment,
            ..Facts::default()
        },
    };
    let result = scanner.scan_commands(CommandsEnd::End, SimpleCommand::default());
    let (placed, mut misplaced) = (scanner.placed, scanner.misplaced);
    if let Err(ScanError(what)) = result {
        // The text after this point is unknown, and may use a value that was placed before.
        let why = PlacementRefusal::ScanFailed(what);
        misplaced
            .push(MisplacedReference { index: placed.len().min(total.saturating_sub(1)), why });
    }
    misplaced.extend(policy::refusals(&scanner.facts));
    // One reason for each reference: the first.
    misplaced.sort_by_key(|one| one.index);
    misplaced.dedup_by_key(|one| one.index);
    misplaced.truncate(Diagnostics::MAX_REPORTED + 1);
    if misplaced.is_empty() { Ok(placed) } else { Err(misplaced) }
}

/// Returns true if an expansion is part of a longer name: `a$i`, `$a$b`, `${a}b`.
fn makes_name(text: &str) -> bool {
    let unquoted: Vec<char> = text.chars().filter(|c| *c != '"').collect();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    unquoted.windows(2).any(|pair| match pair {
        [before, '$'] => is_name(*before) || "})".contains(*before),
        ['}', after] => is_name(*after),
        _ => false,
    })
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
        self.add_names(at);
        let sources = start..self.source_count();
        self.facts.sinks.push(Sink { why, sources, kind: SinkKind::Evaluated });
    }

    /// Notes the variables that the text since `at` names.
    pub(super) fn add_names(&mut self, at: usize) {
        let char_of = |symbol: &Symbol| match symbol {
            Symbol::Char(c) => *c,
            Symbol::Number => '0',
            Symbol::Reference => ' ',
        };
        let text: String = self.symbols[at..self.at].iter().map(char_of).collect();
        if makes_name(&text) {
            self.add_variable(COMPUTED);
        }
        // The length in `${#name}` is a number.
        let parts = text.split("${#").enumerate();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for (n, part) in parts {
            let part = if n > 0 { part.trim_start_matches(is_name) } else { part };
            for name in identifiers(part) {
                self.add_variable(name);
            }
        }
    }

    pub(super) fn end_command(&mut self, command: &mut SimpleCommand) {
        let facts = command.end_command(self.source_count());
        let code = policy::trap_code(&facts).map(str::to_owned);
        self.add_command(facts);
        if let Some(code) = code {
            self.scan_trap(&code);
            command.skip_sources(self.source_count());
        }
    }

    /// Adds the commands of a `trap`, which the shell runs later.
    fn scan_trap(&mut self, code: &str) {
        let symbols: Vec<Symbol> = code.chars().map(Symbol::Char).collect();
        let mut inner = Scanner {
            symbols: &symbols,
            dialect: self.dialect,
            at: 0,
            end: symbols.len(),
            placed: Vec::new(),
            misplaced: Vec::new(),
            barriers: Vec::new(),
            depth: self.depth,
            substitution: 0,
            heredocs: Vec::new(),
            facts: std::mem::take(&mut self.facts),
        };
        let start = SimpleCommand::new(inner.source_count());
        let result = inner.scan_nested(|scanner| scanner.scan_commands(CommandsEnd::End, start));
        self.facts = inner.facts;
        if let Err(ScanError(what)) = result {
            self.facts.script_refusals.push(PlacementRefusal::ScanFailed(what));
        }
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
        let mut cases = CaseState::default();
        let mut pipeline = self.source_count();
        while let Some(symbol) = self.next() {
            command.follow_cases(&cases);
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
                '&' if self.eat('>') => self.scan_redirect_of_both(&mut command)?,
                '|' if cases.in_pattern => self.end_command(&mut command),
                '|' if !self.eat('|') => {
                    self.eat('&');
                    // The commands before the end of a compound command are not known here.
                    let start = if command.is_closer() { 0 } else { pipeline };
                    self.end_command(&mut command);
                    let heredocs = self.heredocs.iter().map(|heredoc| heredoc.number).collect();
                    command.set_pipe(Pipe { sources: start..self.source_count(), heredocs });
                }
                ';' | '|' | '&' => {
                    cases.in_pattern |= c == ';' && self.ends_case_item(&cases);
                    self.end_command(&mut command);
                    pipeline = self.source_count();
                }
                '(' => {
                    self.scan_paren(&mut command, &mut cases)?;
                    pipeline = if command.is_empty() { 0 } else { pipeline };
                }
                ')' if cases.in_pattern => {
                    self.end_command(&mut command);
                    cases.in_pattern = false;
                    pipeline = self.source_count();
                }
                ')' if cases.open > 0 => return Err(ScanError("a `)` in a `case`")),
                ')' if until == CommandsEnd::Paren => {
                    self.end_command(&mut command);
                    return Ok(());
                }
                ')' => return Err(ScanError("a `)` without its `(`")),
                '<' => self.scan_less_than(&mut command, &mut cases)?,
                '>' => self.scan_greater_than(&mut command, &mut cases)?,
                '#' if command.between_words() => self.scan_comment(),
                c => self.scan_word_char(c, &mut command)?,
            }
        }
        self.finish_word(&mut command, &mut cases)?;
        self.end_command(&mut command);
        self.check_end_of_script(until)
    }

    /// Refuses a script that ends inside a here-document or inside brackets.
    fn check_end_of_script(&self, until: CommandsEnd) -> Result<(), ScanError> {
        match until {
            CommandsEnd::End if !self.heredocs.is_empty() => {
                Err(ScanError("a here-document without its delimiter"))
            }
            CommandsEnd::End => Ok(()),
            CommandsEnd::Paren => Err(ScanError("a `(` without its `)`")),
        }
    }

    /// Scans the `>` of `&>` and `&>>`.
    fn scan_redirect_of_both(&mut self, command: &mut SimpleCommand) -> Result<(), ScanError> {
        if self.dialect == Dialect::Posix {
            // For dash, the `&` ends the command.
            return Err(ScanError("`&>`; write `>file 2>&1`"));
        }
        self.eat('>');
        command.begin_redirect(RedirectKind::Other, self.source_count());
        Ok(())
    }

    /// Returns true at the `;` of `;;`, `;&` or `;;&` in a `case`, and moves behind the operator.
    fn ends_case_item(&mut self, cases: &CaseState) -> bool {
        if cases.open == 0 {
            return false;
        }
        let is_double = self.eat(';');
        self.eat('&') || is_double
    }

    fn finish_word(
        &mut self,
        command: &mut SimpleCommand,
        cases: &mut CaseState,
    ) -> Result<(), ScanError> {
        let ended = command.end_word(self.source_count());
        if ended == WordEnd::ConditionBegins {
            // The character that ended the word is scanned again: it may be a line break.
            self.at -= 1;
            self.scan_condition()?;
            command.skip_sources(self.source_count());
        }
        self.note_word_end(&ended, command, cases)
    }

    pub(super) fn note_word_end(
        &mut self,
        ended: &WordEnd,
        command: &mut SimpleCommand,
        cases: &mut CaseState,
    ) -> Result<(), ScanError> {
        match ended {
            WordEnd::Word | WordEnd::ConditionBegins => {}
            WordEnd::Case => cases.open += 1,
            WordEnd::Esac => {
                cases.open = cases.open.saturating_sub(1);
                cases.in_pattern = false;
                command.leave_pattern();
            }
            WordEnd::Coproc => return Err(ScanError("`coproc`")),
            WordEnd::OpenSubscript => return Err(ScanError("a subscript with spaces")),
            WordEnd::LateKeyword => {
                return Err(ScanError("a keyword after an assignment or a redirection"));
            }
        }
        if let Some(name) = command.named_function() {
            self.facts.functions.insert(name.to_owned());
        }
        if command.is_head() {
            cases.in_pattern = command.named_function().is_none();
            self.end_command(command);
        }
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
    pub(super) fn scan_word_char(
        &mut self,
        c: char,
        command: &mut SimpleCommand,
    ) -> Result<(), ScanError> {
        match c {
            '\'' => self.scan_single_quotes(command)?,
            '"' => self.scan_double_quotes(command)?,
            '\\' => self.scan_escape(QuoteContext::Unquoted, command)?,
            '`' => self.scan_backticks(command)?,
            '$' => self.scan_dollar(QuoteContext::Unquoted, command)?,
            c => command.push(c),
        }
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
