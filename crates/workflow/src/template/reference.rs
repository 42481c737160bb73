//! Content between `${{` and `}}`: the only parser and formatter of these names.

use std::{collections::BTreeSet, fmt, str::FromStr};

use agent_worker_expressions::Expression;
use serde::{Deserialize, Serialize};

use crate::{diagnostics::spelling::nearest, template::expression};

/// Prefixes of references, which therefore cannot be the name of an output.
pub(crate) const RESERVED: [&str; 5] = ["env", "params", "workflow", "instance", "context"];

pub(crate) const NAME_SHAPE: &str =
    "use up to 64 letters, digits and `_`, starting with a letter or `_`";

/// Maximum number of names that are compared with an unknown one and listed in the hint.
const MAX_CANDIDATES: usize = 20;

const SECRET_ENDINGS: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];

/// Reference to a value that is known when the workflow runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "StoredReference", into = "StoredReference")]
pub enum Reference {
    /// `diff`: output of a setup step.
    Output(String),
    /// `params.target`: a parameter of the workflow.
    Param(String),
    /// `env.CI`: an environment variable of the caller.
    Env(String),
    /// `workflow.name`: the name of the workflow.
    WorkflowName,
    /// `workflow.tag`, also written `workflow.instance` and `instance`.
    Tag,
    /// `context.channel`: path of the channel's file.
    ChannelFile,
    /// `context.document`: path of the file of the default document.
    DocumentFile,
    /// `tasks.build.exit_code`: a fact about a task that has ended.
    Task {
        /// Name of the task.
        name: String,
        /// Fact about it.
        fact: TaskFact,
    },
    /// `item`: the item of a task with `for_each`.
    Item,
    /// `index`: its position from 0.
    ItemIndex,
    /// Anything else between `${{` and `}}`: its result is the value.
    Expression(Expression),
}

/// Fact about a task that an expression can read: `tasks.NAME.FACT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskFact {
    /// State in which the task ended.
    State,
    /// Output, also without `as:`.
    Output,
    /// Reason of a failure; null without one.
    Error,
    /// Exit code of the command; null if there is none.
    ExitCode,
    /// End of the error output of the command; null if there is none.
    Stderr,
    /// Duration in milliseconds; null if the task did not run.
    Ms,
}

impl TaskFact {
    /// All facts, in the order of messages.
    pub const ALL: [Self; 6] =
        [Self::State, Self::Output, Self::Error, Self::ExitCode, Self::Stderr, Self::Ms];

    /// Returns the name in expressions.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Output => "output",
            Self::Error => "error",
            Self::ExitCode => "exit_code",
            Self::Stderr => "stderr",
            Self::Ms => "ms",
        }
    }
}

/// Form in which a value is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReferenceForm {
    /// Value itself, as text.
    Value,
    /// `.file`: path of a private file with the value.
    File,
    /// `int( )`: value that must be a whole number.
    Integer,
    /// Value of a parameter with `type: number`.
    Number,
}

/// Description of an invalid reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceFlaw {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// Byte offset in the content between the braces, if the flaw is at one byte.
    pub(crate) offset: Option<usize>,
}

/// Owner of a text, which decides what may be in its references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TextOwner {
    /// Any section but the tasks: plain names.
    #[default]
    OtherSection,
    /// Task, or the output of the tasks: also expressions.
    Task,
    /// Task with `for_each`: also its item.
    TaskWithItem,
}

impl TextOwner {
    /// Returns true if the text may have expressions.
    pub(crate) fn has_expressions(self) -> bool {
        match self {
            Self::OtherSection => false,
            Self::Task | Self::TaskWithItem => true,
        }
    }
}

/// Names that have a value at one place of the file.
#[derive(Debug, Default)]
pub(crate) struct KnownNames {
    pub(crate) params: BTreeSet<String>,
    /// Parameters with `type: number`.
    pub(crate) number_params: BTreeSet<String>,
    /// Outputs of the steps before this place.
    pub(crate) outputs: BTreeSet<String>,
    /// Outputs of all steps, including later ones.
    pub(crate) all_outputs: BTreeSet<String>,
    /// Variables of the environment that a client may set, because the file names them.
    pub(crate) client_env: BTreeSet<String>,
    /// Variables that `env:` of the current step sets to text with values.
    pub(crate) step_env: BTreeSet<String>,
    /// True if the channel is also a file.
    pub(crate) channel_file: bool,
    /// True if documents are also files.
    pub(crate) document_file: bool,
    /// Owner of the text.
    pub(crate) owner: TextOwner,
    /// Names of all tasks.
    pub(crate) tasks: BTreeSet<String>,
}

