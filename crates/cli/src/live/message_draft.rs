//! The message that a person types below a live view, and the messages typed before. Pure; `input_line` sends them.

use super::{
    line_editor::{CURSOR, LineEditor, LineEnd},
    typed_key::TypedKey,
};
use crate::output::{
    styled_line::{StyledLine, Tone},
    text::{cut, one_line, width},
};

/// Prefix of the line.
const LABEL: &str = "> ";
/// Number of messages that the history keeps.
const MAX_HISTORY: usize = 100;
const ITEM_HINT: &str = "keys answer the item · Tab types here";
const LINE_HINT: &str = "Tab goes back to the item";
const SENDING: &str = "sending…";

/// The text of the line, the message on its way, and the history.
#[derive(Debug, Default)]
pub(crate) struct MessageDraft {
    editor: LineEditor,
    /// Sent messages, oldest first.
    history: Vec<String>,
    /// Index of the message of the history that the line shows.
    recalled: Option<usize>,
    /// Text of the line before a message was recalled.
    unsent: String,
    /// Message whose fate is open.
    sending: Option<String>,
}

/// The effect of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DraftEvent {
    /// The message is complete.
    Send(String),
    /// Ctrl-D on an empty line.
    EndOfInput,
}

/// The place of a message that was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptText {
    /// The line shows the text again.
    InLine,
    /// The person has begun another message; the history has the text.
    InHistory,
}

/// The receiver of the keys while the line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DraftFocus {
    /// The line alone.
    Line,
    /// The line, while an item is open.
    LineBeforeItem,
    /// The open item.
    Item,
}

impl MessageDraft {
    /// Returns whether nothing is typed.
    pub(crate) fn is_blank(&self) -> bool {
        self.editor.is_blank()
    }

    /// Removes the typed text.
    pub(crate) fn clear(&mut self) {
        self.editor = LineEditor::default();
        self.recalled = None;
    }

    /// Applies a key.
    pub(crate) fn press(&mut self, key: &TypedKey) -> Option<DraftEvent> {
        match key {
            TypedKey::Up => self.recall_older(),
            TypedKey::Down => self.recall_newer(),
            TypedKey::EndOfInput if self.editor.text().is_empty() => {
                return Some(DraftEvent::EndOfInput);
            }
            TypedKey::EndOfInput => {
                self.editor.type_key(&TypedKey::Delete);
            }
            // One message at a time, so that their order is the order in which they were typed.
            TypedKey::Enter if self.sending.is_some() => {}
            key => match self.editor.type_key(key) {
                Some(LineEnd::Submitted(text)) => return Some(self.submit(text)),
                Some(LineEnd::Cancelled) => self.clear(),
                None => {}
            },
        }
        None
    }

    fn submit(&mut self, text: String) -> DraftEvent {
        if self.history.last() != Some(&text) {
            self.history.push(text.clone());
        }
        let surplus = self.history.len().saturating_sub(MAX_HISTORY);
        self.history.drain(..surplus);
        self.sending = Some(text.clone());
        self.clear();
        DraftEvent::Send(text)
    }

    /// Notes that the message was sent.
    pub(crate) fn confirm_sent(&mut self) {
        self.sending = None;
    }

    /// Notes that the message was not sent, and shows it again unless another one is being typed.
    pub(crate) fn restore_unsent(&mut self) -> KeptText {
        match self.sending.take() {
            Some(text) if self.is_blank() => {
                self.editor = LineEditor::with_text(text);
                KeptText::InLine
            }
            Some(_) | None => KeptText::InHistory,
        }
    }

    fn recall_older(&mut self) {
        let older = match self.recalled {
            None => self.history.len().checked_sub(1),
            Some(index) => index.checked_sub(1),
        };
        let Some(index) = older else { return };
        if self.recalled.is_none() {
            self.unsent = self.editor.text().to_owned();
        }
        self.show_recalled(Some(index));
    }

