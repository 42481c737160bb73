//! Here-documents: their operators, the end of their text, and expansion in it.

use super::{
    command::SimpleCommand,
    quoting::QuoteContext,
    refusal::PlacementRefusal,
    scanner::{ScanError, Scanner, Symbol},
};

/// Here-document whose operator has been scanned and whose text has not.
pub(super) struct Heredoc {
    delimiter: String,
    quoted: bool,
    /// True for the operator `<<-`.
    strips_tabs: bool,
    /// Nesting level of the `$( )` that contains it.
    pub(super) substitution: usize,
    /// Number of the here-document in the script.
    pub(super) number: usize,
}

impl Scanner<'_> {
    /// Scans the part after `<<`: an optional `-` and the delimiter.
    pub(super) fn scan_heredoc_operator(
        &mut self,
        command: &mut SimpleCommand,
    ) -> Result<(), ScanError> {
        let strips_tabs = self.eat('-');
        while self.eat(' ') || self.eat('\t') {}
        let mut delimiter = String::new();
        let mut quoted = false;
        while let Some(symbol) = self.peek() {
            if self.symbols[self.at] == Symbol::Number {
                return Err(ScanError("a number in the delimiter after `<<`"));
            }
            let c = match symbol {
                Symbol::Number | Symbol::Reference => return self.unknown_delimiter(),
                Symbol::Char(c) if " \t\n;&|<>()".contains(c) => break,
                Symbol::Char('$' | '`') => {
                    return Err(ScanError("an unsupported delimiter after `<<`"));
                }
                Symbol::Char(c) => c,
            };
            self.at += 1;
            match c {
                '\'' | '"' => {
                    quoted = true;
                    self.quoted_delimiter(c, &mut delimiter)?;
                }
                '\\' if self.peek() == Some(Symbol::Char('\n')) => {
                    return Err(ScanError("a line break in the delimiter after `<<`"));
                }
                '\\' => {
                    quoted = true;
                    if let Some(Symbol::Char(c)) = self.next() {
                        delimiter.push(c);
                    }
                }
                c => delimiter.push(c),
            }
        }
        let number = self.facts.heredocs.len();
        self.facts.heredocs.push(0..0);
        command.end_heredoc_operator(number);
        let substitution = self.substitution;
        self.heredocs.push(Heredoc { delimiter, quoted, strips_tabs, substitution, number });
        Ok(())
    }

    fn quoted_delimiter(&mut self, quote: char, delimiter: &mut String) -> Result<(), ScanError> {
        loop {
            match self.next() {
                Some(Symbol::Char(c)) if c == quote => return Ok(()),
                Some(Symbol::Char(c)) if !"\\$`\n".contains(c) => delimiter.push(c),
                Some(Symbol::Reference) => return self.unknown_delimiter(),
                Some(Symbol::Char(_) | Symbol::Number) | None => {
                    return Err(ScanError("an unsupported delimiter after `<<`"));
                }
            }
        }
    }

    /// Fails, because the end of a here-document with an unknown delimiter cannot be found.
    fn unknown_delimiter(&mut self) -> Result<(), ScanError> {
        self.refuse(PlacementRefusal::HeredocDelimiter);
        Err(ScanError("a here-document without an end"))
    }

    /// Scans, after a line break, the text of every here-document of the line.
    pub(super) fn scan_heredoc_texts(&mut self) -> Result<(), ScanError> {
        for heredoc in std::mem::take(&mut self.heredocs) {
            if heredoc.substitution != self.substitution {
                return Err(ScanError("a here-document whose text begins in a `$( )`"));
            }
            self.scan_heredoc_text(&heredoc)?;
        }
        Ok(())
    }

    fn scan_heredoc_text(&mut self, heredoc: &Heredoc) -> Result<(), ScanError> {
        let (start, sources) = (self.at, self.source_count());
        let text_end = self.skip_to_delimiter(heredoc)?;
        let has_number = self.symbols[start..text_end].contains(&Symbol::Number);
        if has_number && heredoc.delimiter.contains(|c: char| c.is_ascii_digit()) {
            return Err(ScanError("a number in a here-document whose delimiter has a digit"));
        }
        let after = std::mem::replace(&mut self.at, start);
        let script_end = std::mem::replace(&mut self.end, text_end);
        let mut word = SimpleCommand::opaque();
        while let Some(symbol) = self.next() {
            match symbol {
                Symbol::Reference if heredoc.quoted => self.refuse(PlacementRefusal::QuotedHeredoc),
                _ if heredoc.quoted => {}
                symbol => self.scan_expansions(symbol, QuoteContext::Heredoc, &mut word)?,
            }
        }
        self.at = after;
        self.end = script_end;
        self.facts.heredocs[heredoc.number] = sources..self.source_count();
        Ok(())
    }

    /// Moves behind the line of the delimiter, and returns the end of the text before it.
    fn skip_to_delimiter(&mut self, heredoc: &Heredoc) -> Result<usize, ScanError> {
        // Lines that end in a backslash, without their tabs.
        let mut joined = String::new();
        while self.peek().is_some() {
            let start = self.at;
            let mut line = String::new();
            let mut plain = true;
            while let Some(symbol) = self.next() {
                match symbol {
                    Symbol::Char('\n') => break,
                    Symbol::Char(c) => line.push(c),
                    Symbol::Reference | Symbol::Number => plain = false,
                }
            }
            let shown = if heredoc.strips_tabs { line.trim_start_matches('\t') } else { &line };
            if plain && joined.is_empty() && shown == heredoc.delimiter {
                return Ok(start);
            }
            let backslashes = line.chars().rev().take_while(|c| *c == '\\').count();
            let continues = !heredoc.quoted && backslashes % 2 == 1;
            if !joined.is_empty() || continues {
                let text = if continues { &line[..line.len() - 1] } else { &line };
                joined.extend(text.chars().filter(|c| *c != '\t'));
                // Some shells end the document here.
                let is_delimiter = joined == heredoc.delimiter.replace('\t', "");
                if is_delimiter || (continues && joined.is_empty()) {
                    return Err(ScanError("a here-document with a delimiter over two lines"));
                }
            }
            if !continues {
                joined.clear();
            }
        }
        Err(ScanError("a here-document without its delimiter"))
    }
}
