//! Idempotency key of a call and the hash for it. The key makes an effect happen once.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// SHA-256 hash as bytes.
pub type Hash = [u8; 32];

/// Hashes `parts` with their lengths, so that no two lists of parts share an encoding.
pub fn hash(parts: &[&[u8]]) -> Hash {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update((part.len() as u64).to_le_bytes());
        sha.update(part);
    }
    sha.finalize().into()
}

/// Computes HMAC-SHA-256 (RFC 2104) of `message` under `key`.
pub fn hmac(key: &Hash, message: &[u8]) -> Hash {
    const BLOCK_BYTES: usize = 64;
    let pad = |byte: u8| {
        let mut block = [byte; BLOCK_BYTES];
        block.iter_mut().zip(key).for_each(|(one, key)| *one ^= key);
        block
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

/// Idempotency key of a call, with the hash that identifies the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectKey {
    /// Key of the caller: `Idempotency-Key` or `idempotency_key`.
    pub key: String,
    /// Name of the called tool.
    pub tool: String,
    /// Hash of tool and arguments; the same key with another hash is an error.
    pub args: Hash,
    /// Essential arguments of the call, for the journal of a later attempt.
    #[serde(default)]
    pub summary: String,
}

impl EffectKey {
    /// Creates the key of a call with these arguments, which do not include the key itself.
    pub fn new(key: String, tool: &str, args: &Value) -> Self {
        Self {
            key,
            tool: tool.to_owned(),
            args: hash(&[tool.as_bytes(), canonical_json(args).as_bytes()]),
            summary: arguments_summary(args),
        }
    }

    /// Returns the key that a worker gives its `n`-th call of `tool` with equal arguments, from 1; it is the same in
    /// every attempt.
    pub fn nth_call_key(tool: &str, args: &Value, n: u32) -> String {
        let hash = hash(&[tool.as_bytes(), canonical_json(args).as_bytes(), &n.to_le_bytes()]);
        hash[..16].iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    }
}

/// Arguments that tell two calls of a tool apart for a reader, in the order of a summary.
const ESSENTIAL_ARGUMENTS: [&str; 17] = [
    "to",
    "cc",
    "reply_to",
    "message",
    "file",
    "content",
    "title",
    "options",
    "question",
    "proposal",
    "choice",
    "suggestion",
    "accept",
    "agent",
    "name",
    "type",
    "until",
];
/// Maximum length of an argument in a summary, in characters.
const MAX_ARGUMENT_CHARS: usize = 240;

/// Formats the essential arguments of a call on one line: `to: ["b"], message: "please fix line 42"`.
fn arguments_summary(args: &Value) -> String {
    let essential = ESSENTIAL_ARGUMENTS.iter().filter_map(|name| {
        let value = args.get(name).filter(|value| !value.is_null())?;
        let mut text = value.to_string();
        if let Some((end, _)) = text.char_indices().nth(MAX_ARGUMENT_CHARS) {
            text.truncate(end);
            text.push('…');
        }
        Some(format!("{name}: {text}"))
    });
    essential.collect::<Vec<_>>().join(", ")
}

/// Serializes equal values to equal texts: object keys are sorted, and there are no spaces.
pub fn canonical_json(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields = fields.into_iter().map(|(name, value)| {
                format!("{}:{}", Value::String(name.clone()), canonical_json(value))
            });
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical_json).collect::<Vec<_>>().join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_arguments_have_one_spelling_whatever_their_order() {
        let a: Value =
            serde_json::from_str(r#"{"b": [1, {"d": 2, "c": "x y"}], "a": null}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{"a":null,"b":[1,{"c":"x y","d":2}]}"#).unwrap();
        assert_eq!(canonical_json(&a), r#"{"a":null,"b":[1,{"c":"x y","d":2}]}"#);
        assert_eq!(EffectKey::nth_call_key("t", &a, 1), EffectKey::nth_call_key("t", &b, 1));
    }

    #[test]
    fn the_second_equal_call_has_another_key() {
        let args = serde_json::json!({"message": "ping"});
        let keys =
            [("t", 1), ("t", 2), ("u", 1)].map(|(t, n)| EffectKey::nth_call_key(t, &args, n));
        assert!(keys[0] != keys[1] && keys[0] != keys[2]);
    }

    #[test]
    fn a_key_has_the_essential_arguments_of_its_call_on_one_line() {
        let long = "x".repeat(300);
        for (args, expected) in [
            (
                serde_json::json!({"message": "@b fix\nline 42", "to": ["c"], "cc": null}),
                r#"to: ["c"], message: "@b fix\nline 42""#.to_owned(),
            ),
            (
                serde_json::json!({"content": "# Findings", "file": "notes.md"}),
                r##"file: "notes.md", content: "# Findings""##.to_owned(),
            ),
            (
                serde_json::json!({"proposal": 3, "choice": "sqlite"}),
                r#"proposal: 3, choice: "sqlite""#.to_owned(),
            ),
            (serde_json::json!({"message": long}), format!("message: \"{}…", "x".repeat(239))),
            (serde_json::json!({}), String::new()),
        ] {
            assert_eq!(EffectKey::new("k".into(), "t", &args).summary, expected);
        }
    }

    #[test]
    fn no_two_lists_of_parts_share_a_hash() {
        assert_ne!(hash(&[b"ab", b"c"]), hash(&[b"a", b"bc"]));
    }
}
