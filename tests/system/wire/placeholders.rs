//! Replaces values that differ between runs with placeholders, so that two recordings can be compared.
//!
//! The presence of a key always counts. The value of a key in `WORDING` is text for people and does not count; the
//! value of a key in `VOLATILE` is a measurement or a process number. Ids get a number in the order of their first
//! appearance in the recording, so that equal ids stay equal.

use serde_json::{Map, Value, json};

/// Start of a cursor in a document that is part of a text.
const CURSOR_START: &str = "\"next\":\"";
/// Keys whose text is for people.
const WORDING: [&str; 11] = [
    "message",
    "hint",
    "why",
    "cause",
    "title",
    "description",
    "because",
    "words",
    "wakes_when",
    "prompt",
    "system_prompt",
];
/// Keys whose value depends on the clock, the machine or the process.
const VOLATILE: [&str; 9] =
    ["pos", "pid", "start_time", "ms", "token", "version", "position", "port", "next"];

/// Maximum length of a recorded string; a longer one is recorded by its beginning and its length.
const LONGEST_STRING: usize = 1000;

/// The folders of a world and the ids seen so far.
pub(super) struct Placeholders {
    folders: Vec<(String, &'static str)>,
    ids: Vec<String>,
}

impl Placeholders {
    /// Replaces folders in the given order, so a folder within another one must come first.
    pub(super) fn new(folders: Vec<(String, &'static str)>) -> Self {
        Self { folders, ids: Vec::new() }
    }

    /// Returns the value with all placeholders.
    pub(super) fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.string(text),
            Value::Array(list) => list.iter().map(|one| self.value(one)).collect(),
            Value::Object(fields) => {
                let fields =
                    fields.iter().map(|(key, value)| (key.clone(), self.field(key, value)));
                Value::Object(fields.collect::<Map<_, _>>())
            }
            other => other.clone(),
        }
    }

    fn field(&mut self, key: &str, value: &Value) -> Value {
        let volatile = VOLATILE.contains(&key) || key.ends_with("_ms");
        match value {
            Value::String(_) if WORDING.contains(&key) => json!("<text>"),
            // In a finding this is a word, in a backend a sentence.
            Value::String(text) if key == "about" && text.contains(' ') => json!("<text>"),
            // A list of sentences may have more of them in a slower run.
            Value::Array(list)
                if ["because", "next_steps"].contains(&key)
                    && list.iter().all(Value::is_string) =>
            {
                json!("<texts>")
            }
            Value::String(_) if volatile => json!(format!("<{key}>")),
            Value::Number(_) if volatile => json!(format!("<{key} number>")),
            other => self.value(other),
        }
    }

    /// Parses JSON within a string, because it has keys of its own.
    fn string(&mut self, text: &str) -> Value {
        if text.starts_with(['{', '['])
            && let Ok(inner) = serde_json::from_str::<Value>(text)
        {
            return json!({ "<json>": self.value(&inner) });
        }
        let text = self.text(text);
        let start: String = text.chars().take(60).collect();
        let is_long = text.len() > LONGEST_STRING;
        json!(if is_long { format!("{start}<{} bytes>", text.len()) } else { text })
    }

    /// Returns the text with folders, ids, times, ports and spans replaced.
    pub(super) fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (folder, name) in &self.folders {
            text = text.replace(folder, name);
        }
        let (mut kept, mut rest) = (String::new(), text.as_str());
        while let Some(first) = rest.chars().next() {
            let after_word = kept.ends_with(|last: char| last.is_ascii_alphanumeric());
            if let Some((placeholder, length)) = self.found(rest).filter(|_| !after_word) {
                kept += &placeholder;
                rest = &rest[length..];
            } else {
                kept.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        kept
    }

    /// Returns the placeholder for the beginning of the text, and the number of bytes that it replaces.
    fn found(&mut self, text: &str) -> Option<(String, usize)> {
        if let Some(id) =
            text.get(..36).filter(|id| shaped(id, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"))
        {
            return Some((format!("<id {}>", self.number(id)), 36));
        }
        let time = "0000-00-00T00:00:00.000Z";
        if text.get(..time.len()).is_some_and(|start| shaped(start, time)) {
            return Some(("<time>".to_owned(), time.len()));
        }
        // The tag around a message in a prompt ends in digits of the attempt.
        let tag = "message-xxxxxxxx";
        if text.get(..tag.len()).is_some_and(|start| {
            start.starts_with("message-") && shaped(&start["message-".len()..], "xxxxxxxx")
        }) {
            return Some(("message-<tag>".to_owned(), tag.len()));
        }
        // A cursor inside a summary, which is a text.
        if let Some(cursor) = text.strip_prefix(CURSOR_START) {
            let length = cursor.find('"').unwrap_or(cursor.len());
            return Some((format!("{CURSOR_START}<next>"), CURSOR_START.len() + length));
        }
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        if let Some(port) = text.strip_prefix("127.0.0.1:") {
            return Some(("127.0.0.1:<port>".to_owned(), text.len() - port.len() + digits(port)));
        }
        let (count, rest) = (digits(text), text.trim_start_matches(|c: char| c.is_ascii_digit()));
        let measured =
            count > 0 && rest.starts_with("ms") && !rest[2..].starts_with(char::is_alphanumeric);
        measured.then(|| ("<span>".to_owned(), count + 2))
    }

    fn number(&mut self, id: &str) -> usize {
        let known = self.ids.iter().position(|one| one == id);
        1 + known.unwrap_or_else(|| {
            self.ids.push(id.to_owned());
            self.ids.len() - 1
        })
    }
}

/// Returns true if a text has the form of the pattern: `x` is a hexadecimal digit, `0` a decimal one.
fn shaped(text: &str, pattern: &str) -> bool {
    text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(byte, wanted)| match wanted {
            b'x' => byte.is_ascii_hexdigit(),
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        })
}
