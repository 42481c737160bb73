//! The words of a model in its current turn, which arrive in pieces. Pure.

use crate::output::text::one_line;

/// Maximum length of the kept end of a line, in characters.
const MAX_TAIL_CHARS: usize = 400;
/// Smallest length of a sentence that is printed alone, in bytes.
const MIN_SENTENCE_BYTES: usize = 40;
/// Ends of sentences, before a blank.
const SENTENCE_ENDS: [char; 4] = ['.', '!', '?', ':'];

/// The last words of a turn, and those that were not printed yet.
#[derive(Debug, Default)]
pub(super) struct Speech {
    /// End of the last line that is not blank.
    tail: String,
    is_line_ended: bool,
    unprinted: String,
}

impl Speech {
    /// Adds the next words.
    pub(super) fn push(&mut self, words: &str) {
        self.unprinted.push_str(words);
        for (number, piece) in words.split('\n').enumerate() {
            self.is_line_ended |= number > 0;
            if piece.trim().is_empty() && (self.is_line_ended || self.tail.is_empty()) {
                continue;
            }
            if std::mem::take(&mut self.is_line_ended) {
                self.tail.clear();
            }
            self.tail.push_str(piece);
        }
        let surplus = self.tail.chars().count().saturating_sub(MAX_TAIL_CHARS);
        if let Some((start, _)) = self.tail.char_indices().nth(surplus).filter(|_| surplus > 0) {
            self.tail.drain(..start);
        }
    }

    /// Ends the current line: the next words begin a new one.
    pub(super) fn end_line(&mut self) {
        self.is_line_ended = true;
    }

    /// Returns the end of the last line on one line; none without words.
    pub(super) fn last_words(&self) -> Option<String> {
        Some(one_line(&self.tail)).filter(|words| !words.is_empty())
    }

    /// Removes the complete lines and sentences that were not printed yet.
    pub(super) fn take_complete(&mut self) -> Vec<String> {
        match complete_length(&self.unprinted) {
            0 => Vec::new(),
            length => printable_lines(&self.unprinted.drain(..length).collect::<String>()),
        }
    }

    /// Removes all that was not printed yet.
    pub(super) fn take_rest(&mut self) -> Vec<String> {
        printable_lines(&std::mem::take(&mut self.unprinted))
    }
}

/// Returns the length of the complete lines and of a long complete sentence behind them.
fn complete_length(text: &str) -> usize {
    let lines = text.rfind('\n').map_or(0, |end| end + 1);
    let rest = &text[lines..];
    let sentence = rest
        .rfind(' ')
        .filter(|end| *end >= MIN_SENTENCE_BYTES && rest[..*end].ends_with(SENTENCE_ENDS));
    lines + sentence.map_or(0, |end| end + 1)
}

fn printable_lines(text: &str) -> Vec<String> {
    text.lines().map(one_line).filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_those_of_the_last_line_that_is_not_blank() {
        for (pieces, expected) in [
            (&["I look ", "at it."][..], "I look at it."),
            (&["One.\n", "\n", "Two", " and"], "Two and"),
            (&["One.\n\n"], "One."),
            (&["One.\n", " ", "Two"], "Two"),
            (&["a\u{1b}[2J"], "a␛[2J"),
        ] {
            let mut speech = Speech::default();
            for piece in pieces {
                speech.push(piece);
            }
            assert_eq!(speech.last_words().as_deref(), Some(expected), "{pieces:?}");
        }
        let mut speech = Speech::default();
        assert_eq!(speech.last_words(), None);
        speech.push("Before the call.");
        speech.end_line();
        assert_eq!(speech.last_words().as_deref(), Some("Before the call."));
        speech.push("After it.");
        assert_eq!(speech.last_words().as_deref(), Some("After it."));
        speech.push(&"x".repeat(1_000));
        assert_eq!(speech.last_words().map(|words| words.len()), Some(MAX_TAIL_CHARS));
    }

    #[test]
    fn words_are_printed_in_whole_lines_and_sentences_each_once() {
        let mut speech = Speech::default();
        for (piece, expected) in [
            ("First li", &[][..]),
            ("ne.\nSecond", &["First line."]),
            (" line.\n\nA sentence that is long enough to stand alone.", &["Second line."]),
            (" And", &["A sentence that is long enough to stand alone."]),
        ] {
            speech.push(piece);
            assert_eq!(speech.take_complete(), expected, "{piece}");
        }
        assert_eq!(speech.take_rest(), ["And"]);
        assert_eq!(speech.take_rest(), Vec::<String>::new());
    }
}
