//! Tokens of JavaScript, as far as the end of an expression and its names need them.
//!
//! The scanner knows strings, templates, regular expressions, comments and brackets. It checks no grammar: the
//! interpreter does.

use std::ops::Range;

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// Name or keyword.
    Word,
    /// Number of any notation.
    Number,
    /// Text in single or double quotes.
    Quoted,
    /// Part of a template between its backticks and `${ }`.
    Template,
    /// Regular expression with its flags.
    Pattern,
    /// One character of punctuation; `=>`, `?.` and `...` are one token.
    Punctuation,
}

/// Token with its place in the scanned text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) at: Range<usize>,
}

/// End of a scan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TokenEnd {
    /// The text ends.
    TextEnd,
    /// `}}` at this offset closes the expression.
    Close(usize),
}

/// Mistake that ends a scan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TokenError {
    pub(crate) offset: usize,
    pub(crate) why: &'static str,
}

/// Bracket that is still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nest {
    Round,
    Square,
    Curly,
    /// `${` in a template.
    Template,
}

/// Words after which `/` begins a regular expression.
const WORDS_BEFORE_PATTERN: [&str; 11] = [
    "return",
    "typeof",
    "case",
    "in",
    "of",
    "delete",
    "void",
    "throw",
    "new",
    "instanceof",
    "else",
];

const MIXED_BRACKETS: &str = "the bracket that this one closes is of another kind";

/// Scans a text from its beginning to `}}` outside of brackets, or to its end.
pub(crate) fn scan(text: &str) -> Result<(Vec<Token>, TokenEnd), TokenError> {
    let mut scanner = TokenScanner { text, position: 0, tokens: Vec::new(), open: Vec::new() };
    let end = scanner.run()?;
    Ok((scanner.tokens, end))
}

struct TokenScanner<'a> {
    text: &'a str,
    position: usize,
    tokens: Vec<Token>,
    open: Vec<(Nest, usize)>,
}

