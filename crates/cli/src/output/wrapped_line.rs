//! Wraps lines for people at words, with their tones. Pure.
//!
//! Invariant: the further rows of a line are indented by more than its first, so that no text can imitate the start of
//! another line.

use std::ops::Range;

use textwrap::{
    WordSeparator,
    core::{Word, break_words},
    wrap_algorithms::wrap_first_fit,
};

use super::styled_line::StyledLine;

/// Number of columns by which the further rows of a line are indented, in addition to its own indentation.
const HANGING_INDENT: usize = 2;
/// Smallest number of columns for text.
const MIN_TEXT_WIDTH: usize = 8;

/// Returns a line as rows of at most `columns` columns; a word that is longer than a row is broken.
pub(crate) fn wrap_line(line: &StyledLine, columns: usize) -> Vec<StyledLine> {
    if line.width() <= columns {
        return vec![line.clone()];
    }
    let text = line.text();
    let own_indent = text.len() - text.trim_start_matches(' ').len();
    let indent = (own_indent + HANGING_INDENT).min(columns / 2);
    let first = columns.max(MIN_TEXT_WIDTH);
    let further = columns.saturating_sub(indent).max(MIN_TEXT_WIDTH);
    let words = break_words(WordSeparator::AsciiSpace.find_words(&text), further);
    let mut start = 0;
    let mut rows: Vec<StyledLine> = Vec::new();
    for words in wrap_first_fit(&words, &[to_width(first), to_width(further)]) {
        let row = line.slice(&row_range(words, start));
        start += words.iter().map(word_length).sum::<usize>();
        rows.push(if rows.is_empty() {
            row
        } else {
            StyledLine::plain(" ".repeat(indent)).join(row)
        });
    }
    rows
}

/// Returns the positions of a row's words, without the blanks behind the last.
fn row_range(words: &[Word<'_>], start: usize) -> Range<usize> {
    let length: usize = words.iter().map(word_length).sum();
    let blanks = words.last().map_or(0, |word| word.whitespace.len());
    start..start + length - blanks
}

fn word_length(word: &Word<'_>) -> usize {
    word.word.len() + word.whitespace.len()
}

fn to_width(columns: usize) -> f64 {
    u32::try_from(columns).map_or(f64::MAX, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{
        styled_line::{Colour, Tone},
        text,
    };

    fn wrapped(text: &str, columns: usize) -> Vec<String> {
        let rows = wrap_line(&StyledLine::plain(text), columns);
        rows.iter().map(|row| row.paint(Colour::Off)).collect()
    }

    #[test]
    fn a_line_is_wrapped_between_words_and_further_rows_are_indented() {
        for (text, columns, rows) in [
            ("short", 20, &["short"][..]),
            ("#4 coder: the check is added", 20, &["#4 coder: the check", "  is added"]),
            ("  body of a message", 12, &["  body of a", "    message"]),
            ("    two levels of it", 12, &["    two", "      levels", "      of it"]),
            ("unbreakable_word_here it is", 12, &["unbreakabl", "  e_word_her", "  e it is"]),
            ("请看这里请看这里", 10, &["请看这里", "  请看这里"]),
            ("", 10, &[""]),
        ] {
            assert_eq!(wrapped(text, columns), rows, "{text}");
        }
    }

    #[test]
    fn no_row_is_wider_than_the_terminal_and_no_word_is_lost() {
        let text =
            "#12 lead → coder, reviewer: @coder please fix the cookie, 请看 and-then-this-one";
        for columns in [20, 40, 60, 80, 120] {
            let rows = wrapped(text, columns);
            assert!(rows.iter().all(|row| text::width(row) <= columns), "{rows:?}");
            let bare = |text: &str| text.replace(' ', "");
            assert_eq!(bare(&rows.concat()), bare(text));
        }
    }

    #[test]
    fn the_tones_of_a_line_stay_with_their_words() {
        let line = StyledLine::new(Tone::Bad, "one two").with(Tone::Good, " three four");
        assert_eq!(
            wrap_line(&line, 12),
            [
                StyledLine::new(Tone::Bad, "one two"),
                StyledLine::plain("  ").with(Tone::Good, "three four"),
            ]
        );
    }
}
