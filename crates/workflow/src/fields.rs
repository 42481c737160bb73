//! Takes values out of the tree, each with its path: what is missing, unknown or of another kind
//! becomes a complaint that names `agents.reviewer.timeout` and points at it.

use std::{fmt, ops::RangeInclusive};

use agent_worker_protocol::Span;

use crate::{
    complaint::{Complaint, Complaints},
    suggest::nearest,
    tree::{Node, Yaml},
};

/// The keys a mapping may have, and those that a later version will know.
pub(crate) struct Keys {
    pub(crate) known: &'static [&'static str],
    pub(crate) later: &'static [&'static str],
}

/// A value and the path that leads to it.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    path: String,
    pub(crate) node: &'a Node,
}

/// A mapping.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    whole: Field<'a>,
    entries: Vec<(Key<'a>, Field<'a>)>,
    /// Whether a key was complained about that is not known here.
    pub(crate) has_strangers: bool,
}

/// A key and where it is written.
#[derive(Clone, Debug)]
pub(crate) struct Key<'a> {
    pub(crate) text: &'a str,
    at: std::ops::Range<usize>,
}

impl Key<'_> {
    pub(crate) fn complaint(&self, message: impl Into<String>) -> Complaint {
        Complaint::new(self.at.clone(), message)
    }
}

impl<'a> Field<'a> {
    pub(crate) fn root(node: &'a Node) -> Self {
        Self { path: String::new(), node }
    }

    /// A complaint about this value.
    pub(crate) fn complaint(&self, message: impl Into<String>) -> Complaint {
        Complaint::new(self.node.at.clone(), message)
    }

    /// A complaint that begins with the path: `` `limits.hops` must be … ``.
    pub(crate) fn must(&self, be: impl fmt::Display) -> Complaint {
        match self.path.as_str() {
            "" => self.complaint(format!("the file must be {be}")),
            path => self.complaint(format!("`{path}` must be {be}")),
        }
    }

    fn wrong_kind(&self, expected: &str) -> Complaint {
        let complaint = self.must(format_args!("{expected}, not {}", kind(&self.node.value)));
        match (expected, &self.node.value) {
            ("text", Yaml::Bool(_) | Yaml::Whole(_) | Yaml::Decimal(_)) => {
                complaint.hint("put it in quotes")
            }
            _ => complaint,
        }
    }

