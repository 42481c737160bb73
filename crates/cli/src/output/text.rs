//! Text for a terminal: sanitized, measured and cut; durations as text.
//!
//! Invariant: text of an agent reaches a terminal only through [`sanitize_for_display`] or [`one_line`], so that the
//! terminal displays it and never executes it.

use std::{borrow::Cow, fmt::Write as _, time::Duration};

pub(crate) use agent_worker_protocol::sanitize_for_display;
use textwrap::{Options, WordSeparator, WordSplitter};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Characters without ink that Unicode counts as letters or symbols: fillers of Hangul, and the empty pattern of Braille.
const BLANK_LETTERS: [char; 5] = ['\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{ffa0}'];

/// Applies [`sanitize_for_display`] and joins the lines, for tables and status lines.
pub(crate) fn one_line(text: &str) -> String {
    sanitize_for_display(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Escapes the characters of a JSON text that JSON leaves unescaped and a terminal obeys or hides. The text stays valid
/// JSON with the same meaning.
pub(crate) fn escape_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        let is_plain = c.is_ascii() && c != '\u{7f}';
        if is_plain || sanitize_for_display(c.encode_utf8(&mut [0; 4])).starts_with(c) {
            escaped.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    escaped
}

/// Escapes the characters of a JSON line that JSON leaves unescaped and a terminal does not show, or shows like a space.
pub(crate) fn escape_invisible(line: &str) -> String {
    let looks_blank = |c: char| c != ' ' && (c.is_whitespace() || BLANK_LETTERS.contains(&c));
    let unseen = |c: char| looks_blank(c) || c.width().unwrap_or(0) == 0;
    let spelt = |c: char| -> String {
        if unseen(c) {
            c.escape_unicode().collect()
        } else {
            sanitize_for_display(c.encode_utf8(&mut [0; 4]))
        }
    };
    line.chars().map(spelt).collect()
}

/// Returns the number of columns that a terminal needs for the text.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Cuts the start of the text, so that its end fits into `columns`, with `…` in place of the start.
pub(crate) fn cut_start(text: &str, columns: usize) -> String {
    let Some(mut left) = columns.checked_sub(1) else { return String::new() };
    if width(text) <= columns {
        return text.to_owned();
    }
    let is_too_far = |(_, c): &(usize, char)| {
        let fits = left.checked_sub(c.width().unwrap_or(0));
        left = fits.unwrap_or(0);
        fits.is_none()
    };
    let cut = text.char_indices().rev().find(is_too_far);
    let start = cut.map_or(0, |(at, c)| at + c.len_utf8());
    format!("…{}", text[start..].trim_start())
}

/// Cuts the text to `columns`, with `…` in place of the rest.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    match columns.checked_sub(1) {
        _ if width(text) <= columns => text.to_owned(),
        None => String::new(),
        Some(available) => format!("{}…", fitting_prefix(text, available)),
    }
}

/// Returns the longest prefix that fits into `columns`.
pub(crate) fn fitting_prefix(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let too_far = text.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > columns
    });
    too_far.map_or(text, |(end, _)| &text[..end])
}

