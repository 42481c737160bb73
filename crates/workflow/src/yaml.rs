//! The file as a tree in which every node has its position. No other file uses the YAML parser.
//!
//! The parser's budgets are set here: a YAML bomb is refused in milliseconds.

pub(crate) mod fields;
pub(crate) mod text_file;

use std::{fmt, ops::Range};

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::{Error, Location, MessageFormatter, Options, Spanned, UserMessageFormatter};

use crate::diagnostics::diagnostic::Diagnostic;

const MAX_NODES: usize = 20_000;
const MAX_ALIASES: usize = 200;
/// Each level uses stack during the parse: an unoptimised build needs tens of KiB for one.
const MAX_DEPTH: usize = 20;

/// Beginning of the message about a file with too many values, aliases or levels.
pub(crate) const LIMITS_EXCEEDED: &str = "the file exceeds the limits of a workflow";

/// Value with its position.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) value: Yaml,
    /// Byte range in the file; for a list or a mapping, only its beginning.
    pub(crate) at: Range<usize>,
}

/// Value of YAML 1.2.
#[derive(Debug)]
pub(crate) enum Yaml {
    Null,
    Bool(bool),
    Whole(i64),
    Decimal(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<YamlEntry>),
}

/// Entry of a mapping.
#[derive(Debug)]
pub(crate) struct YamlEntry {
    pub(crate) key: String,
    pub(crate) key_at: Range<usize>,
    pub(crate) value: Node,
}

/// Parses the whole text, which is of bounded length, as one YAML document without duplicate keys.
pub(crate) fn read(text: &str) -> Result<Node, Diagnostic> {
    serde_saphyr::from_str_with_options::<Spanned<Yaml>>(text, parser_options())
        .map(Node::from)
        .map_err(|error| syntax_diagnostic(text, &error))
}

fn parser_options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: MAX_NODES,
            max_aliases: MAX_ALIASES,
            max_depth: MAX_DEPTH,
        },
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

impl Node {
    /// Returns the value as JSON.
    pub(crate) fn to_json(&self) -> Value {
        match &self.value {
            Yaml::Null => Value::Null,
            Yaml::Bool(value) => (*value).into(),
            Yaml::Whole(value) => (*value).into(),
            Yaml::Decimal(value) => (*value).into(),
            Yaml::Text(value) => value.as_str().into(),
            Yaml::List(items) => items.iter().map(Self::to_json).collect(),
            Yaml::Map(entries) => {
                let pairs = entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json()));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
        }
    }
}

impl From<Spanned<Yaml>> for Node {
    /// Takes the position of the definition, not of an alias: the user must change the text there.
    fn from(spanned: Spanned<Yaml>) -> Self {
        Self { at: byte_range(&spanned.defined), value: spanned.value }
    }
}

fn byte_range(location: &Location) -> Range<usize> {
    let span = location.span();
    let number = |n: Option<u64>| n.and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
    let start = number(span.byte_offset());
    start..start + number(span.byte_len())
}

/// Returns the byte range of a syntax error, for which the parser reports only line and character.
fn byte_range_in(text: &str, location: Option<Location>) -> Range<usize> {
    let Some(location) = location else { return 0..0 };
    if location.span().byte_offset().is_some() {
        return byte_range(&location);
    }
    let before = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).saturating_sub(1);
    let lines = text.split_inclusive('\n').take(before(location.line()));
    let start: usize = lines.map(str::len).sum();
    let column = text[start..].char_indices().nth(before(location.column()));
    let at = column.map_or(text.len(), |(offset, _)| start + offset);
    at..at
}

fn syntax_diagnostic(text: &str, error: &Error) -> Diagnostic {
    let at = byte_range_in(text, error.location());
    let mut cause = error.without_snippet();
    while let Error::AliasError { error, .. } = cause {
        cause = error;
    }
    match cause {
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or_default();
            Diagnostic::new(at, format!("the key `{key}` is written twice"))
                .with_hint("keep one of the two")
        }
        Error::MultipleDocuments { .. } => {
            Diagnostic::new(at, "a second YAML document begins here")
                .with_hint("a workflow is one document: remove `---` or `...`")
        }
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. } => Diagnostic::new(
            at,
            format!(
                "{LIMITS_EXCEEDED}: {MAX_NODES} values, {MAX_ALIASES} aliases, {MAX_DEPTH} levels"
            ),
        ),
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            Diagnostic::new(at, "an alias cannot be inside its own anchor")
        }
        Error::NullIntoString { .. } | Error::Unexpected { .. } => {
            Diagnostic::new(at, "a key must be plain text")
        }
        Error::NonFiniteFloat { .. } => Diagnostic::new(at, "a number must be finite"),
        other => {
            let message = UserMessageFormatter.format_message(other);
            Diagnostic::new(at, format!("not valid YAML: {message}"))
        }
    }
}

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(YamlVisitor)
    }
}

struct YamlVisitor;

impl<'de> Visitor<'de> for YamlVisitor {
    type Value = Yaml;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<Yaml, E> {
        Ok(Yaml::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Yaml, E> {
        Ok(Yaml::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Yaml, E> {
        Ok(Yaml::Whole(value))
    }
    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Yaml, E> {
        value.try_into().map(Yaml::Whole).map_err(|_| E::custom("the number is too large"))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Yaml, E> {
        Ok(Yaml::Decimal(value))
    }
    fn visit_str<E>(self, value: &str) -> Result<Yaml, E> {
        Ok(Yaml::Text(value.to_owned()))
    }
    fn visit_bytes<E: serde::de::Error>(self, _: &[u8]) -> Result<Yaml, E> {
        Err(E::custom("binary values are not taken"))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Yaml, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element::<Spanned<Yaml>>()? {
            items.push(item.into());
        }
        Ok(Yaml::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Yaml, A::Error> {
        let mut entries: Vec<YamlEntry> = Vec::new();
        while let Some((key, value)) = access.next_entry::<Spanned<String>, Spanned<Yaml>>()? {
            if key.value.len() > 1024 {
                return Err(A::Error::custom("a key is longer than 1024 bytes"));
            }
            entries.push(YamlEntry {
                key_at: byte_range(&key.defined),
                key: key.value,
                value: value.into(),
            });
        }
        Ok(Yaml::Map(entries))
    }
}
