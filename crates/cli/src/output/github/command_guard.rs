//! Makes workflow commands in text ineffective, also if a command arrives in pieces.
//!
//! The runner of GitHub obeys a line that begins with `::` after blanks, and the older form `##[` anywhere in a line. A
//! backslash in front of the last character of either makes it text.

/// The protection of one output stream.
#[derive(Debug, Default)]
pub(crate) struct CommandGuard {
    position: LinePosition,
    /// Number of `#` directly in front.
    hashes: usize,
}

/// The part of a line that has been written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LinePosition {
    /// Blanks only.
    #[default]
    Start,
    /// Blanks and colours, in the middle of an escape sequence.
    Escape,
    /// One colon behind blanks.
    Colon,
    /// Any other text.
    Middle,
}

impl CommandGuard {
    /// Returns `text` without effective commands.
    pub(crate) fn disarm(&mut self, text: &str) -> String {
        let mut safe = String::with_capacity(text.len());
        for c in text.chars() {
            if (self.position == LinePosition::Colon && c == ':') || (self.hashes >= 2 && c == '[')
            {
                safe.push('\\');
            }
            safe.push(c);
            self.position = self.position.after(c);
            self.hashes = if c == '#' { self.hashes + 1 } else { 0 };
        }
        safe
    }

    /// Returns whether the next character begins a line.
    pub(crate) fn is_at_line_start(&self) -> bool {
        self.position == LinePosition::Start
    }
}

impl LinePosition {
    fn after(self, c: char) -> Self {
        match (self, c) {
            (_, '\n' | '\r') => Self::Start,
            (Self::Escape, c) if c.is_ascii_alphabetic() => Self::Start,
            (Self::Escape, _) | (Self::Start, '\u{1b}') => Self::Escape,
            (Self::Start, c) if c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}') => {
                Self::Start
            }
            (Self::Start, ':') => Self::Colon,
            (Self::Start | Self::Colon | Self::Middle, _) => Self::Middle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_begins_with_a_command_and_none_contains_the_older_form() {
        for (pieces, safe) in [
            (&["::set-output name=a::b\n"][..], ":\\:set-output name=a::b\n"),
            (&["fine\n  \t::stop-commands::x"], "fine\n  \t:\\:stop-commands::x"),
            (&["a\r::add-mask::b"], "a\r:\\:add-mask::b"),
            (&["\u{feff}\u{a0}::error::b"], "\u{feff}\u{a0}:\\:error::b"),
            (&["\u{1b}[1m::error::b\u{1b}[0m"], "\u{1b}[1m:\\:error::b\u{1b}[0m"),
            (&[":", ":debug::split"], ":\\:debug::split"),
            (&["\n", " ", "::", "error::x"], "\n :\\:error::x"),
            (&["log ##[add-mask]x"], "log ##\\[add-mask]x"),
            (&["#", "#", "[group]"], "##\\[group]"),
            (&["####[x]"], "####\\[x]"),
            (&["std::env and a: :b", ":::"], "std::env and a: :b:::"),
            (&["# [x] #[y] ## [z]"], "# [x] #[y] ## [z]"),
            (&[":::"], ":\\::"),
        ] {
            let mut guard = CommandGuard::default();
            let text: String = pieces.iter().map(|piece| guard.disarm(piece)).collect();
            assert_eq!(text, safe, "{pieces:?}");
        }
    }
}
