//! Replacement of secrets in texts that are stored: values of variables with a secret name, and our own tokens.
//!
//! Only the literal value is found, and its form in a JSON string; an encoded or split one is not.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde_json::Value;

/// Endings of the names of variables that contain a secret.
const SECRET_SUFFIXES: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];
/// Minimum length of a secret; a shorter value, such as `true`, occurs in too many texts by chance.
const MIN_SECRET_BYTES: usize = 6;
/// Prefixes of our tokens, and the number of their hexadecimal digits.
const TOKEN_PREFIXES: [&str; 2] = ["aw_", "awt_"];
const TOKEN_DIGITS: usize = 64;
/// Length of the longest token.
const MAX_TOKEN_BYTES: usize = 68;

/// The secrets to replace.
#[derive(Clone, Default)]
pub struct SecretFilter {
    /// Values with their replacements, longest first: a secret may contain another one.
    replacements: Vec<(String, String)>,
}

impl fmt::Debug for SecretFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretFilter({} values)", self.replacements.len())
    }
}

impl SecretFilter {
    /// Collects the secrets of an environment, by the names of its variables.
    pub fn from_env(env: &BTreeMap<String, String>) -> Self {
        let mut replacements = Vec::new();
        for (name, value) in env.iter().filter(|(name, _)| is_secret_name(name)) {
            add_forms(&mut replacements, value, name);
            add_forms(&mut replacements, value.trim(), name);
        }
        replacements.sort_by(|(one, _), (other, _)| {
            other.len().cmp(&one.len()).then_with(|| one.cmp(other))
        });
        replacements.dedup_by(|(one, _), (other, _)| one == other);
        Self { replacements }
    }

    /// Returns a length that no secret exceeds.
    pub fn max_secret_bytes(&self) -> usize {
        self.replacements.first().map_or(0, |(value, _)| value.len()).max(MAX_TOKEN_BYTES)
    }

    /// Replaces every secret in a text by `[secret NAME]`.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut redacted = Cow::Borrowed(text);
        for (value, replacement) in &self.replacements {
            if redacted.contains(value.as_str()) {
                redacted = Cow::Owned(redacted.replace(value.as_str(), replacement));
            }
        }
        match redact_tokens(&redacted) {
            Some(clean) => Cow::Owned(clean),
            None => redacted,
        }
    }

    /// Replaces every secret in an owned text.
    pub fn redact_owned(&self, text: String) -> String {
        match self.redact(&text) {
            Cow::Owned(clean) => clean,
            Cow::Borrowed(_) => text,
        }
    }

    /// Replaces every secret in the strings and keys of a value.
    pub fn redact_json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.redact_owned(text)),
            Value::Array(items) => {
                Value::Array(items.into_iter().map(|item| self.redact_json(item)).collect())
            }
            Value::Object(fields) => Value::Object(
                fields
                    .into_iter()
                    .map(|(name, value)| (self.redact_owned(name), self.redact_json(value)))
                    .collect(),
            ),
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }
}

/// Returns true if a variable of this name contains a secret.
fn is_secret_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    SECRET_SUFFIXES.iter().any(|suffix| upper.ends_with(suffix))
}

/// Adds a value and its form in a JSON string.
fn add_forms(replacements: &mut Vec<(String, String)>, value: &str, name: &str) {
    if value.len() < MIN_SECRET_BYTES {
        return;
    }
    let replacement = format!("[secret {name}]");
    let json = Value::String(value.to_owned()).to_string();
    let escaped = &json[1..json.len() - 1];
    if escaped != value {
        replacements.push((escaped.to_owned(), replacement.clone()));
    }
    replacements.push((value.to_owned(), replacement));
}

/// Replaces our tokens, which their form identifies. Returns none if there are none.
fn redact_tokens(text: &str) -> Option<String> {
    let mut clean = String::new();
    let mut rest = text;
    while let Some((before, length)) = find_token(rest) {
        clean.push_str(&rest[..before]);
        clean.push_str("[secret token]");
        rest = &rest[before + length..];
    }
    if clean.is_empty() && rest.len() == text.len() {
        return None;
    }
    clean.push_str(rest);
    Some(clean)
}

/// Finds the first token: its start and its length.
fn find_token(text: &str) -> Option<(usize, usize)> {
    text.match_indices("aw").find_map(|(start, _)| {
        let after = &text[start..];
        let digits = TOKEN_PREFIXES.iter().find_map(|prefix| after.strip_prefix(prefix))?;
        let is_digit = u8::is_ascii_hexdigit;
        let count = digits.bytes().take(TOKEN_DIGITS).take_while(is_digit).count();
        let prefix = after.len() - digits.len();
        (count == TOKEN_DIGITS).then_some((start, prefix + count))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filter(env: &[(&str, &str)]) -> SecretFilter {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        SecretFilter::from_env(&env.collect())
    }

    #[test]
    fn values_of_secret_variables_and_tokens_are_replaced() {
        let filter = filter(&[
            ("ANTHROPIC_API_KEY", "sk-ant-123456"),
            ("db_password", "two\nlines \"quoted\""),
            ("GH_TOKEN", "sk-ant-123456-longer"),
            ("NPM_TOKEN", "true"),
            ("EDITOR", "editor-of-a-person"),
        ]);
        let token = format!("aw_{}", "0a".repeat(32));
        let of_attempt = format!("awt_{}", "0a".repeat(32));
        for (text, expected) in [
            ("key sk-ant-123456!", "key [secret ANTHROPIC_API_KEY]!".to_owned()),
            ("sk-ant-123456-longer", "[secret GH_TOKEN]".to_owned()),
            ("a two\nlines \"quoted\" b", "a [secret db_password] b".to_owned()),
            (r#"{"p":"two\nlines \"quoted\""}"#, r#"{"p":"[secret db_password]"}"#.to_owned()),
            ("true editor-of-a-person", "true editor-of-a-person".to_owned()),
            (&format!("é{token}{of_attempt} x"), "é[secret token][secret token] x".to_owned()),
            ("aw_12 awt_ law_ aw", "aw_12 awt_ law_ aw".to_owned()),
        ] {
            assert_eq!(filter.redact(text), expected);
        }
        let value = json!({"k": ["sk-ant-123456", 7], "sk-ant-123456": null});
        let clean =
            json!({"k": ["[secret ANTHROPIC_API_KEY]", 7], "[secret ANTHROPIC_API_KEY]": null});
        assert_eq!(filter.redact_json(value), clean);
    }

    #[test]
    fn the_secrets_are_not_shown_for_debugging() {
        let shown = format!("{:?}", filter(&[("A_KEY", "sk-ant-123456")]));
        assert_eq!(shown, "SecretFilter(1 values)");
    }
}
