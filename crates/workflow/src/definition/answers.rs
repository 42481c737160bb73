//! `answers:` key: the treatment of the final answers of the agents.

use serde::{Deserialize, Serialize};

use crate::{
    definition::context::{Provider, WorkflowContext},
    diagnostics::diagnostic::Diagnostic,
    yaml::fields::YamlField,
};

/// Treatment of an agent's final answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerHandling {
    /// The answer is delivered to the agents to which it hands work.
    #[default]
    Deliver,
    /// The answer is kept in the channel and wakes no agent.
    Record,
}

impl AnswerHandling {
    /// Returns true for the default, which serialization omits.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serialization passes a reference")]
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Reads the key. Agents that share nothing do not get each other's answers.
pub(crate) fn read(
    field: &YamlField<'_>,
    context: &WorkflowContext,
) -> Result<AnswerHandling, Diagnostic> {
    let words = [("deliver", AnswerHandling::Deliver), ("record", AnswerHandling::Record)];
    match (field.one_of(&words, &[])?, context.provider) {
        (AnswerHandling::Deliver, Provider::Off) => Err(field
            .diagnostic("with `context: false` no answer is delivered")
            .with_hint("leave out `answers`, or write `answers: record`")),
        (handling, _) => Ok(handling),
    }
}
