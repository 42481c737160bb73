//! Values that go into an expression and the value that comes out.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Value that an expression can name.
#[derive(Clone, Copy, Debug)]
pub struct NamedValue<'a> {
    /// Name with its members: `["tasks", "build", "output"]` is `tasks.build.output`.
    pub path: &'a [&'a str],
    /// Content of the value.
    pub content: ValueContent<'a>,
}

/// Content of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueContent<'a> {
    /// Text, never parsed.
    Text(&'a str),
    /// JSON of any type.
    Json(&'a str),
}

impl<'a> ValueContent<'a> {
    pub(crate) fn text(self) -> &'a str {
        match self {
            Self::Text(text) | Self::Json(text) => text,
        }
    }
}

/// Result of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpressionValue {
    /// The value `null`.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// Number as JavaScript writes it; also `NaN` and `Infinity`.
    Number(String),
    /// Text of any length.
    Text(String),
    /// Array as compact JSON, with the members of objects in their order.
    Array(String),
    /// Object as compact JSON.
    Object(String),
}

/// Type of a value, in the words of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are those of JavaScript's types")]
pub enum ValueType {
    Null,
    Boolean,
    Number,
    Text,
    Array,
    Object,
    Undefined,
    Function,
    Symbol,
    BigInt,
    Set,
    Map,
    /// Object of another class, such as a regular expression.
    OtherObject,
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Boolean => "true or false",
            Self::Number => "a number",
            Self::Text => "text",
            Self::Array => "an array",
            Self::Object => "an object",
            Self::Undefined => "undefined",
            Self::Function => "a function",
            Self::Symbol => "a symbol",
            Self::BigInt => "a bigint",
            Self::Set => "a Set",
            Self::Map => "a Map",
            Self::OtherObject => "an object of a class of its own",
        })
    }
}

/// Result whose type does not fit its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` must give {expected}, not {found}")]
pub struct ValueMismatch {
    /// Key of the workflow file.
    pub key: &'static str,
    /// Type that the key takes.
    pub expected: &'static str,
    /// Type of the result.
    pub found: ValueType,
    /// Correction that fits the type.
    pub hint: String,
}

impl ExpressionValue {
    /// Returns the type.
    pub fn value_type(&self) -> ValueType {
        match self {
            Self::Null => ValueType::Null,
            Self::Boolean(_) => ValueType::Boolean,
            Self::Number(_) => ValueType::Number,
            Self::Text(_) => ValueType::Text,
            Self::Array(_) => ValueType::Array,
            Self::Object(_) => ValueType::Object,
        }
    }

    /// Returns the value for a place in a text: `null` is empty, arrays and objects are compact JSON.
    pub fn into_text(self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Boolean(value) => value.to_string(),
            Self::Number(text) | Self::Text(text) | Self::Array(text) | Self::Object(text) => text,
        }
    }

    /// Returns the value of a condition: `if` takes true and false only. `source` is shown in the correction.
    pub fn condition(&self, source: &str) -> Result<bool, ValueMismatch> {
        let source = source.trim();
        let compared = match self {
            Self::Boolean(value) => return Ok(*value),
            Self::Text(_) => format!("{} == 'true'", operand(source)),
            Self::Number(_) => format!("{} != 0", operand(source)),
            Self::Null => format!("{} != null", operand(source)),
            Self::Array(_) => format!("{}.length > 0", operand(source)),
            Self::Object(_) => "a comparison, such as `x.state == 'done'`".to_owned(),
        };
        let hint = match self {
            Self::Object(_) => format!("write {compared}"),
            _ => format!("write `{compared}`"),
        };
        let found = self.value_type();
        Err(ValueMismatch { key: "if", expected: "true or false", found, hint })
    }

    /// Returns the items of an array: `for_each` takes nothing else. `source` is shown in the correction.
    pub fn items(&self, source: &str) -> Result<Vec<ExpressionValue>, ValueMismatch> {
        let source = source.trim();
        let hint = match self {
            Self::Array(json) => match array_items(json) {
                Some(items) => return Ok(items),
                None => {
                    "an item has half of a character: append `.toWellFormed()` to it".to_owned()
                }
            },
            Self::Text(_) => {
                format!("write `lines({source})` for its lines, `json({source})` if it is JSON")
            }
            Self::Object(_) => format!("write `Object.values({source})`"),
            Self::Null | Self::Boolean(_) | Self::Number(_) => {
                "write an array, such as `['a', 'b']`".to_owned()
            }
        };
        let found = self.value_type();
        let expected = match found {
            ValueType::Array => "an array of whole characters",
            _ => "an array",
        };
        Err(ValueMismatch { key: "for_each", expected, found, hint })
    }

    /// Reads one value of compact JSON; none if a text has an unpaired surrogate.
    fn from_compact_json(json: &str) -> Option<Self> {
        Some(match json.as_bytes().first() {
            Some(b'[') => Self::Array(json.to_owned()),
            Some(b'{') => Self::Object(json.to_owned()),
            Some(b't') => Self::Boolean(true),
            Some(b'f') => Self::Boolean(false),
            Some(b'"') => Self::Text(serde_json::from_str(json).ok()?),
            Some(b'n') | None => Self::Null,
            Some(_) => Self::Number(json.to_owned()),
        })
    }
}