    fn recall_newer(&mut self) {
        let Some(index) = self.recalled else { return };
        let newer = index + 1;
        self.show_recalled((newer < self.history.len()).then_some(newer));
    }

    fn show_recalled(&mut self, recalled: Option<usize>) {
        self.recalled = recalled;
        let text = recalled.and_then(|index| self.history.get(index));
        let text = text.cloned().unwrap_or_else(|| std::mem::take(&mut self.unsent));
        self.editor = LineEditor::with_text(text);
    }

    /// Draws the line in at most `columns` columns; `placeholder` stands in an empty one.
    pub(crate) fn draw(&self, focus: DraftFocus, placeholder: &str, columns: usize) -> StyledLine {
        let text = self.editor.text();
        let sending = self.sending.as_deref().filter(|_| text.is_empty());
        let line = match (focus, sending) {
            (DraftFocus::Item, _) => with_hint(text, ITEM_HINT, columns),
            (DraftFocus::Line | DraftFocus::LineBeforeItem, Some(sending)) => {
                with_hint(sending, SENDING, columns)
            }
            (DraftFocus::Line | DraftFocus::LineBeforeItem, None) if text.is_empty() => {
                let hint = match focus {
                    DraftFocus::LineBeforeItem => LINE_HINT,
                    DraftFocus::Line | DraftFocus::Item => placeholder,
                };
                StyledLine::new(Tone::Strong, LABEL)
                    .with(Tone::Dim, format!("{CURSOR}{}", one_line(hint)))
            }
            (DraftFocus::Line | DraftFocus::LineBeforeItem, None) => {
                self.editor.draw(LABEL, columns)
            }
        };
        line.cut(columns)
    }
}

