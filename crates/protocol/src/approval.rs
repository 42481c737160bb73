//! What an agent may do by itself, and what it asks a person for.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;

/// What an agent may do by itself. What fits `deny` is refused, what fits `ask` is asked for, what fits `allow` is done;
/// of the rest `default` decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Permissions {
    /// What holds where no pattern fits.
    #[serde(default)]
    pub default: PermissionAction,
    /// What it does without asking.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<ToolPattern>,
    /// What it always asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<ToolPattern>,
    /// What it never does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<ToolPattern>,
    /// What becomes of a request while nobody is there.
    #[serde(default)]
    pub on_ask: OnAsk,
}

/// What is said to a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PermissionAction {
    /// Do it.
    Allow,
    /// A person decides.
    #[default]
    Ask,
    /// Do not.
    Deny,
}

/// What becomes of a request while nobody is there to answer it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnAsk {
    /// It waits, and so does its run.
    #[default]
    Wait,
    /// It is refused, and the agent goes on.
    Deny,
    /// The turn fails.
    Fail,
}

/// What a person says to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Consent {
    /// It may happen, once.
    Approved,
    /// It may not.
    Denied,
}

words! {
    PermissionAction { Allow => "allow", Ask => "ask", Deny => "deny" }
    OnAsk { Wait => "wait", Deny => "deny", Fail => "fail" }
    Consent { Approved => "approved", Denied => "denied" }
}

impl Permissions {
    /// Whether it says nothing that differs from saying nothing.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Calls of one tool: `Tool`, `Tool(all of it)` or `Tool(its beginning*)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct ToolPattern {
    tool: String,
    argument: ArgumentPattern,
}

/// Which of a tool's calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentPattern {
    /// All.
    Any,
    /// Those about exactly this.
    Exact(String),
    /// Those about what begins like this.
    Prefix(String),
}

/// Why a text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadToolPattern {
    /// No tool is called that.
    #[error("a pattern begins with the name of a tool, such as `Bash` or `Bash(git diff*)`")]
    Tool,
    /// What is in the brackets does not end.
    #[error("a pattern ends with the bracket that it opens, such as `Bash(git diff*)`")]
    Bracket,
    /// `*` where it means nothing.
    #[error("`*` stands for the rest, at the end alone, after something")]
    Star,
    /// A home folder.
    #[error("`~` is not filled in: write the whole path, or one relative to the working folder")]
    Home,
}

impl ToolPattern {
    /// Which tool.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Which of its calls.
    pub fn argument(&self) -> &ArgumentPattern {
        &self.argument
    }
}

impl FromStr for ToolPattern {
    type Err = BadToolPattern;

    fn from_str(text: &str) -> Result<Self, BadToolPattern> {
        let (tool, about) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => {
                (tool, Some(rest.strip_suffix(')').ok_or(BadToolPattern::Bracket)?))
            }
        };
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if tool.is_empty() || !tool.chars().all(fits) {
            return Err(BadToolPattern::Tool);
        }
        let fit = match about {
            None => ArgumentPattern::Any,
            Some(about) if about.starts_with('~') => return Err(BadToolPattern::Home),
            Some(about) => match about.strip_suffix('*') {
                Some("") => return Err(BadToolPattern::Star),
                Some(start) if start.contains('*') => return Err(BadToolPattern::Star),
                Some(start) => ArgumentPattern::Prefix(start.to_owned()),
                None if about.is_empty() || about.contains('*') => {
                    return Err(BadToolPattern::Star);
                }
                None => ArgumentPattern::Exact(about.to_owned()),
            },
        };
        Ok(Self { tool: tool.to_owned(), argument: fit })
    }
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tool = &self.tool;
        match &self.argument {
            ArgumentPattern::Any => f.write_str(tool),
            ArgumentPattern::Exact(text) => write!(f, "{tool}({text})"),
            ArgumentPattern::Prefix(text) => write!(f, "{tool}({text}*)"),
        }
    }
}

impl TryFrom<String> for ToolPattern {
    type Error = BadToolPattern;

    fn try_from(text: String) -> Result<Self, BadToolPattern> {
        text.parse()
    }
}

impl From<ToolPattern> for String {
    fn from(pattern: ToolPattern) -> Self {
        pattern.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_reads_back_as_it_was_written() {
        for text in ["Bash", "Bash(git diff*)", "Write(src/*)", "Bash(ls (a))", "mcp__x__y"] {
            assert_eq!(text.parse::<ToolPattern>().map(|it| it.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn what_could_be_meant_otherwise_is_no_pattern() {
        use BadToolPattern::{Bracket, Home, Star, Tool};
        for (text, why) in [
            ("", Tool),
            ("*", Tool),
            ("(ls)", Tool),
            ("Bash (ls)", Tool),
            ("Bash(ls", Bracket),
            ("Bash(ls) ", Bracket),
            ("Bash()", Star),
            ("Bash(*)", Star),
            ("Bash(a*b)", Star),
            ("Bash(a*b*)", Star),
            ("Read(~/.ssh/*)", Home),
        ] {
            assert_eq!(text.parse::<ToolPattern>(), Err(why), "{text}");
        }
    }
}