impl ReferenceFlaw {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, offset: None }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for ReferenceFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Returns true if `text` can be the name of a parameter, an output or an environment variable.
///
/// A name has no `-`, which is a minus in the expressions of a later version.
pub(crate) fn is_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Parses the content of `${{ … }}`.
pub(crate) fn parse_reference(inner: &str) -> Result<(Reference, ReferenceForm), ReferenceFlaw> {
    let inner = inner.trim();
    if inner.is_empty() {
        return Err(ReferenceFlaw::new("there is no name between `${{` and `}}`")
            .with_hint("for the characters themselves write `$${{`"));
    }
    if let Some(argument) = inner.strip_prefix("int(").and_then(|rest| rest.strip_suffix(')')) {
        return Ok((argument.trim().parse()?, ReferenceForm::Integer));
    }
    let (name, form) = match inner.strip_suffix(".file") {
        Some(name) if !["env", "params"].contains(&name) => (name, ReferenceForm::File),
        _ => (inner, ReferenceForm::Value),
    };
    Ok((name.parse()?, form))
}

impl Reference {
    /// Returns the values that the reference reads: itself, or those that its expression names.
    pub fn values_read(&self) -> Vec<Self> {
        match self {
            Self::Expression(expression) => expression::references(expression).collect(),
            plain => vec![plain.clone()],
        }
    }
}

impl FromStr for Reference {
    type Err = ReferenceFlaw;

    fn from_str(text: &str) -> Result<Self, ReferenceFlaw> {
        let parts: Vec<&str> = text.split('.').collect();
        if !parts.iter().all(|part| is_name(part)) {
            return Err(not_a_name(text));
        }
        match parts.as_slice() {
            ["params", name] => Ok(Self::Param((*name).to_owned())),
            ["env", name] => Ok(Self::Env((*name).to_owned())),
            ["workflow", "name"] => Ok(Self::WorkflowName),
            ["workflow", "tag" | "instance"] | ["instance"] => Ok(Self::Tag),
            ["context", "channel"] => Ok(Self::ChannelFile),
            ["context", "document"] => Ok(Self::DocumentFile),
            ["params" | "env"] => Err(ReferenceFlaw::new(format!("`{text}` needs a name"))
                .with_hint(format!("`{text}.NAME`"))),
            ["workflow", ..] => Err(ReferenceFlaw::new(format!("there is no `{text}`"))
                .with_hint("there are `workflow.name` and `workflow.tag`")),
            ["context", ..] => Err(ReferenceFlaw::new(format!("there is no `{text}`"))
                .with_hint("there are `context.channel` and `context.document`")),
            [name] => Ok(Self::Output((*name).to_owned())),
            [name, ..] => Err(ReferenceFlaw::new(format!("there is no `{text}`"))
                .with_hint(format!("there are `{name}` and `{name}.file`"))),
            [] => Err(not_a_name(text)),
        }
    }
}

fn not_a_name(text: &str) -> ReferenceFlaw {
    let dashed = text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    let flaw =
        ReferenceFlaw::new(format!("`{text}` is not a name; expressions are not in this version"));
    if dashed && text.contains('-') {
        return flaw.with_hint("use `_` instead of `-` in names");
    }
    flaw.with_hint("write a plain name, such as `diff`, `params.target` or `workflow.tag`")
}

impl Reference {
    /// Refuses a reference that has no value at this place, or is a secret.
    pub(crate) fn check(&self, known: &KnownNames) -> Result<(), ReferenceFlaw> {
        match self {
            Self::Env(name) if is_secret(name) => Err(ReferenceFlaw::new(format!(
                "`env.{name}` is a secret by its name and is not inserted here"
            ))
            .with_hint(
                "pass it with `env:`, to an agent or to a setup command, which reads it from its environment",
            )),
            _ => self.check_known(known),
        }
    }