/// Formats a running clock: `0:07`, `12:34`, `1:02:03`.
pub(crate) fn format_clock(span: Duration) -> String {
    let (hours, minutes, seconds) = hours_minutes_seconds(span);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Formats a completed duration: `240ms`, `7.2s`, `12m 34s`, `1h 2m`.
pub(crate) fn format_elapsed(span: Duration) -> String {
    match (hours_minutes_seconds(span), span.as_millis()) {
        ((0, 0, _), millis @ 0..1_000) => format!("{millis}ms"),
        ((0, 0, seconds), millis) => format!("{seconds}.{}s", millis % 1_000 / 100),
        ((0, minutes, seconds), _) => format!("{minutes}m {seconds}s"),
        ((hours, minutes, _), _) => format!("{hours}h {minutes}m"),
    }
}

/// Formats an age in its largest unit: `12s`, `3m`, `5h`, `2d`.
pub(crate) fn format_age(span: Duration) -> String {
    match (hours_minutes_seconds(span), span.as_secs() / 86_400) {
        (_, days @ 1..) => format!("{days}d"),
        ((0, 0, 0), _) if !span.is_zero() => format!("{}ms", span.as_millis()),
        ((0, 0, seconds), _) => format!("{seconds}s"),
        ((0, minutes, _), _) => format!("{minutes}m"),
        ((hours, _, _), _) => format!("{hours}h"),
    }
}

/// Formats a delay in its largest unit: `2 s`, `3 min`, `5 h`, `2 d`.
pub(crate) fn format_delay(span: Duration) -> String {
    match (hours_minutes_seconds(span), span.as_secs() / 86_400) {
        (_, days @ 1..) => format!("{days} d"),
        ((0, 0, seconds), _) => format!("{} s", seconds + u64::from(span.subsec_nanos() > 0)),
        ((0, minutes, _), _) => format!("{minutes} min"),
        ((hours, _, _), _) => format!("{hours} h"),
    }
}

/// Formats a count with its noun: `1 turn`, `2 turns`.
pub(crate) fn pluralize(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

fn hours_minutes_seconds(span: Duration) -> (u64, u64, u64) {
    let seconds = span.as_secs();
    (seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// Breaks text between words into lines of at most `columns` columns; a longer word gets its own line.
pub(crate) fn wrap_words(text: &str, columns: usize) -> Vec<String> {
    let options = Options::new(columns)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::wrap(text, options).into_iter().map(Cow::into_owned).collect()
}

/// Formats a count in at most five characters: `820`, `1.2k`, `34k`, `1.2M`.
pub(crate) fn format_count(count: u64) -> String {
    let in_units = |unit: u64, name: &str| match count / (unit / 10) {
        tenths @ 0..100 => format!("{}.{}{name}", tenths / 10, tenths % 10),
        tenths => format!("{}{name}", tenths / 10),
    };
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => in_units(1_000, "k"),
        _ => in_units(1_000_000, "M"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_stays_one_line() {
        assert_eq!(one_line(" a\n\n  b\tc\r\n"), "a b c");
    }

    #[test]
    fn nothing_in_a_request_is_hidden_from_its_approver() {
        assert_eq!(
            escape_invisible("rm \u{202e}x\u{200b}\u{9b}1m e\u{301} \u{3164}\u{2028}\t ü请"),
            "rm \\u{202e}x\\u{200b}\\u{9b}1m e\\u{301} \\u{3164}\\u{2028}\\u{9} ü请"
        );
        assert_eq!(
            escape_invisible("a\u{a0}b\u{2003}c\u{3000}d\u{2800}e\u{ffa0}f g"),
            "a\\u{a0}b\\u{2003}c\\u{3000}d\\u{2800}e\\u{ffa0}f g"
        );
    }

    #[test]
    fn escaped_json_means_the_same_and_contains_nothing_that_a_terminal_obeys() {
        let text = "a\u{7f}b\u{9b}c\u{202e}d\u{e0041}e\u{2028}f\n请\u{1f44d}";
        let json = escape_json(&serde_json::to_string(text).unwrap());
        assert_eq!(json, r#""a\u007fb\u009bc\u202ed\udb40\udc41e\u2028f\n请👍""#);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }

    #[test]
    fn a_cut_text_never_takes_more_columns_than_it_was_given() {
        for (text, columns, kept) in [
            ("reviewer", 8, "reviewer"),
            ("reviewer", 7, "review…"),
            ("请看这里", 8, "请看这里"),
            ("请看这里", 7, "请看这…"),
            ("请看这里", 6, "请看…"),
            ("ab", 1, "…"),
            ("ab", 0, ""),
        ] {
            assert_eq!(cut(text, columns), kept, "{text} in {columns}");
            assert!(width(kept) <= columns);
        }
    }

    #[test]
    fn a_text_without_its_start_ends_as_it_did() {
        for (text, columns, kept) in [
            ("reviewer", 8, "reviewer"),
            ("reviewer", 7, "…viewer"),
            ("one two three", 10, "…two three"),
            ("one two three", 11, "…two three"),
            ("请看这里", 7, "…看这里"),
            ("请看这里", 6, "…这里"),
            ("ab", 1, "…"),
            ("ab", 0, ""),
        ] {
            assert_eq!(cut_start(text, columns), kept, "{text} in {columns}");
        }
    }

    #[test]
    fn a_count_is_as_precise_as_it_is_short() {
        for (count, expected) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1.0k"),
            (1_299, "1.2k"),
            (9_999, "9.9k"),
            (34_500, "34k"),
            (999_999, "999k"),
            (1_250_000, "1.2M"),
            (34_000_000, "34M"),
        ] {
            assert_eq!(format_count(count), expected);
        }
    }

    #[test]
    fn lengths_of_time_read_like_a_clock_a_report_an_age_and_a_promise() {
        for (millis, on_a_clock, reported, ago, ahead) in [
            (0, "0:00", "0ms", "0s", "0 s"),
            (240, "0:00", "240ms", "240ms", "1 s"),
            (7_260, "0:07", "7.2s", "7s", "8 s"),
            (754_000, "12:34", "12m 34s", "12m", "12 min"),
            (3_723_000, "1:02:03", "1h 2m", "1h", "1 h"),
            (200_000_000, "55:33:20", "55h 33m", "2d", "2 d"),
        ] {
            let span = Duration::from_millis(millis);
            assert_eq!(
                (format_clock(span), format_elapsed(span), format_age(span), format_delay(span)),
                (on_a_clock.into(), reported.into(), ago.into(), ahead.into())
            );
        }
    }

    #[test]
    fn words_stay_whole_and_lines_stay_short() {
        for (text, columns, lines) in [
            ("one two three", 7, &["one two", "three"][..]),
            ("one two three", 100, &["one two three"]),
            ("unbreakable it is", 5, &["unbreakable", "it is"]),
            ("", 5, &[""]),
        ] {
            assert_eq!(wrap_words(text, columns), lines, "{text}");
        }
    }
}
