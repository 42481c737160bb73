//! A line that a person types at a terminal. Pure: keys in, text or its end out.

use unicode_width::UnicodeWidthChar as _;

use super::typed_key::TypedKey;
use crate::output::{
    styled_line::{StyledLine, Tone},
    text::{cut, cut_start, sanitize_for_display, width},
};

/// Maximum length of a line in bytes.
const MAX_LINE_BYTES: usize = 64 * 1024;
/// Marks the place of the next character.
pub(crate) const CURSOR: &str = "▏";
/// Stands for a line break in a pasted text.
const LINE_BREAK: &str = "⏎";

/// The text of a line that is being typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineEditor {
    text: String,
    /// Position of the cursor in bytes, between two characters.
    cursor: usize,
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
    /// Creates a line with a text and the cursor behind it.
    pub(crate) fn with_text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { cursor: text.len(), text }
    }

    /// Returns the text as typed.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the line has no text, or only blanks.
    pub(crate) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Applies keys up to the end of the line.
    pub(crate) fn type_keys(&mut self, keys: &[TypedKey]) -> Option<LineEnd> {
        keys.iter().find_map(|key| self.type_key(key))
    }

    /// Applies a key; keys without a meaning for a line have no effect.
    pub(crate) fn type_key(&mut self, key: &TypedKey) -> Option<LineEnd> {
        match key {
            TypedKey::Escape => return Some(LineEnd::Cancelled),
            TypedKey::Enter if self.is_blank() => return Some(LineEnd::Cancelled),
            TypedKey::Enter => return Some(LineEnd::Submitted(self.text.trim().to_owned())),
            TypedKey::Character(character) => self.insert(character.encode_utf8(&mut [0; 4])),
            TypedKey::Paste(text) => self.insert(text),
            TypedKey::Backspace => self.delete_from(self.previous_position()),
            TypedKey::Delete => self.delete_until(self.next_position()),
            TypedKey::DeleteWord => self.delete_from(self.word_start()),
            TypedKey::DeleteToStart => self.delete_from(0),
            TypedKey::DeleteToEnd => self.delete_until(self.text.len()),
            TypedKey::Left => self.cursor = self.previous_position(),
            TypedKey::Right => self.cursor = self.next_position(),
            TypedKey::LineStart => self.cursor = 0,
            TypedKey::LineEnd => self.cursor = self.text.len(),
            TypedKey::Tab
            | TypedKey::Up
            | TypedKey::Down
            | TypedKey::PageUp
            | TypedKey::PageDown
            | TypedKey::EndOfInput
            | TypedKey::Other => {}
        }
        None
    }

    /// Inserts as much of a text as the line can hold.
    fn insert(&mut self, text: &str) {
        let free = MAX_LINE_BYTES.saturating_sub(self.text.len());
        let inserted = &text[..text.floor_char_boundary(free.min(text.len()))];
        self.text.insert_str(self.cursor, inserted);
        self.cursor += inserted.len();
    }

    fn delete_from(&mut self, start: usize) {
        self.text.replace_range(start..self.cursor, "");
        self.cursor = start;
    }

    fn delete_until(&mut self, end: usize) {
        self.text.replace_range(self.cursor..end, "");
    }

    /// Returns the start of the character before the cursor; marks on a character belong to it.
    fn previous_position(&self) -> usize {
        let mut before = self.text[..self.cursor].char_indices().rev();
        before.find(|(_, c)| !is_mark(*c)).map_or(0, |(at, _)| at)
    }

    /// Returns the end of the character behind the cursor, with its marks.
    fn next_position(&self) -> usize {
        let behind = self.text[self.cursor..].char_indices().skip(1);
        let next = behind.filter(|(_, c)| !is_mark(*c)).map(|(at, _)| self.cursor + at).next();
        next.unwrap_or(self.text.len())
    }

    /// Returns the start of the word before the cursor.
    fn word_start(&self) -> usize {
        let before = self.text[..self.cursor].trim_end();
        before
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8))
    }

    /// Draws the label and the text around the cursor, in at most `columns` columns.
    pub(crate) fn draw(&self, label: &str, columns: usize) -> StyledLine {
        let available = columns.saturating_sub(width(label) + width(CURSOR));
        let (before, behind) = self.text.split_at(self.cursor);
        let (before, behind) = (shown(before), shown(behind));
        let reserved = width(&behind).min(available / 3);
        let before = cut_start(&before, available - reserved);
        let behind = cut(&behind, available - width(&before));
        StyledLine::new(Tone::Strong, label)
            .with(Tone::Plain, before)
            .with(Tone::Dim, CURSOR)
            .with(Tone::Plain, behind)
            .cut(columns)
    }
}

/// Returns whether a character has no column of its own.
fn is_mark(character: char) -> bool {
    character.width() == Some(0)
}

