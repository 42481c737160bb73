//! Limits the number of values in a JSON body before the body is parsed.
//!
//! A parsed value takes up to a hundred times the memory of its text (`{"":0}` is an object with a map of its own), so
//! a body of a few MiB could take gigabytes. The depth has no limit here: the parser refuses more than 128 levels.

use agent_worker_protocol::{Code, Problem};
use memchr::{memchr, memchr2};

/// Maximum number of values in a body. The largest reports of workers have about half as many.
const MAX_JSON_VALUES: usize = 100_000;

/// Refuses a body with too many values. Invalid JSON is left to the parser.
pub(super) fn check_value_count(text: &[u8]) -> Result<(), Problem> {
    if count_values(text, MAX_JSON_VALUES) <= MAX_JSON_VALUES {
        return Ok(());
    }
    let message = format!("the request has more than {MAX_JSON_VALUES} JSON values");
    Err(Problem::new(Code::TooLarge, message))
}

/// Counts values: the first one, and one for each bracket and comma outside of strings, which is too many only for
/// empty lists and objects. Stops soon after `limit`.
fn count_values(text: &[u8], limit: usize) -> usize {
    let (mut count, mut rest) = (1, text);
    while !rest.is_empty() && count <= limit {
        let quote = memchr(b'"', rest).unwrap_or(rest.len());
        let (plain, string) = rest.split_at(quote);
        count += plain.iter().filter(|byte| matches!(byte, b'[' | b'{' | b',')).count();
        rest = skip_string(string.get(1..).unwrap_or_default());
    }
    count
}

/// Returns the text after the end of a string that has already begun.
fn skip_string(mut text: &[u8]) -> &[u8] {
    while let Some(end) = memchr2(b'"', b'\\', text) {
        if text[end] == b'"' {
            return &text[end + 1..];
        }
        // The character after a backslash does not end the string.
        text = text.get(end + 2..).unwrap_or_default();
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (text, expected) in [
            ("", 1),
            ("7", 1),
            (r#""a,b""#, 1),
            ("[1]", 2),
            ("[1, 2, 3]", 4),
            (r#"{"a": 1, "b": [2, "x"]}"#, 5),
            ("[]", 2),
            (r#"["[[\"[[", "\\", "{{"]"#, 4),
            (r#"["\\\",", 1]"#, 3),
            (r#"["no end, [["#, 2),
            (r#"["\"#, 2),
        ] {
            assert_eq!(count_values(text.as_bytes(), 100), expected, "{text}");
        }
    }

    #[test]
    fn a_body_is_refused_from_one_value_over_the_limit() {
        let list = |values: usize| format!("[{}0]", "0,".repeat(values - 2));
        assert!(check_value_count(list(MAX_JSON_VALUES).as_bytes()).is_ok());
        let refusal = check_value_count(list(MAX_JSON_VALUES + 1).as_bytes()).unwrap_err();
        assert_eq!(refusal.code, Code::TooLarge);
        assert_eq!(refusal.message, "the request has more than 100000 JSON values");
    }
}
