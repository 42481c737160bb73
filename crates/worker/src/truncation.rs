//! Shortens long texts to their beginning.

use serde_json::Value;

/// Maximum size in an event of one string among the arguments of a call, and of all arguments.
const MAX_STRING_BYTES: usize = 1_000;
const MAX_ARGS_BYTES: usize = 16_000;
/// Maximum number of values among the arguments. The daemon refuses a report with more than 100,000 values, and a
/// report has up to 50 calls.
const MAX_ARGS_VALUES: usize = 1_000;

/// Returns the first `most` bytes of a text, at a character boundary, with a mark if text was cut.
pub(crate) fn truncate(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(most)])
}

/// Shortens arguments for an event; short ones stay whole. The text of a document is in the document itself.
pub(crate) fn truncate_args(args: Value) -> Value {
    let args = truncate_strings(args);
    let text = args.to_string();
    if text.len() <= MAX_ARGS_BYTES && count_values(&args) <= MAX_ARGS_VALUES {
        args
    } else {
        Value::String(truncate(&text, MAX_ARGS_BYTES))
    }
}

fn count_values(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(count_values).sum(),
        Value::Object(fields) => fields.values().map(count_values).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    };
    1 + inner
}

fn truncate_strings(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(truncate(&text, MAX_STRING_BYTES)),
        Value::Array(items) => items.into_iter().map(truncate_strings).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (name, truncate_strings(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_shows_short_arguments_whole_and_long_ones_cut() {
        let short = json!({"message": "hello", "to": ["a"], "n": 1});
        assert_eq!(truncate_args(short.clone()), short);
        let long = truncate_args(json!({"content": "é".repeat(2_000), "n": [1]}));
        assert_eq!(long, json!({"content": format!("{}…", "é".repeat(500)), "n": [1]}));
        let many = truncate_args(json!({"items": vec!["word"; 10_000]}));
        assert!(many.as_str().is_some_and(|text| text.len() < MAX_ARGS_BYTES + 10));
        let few = json!(vec![0; MAX_ARGS_VALUES - 1]);
        assert_eq!(truncate_args(few.clone()), few);
        let many = json!(vec![0; MAX_ARGS_VALUES]);
        assert_eq!(truncate_args(many.clone()), Value::String(many.to_string()));
    }
}