    pub(crate) fn text(&self) -> Result<&'a str, Complaint> {
        match &self.node.value {
            Yaml::Text(text) => Ok(text),
            _ => Err(self.wrong_kind("text")),
        }
    }

    /// Text in which a person could expect references to be filled in, where they are not.
    pub(crate) fn text_as_is(&self) -> Result<&'a str, Complaint> {
        let text = self.text()?;
        if text.contains("${{") {
            return Err(self
                .complaint(format!("`{}` is not filled in in this version", self.path))
                .hint("`${{ … }}` works in `kickoff` and in `shell`"));
        }
        Ok(text)
    }

    pub(crate) fn truth(&self) -> Result<bool, Complaint> {
        match self.node.value {
            Yaml::Bool(value) => Ok(value),
            _ => Err(self.wrong_kind("`true` or `false`")),
        }
    }

    pub(crate) fn whole(&self, allowed: RangeInclusive<u32>) -> Result<u32, Complaint> {
        let Yaml::Whole(number) = self.node.value else {
            return Err(self.wrong_kind("a whole number"));
        };
        u32::try_from(number).ok().filter(|number| allowed.contains(number)).ok_or_else(|| {
            self.must(format_args!("between {} and {}", allowed.start(), allowed.end()))
        })
    }

    pub(crate) fn decimal(&self, allowed: RangeInclusive<f64>) -> Result<f64, Complaint> {
        let number = match self.node.value {
            Yaml::Whole(number) => i32::try_from(number).map_or(f64::INFINITY, f64::from),
            Yaml::Decimal(number) => number,
            _ => return Err(self.wrong_kind("a number")),
        };
        if allowed.contains(&number) {
            return Ok(number);
        }
        Err(self.must(format_args!("between {} and {}", allowed.start(), allowed.end())))
    }

    pub(crate) fn span(&self, allowed: RangeInclusive<Span>) -> Result<Span, Complaint> {
        let Yaml::Text(text) = &self.node.value else {
            return Err(self.wrong_kind("a length of time such as `30s`"));
        };
        let span: Span =
            text.parse().map_err(|error| self.complaint(format!("`{}`: {error}", self.path)))?;
        if allowed.contains(&span) {
            return Ok(span);
        }
        Err(self.must(format_args!("between {} and {}", allowed.start(), allowed.end())))
    }

    /// One of a few words.
    pub(crate) fn word<T: Copy>(
        &self,
        words: &[(&'static str, T)],
        later: &[&'static str],
    ) -> Result<T, Complaint> {
        let text = self.text()?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Ok(*value);
        }
        if later.contains(&text) {
            return Err(self.not_yet(format_args!("`{}: {text}`", self.path)));
        }
        let names = || words.iter().map(|(word, _)| *word);
        let list: Vec<String> = names().map(|word| format!("`{word}`")).collect();
        let complaint = self.must(format_args!("{}, not `{text}`", list.join(" or ")));
        Err(match nearest(text, names().chain(later.iter().copied())) {
            Some(word) => complaint.hint(format!("did you mean `{word}`?")),
            None => complaint,
        })
    }

    pub(crate) fn not_yet(&self, what: impl fmt::Display) -> Complaint {
        self.complaint(format!("{what} is not in this version"))
    }

    pub(crate) fn list(&self) -> Result<Vec<Field<'a>>, Complaint> {
        let Yaml::List(nodes) = &self.node.value else {
            return Err(self.wrong_kind("a list"));
        };
        let item = |(index, node)| Field { path: format!("{}[{index}]", self.path), node };
        Ok(nodes.iter().enumerate().map(item).collect())
    }

    /// A mapping whose keys are names that people choose.
    pub(crate) fn named(&self) -> Result<Vec<(Key<'a>, Field<'a>)>, Complaint> {
        let Yaml::Map(entries) = &self.node.value else {
            return Err(self.wrong_kind("a mapping"));
        };
        let path = |key: &str| match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        let field = |entry: &'a crate::tree::Entry| {
            let key = Key { text: &entry.key, at: entry.key_at.clone() };
            (key, Field { path: path(&entry.key), node: &entry.value })
        };
        Ok(entries.iter().map(field).collect())
    }

    /// A mapping. Each key that is not one of these is complained about and left aside.
    pub(crate) fn fields(&self, keys: &Keys, complaints: &mut Complaints) -> Option<Fields<'a>> {
        let mut fields = complaints.keep(self.fields_unchecked())?;
        fields.refuse_strangers(keys, complaints);
        Some(fields)
    }

    /// A mapping of any keys.
    pub(crate) fn fields_unchecked(&self) -> Result<Fields<'a>, Complaint> {
        Ok(Fields { whole: self.clone(), entries: self.named()?, has_strangers: false })
    }
}

impl<'a> Fields<'a> {
    /// The value of a key; `null` is as good as absent.
    pub(crate) fn get(&self, key: &str) -> Option<Field<'a>> {
        let (_, field) = self.entries.iter().find(|(found, _)| found.text == key)?;
        (!matches!(field.node.value, Yaml::Null)).then(|| field.clone())
    }

    /// Whether a key is written, with a value or without one.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(found, _)| found.text == key)
    }

    /// What `read` makes of a key's value; nothing if it is absent, or wrong and complained about.
    pub(crate) fn take<T>(
        &self,
        key: &str,
        complaints: &mut Complaints,
        read: impl FnOnce(&Field<'a>) -> Result<T, Complaint>,
    ) -> Option<T> {
        complaints.keep(read(&self.get(key)?))
    }

    /// The value of a key that must be there. Beside an unknown key it may be that one, misspelt: one mistake.
    pub(crate) fn need(&self, key: &str, complaints: &mut Complaints) -> Option<Field<'a>> {
        let found = self.get(key);
        if found.is_none() && !self.has_strangers {
            complaints.add(self.whole.complaint(match self.whole.path.as_str() {
                "" => format!("`{key}` is missing"),
                path => format!("`{path}` needs `{key}`"),
            }));
        }
        found
    }

    /// Complains about each key that is not known here.
    pub(crate) fn refuse_strangers(&mut self, keys: &Keys, complaints: &mut Complaints) {
        let strange = self.entries.iter().filter(|(key, _)| !keys.known.contains(&key.text));
        let mut strange = strange.peekable();
        self.has_strangers = strange.peek().is_some();
        complaints.add_all(strange.map(|(key, field)| stranger(key, field, keys)));
    }
}

fn stranger(key: &Key<'_>, field: &Field<'_>, keys: &Keys) -> Complaint {
    if keys.later.contains(&key.text) {
        return key.complaint(format!("`{}` is not in this version", field.path));
    }
    let complaint = key.complaint(format!("unknown key `{}`", field.path));
    match nearest(key.text, keys.known.iter().chain(keys.later).copied()) {
        Some(word) => complaint.hint(format!("did you mean `{word}`?")),
        None => complaint.hint(format!("the keys here are: {}", keys.known.join(", "))),
    }
}

fn kind(value: &Yaml) -> &'static str {
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