/// Puts a source in brackets unless it is one operand.
fn operand(source: &str) -> String {
    let is_one = source.chars().all(|c| c.is_alphanumeric() || "_.$".contains(c));
    if is_one { source.to_owned() } else { format!("({source})") }
}

/// Splits a compact JSON array at the commas of its own level.
fn array_items(json: &str) -> Option<Vec<ExpressionValue>> {
    let inner = json.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or_default();
    if inner.is_empty() {
        return Some(Vec::new());
    }
    let (mut items, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    let (mut in_text, mut escaped) = (false, false);
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                items.push(ExpressionValue::from_compact_json(&inner[start..at])?);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(ExpressionValue::from_compact_json(&inner[start..])?);
    Some(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> ExpressionValue {
        ExpressionValue::Text(text.to_owned())
    }

    #[test]
    fn a_condition_takes_true_and_false_only_and_shows_the_comparison() {
        assert_eq!(ExpressionValue::Boolean(true).condition("x"), Ok(true));
        assert_eq!(ExpressionValue::Boolean(false).condition("x"), Ok(false));
        for (value, source, message, hint) in [
            (text("secret"), "x", "not text", "write `x == 'true'`"),
            (text(""), "a || b", "not text", "write `(a || b) == 'true'`"),
            (ExpressionValue::Number("1".into()), "n", "not a number", "write `n != 0`"),
            (ExpressionValue::Null, "x.y", "not null", "write `x.y != null`"),
            (ExpressionValue::Array("[]".into()), "x", "not an array", "write `x.length > 0`"),
            (
                ExpressionValue::Object("{}".into()),
                "x",
                "not an object",
                "such as `x.state == 'done'`",
            ),
        ] {
            let error = value.condition(source).unwrap_err();
            let shown = error.to_string();
            assert!(shown.starts_with("`if` must give true or false"), "{shown}");
            assert!(shown.ends_with(message) && error.hint.contains(hint), "{error:?}");
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
    }

    #[test]
    fn a_list_takes_an_array_and_suggests_lines_for_text() {
        let array = ExpressionValue::Array(r#"["a,]\"",{"b":[1,2]},[],null,-1.5,true,""]"#.into());
        let expected = [
            text("a,]\""),
            ExpressionValue::Object(r#"{"b":[1,2]}"#.into()),
            ExpressionValue::Array("[]".into()),
            ExpressionValue::Null,
            ExpressionValue::Number("-1.5".into()),
            ExpressionValue::Boolean(true),
            text(""),
        ];
        assert_eq!(array.items("x").unwrap(), expected);
        assert_eq!(ExpressionValue::Array("[]".into()).items("x").unwrap(), []);
        let halves = ExpressionValue::Array(r#"["\ud83d"]"#.into());
        assert!(halves.items("x").unwrap_err().hint.contains("toWellFormed"));
        let error = text("a\nb").items("files").unwrap_err();
        assert_eq!(error.to_string(), "`for_each` must give an array, not text");
        assert!(error.hint.contains("lines(files)"), "{error:?}");
    }

    #[test]
    fn a_value_in_a_text_is_itself_or_compact_json() {
        for (value, expected) in [
            (ExpressionValue::Null, ""),
            (ExpressionValue::Boolean(false), "false"),
            (ExpressionValue::Number("1e+21".into()), "1e+21"),
            (text(" a\n"), " a\n"),
            (ExpressionValue::Object(r#"{"b":1,"a":2}"#.into()), r#"{"b":1,"a":2}"#),
        ] {
            assert_eq!(value.into_text(), expected);
        }
    }
}