/// Returns the line with as much of a text as fits before a hint.
fn with_hint(text: &str, hint: &str, columns: usize) -> StyledLine {
    const SEPARATOR: &str = " · ";
    let fixed = width(LABEL) + width(SEPARATOR) + width(hint);
    let text = cut(&one_line(text), columns.saturating_sub(fixed));
    let separator = if text.is_empty() { "" } else { SEPARATOR };
    StyledLine::new(Tone::Dim, format!("{LABEL}{text}{separator}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{live::typed_key::KeyDecoder, output::styled_line::Colour};

    const PLACEHOLDER: &str = "message the team, such as: @coder and the tests?";

    /// Presses the keys that a terminal sends as these bytes; returns the last event.
    fn press(draft: &mut MessageDraft, bytes: &str) -> Option<DraftEvent> {
        let mut decoder = KeyDecoder::default();
        let mut keys = decoder.decode(bytes.as_bytes());
        keys.extend(decoder.finish());
        keys.iter().filter_map(|key| draft.press(key)).last()
    }

    fn drawn(draft: &MessageDraft, focus: DraftFocus, columns: usize) -> String {
        let line = draft.draw(focus, PLACEHOLDER, columns);
        assert!(line.width() <= columns, "{line:?}");
        line.paint(Colour::Off)
    }

    fn sent(draft: &mut MessageDraft, text: &str) {
        let event = press(draft, &format!("{text}\r"));
        assert_eq!(event, Some(DraftEvent::Send(text.to_owned())));
        draft.confirm_sent();
    }

    #[test]
    fn enter_sends_the_text_and_escape_removes_it() {
        let mut draft = MessageDraft::default();
        sent(&mut draft, "@coder and the tests?");
        assert!(draft.is_blank());
        for (typed, expected) in [
            ("typo\u{1b}", None),
            ("  \r", None),
            ("\u{4}", Some(DraftEvent::EndOfInput)),
            ("ab\u{1}\u{4}\r", Some(DraftEvent::Send("b".into()))),
        ] {
            assert_eq!(press(&mut draft, typed), expected, "{typed:?}");
            assert!(draft.is_blank(), "{typed:?}");
        }
    }

    #[test]
    fn up_and_down_recall_sent_messages_and_the_unsent_one() {
        let mut draft = MessageDraft::default();
        for text in ["one", "two", "two", "three"] {
            sent(&mut draft, text);
        }
        let (up, down) = ("\u{1b}[A", "\u{1b}[B");
        press(&mut draft, "unsent");
        for (key, shown) in [
            (up, "> three▏"),
            (up, "> two▏"),
            (up, "> one▏"),
            (up, "> one▏"),
            (down, "> two▏"),
            (down, "> three▏"),
            (down, "> unsent▏"),
            (down, "> unsent▏"),
        ] {
            press(&mut draft, key);
            assert_eq!(drawn(&draft, DraftFocus::Line, 80), shown);
        }
        press(&mut draft, up);
        assert_eq!(press(&mut draft, "!\r"), Some(DraftEvent::Send("three!".into())));
    }

    #[test]
    fn a_message_that_was_not_sent_is_kept_for_editing() {
        let mut draft = MessageDraft::default();
        press(&mut draft, "@codr go\r");
        insta::assert_snapshot!(drawn(&draft, DraftFocus::Line, 40), @"> @codr go · sending…");
        assert_eq!(draft.restore_unsent(), KeptText::InLine);
        assert_eq!(drawn(&draft, DraftFocus::Line, 40), "> @codr go▏");
        // Another message was begun meanwhile; it waits, and the history has the first one.
        press(&mut draft, "\rnext\r");
        assert_eq!(drawn(&draft, DraftFocus::Line, 40), "> next▏");
        assert_eq!(draft.restore_unsent(), KeptText::InHistory);
        press(&mut draft, "\u{1b}[A");
        assert_eq!(drawn(&draft, DraftFocus::Line, 40), "> @codr go▏");
    }

    #[test]
    fn the_line_shows_at_every_width_where_the_keys_go() {
        let (empty, mut typed) = (MessageDraft::default(), MessageDraft::default());
        press(&mut typed, "@coder 请看 the tests of the parser, and then the ones of the lexer");
        let mut all = Vec::new();
        for columns in [120, 80, 60, 40] {
            for draft in [&empty, &typed] {
                for focus in [DraftFocus::Line, DraftFocus::LineBeforeItem, DraftFocus::Item] {
                    all.push(format!("{columns} {}", drawn(draft, focus, columns - 1)));
                }
            }
        }
        insta::assert_snapshot!(all.join("\n"), @r"
        120 > ▏message the team, such as: @coder and the tests?
        120 > ▏Tab goes back to the item
        120 > keys answer the item · Tab types here
        120 > @coder 请看 the tests of the parser, and then the ones of the lexer▏
        120 > @coder 请看 the tests of the parser, and then the ones of the lexer▏
        120 > @coder 请看 the tests of the parser, and then the ones of the lexer · keys answer the item · Tab types here
        80 > ▏message the team, such as: @coder and the tests?
        80 > ▏Tab goes back to the item
        80 > keys answer the item · Tab types here
        80 > @coder 请看 the tests of the parser, and then the ones of the lexer▏
        80 > @coder 请看 the tests of the parser, and then the ones of the lexer▏
        80 > @coder 请看 the tests of the parser,… · keys answer the item · Tab types here
        60 > ▏message the team, such as: @coder and the tests?
        60 > ▏Tab goes back to the item
        60 > keys answer the item · Tab types here
        60 > …the tests of the parser, and then the ones of the lexer▏
        60 > …the tests of the parser, and then the ones of the lexer▏
        60 > @coder 请看 the … · keys answer the item · Tab types here
        40 > ▏message the team, such as: @coder a…
        40 > ▏Tab goes back to the item
        40 > keys answer the item · Tab types here
        40 > …ser, and then the ones of the lexer▏
        40 > …ser, and then the ones of the lexer▏
        40 > keys answer the item · Tab types here
        ");
    }
}