    /// Returns the names of the environment variables whose values the reference uses.
    pub(crate) fn env_names(&self) -> Vec<&str> {
        match self {
            Self::Env(name) => vec![name],
            Self::Expression(expression) => expression::env_names(expression).collect(),
            Self::Output(_)
            | Self::Param(_)
            | Self::WorkflowName
            | Self::Tag
            | Self::ChannelFile
            | Self::DocumentFile
            | Self::Item
            | Self::ItemIndex
            | Self::Task { .. } => Vec::new(),
        }
    }

    /// Refuses a reference that has no value at this place.
    pub(crate) fn check_known(&self, known: &KnownNames) -> Result<(), ReferenceFlaw> {
        match self {
            Self::ChannelFile if !known.channel_file => {
                Err(ReferenceFlaw::new("the channel of this team is not kept in a file")
                    .with_hint("`context: { provider: file }` keeps it in a file"))
            }
            Self::DocumentFile if !known.document_file => {
                Err(ReferenceFlaw::new("the documents of this team are not kept in files")
                    .with_hint("`context: { documents: file }` keeps them in files"))
            }
            Self::Item | Self::ItemIndex if known.owner != TextOwner::TaskWithItem => {
                Err(ReferenceFlaw::new(format!(
                    "`{self}` has a value only in the texts of a task with `for_each`"
                ))
                .with_hint("add `for_each:`; its own text and the `if` cannot use the item"))
            }
            Self::Item
            | Self::ItemIndex
            | Self::Env(_)
            | Self::WorkflowName
            | Self::Tag
            | Self::ChannelFile
            | Self::DocumentFile => Ok(()),
            Self::Task { name, .. } if known.tasks.contains(name) => Ok(()),
            Self::Task { name, .. } => Err(expression::unknown_task(name, known)),
            Self::Expression(expression) => expression::check(expression, known),
            Self::Param(name) if known.params.contains(name) => Ok(()),
            Self::Output(name) if known.outputs.contains(name) => Ok(()),
            Self::Output(name) if known.all_outputs.contains(name) => Err(ReferenceFlaw::new(
                format!("`{name}` has no value yet: the step that makes it comes later"),
            )
            .with_hint("move that step up")),
            Self::Param(_) | Self::Output(_) => Err(self.unknown_name(known)),
        }
    }

    fn unknown_name(&self, known: &KnownNames) -> ReferenceFlaw {
        let flaw = ReferenceFlaw::new(format!("unknown name `{self}`"));
        if let Self::Output(name) = self
            && known.params.contains(name)
        {
            return flaw.with_hint(format!("did you mean `params.{name}`?"));
        }
        let outputs = known.outputs.iter().take(MAX_CANDIDATES).cloned();
        let params = known.params.iter().take(MAX_CANDIDATES).map(|name| format!("params.{name}"));
        let fixed = ["workflow.name", "workflow.tag", "instance"].map(str::to_owned);
        let names: Vec<String> = outputs.chain(params).chain(fixed).collect();
        match nearest(&self.to_string(), names.iter().map(String::as_str)) {
            Some(name) => flaw.with_hint(format!("did you mean `{name}`?")),
            None => flaw.with_hint(format!("known names: {}", names.join(", "))),
        }
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Output(name) => f.write_str(name),
            Self::Param(name) => write!(f, "params.{name}"),
            Self::Env(name) => write!(f, "env.{name}"),
            Self::WorkflowName => f.write_str("workflow.name"),
            Self::Tag => f.write_str("workflow.tag"),
            Self::ChannelFile => f.write_str("context.channel"),
            Self::DocumentFile => f.write_str("context.document"),
            Self::Task { name, fact } => write!(f, "tasks.{name}.{}", fact.as_str()),
            Self::Item => f.write_str("item"),
            Self::ItemIndex => f.write_str("index"),
            Self::Expression(expression) => f.write_str(expression.source()),
        }
    }
}

/// Reference as it is stored. In a file without tasks a setup step may be called `item`, so that the text alone does not
/// say which of the two is meant.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredReference {
    Text(String),
    Loop { for_each: LoopValue },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LoopValue {
    Item,
    Index,
}

