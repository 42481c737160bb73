//! A line that a person types in the live view. Pure: keys in, text or its end out.

use crate::output::{
    styled_line::{StyledLine, Tone},
    text::{cut_start, sanitize_for_display, width},
};

/// Maximum length of a line in bytes.
const MAX_LINE_BYTES: usize = 4096;
/// Marks the place of the next character.
const CURSOR: &str = "▏";

const ENTER: [u8; 2] = [b'\r', b'\n'];
const BACKSPACE: [u8; 2] = [0x7f, 0x08];
const ESCAPE: u8 = 0x1b;
/// Ctrl-U, which clears the line.
const CLEAR: u8 = 0x15;

/// The text of a line that is being typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineEditor {
    /// Typed bytes; the last character may be incomplete.
    bytes: Vec<u8>,
}

/// The end of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LineEnd {
    /// Enter: this is the text.
    Submitted(String),
    /// Escape, or Enter without a text.
    Cancelled,
}

impl LineEditor {
    /// Applies keys that were pressed together, up to the end of the line.
    pub(crate) fn type_keys(&mut self, keys: &[u8]) -> Option<LineEnd> {
        // Arrow keys and others send a sequence that begins with Escape. No part of it is text.
        if let [ESCAPE, _, ..] = keys {
            return None;
        }
        keys.iter().find_map(|key| self.type_key(*key))
    }

    fn type_key(&mut self, key: u8) -> Option<LineEnd> {
        match key {
            ESCAPE => return Some(LineEnd::Cancelled),
            CLEAR => self.bytes.clear(),
            key if ENTER.contains(&key) => {
                let text = self.text().trim().to_owned();
                let is_empty = text.is_empty();
                return Some(if is_empty { LineEnd::Cancelled } else { LineEnd::Submitted(text) });
            }
            key if BACKSPACE.contains(&key) => {
                let mut text = self.text();
                text.pop();
                self.bytes = text.into_bytes();
            }
            key if key >= b' ' && self.bytes.len() < MAX_LINE_BYTES => self.bytes.push(key),
            _ => {}
        }
        None
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Draws the label and the end of the text, in at most `columns` columns.
    pub(crate) fn draw(&self, label: &str, columns: usize) -> StyledLine {
        let available = columns.saturating_sub(width(label) + width(CURSOR));
        let text = sanitize_for_display(&self.text());
        StyledLine::new(Tone::Strong, label)
            .with(Tone::Plain, cut_start(&text, available))
            .with(Tone::Dim, CURSOR)
            .cut(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::styled_line::Colour;

    #[test]
    fn keys_become_a_line_until_enter_or_escape() {
        let submitted = |text: &str| Some(LineEnd::Submitted(text.to_owned()));
        let up = "\u{1b}[A";
        for (keys, expected) in [
            (&["not ", "now", "\r"][..], submitted("not now")),
            (&["not now\n"], submitted("not now")),
            (&["nö", "\u{7f}", "o\r"], submitted("no")),
            (&["x", "\u{8}", "\r"], Some(LineEnd::Cancelled)),
            (&["typo", "\u{15}", "ok\r"], submitted("ok")),
            (&["no", up, "t\r"], submitted("not")),
            (&["no", "\t", "\r"], submitted("no")),
            (&["no", "\u{1b}"], Some(LineEnd::Cancelled)),
            (&[" \r"], Some(LineEnd::Cancelled)),
            (&["no"], None),
        ] {
            let mut editor = LineEditor::default();
            let end = keys.iter().find_map(|keys| editor.type_keys(keys.as_bytes()));
            assert_eq!(end, expected, "{keys:?}");
        }
    }

    #[test]
    fn a_character_may_arrive_in_parts() {
        let mut editor = LineEditor::default();
        let [first, second] = *"ü".as_bytes() else { panic!() };
        assert_eq!(editor.type_keys(&[first]), None);
        assert_eq!(editor.type_keys(&[second, b'\r']), Some(LineEnd::Submitted("ü".into())));
    }

    #[test]
    fn the_end_of_a_long_line_is_visible() {
        let mut editor = LineEditor::default();
        editor.type_keys(b"use the staging database");
        for (columns, expected) in [
            (40, "  reason: use the staging database▏"),
            (24, "  reason: …ing database▏"),
            (8, "  reaso…"),
        ] {
            assert_eq!(editor.draw("  reason: ", columns).paint(Colour::Off), expected);
        }
    }
}