/// Returns a text on one line, without a character that a terminal obeys.
fn shown(text: &str) -> String {
    sanitize_for_display(text).replace('\n', LINE_BREAK).replace('\t', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{live::typed_key::KeyDecoder, output::styled_line::Colour};

    /// Returns the keys that a terminal sends as these bytes.
    fn keys(bytes: &str) -> Vec<TypedKey> {
        let mut decoder = KeyDecoder::default();
        let mut keys = decoder.decode(bytes.as_bytes());
        keys.extend(decoder.finish());
        keys
    }

    #[test]
    fn keys_become_a_line_until_enter_or_escape() {
        let submitted = |text: &str| Some(LineEnd::Submitted(text.to_owned()));
        for (typed, expected) in [
            ("not now\r", submitted("not now")),
            ("not now\nlater", submitted("not now")),
            ("nö\u{7f}o\r", submitted("no")),
            ("x\u{8}\r", Some(LineEnd::Cancelled)),
            ("typo\u{15}ok\r", submitted("ok")),
            ("no\u{1b}[At\r", submitted("not")),
            ("no\t\r", submitted("no")),
            ("no\u{1b}", Some(LineEnd::Cancelled)),
            (" \r", Some(LineEnd::Cancelled)),
            ("no", None),
        ] {
            assert_eq!(LineEditor::default().type_keys(&keys(typed)), expected, "{typed:?}");
        }
    }

    #[test]
    fn every_editing_key_changes_the_line_at_the_cursor() {
        for (typed, expected) in [
            ("ac\u{1b}[Db", "ab▏c"),
            ("ab\u{1b}[D\u{1b}[D\u{1b}[D\u{1b}[Cx", "ax▏b"),
            ("bc\u{1b}[Ha", "a▏bc"),
            ("bc\u{1}a\u{5}d", "abcd▏"),
            ("ab\u{1b}[H\u{1b}[Fc", "abc▏"),
            ("abc\u{1b}[H\u{1b}[3~", "▏bc"),
            ("abc\u{1b}[3~", "abc▏"),
            ("abc\u{1b}[D\u{7f}", "a▏c"),
            ("\u{7f}a", "a▏"),
            ("one two  three\u{17}", "one two  ▏"),
            ("one two  \u{17}", "one ▏"),
            ("one\u{a0}two\u{17}", "one\u{a0}▏"),
            ("one two\u{1b}[D\u{1b}[D\u{17}", "one ▏wo"),
            ("one two\u{1b}[D\u{1b}[D\u{15}", "▏wo"),
            ("one two\u{1b}[D\u{1b}[D\u{b}", "one t▏"),
            ("请看\u{1b}[D👍", "请👍▏看"),
            ("请看这\u{1b}[D\u{7f}", "请▏这"),
            // A mark on a letter is deleted and skipped with its letter.
            ("ae\u{301}\u{7f}", "a▏"),
            ("e\u{301}x\u{1b}[H\u{1b}[3~", "▏x"),
            ("e\u{301}x\u{1b}[H\u{1b}[Cy", "e\u{301}y▏x"),
            ("a\u{1b}[200~one\r\ntwo\u{1b}[201~b", "aone⏎twob▏"),
            ("a\u{1b}[200~\u{1b}[2J\u{9b}1m\u{1b}[201~", "a␛[2J\\u{9b}1m▏"),
        ] {
            let mut editor = LineEditor::default();
            assert_eq!(editor.type_keys(&keys(typed)), None, "{typed:?}");
            assert_eq!(editor.draw("", 80).paint(Colour::Off), expected, "{typed:?}");
        }
    }

    #[test]
    fn a_line_holds_no_more_than_its_limit() {
        let mut editor = LineEditor::with_text("x".repeat(MAX_LINE_BYTES - 1));
        editor.type_key(&TypedKey::Paste("ü and more".into()));
        assert_eq!(editor.text().len(), MAX_LINE_BYTES - 1, "the character does not fit");
        editor.type_key(&TypedKey::Paste("yz".into()));
        assert!(editor.text().ends_with("xy"));
    }

    #[test]
    fn the_text_around_the_cursor_of_a_long_line_is_visible() {
        let mut editor = LineEditor::with_text("use the staging database");
        let drawn = |editor: &LineEditor, columns| {
            let line = editor.draw("  reason: ", columns);
            assert!(line.width() <= columns, "{line:?}");
            line.paint(Colour::Off)
        };
        for (columns, expected) in [
            (40, "  reason: use the staging database▏"),
            (24, "  reason: …ing database▏"),
            (8, "  reaso…"),
        ] {
            assert_eq!(drawn(&editor, columns), expected);
        }
        editor.type_keys(&vec![TypedKey::Left; 9]);
        for (columns, expected) in [
            (40, "  reason: use the staging▏ database"),
            (24, "  reason: …staging▏ dat…"),
            (11, "  reason: ▏"),
        ] {
            assert_eq!(drawn(&editor, columns), expected);
        }
        editor.type_key(&TypedKey::LineStart);
        assert_eq!(drawn(&editor, 24), "  reason: ▏use the stag…");
    }
}
