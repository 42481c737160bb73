//! Reads the input of clients, and words its mistakes for them: the field and what it must be, without the words of a
//! library. Every interface parses through here. Pure.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Maximum number of characters of a value in a message.
const MAX_QUOTED_CHARS: usize = 60;
/// Sample of an id in messages.
const SAMPLE_ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// Parses the body of a request.
pub(crate) fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        if error.is_data() {
            plain_message(&path, &without_position(&error), &[])
        } else {
            format!("the body is not valid JSON: {error}")
        }
    })?;
    json.end().map_err(|error| format!("the body is not valid JSON: {error}"))?;
    Ok(parsed)
}

/// Parses the arguments of a call; `shared` are the fields that every call of its kind also has.
pub(crate) fn from_value<T: DeserializeOwned>(value: Value, shared: &[&str]) -> Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        plain_message(&path, &without_position(error.inner()), shared)
    })
}

/// Words a rejection of a query string or of a path; the library gives it as a text.
pub(crate) fn plain_rejection(text: &str) -> String {
    let text = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(text);
    let text = text.strip_prefix("Invalid URL: ").unwrap_or(text);
    if let Some((key, rest)) = text.strip_prefix("Cannot parse `").and_then(|it| it.split_once('`'))
    {
        if let Some((_, kind)) = rest.rsplit_once(" to a `") {
            let kind = plain_type(kind.trim_end_matches('`'));
            return format!("`{}` must be {kind}", quoted_part(key));
        }
        let message = rest.split_once("`: ").map_or("is invalid", |(_, message)| message);
        return plain_message(key, message, &[]);
    }
    match text.split_once(": ") {
        Some((path, message)) if !path.contains([' ', '`']) => plain_message(path, message, &[]),
        _ => plain_message("", text, &[]),
    }
}

/// Returns the message of an error without the position, which names a place in the text that a program wrote.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&position).unwrap_or(&text).to_owned()
}

/// Words a mistake at `path`.
fn plain_message(path: &str, message: &str, shared: &[&str]) -> String {
    // An unknown field of the whole has no path.
    let path = if matches!(path, "." | "?") { "" } else { path };
    let field = if path.is_empty() { "the value".to_owned() } else { format!("`{path}`") };
    if let Some(name) = message.strip_prefix("missing field `").and_then(|it| it.strip_suffix('`'))
    {
        let separator = if path.is_empty() { "" } else { "." };
        return format!("`{path}{separator}{name}` is missing");
    }
    if let Some((name, known)) = after_word(message, "unknown field `") {
        let known: Vec<_> = known.iter().copied().chain(shared.iter().copied()).collect();
        return match known.as_slice() {
            [] => format!("unknown field `{}`; there are no fields", quoted_part(name)),
            known => {
                let known = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
                format!(
                    "unknown field `{}`; the fields are {}",
                    quoted_part(name),
                    known.join(", ")
                )
            }
        };
    }
    if let Some((word, known)) = after_word(message, "unknown variant `") {
        let known = known.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>();
        return format!("{field} must be {}, not `{}`", known.join(" or "), quoted_part(word));
    }
    let found =
        ["invalid type: ", "invalid value: "].iter().find_map(|it| message.strip_prefix(*it));
    if let Some((found, expected)) = found.and_then(|rest| rest.rsplit_once(", expected ")) {
        return format!("{field} must be {}, not {}", plain_type(expected), plain_value(found));
    }
    let length = message.strip_prefix("invalid length ");
    if let Some((length, expected)) = length.and_then(|rest| rest.split_once(", expected ")) {
        return format!("{field} must be {}, not a list of {length}", plain_type(expected));
    }
    match message {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            format!("{field} must be a whole number")
        }
        "number too large to fit in target type" => format!("{field} is too large"),
        "number too small to fit in target type" => format!("{field} is too small"),
        "provided string was not `true` or `false`" => format!("{field} must be true or false"),
        _ if message.starts_with("UUID parsing failed") => {
            format!("{field} must be an id, such as `{SAMPLE_ID}`")
        }
        _ if path.is_empty() => message.to_owned(),
        _ => format!("{field}: {message}"),
    }
}

/// Returns the word after `start` and the known words that follow in backticks.
fn after_word<'a>(message: &'a str, start: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let (word, known) = message.strip_prefix(start)?.split_once("`, ")?;
    Some((word, known.split('`').skip(1).step_by(2).collect()))
}

