//! Reads values from the tree, each with its path: a missing key, an unknown key or a wrong type becomes a diagnostic
//! that names `agents.reviewer.timeout` and points at it.

use std::{fmt, ops::RangeInclusive};

use agent_worker_protocol::Span;

use crate::{
    diagnostics::{
        diagnostic::{Diagnostic, Diagnostics},
        spelling::nearest,
    },
    yaml::{Node, Yaml},
};

/// Keys that a mapping may have, and keys that are read and refused until a version can carry them out.
pub(crate) struct AllowedKeys {
    pub(crate) known: &'static [&'static str],
    pub(crate) planned: &'static [&'static str],
}

/// Value with the path that leads to it.
#[derive(Clone, Debug)]
pub(crate) struct YamlField<'a> {
    path: String,
    pub(crate) node: &'a Node,
}

/// Mapping with its entries.
#[derive(Debug)]
pub(crate) struct YamlFields<'a> {
    mapping: YamlField<'a>,
    entries: Vec<(YamlKey<'a>, YamlField<'a>)>,
    /// True if the mapping has an unknown key, which has a diagnostic. A key of a later version is known.
    pub(crate) has_unknown_keys: bool,
}

/// Key with its position.
#[derive(Clone, Debug)]
pub(crate) struct YamlKey<'a> {
    pub(crate) text: &'a str,
    at: std::ops::Range<usize>,
}

impl YamlKey<'_> {
    pub(crate) fn diagnostic(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(self.at.clone(), message)
    }
}

impl<'a> YamlField<'a> {
    pub(crate) fn root(node: &'a Node) -> Self {
        Self { path: String::new(), node }
    }