impl TokenScanner<'_> {
    fn run(&mut self) -> Result<TokenEnd, TokenError> {
        while let Some(c) = self.rest().chars().next() {
            let start = self.position;
            match c {
                _ if c.is_whitespace() => self.position += c.len_utf8(),
                '/' if self.rest().starts_with("//") => self.skip_line(),
                '/' if self.rest().starts_with("/*") => self.skip_comment()?,
                '/' if self.begins_pattern() => self.scan_pattern()?,
                '\'' | '"' => self.scan_quoted(c)?,
                '`' => {
                    self.position += 1;
                    self.scan_template(start)?;
                }
                '}' if self.open.is_empty() => {
                    if self.rest().starts_with("}}") {
                        return Ok(TokenEnd::Close(start));
                    }
                    return Err(TokenError { offset: start, why: "nothing is open here" });
                }
                '(' => self.open_bracket(Nest::Round, 1),
                '[' => self.open_bracket(Nest::Square, 1),
                '{' => self.open_bracket(Nest::Curly, 1),
                ')' | ']' | '}' => self.close_bracket(c)?,
                _ if is_word_start(c) => self.take_while(TokenKind::Word, is_word_part),
                _ if c.is_ascii_digit() => {
                    self.take_while(TokenKind::Number, |c| is_word_part(c) || c == '.');
                }
                _ => {
                    let double = ["=>", "...", "?."].into_iter();
                    let length = double
                        .filter(|sign| self.rest().starts_with(sign))
                        .map(str::len)
                        .next()
                        .unwrap_or(c.len_utf8());
                    self.push(TokenKind::Punctuation, length);
                }
            }
        }
        match self.open.last() {
            Some((_, offset)) => Err(TokenError { offset: *offset, why: "this is never closed" }),
            None => Ok(TokenEnd::TextEnd),
        }
    }

    fn rest(&self) -> &str {
        &self.text[self.position..]
    }

    fn push(&mut self, kind: TokenKind, length: usize) {
        self.tokens.push(Token { kind, at: self.position..self.position + length });
        self.position += length;
    }

    /// Takes the next character, and those after it that are part of its word.
    fn take_while(&mut self, kind: TokenKind, is_part: impl Fn(char) -> bool) {
        let after = self.rest().char_indices().skip(1).find(|(_, c)| !is_part(*c));
        let length = after.map_or(self.rest().len(), |(end, _)| end);
        self.push(kind, length);
    }

    fn skip_line(&mut self) {
        // A comment does not hide the end of its expression.
        let rest = self.rest();
        let end = [rest.find('\n'), rest.find("}}")].into_iter().flatten().min();
        self.position += end.unwrap_or(rest.len());
    }

    fn skip_comment(&mut self) -> Result<(), TokenError> {
        let unclosed = TokenError { offset: self.position, why: "this comment is never closed" };
        self.position += self.rest().find("*/").ok_or(unclosed)? + 2;
        Ok(())
    }

    fn scan_quoted(&mut self, quote: char) -> Result<(), TokenError> {
        let mut escaped = false;
        for (at, c) in self.rest().char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '\n' => break,
                _ if c == quote => {
                    self.push(TokenKind::Quoted, at + 1);
                    return Ok(());
                }
                _ => {}
            }
        }
        Err(TokenError { offset: self.position, why: "this quote is never closed" })
    }

    /// Scans the text of a template up to its end or to `${`.
    fn scan_template(&mut self, start: usize) -> Result<(), TokenError> {
        let mut escaped = false;
        let mut previous = ' ';
        for (at, c) in self.text[self.position..].char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '`' => {
                    self.push(TokenKind::Template, at + 1);
                    return Ok(());
                }
                '{' if previous == '$' => {
                    self.push(TokenKind::Template, at + 1);
                    self.open.push((Nest::Template, start));
                    return Ok(());
                }
                _ => {}
            }
            previous = if escaped { ' ' } else { c };
        }
        Err(TokenError { offset: start, why: "this backtick is never closed" })
    }

    fn scan_pattern(&mut self) -> Result<(), TokenError> {
        let (mut escaped, mut in_class) = (false, false);
        for (at, c) in self.rest().char_indices().skip(1) {
            match c {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '[' => in_class = true,
                ']' => in_class = false,
                '/' if !in_class => {
                    let flags = self.rest()[at + 1..].find(|c| !is_word_part(c));
                    let end = flags.map_or(self.rest().len(), |flags| at + 1 + flags);
                    self.push(TokenKind::Pattern, end);
                    return Ok(());
                }
                _ => {}
            }
        }
        Err(TokenError { offset: self.position, why: "this regular expression is never closed" })
    }

    fn begins_pattern(&self) -> bool {
        let Some(before) = self.tokens.last() else { return true };
        let text = &self.text[before.at.clone()];
        match before.kind {
            TokenKind::Word => WORDS_BEFORE_PATTERN.contains(&text),
            TokenKind::Number | TokenKind::Quoted | TokenKind::Pattern => false,
            TokenKind::Template => !text.ends_with('`'),
            TokenKind::Punctuation => !matches!(text, ")" | "]" | "}"),
        }
    }

    fn open_bracket(&mut self, nest: Nest, length: usize) {
        self.open.push((nest, self.position));
        self.push(TokenKind::Punctuation, length);
    }

    fn close_bracket(&mut self, c: char) -> Result<(), TokenError> {
        let at = self.position;
        match (self.open.pop(), c) {
            (Some((Nest::Round, _)), ')')
            | (Some((Nest::Square, _)), ']')
            | (Some((Nest::Curly, _)), '}') => {
                self.push(TokenKind::Punctuation, 1);
                Ok(())
            }
            (Some((Nest::Template, start)), '}') => {
                self.position += 1;
                self.scan_template(start)
            }
            (None, _) => Err(TokenError { offset: at, why: "nothing is open here" }),
            (Some(_), _) => Err(TokenError { offset: at, why: MIXED_BRACKETS }),
        }
    }
}

pub(crate) fn is_word_start(c: char) -> bool {
    c.is_alphabetic() || c == '_' || c == '$' || c == '\\' || c == '#'
}

fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$' || c == '\\' || c == '\u{200c}' || c == '\u{200d}'
}

#[cfg(test)]
mod tests {
    use crate::source::text::split_text;

    #[test]
    fn a_character_that_only_begins_a_word_is_a_word() {
        for text in ["${{ # }}", "${{ #a }}", "${{ a# }}", "${{ ## }}"] {
            let (pieces, flaws) = split_text(text);
            assert_eq!((pieces.len(), flaws.len()), (1, 0), "{text}");
        }
    }
}