/// Names a type of the library.
fn plain_type(expected: &str) -> &str {
    match expected {
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of 0 or more",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" | "a borrowed string" | "str" | "path string" => "text",
        "a sequence" => "a list",
        "a map" => "an object",
        _ if expected.starts_with("struct ") => "an object",
        _ if expected.starts_with("tuple") || expected.starts_with("an array") => "a list",
        _ if expected.contains("UUID") => "an id",
        other => other,
    }
}

/// Names a value that the library found.
fn plain_value(found: &str) -> String {
    match found {
        "sequence" => return "a list".to_owned(),
        "map" => return "an object".to_owned(),
        "null" | "unit value" => return "null".to_owned(),
        _ => {}
    }
    let value = ["string ", "integer ", "boolean ", "floating point "]
        .iter()
        .find_map(|kind| found.strip_prefix(kind))
        .unwrap_or(found);
    quoted_part(value.trim_matches('`'))
}

/// Shortens a value of the client.
fn quoted_part(value: &str) -> String {
    let mut part: String = value.chars().take(MAX_QUOTED_CHARS).collect();
    if part.len() < value.len() {
        part.push('…');
    }
    part
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use agent_worker_protocol::{RunId, Span, VerdictOutcome};
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only parsed")]
    struct Sample {
        proposal: Option<i64>,
        limit: Option<u32>,
        #[serde(default)]
        command: Vec<String>,
        file: Option<PathBuf>,
        run: Option<RunId>,
        outcome: Option<VerdictOutcome>,
        wall: Option<Span>,
        all: Option<bool>,
        inner: Option<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only parsed")]
    struct Inner {
        text: String,
    }

    #[test]
    fn a_mistake_names_its_field_in_plain_words() {
        let fields =
            "`proposal`, `limit`, `command`, `file`, `run`, `outcome`, `wall`, `all`, `inner`";
        for (value, expected) in [
            (
                json!({"proposal": "abc"}),
                "`proposal` must be a whole number, not \"abc\"".to_owned(),
            ),
            (
                json!({"limit": -1}),
                "`limit` must be a whole number of 0 or more, not -1".to_owned(),
            ),
            (json!({"command": "./x"}), "`command` must be a list, not \"./x\"".to_owned()),
            (json!({"file": 7}), "`file` must be text, not 7".to_owned()),
            (json!({"all": {}}), "`all` must be true or false, not an object".to_owned()),
            (json!({"run": "nope"}), format!("`run` must be an id, such as `{SAMPLE_ID}`")),
            (
                json!({"outcome": "bogus"}),
                "`outcome` must be `done` or `failed`, not `bogus`".to_owned(),
            ),
            (json!({"inner": {}}), "`inner.text` is missing".to_owned()),
            (json!({"wall": "5x"}), format!("`wall`: {}", "5x".parse::<Span>().unwrap_err())),
            (json!({"id": 1}), format!("unknown field `id`; the fields are {fields}, `target`")),
            (json!([]), "the value must be an object, not a list of 0".to_owned()),
        ] {
            let said = from_value::<Sample>(value.clone(), &["target"]).map(|_| ()).unwrap_err();
            assert_eq!(said, expected, "{value}");
        }
        let long = from_value::<Sample>(json!({"limit": "x".repeat(1000)}), &[]).unwrap_err();
        assert!(long.len() < 150, "{long}");
    }

    #[test]
    fn a_body_and_an_address_are_worded_alike() {
        for (body, expected) in [
            (r#"{"limit": "x"}"#, "`limit` must be a whole number of 0 or more, not \"x\""),
            (
                r#"{"limit": 1} x"#,
                "the body is not valid JSON: trailing characters at line 1 column 14",
            ),
            ("{", "the body is not valid JSON: EOF while parsing an object at line 1 column 1"),
        ] {
            assert_eq!(from_json::<Sample>(body.as_bytes()).map(|_| ()).unwrap_err(), expected);
        }
        for (text, expected) in [
            (
                "Failed to deserialize query string: limit: invalid digit found in string",
                "`limit` must be a whole number",
            ),
            (
                "Failed to deserialize query string: live: provided string was not `true` or `false`",
                "`live` must be true or false",
            ),
            ("Failed to deserialize query string: missing field `target`", "`target` is missing"),
            (
                "Invalid URL: Cannot parse `seq` with value `one`: invalid digit found in string",
                "`seq` must be a whole number",
            ),
            ("Invalid URL: Cannot parse `one` to a `i64`", "`one` must be a whole number"),
        ] {
            assert_eq!(plain_rejection(text), expected);
        }
    }
}