    /// Returns the same place with another value.
    pub(crate) fn with_node<'b>(&self, node: &'b Node) -> YamlField<'b> {
        YamlField { path: self.path.clone(), node }
    }

    /// Creates a diagnostic at this value.
    pub(crate) fn diagnostic(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(self.node.at.clone(), message)
    }

    /// Creates a diagnostic that begins with the path: `` `limits.hops` must be … ``.
    pub(crate) fn must_be(&self, be: impl fmt::Display) -> Diagnostic {
        match self.path.as_str() {
            "" => self.diagnostic(format!("the file must be {be}")),
            path => self.diagnostic(format!("`{path}` must be {be}")),
        }
    }

    fn wrong_type(&self, expected: &str) -> Diagnostic {
        let diagnostic =
            self.must_be(format_args!("{expected}, not {}", type_name(&self.node.value)));
        match (expected, &self.node.value) {
            ("text", Yaml::Bool(_) | Yaml::Whole(_) | Yaml::Decimal(_)) => {
                diagnostic.with_hint("put it in quotes")
            }
            _ => diagnostic,
        }
    }

    pub(crate) fn text(&self) -> Result<&'a str, Diagnostic> {
        match &self.node.value {
            Yaml::Text(text) => Ok(text),
            _ => Err(self.wrong_type("text")),
        }
    }

    /// Returns text without interpolation, and refuses references that a person could expect to work there.
    pub(crate) fn literal_text(&self) -> Result<&'a str, Diagnostic> {
        let text = self.text()?;
        if text.contains("${{") {
            return Err(self
                .diagnostic(format!("`{}` cannot contain references in this version", self.path))
                .with_hint("`${{ … }}` works in `kickoff` and in `shell`"));
        }
        Ok(text)
    }

    pub(crate) fn boolean(&self) -> Result<bool, Diagnostic> {
        match self.node.value {
            Yaml::Bool(value) => Ok(value),
            _ => Err(self.wrong_type("`true` or `false`")),
        }
    }

    pub(crate) fn integer(&self, allowed: RangeInclusive<u32>) -> Result<u32, Diagnostic> {
        let Yaml::Whole(number) = self.node.value else {
            return Err(self.wrong_type("a whole number"));
        };
        u32::try_from(number).ok().filter(|number| allowed.contains(number)).ok_or_else(|| {
            self.must_be(format_args!("between {} and {}", allowed.start(), allowed.end()))
        })
    }

    pub(crate) fn decimal(&self, allowed: RangeInclusive<f64>) -> Result<f64, Diagnostic> {
        let number = match self.node.value {
            Yaml::Whole(number) => i32::try_from(number).map_or(f64::INFINITY, f64::from),
            Yaml::Decimal(number) => number,
            _ => return Err(self.wrong_type("a number")),
        };
        if allowed.contains(&number) {
            return Ok(number);
        }
        Err(self.must_be(format_args!("between {} and {}", allowed.start(), allowed.end())))
    }

    pub(crate) fn span(&self, allowed: RangeInclusive<Span>) -> Result<Span, Diagnostic> {
        let Yaml::Text(text) = &self.node.value else {
            return Err(self.wrong_type("a length of time such as `30s`"));
        };
        let span: Span =
            text.parse().map_err(|error| self.diagnostic(format!("`{}`: {error}", self.path)))?;
        if allowed.contains(&span) {
            return Ok(span);
        }
        Err(self.must_be(format_args!("between {} and {}", allowed.start(), allowed.end())))
    }

    /// Reads one of a few words.
    pub(crate) fn one_of<T: Copy>(
        &self,
        words: &[(&'static str, T)],
        later: &[&'static str],
    ) -> Result<T, Diagnostic> {
        let names = || words.iter().map(|(word, _)| *word);
        let list: Vec<String> = names().map(|word| format!("`{word}`")).collect();
        let list = list.join(" or ");
        let Yaml::Text(text) = &self.node.value else {
            return Err(self.must_be(format_args!("{list}, not {}", value_text(&self.node.value))));
        };
        let text = text.as_str();
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Ok(*value);
        }
        if later.contains(&text) {
            return Err(self.not_supported_yet(format_args!("`{}: {text}`", self.path)));
        }
        let diagnostic = self.must_be(format_args!("{list}, not `{text}`"));
        Err(match nearest(text, names().chain(later.iter().copied())) {
            Some(word) => diagnostic.with_hint(format!("did you mean `{word}`?")),
            None => diagnostic,
        })
    }

    pub(crate) fn not_supported_yet(&self, what: impl fmt::Display) -> Diagnostic {
        self.diagnostic(format!("{what} is not in this version"))
    }

    pub(crate) fn list(&self) -> Result<Vec<YamlField<'a>>, Diagnostic> {
        let Yaml::List(nodes) = &self.node.value else {
            return Err(self.wrong_type("a list"));
        };
        let item = |(index, node)| YamlField { path: format!("{}[{index}]", self.path), node };
        Ok(nodes.iter().enumerate().map(item).collect())
    }

    /// Reads a mapping whose keys are names chosen by people.
    pub(crate) fn named_entries(&self) -> Result<Vec<(YamlKey<'a>, YamlField<'a>)>, Diagnostic> {
        let Yaml::Map(entries) = &self.node.value else {
            return Err(self.wrong_type("a mapping"));
        };
        let path = |key: &str| match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        let field = |entry: &'a crate::yaml::YamlEntry| {
            let key = YamlKey { text: &entry.key, at: entry.key_at.clone() };
            (key, YamlField { path: path(&entry.key), node: &entry.value })
        };
        Ok(entries.iter().map(field).collect())
    }

    /// Reads a mapping; each key that is not allowed gets a diagnostic and is ignored.
    pub(crate) fn fields(
        &self,
        keys: &AllowedKeys,
        diagnostics: &mut Diagnostics,
    ) -> Option<YamlFields<'a>> {
        let mut fields = diagnostics.ok_or_add(self.fields_unchecked())?;
        fields.reject_unknown_keys(keys, diagnostics);
        Some(fields)
    }

    /// Reads a mapping with any keys.
    pub(crate) fn fields_unchecked(&self) -> Result<YamlFields<'a>, Diagnostic> {
        Ok(YamlFields {
            mapping: self.clone(),
            entries: self.named_entries()?,
            has_unknown_keys: false,
        })
    }
}

