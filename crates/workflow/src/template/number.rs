//! Numbers among the values: checked, so that they may be part of code.

/// Longer than any number of a script; a shell counts in 64 bits.
const MAX_DIGITS: usize = 18;

/// Kind of number that a place takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberKind {
    /// Number without decimals.
    Integer,
    /// Number that may have decimals.
    Decimal,
}

/// Returns a number in its shortest spelling, without zeros that a shell would read as octal.
pub(crate) fn canonical_number(text: &str, kind: NumberKind) -> Option<String> {
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, decimals) = match (digits.split_once('.'), kind) {
        (None, _) => (digits, None),
        (Some((whole, decimals)), NumberKind::Decimal) => (whole, Some(decimals)),
        (Some(_), NumberKind::Integer) => return None,
    };
    let is_digits = |text: &str| {
        !text.is_empty() && text.len() <= MAX_DIGITS && text.bytes().all(|b| b.is_ascii_digit())
    };
    if !is_digits(whole) || !decimals.is_none_or(is_digits) {
        return None;
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    let decimals = decimals.map(|decimals| format!(".{decimals}")).unwrap_or_default();
    let is_zero = whole == "0" && decimals.bytes().all(|b| !(b'1'..=b'9').contains(&b));
    Some(format!("{}{whole}{decimals}", if is_zero { "" } else { sign }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_has_one_spelling() {
        for (text, integer, decimal) in [
            ("5", Some("5"), Some("5")),
            (" 007\n", Some("7"), Some("7")),
            ("+3", Some("3"), Some("3")),
            ("-12", Some("-12"), Some("-12")),
            ("-0", Some("0"), Some("0")),
            ("000", Some("0"), Some("0")),
            ("1.50", None, Some("1.50")),
            ("-0.5", None, Some("-0.5")),
            ("", None, None),
            ("-", None, None),
            (".5", None, None),
            ("5.", None, None),
            ("1e3", None, None),
            ("0x10", None, None),
            ("1 2", None, None),
            ("--1", None, None),
            ("a[$(x)]", None, None),
            ("1\n2", None, None),
            ("٣", None, None),
            ("1234567890123456789", None, None),
        ] {
            let read = |kind| canonical_number(text, kind);
            assert_eq!(read(NumberKind::Integer).as_deref(), integer, "{text:?}");
            assert_eq!(read(NumberKind::Decimal).as_deref(), decimal, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_number_has_no_other_characters(text in "[-+0-9. a$]{0,12}") {
            if let Some(number) = canonical_number(&text, NumberKind::Decimal) {
                prop_assert!(number.trim_start_matches('-').bytes().all(|b| b.is_ascii_digit() || b == b'.'));
                prop_assert_eq!(canonical_number(&number, NumberKind::Decimal), Some(number));
            }
        }
    }
}
