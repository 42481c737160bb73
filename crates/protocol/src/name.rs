//! Names that people type. A value of these types is already valid.

use std::{cmp, fmt, hash, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of an agent, as written before the `@`: `reviewer`. The spelling is kept; comparisons ignore ASCII case.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct AgentName(String);

/// Name of a workflow: `review`. Agents outside any workflow belong to `global`.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct WorkflowName(String);

/// Tag of one instance of a workflow: `pr-123`. The default is `main`.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct Tag(String);

/// Path of a document inside its instance: `notes.md`, `design/api.md`.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct DocumentPath(String);

/// Reason for which a name is invalid.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadName {
    /// An agent's name has an invalid character, beginning or length.
    #[error(
        "`{0}` cannot be an agent's name: use up to 32 letters, digits, `-` and `_`, starting with a letter"
    )]
    Agent(String),
    /// A workflow's name or a tag has an invalid character, beginning or length.
    #[error(
        "`{0}` cannot be a workflow's name or tag: use up to 64 letters, digits, `.`, `-` and `_`, starting with a letter or digit, without `..`"
    )]
    WorkflowOrTag(String),
    /// A document's path has an invalid character, part or length.
    #[error(
        "`{0}` cannot be a document's path: use relative names of letters, digits, `.`, `-` and `_` with `/` between them, up to 200 characters"
    )]
    Document(String),
    /// The name has a special meaning in a channel.
    #[error("`{0}` is reserved; choose another name")]
    Reserved(String),
}

const RESERVED: [&str; 5] = ["all", "user", "system", "global", "nobody"];

impl AgentName {
    /// Maximum length of a name.
    pub const MAX_BYTES: usize = 32;

    /// Returns the spelling that decides the equality of two names.
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl FromStr for AgentName {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        if RESERVED.iter().any(|word| word.eq_ignore_ascii_case(text)) {
            return Err(BadName::Reserved(text.to_owned()));
        }
        let shaped = text.len() <= Self::MAX_BYTES
            && text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if shaped { Ok(Self(text.to_owned())) } else { Err(BadName::Agent(text.to_owned())) }
    }
}

impl PartialEq for AgentName {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}
impl Eq for AgentName {}
impl hash::Hash for AgentName {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.folded().hash(state);
    }
}
impl PartialOrd for AgentName {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for AgentName {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.folded().cmp(&other.folded())
    }
}

fn parse_plain_name(text: &str) -> Result<String, BadName> {
    let shaped = text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        && !text.contains("..");
    if shaped { Ok(text.to_owned()) } else { Err(BadName::WorkflowOrTag(text.to_owned())) }
}

fn parse_document_path(text: &str) -> Result<String, BadName> {
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    let shaped = text.len() <= 200 && text.split('/').all(part);
    if shaped { Ok(text.to_owned()) } else { Err(BadName::Document(text.to_owned())) }
}

impl FromStr for WorkflowName {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        parse_plain_name(text).map(Self)
    }
}
impl FromStr for Tag {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        parse_plain_name(text).map(Self)
    }
}
impl DocumentPath {
    /// Returns true if a part of the path begins with `-`, so that a program would read it as an option. Such a document
    /// is not created; one of an earlier version stays readable.
    pub fn is_option_like(&self) -> bool {
        self.0.split('/').any(|part| part.starts_with('-'))
    }
}

impl FromStr for DocumentPath {
    type Err = BadName;
    fn from_str(text: &str) -> Result<Self, BadName> {
        parse_document_path(text).map(Self)
    }
}

impl Default for Tag {
    fn default() -> Self {
        Self("main".to_owned())
    }
}
impl Default for DocumentPath {
    fn default() -> Self {
        Self("notes.md".to_owned())
    }
}

macro_rules! text {
    ($($ty:ident),*) => {$(
        impl TryFrom<String> for $ty {
            type Error = BadName;
            fn try_from(text: String) -> Result<Self, BadName> { text.parse() }
        }
        impl From<$ty> for String {
            fn from(name: $ty) -> Self { name.0 }
        }
        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.pad(&self.0) }
        }
        impl $ty {
            /// Returns the name as it was written.
            pub fn as_str(&self) -> &str { &self.0 }
        }
    )*};
}
text!(AgentName, WorkflowName, Tag, DocumentPath);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_name_is_short_and_plain_and_not_reserved() {
        for (text, good) in [
            ("a", true),
            ("Coder_2-x", true),
            ("2coder", false),
            ("", false),
            ("all", false),
            ("User", false),
            ("a b", false),
            ("a.b", false),
            ("abcdefghijklmnopqrstuvwxyzabcdef", true),
            ("abcdefghijklmnopqrstuvwxyzabcdefg", false),
        ] {
            assert_eq!(text.parse::<AgentName>().is_ok(), good, "{text}");
        }
    }

    #[test]
    fn case_is_kept_but_does_not_tell_agents_apart() {
        let (a, b): (AgentName, AgentName) = ("Coder".parse().unwrap(), "coder".parse().unwrap());
        assert_eq!((a.as_str(), &a), ("Coder", &b));
    }

    #[test]
    fn a_name_that_becomes_a_path_cannot_leave_its_folder() {
        for (text, good) in
            [("pr-1", true), ("v1.2", true), ("a..b", false), ("..", false), ("a/b", false)]
        {
            assert_eq!(text.parse::<Tag>().is_ok(), good, "{text}");
        }
        for (text, good) in [
            ("notes.md", true),
            ("a/b/c.md", true),
            ("../x", false),
            ("/x", false),
            ("a//b", false),
            ("a/.git", false),
            ("", false),
        ] {
            assert_eq!(text.parse::<DocumentPath>().is_ok(), good, "{text}");
        }
    }
}
