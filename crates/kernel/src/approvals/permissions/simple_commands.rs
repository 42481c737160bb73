//! Splits a command line into simple commands, and those into words. Pure.
//!
//! Reads quotes, separators and redirections as a shell does, and nothing else: expansions stay as they are written.
//! Redirections are left out, because they may precede the name of a command; a here-string is the last word, because it
//! may be the code of a shell.

/// Characters that join several commands, or embed one in another.
pub(super) const COMMAND_SEPARATORS: [char; 10] =
    [';', '|', '&', '\n', '\r', '(', ')', '{', '}', '`'];

/// Returns the words of each simple command, without quotes and redirections.
pub(super) fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let mut reader = LineReader { left: line.chars().collect(), ..LineReader::default() };
    reader.left.reverse();
    while let Some(c) = reader.left.pop() {
        reader.read(c);
    }
    reader.end_command();
    reader.commands
}

#[derive(Default)]
struct LineReader {
    /// The rest of the line, in reverse order.
    left: Vec<char>,
    commands: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<String>,
    /// Use of the current word, or of the next one.
    word_use: WordUse,
    here_strings: Vec<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum WordUse {
    #[default]
    Argument,
    /// The target of a redirection.
    Target,
    HereString,
}

impl LineReader {
    fn read(&mut self, c: char) {
        match c {
            '\\' => {
                if let Some(next) = self.left.pop() {
                    self.push(next);
                }
            }
            '\'' => self.read_quoted('\''),
            '"' => self.read_quoted('"'),
            '$' if self.left.last() == Some(&'\'') => {
                self.left.pop();
                self.read_escaped();
            }
            // `$"…"` is a quote.
            '$' if self.left.last() == Some(&'"') => {}
            '<' | '>' if self.left.last() != Some(&'(') => self.read_redirection(),
            '&' if self.left.last() == Some(&'>') => self.end_word(),
            '{' | '}' if self.word.is_some() || !self.stands_alone() => self.push(c),
            c if COMMAND_SEPARATORS.contains(&c) => self.end_command(),
            c if c.is_whitespace() => self.end_word(),
            '<' | '>' => self.end_word(),
            c => self.push(c),
        }
    }

    /// Returns true if the next character ends a word.
    fn stands_alone(&self) -> bool {
        self.left.last().is_none_or(|c| c.is_whitespace() || ";&|()".contains(*c))
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn read_quoted(&mut self, end: char) {
        self.word.get_or_insert_default();
        while let Some(c) = self.left.pop() {
            match c {
                c if c == end => return,
                '\\' if end == '"' => {
                    if let Some(next) = self.left.pop() {
                        self.push(next);
                    }
                }
                c => self.push(c),
            }
        }
    }

    /// Reads the rest of `$'…'`, in which a backslash begins an escape.
    fn read_escaped(&mut self) {
        self.word.get_or_insert_default();
        while let Some(c) = self.left.pop() {
            match c {
                '\'' => return,
                '\\' => {
                    if let Some(kind) = self.left.pop() {
                        self.read_escape(kind);
                    }
                }
                c => self.push(c),
            }
        }
    }

    fn read_escape(&mut self, kind: char) {
        let (radix, length) = match kind {
            'x' => (16, 2),
            'u' => (16, 4),
            'U' => (16, 8),
            '0'..='7' => {
                self.left.push(kind);
                (8, 3)
            }
            'n' | 'r' | 't' | 'v' | 'f' => return self.push(' '),
            other => return self.push(other),
        };
        let mut code = 0;
        for _ in 0..length {
            let Some(digit) = self.left.last().and_then(|c| c.to_digit(radix)) else { break };
            self.left.pop();
            code = code * radix + digit;
        }
        if let Some(c) = char::from_u32(code) {
            self.push(c);
        }
    }

    /// Reads the rest of `>`, `>>`, `>|`, `>&`, `<&`, `<<`, `<<-`, `<<<` and `<>`. The next word is the target.
    fn read_redirection(&mut self) {
        // A number, or `{name}`, before the operator is a file descriptor.
        let is_descriptor = |word: &String| {
            word.bytes().all(|b| b.is_ascii_digit()) || word.starts_with('{') && word.ends_with('}')
        };
        self.word = self.word.take().filter(|word| !is_descriptor(word));
        self.end_word();
        let mut length = 1;
        while self.left.last().is_some_and(|c| matches!(c, '<' | '>')) {
            self.left.pop();
            length += 1;
        }
        if self.left.last().is_some_and(|c| matches!(c, '&' | '|' | '-')) {
            self.left.pop();
        }
        self.word_use = if length == 3 { WordUse::HereString } else { WordUse::Target };
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match std::mem::take(&mut self.word_use) {
            WordUse::Argument => self.words.push(word),
            WordUse::HereString => self.here_strings.push(word),
            WordUse::Target => {}
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.word_use = WordUse::Argument;
        self.words.append(&mut self.here_strings);
        if !self.words.is_empty() {
            self.commands.push(std::mem::take(&mut self.words));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_its_simple_commands_without_redirections() {
        for (line, expected) in [
            ("a b", "a,b"),
            ("a 'b c' \"d \\\" e\" f\\ g", "a,b c,d \" e,f g"),
            ("a;b|c&d\n(e)", "a/b/c/d/e"),
            ("{ a; }", "a"),
            ("a {} {b,c}", "a,{},{b,c}"),
            ("2>/dev/null a", "a"),
            (">\"x y\" a", "a"),
            ("2>&1 a", "a"),
            ("&>x a", "a"),
            (">|x a", "a"),
            ("{fd}>x a", "a"),
            ("a <<<x b", "a,b,x"),
            ("<<<'x y' a", "a,x y"),
            ("a <<x b", "a,b"),
            ("a 2>x3 b", "a,b"),
            ("a2>x b", "a2,b"),
            ("a <(b c)", "a/b,c"),
            ("a \"$(b c)\"", "a,$(b c)"),
            ("$'a' b", "a,b"),
            ("$'\\x72\\155\\u0020\\'' b", "rm ',b"),
            ("a 'b", "a,b"),
            ("a ''", "a,"),
            ("", ""),
        ] {
            let read: Vec<_> = simple_commands(line).iter().map(|words| words.join(",")).collect();
            assert_eq!(read.join("/"), expected, "{line}");
        }
    }
}