impl TryFrom<StoredReference> for Reference {
    type Error = ReferenceFlaw;
    fn try_from(stored: StoredReference) -> Result<Self, ReferenceFlaw> {
        match stored {
            StoredReference::Text(text) => expression::parse_stored(&text),
            StoredReference::Loop { for_each: LoopValue::Item } => Ok(Self::Item),
            StoredReference::Loop { for_each: LoopValue::Index } => Ok(Self::ItemIndex),
        }
    }
}
impl From<Reference> for StoredReference {
    fn from(reference: Reference) -> Self {
        match reference {
            Reference::Item => Self::Loop { for_each: LoopValue::Item },
            Reference::ItemIndex => Self::Loop { for_each: LoopValue::Index },
            other => Self::Text(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_reads_what_it_writes() {
        for (written, shown, form) in [
            (" diff ", "diff", ReferenceForm::Value),
            ("diff.file", "diff", ReferenceForm::File),
            ("params.target", "params.target", ReferenceForm::Value),
            ("params.target.file", "params.target", ReferenceForm::File),
            ("params.file", "params.file", ReferenceForm::Value),
            ("env.CI", "env.CI", ReferenceForm::Value),
            ("env.file", "env.file", ReferenceForm::Value),
            ("workflow.name", "workflow.name", ReferenceForm::Value),
            ("workflow.tag", "workflow.tag", ReferenceForm::Value),
            ("workflow.instance", "workflow.tag", ReferenceForm::Value),
            ("instance", "workflow.tag", ReferenceForm::Value),
            ("int( diff )", "diff", ReferenceForm::Integer),
            ("int(params.n)", "params.n", ReferenceForm::Integer),
            ("context.channel", "context.channel", ReferenceForm::Value),
            ("context.document", "context.document", ReferenceForm::Value),
        ] {
            let (reference, found) = parse_reference(written).unwrap();
            assert_eq!((reference.to_string().as_str(), found), (shown, form), "{written}");
            assert_eq!(shown.parse::<Reference>().unwrap(), reference);
        }
    }

    #[test]
    fn what_is_not_a_plain_name_says_why() {
        for (written, part) in [
            ("", "no name"),
            ("a + b", "expressions are not in this version"),
            ("int(a + b)", "expressions are not in this version"),
            ("int()", "not a name"),
            ("int(diff.file)", "there is no `diff.file`"),
            ("review.contains('x')", "expressions"),
            ("pr-diff", "expressions"),
            ("context.agents", "there is no `context.agents`"),
            ("params", "needs a name"),
            ("workflow.id", "there is no `workflow.id`"),
            ("diff.size", "there is no `diff.size`"),
            ("1", "not a name"),
            (".", "not a name"),
            ("ünï", "not a name"),
        ] {
            let flaw = parse_reference(written).unwrap_err();
            assert!(flaw.message.contains(part), "{written}: {flaw}");
        }
    }

    #[test]
    fn a_name_without_a_value_is_refused_with_a_suggestion() {
        let known = KnownNames {
            params: ["target".into()].into(),
            outputs: ["diff".into()].into(),
            all_outputs: ["diff".into(), "log".into()].into(),
            ..KnownNames::default()
        };
        for (written, message, hint) in [
            ("dif", "unknown name `dif`", "did you mean `diff`?"),
            ("target", "unknown name `target`", "did you mean `params.target`?"),
            ("params.taget", "unknown name `params.taget`", "did you mean `params.target`?"),
            ("log", "comes later", "move that step up"),
            ("zebra", "unknown name `zebra`", "known names: diff, params.target"),
            ("env.api_key", "secret by its name", "`env:`"),
            ("env.GITHUB_TOKEN", "secret by its name", "`env:`"),
        ] {
            let flaw = written.parse::<Reference>().unwrap().check(&known).unwrap_err();
            assert!(flaw.message.contains(message), "{written}: {flaw}");
            assert!(flaw.hint.as_deref().unwrap().contains(hint), "{written}: {flaw:?}");
        }
        for written in ["diff", "params.target", "env.CI", "instance", "env.TOKENS"] {
            assert_eq!(written.parse::<Reference>().unwrap().check(&known), Ok(()), "{written}");
        }
    }
}
