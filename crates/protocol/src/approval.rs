//! Permission rules of an agent, and the answers of a person to its requests.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

/// Permission rules of an agent. A call that matches `deny` is refused, one that matches `ask` needs an approval, one
/// that matches `allow` happens; `default` decides about the rest. Without a default the rest needs an approval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Permissions {
    /// Action for a call that no pattern matches, if the file names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<PermissionAction>,
    /// Calls that the agent makes without an approval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<ToolPattern>,
    /// Calls that always need an approval.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<ToolPattern>,
    /// Calls that are always refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<ToolPattern>,
    /// Treatment of a request while no person is present.
    #[serde(default)]
    pub on_ask: OnAsk,
    /// Rules for the calls that no pattern matches, before the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PermissionMode>,
}

/// Rules for the calls that no pattern matches.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum PermissionMode {
    /// The agent edits files in its working folder without an approval.
    AcceptEdits,
    /// The agent only reads.
    Plan,
}

/// Decision about a call.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum PermissionAction {
    /// The call happens without an approval.
    Allow,
    /// A person decides about the call.
    #[default]
    Ask,
    /// The call is refused.
    Deny,
}

/// Treatment of a request while no person is present to answer it.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum OnAsk {
    /// The request waits, and so does its run.
    #[default]
    Wait,
    /// The request is refused, and the agent continues.
    Deny,
    /// The turn of the agent fails.
    Fail,
}

/// Answer of a person to a request.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Consent {
    /// The call may happen, once.
    Approved,
    /// The call may not happen.
    Denied,
}

/// Calls that a person's approval allows.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum ConsentScope {
    /// The requested call, once.
    #[default]
    Call,
    /// The requested call, and for the rest of the run every call of the agent that a pattern covers.
    Run,
}

impl ConsentScope {
    /// Returns true for the default, so that serialization may omit it.
    pub fn is_call(&self) -> bool {
        *self == Self::Call
    }
}

impl Permissions {
    /// Returns the action for a call that no pattern matches.
    pub fn default_action(&self) -> PermissionAction {
        self.default.unwrap_or_default()
    }

    /// Returns true if the rules equal the default, so that serialization may omit them.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Pattern for calls of one tool: `Tool`, `Tool(all of it)` or `Tool(its beginning*)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct ToolPattern {
    tool: String,
    argument: ArgumentPattern,
}

/// Condition on the argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentPattern {
    /// Matches every call of the tool.
    Any,
    /// Matches calls whose argument is exactly this text.
    Exact(String),
    /// Matches calls whose argument begins with this text.
    Prefix(String),
}

/// Reason for which a text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadToolPattern {
    /// The text before the bracket is no valid name of a tool.
    #[error("a pattern must begin with the name of a tool, such as `Bash` or `Bash(git diff*)`")]
    Tool,
    /// The bracket is not closed at the end.
    #[error("a pattern must end with its closing bracket, such as `Bash(git diff*)`")]
    Bracket,
    /// A `*` is at a place without a meaning.
    #[error("`*` is allowed only at the end of a pattern, after other text")]
    Star,
    /// The argument begins with `~`, which is not expanded.
    #[error("`~` is not expanded: write an absolute path, or one relative to the working folder")]
    Home,
}

impl ToolPattern {
    /// Returns a pattern of one tool, unless no text can express it.
    pub fn new(tool: &str, argument: ArgumentPattern) -> Option<Self> {
        let pattern = Self { tool: tool.to_owned(), argument };
        // A `*` in the argument, for example, would read back as something else.
        let read_back: Option<Self> = pattern.to_string().parse().ok();
        (read_back.as_ref() == Some(&pattern)).then_some(pattern)
    }

    /// Returns the name of the tool.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Returns the condition on the argument.
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
    fn a_pattern_that_no_text_expresses_is_none() {
        let exact = |text: &str| ToolPattern::new("Bash", ArgumentPattern::Exact(text.into()));
        assert_eq!(exact("ls (a)").map(|it| it.to_string()), Some("Bash(ls (a))".into()));
        for text in ["", "ls *", "ls *.rs", "~/run"] {
            assert_eq!(exact(text), None, "{text}");
        }
        assert_eq!(ToolPattern::new("Bash(", ArgumentPattern::Any), None);
        assert_eq!(ToolPattern::new("Bash", ArgumentPattern::Prefix(String::new())), None);
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
