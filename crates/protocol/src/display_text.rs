//! Text of another author, made safe for display to a person.

/// Replaces characters that a terminal would interpret by visible ones: control characters, invisible text and
/// changes of direction. Newline and tab stay.
pub fn sanitize_for_display(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.replace("\r\n", "\n").chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            '\0'..='\x1f' => shown.extend(char::from_u32(0x2400 + u32::from(c))),
            '\x7f' => shown.push('␡'),
            _ if is_deceptive(c) => shown.extend(c.escape_unicode()),
            _ => shown.push(c),
        }
    }
    shown
}

/// Returns text as one line of at most `max` characters, for an output that shows no escaped characters: blanks are joined,
/// and characters that an output would interpret are removed.
pub fn plain_line(text: &str, max: usize) -> String {
    let words = text.split_whitespace().map(|word| {
        word.chars().filter(|c| !c.is_control() && !is_deceptive(*c)).collect::<String>()
    });
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    if line.chars().count() <= max {
        return line;
    }
    line.chars().take(max.saturating_sub(1)).chain(['…']).collect()
}

/// Returns true for C1 controls, marks and overrides of writing direction, separators that break lines, and invisible
/// tag characters.
fn is_deceptive(c: char) -> bool {
    matches!(c,
        '\u{80}'..='\u{9f}'
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        | '\u{2028}' | '\u{2029}' | '\u{feff}'
        | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_line_has_no_control_characters_and_a_maximum_length() {
        for (text, max, line) in [
            ("two\nlines\tand  a tab ", 40, "two lines and a tab"),
            ("\x1b[2J\x1b]0;title\x07 \u{202e}x\u{9b}", 40, "[2J]0;title x"),
            ("über alles", 5, "über…"),
            ("über", 4, "über"),
            ("\0 \r\n", 4, ""),
        ] {
            assert_eq!(plain_line(text, max), line, "{text:?}");
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown_instead() {
        for (text, shown) in [
            ("plain, ünïcode, 请看 👍🏽", "plain, ünïcode, 请看 👍🏽"),
            ("two\nlines\tand a tab", "two\nlines\tand a tab"),
            ("\x1b[2J\x1b]0;title\x07", "␛[2J␛]0;title␇"),
            ("\x1b]52;c;ZXZpbA==\x1b\\", "␛]52;c;ZXZpbA==␛\\"),
            ("safe\rmalicious", "safe␍malicious"),
            ("from windows\r\n", "from windows\n"),
            ("back\x08space del\x7f nul\0", "back␈space del␡ nul␀"),
            ("c1 \u{9b}31m", "c1 \\u{9b}31m"),
            ("\u{202e}txt.exe\u{2066}", "\\u{202e}txt.exe\\u{2066}"),
            ("un\u{e0041}seen\u{2028}", "un\\u{e0041}seen\\u{2028}"),
        ] {
            assert_eq!(sanitize_for_display(text), shown);
        }
    }
}
