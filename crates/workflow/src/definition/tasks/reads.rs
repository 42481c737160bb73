//! The values that tasks use: as they are written, and one by one. Pure.

use std::collections::BTreeSet;

use agent_worker_expressions::Expression;

use super::{TaskAction, TaskDefinition, TaskProcedure};
use crate::{
    definition::setup::SetupStep,
    template::{Template, expression, reference::Reference},
};

impl TaskProcedure {
    /// Returns every task, also those in groups and in `finally`, in the order of the file.
    pub fn walk(&self) -> impl Iterator<Item = &TaskDefinition> {
        self.tasks.iter().chain(&self.finally).flat_map(TaskDefinition::walk)
    }

    /// Returns the commands of all tasks.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &SetupStep> {
        self.walk().filter_map(TaskDefinition::command)
    }

    /// Returns the environment variables that the texts use, other than those of `env:`; a name may occur more than once.
    pub(crate) fn text_env_names(&self) -> impl Iterator<Item = &str> {
        let output = self.output.iter().flat_map(Template::references);
        let texts = self.walk().flat_map(TaskDefinition::text_references).chain(output);
        let expressions = self.walk().flat_map(TaskDefinition::expressions);
        texts.flat_map(Reference::env_names).chain(expressions.flat_map(expression::env_names))
    }
}

impl TaskDefinition {
    /// Returns the references in the texts of the task itself: its action, `env:`, `if` and `for_each`. An expression is
    /// one reference.
    pub fn references(&self) -> BTreeSet<Reference> {
        let texts = self.action_references().cloned();
        let expressions = self.expressions().map(|one| {
            expression::reference(one.clone()).unwrap_or(Reference::Expression(one.clone()))
        });
        texts.chain(expressions).collect()
    }

    /// Returns the values that these references need, also those in expressions. Some of them may not exist: a name that
    /// an expression declares itself is among them, because it may also be a value.
    pub fn reads(&self) -> BTreeSet<Reference> {
        self.references().iter().flat_map(Reference::values_read).collect()
    }

    /// Returns the references of the action, with those of `env:`.
    pub fn action_references(&self) -> impl Iterator<Item = &Reference> {
        let variables = self.command().into_iter().flat_map(SetupStep::env_references);
        self.text_references().into_iter().chain(variables)
    }

    fn command(&self) -> Option<&SetupStep> {
        match &self.action {
            TaskAction::Shell(shell) => Some(&shell.command),
            TaskAction::Send(_)
            | TaskAction::Ask(_)
            | TaskAction::Workflow(_)
            | TaskAction::Parallel(_)
            | TaskAction::Sequence(_) => None,
        }
    }

    /// Returns the references of the action, other than those of `env:`.
    fn text_references(&self) -> Vec<&Reference> {
        match &self.action {
            TaskAction::Shell(shell) => shell.command.shell.references().collect(),
            TaskAction::Send(message) => message.text.references().collect(),
            TaskAction::Ask(ask) => ask.question.references().collect(),
            TaskAction::Workflow(child) => {
                child.params.values().flat_map(Template::references).collect()
            }
            TaskAction::Parallel(_) | TaskAction::Sequence(_) => Vec::new(),
        }
    }

    /// Returns the values of the keys that take an expression.
    fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.condition.iter().chain(self.for_each.iter().map(|each| &each.items))
    }
}