impl<'a> YamlFields<'a> {
    /// Returns the value of a key; `null` counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<YamlField<'a>> {
        let (_, field) = self.entries.iter().find(|(found, _)| found.text == key)?;
        (!matches!(field.node.value, Yaml::Null)).then(|| field.clone())
    }

    /// Returns every key with its value, in the order of the file.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&YamlKey<'a>, &YamlField<'a>)> {
        self.entries.iter().map(|(key, field)| (key, field))
    }

    /// Returns true if the key is present, with or without a value.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(found, _)| found.text == key)
    }

    /// Returns the result of `read` for a key's value; none if the key is absent, or wrong and reported.
    pub(crate) fn read_with<T>(
        &self,
        key: &str,
        diagnostics: &mut Diagnostics,
        read: impl FnOnce(&YamlField<'a>) -> Result<T, Diagnostic>,
    ) -> Option<T> {
        diagnostics.ok_or_add(read(&self.get(key)?))
    }

    /// Returns the value of a required key. Next to an unknown key no diagnostic is added: the unknown key may be the
    /// required one, misspelt, and one mistake gets one diagnostic.
    pub(crate) fn require(
        &self,
        key: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<YamlField<'a>> {
        let found = self.get(key);
        if found.is_none() && !self.has_unknown_keys {
            diagnostics.add(self.mapping.diagnostic(match self.mapping.path.as_str() {
                "" => format!("`{key}` is missing"),
                path => format!("`{path}` needs `{key}`"),
            }));
        }
        found
    }

    /// Adds a diagnostic for each unknown key.
    pub(crate) fn reject_unknown_keys(
        &mut self,
        keys: &AllowedKeys,
        diagnostics: &mut Diagnostics,
    ) {
        let strange = self.entries.iter().filter(|(key, _)| !keys.known.contains(&key.text));
        let mut misspelt = strange.clone().filter(|(key, _)| !keys.planned.contains(&key.text));
        self.has_unknown_keys = misspelt.next().is_some();
        diagnostics.add_all(strange.map(|(key, field)| unknown_key(key, field, keys)));
    }
}

fn unknown_key(key: &YamlKey<'_>, field: &YamlField<'_>, keys: &AllowedKeys) -> Diagnostic {
    if keys.planned.contains(&key.text) {
        let diagnostic = key.diagnostic(format!("`{}` cannot be used yet", field.path));
        return diagnostic.with_hint("remove it");
    }
    let diagnostic = key.diagnostic(format!("unknown key `{}`", field.path));
    match nearest(key.text, keys.known.iter().chain(keys.planned).copied()) {
        Some(word) => diagnostic.with_hint(format!("did you mean `{word}`?")),
        None => diagnostic.with_hint(format!("the keys here are: {}", keys.known.join(", "))),
    }
}

/// Names a value that is not text: itself if it is short, else its type.
fn value_text(value: &Yaml) -> String {
    match value {
        Yaml::Bool(value) => format!("`{value}`"),
        Yaml::Whole(value) => format!("`{value}`"),
        Yaml::Null | Yaml::Decimal(_) | Yaml::Text(_) | Yaml::List(_) | Yaml::Map(_) => {
            type_name(value).to_owned()
        }
    }
}

fn type_name(value: &Yaml) -> &'static str {
    match value {
        Yaml::Null => "nothing",
        Yaml::Bool(_) => "`true` or `false`",
        Yaml::Whole(_) => "a number",
        Yaml::Decimal(_) => "a decimal number",
        Yaml::Text(_) => "text",
        Yaml::List(_) => "a list",
        Yaml::Map(_) => "a mapping",
    }
}
