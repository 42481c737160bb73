//! Values of references: parameters, environment, names, outputs of setup steps and tasks, results of expressions.

use std::collections::{BTreeMap, BTreeSet};

use agent_worker_expressions::{Expression, NameMention, ValueContent};

use crate::{
    error::Error,
    template::{
        expression,
        reference::{Reference, TaskFact},
    },
};

/// Values by name. [`crate::Workflow::scope`] creates them; each setup step and each task adds its output when it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateScope {
    values: BTreeMap<Reference, ScopeValue>,
}

/// Value with its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScopeValue {
    /// Text, which is never parsed.
    Text(String),
    /// Compact JSON; as text it is the same.
    Json(String),
    /// Number, as it was given and as JSON writes it.
    Number {
        /// Text as it was given.
        written: String,
        /// The same number as JSON.
        json: String,
    },
    /// `null` in expressions, empty as text: the output of a task that was skipped.
    Null,
}

/// Value of one name of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeBinding<'s> {
    /// Name with its members, as [`agent_worker_expressions::NamedValue`] takes it.
    pub path: Vec<String>,
    /// Content of the value.
    pub content: ValueContent<'s>,
}

impl ScopeValue {
    /// Returns the value for a place in a text or in a script.
    pub fn as_text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Json(text) | Self::Number { written: text, .. } => text,
            Self::Null => "",
        }
    }

    /// Returns the value for an expression.
    pub fn content(&self) -> ValueContent<'_> {
        match self {
            Self::Text(text) => ValueContent::Text(text),
            Self::Json(json) | Self::Number { json, .. } => ValueContent::Json(json),
            Self::Null => ValueContent::Json("null"),
        }
    }
}

impl TemplateScope {
    /// Adds the output of the setup step with the name `name` (`as:`).
    pub fn insert_output(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.set(Reference::Output(name.into()), value);
    }

    /// Adds the output of the task with this output name (`as:`).
    pub fn insert_task_output(&mut self, name: impl Into<String>, value: ScopeValue) {
        self.values.insert(Reference::Output(name.into()), value);
    }

    /// Adds a fact about the task with this name.
    pub fn insert_task_fact(&mut self, name: impl Into<String>, fact: TaskFact, value: ScopeValue) {
        self.values.insert(Reference::Task { name: name.into(), fact }, value);
    }

    /// Sets the item of a task with `for_each`, and its position from 0.
    pub fn set_item(&mut self, item: ScopeValue, index: usize) {
        let written = index.to_string();
        let index = ScopeValue::Number { json: written.clone(), written };
        self.values.insert(Reference::Item, item);
        self.values.insert(Reference::ItemIndex, index);
    }

    /// Adds the result of an expression, so that texts with the expression can be interpolated.
    pub fn insert_result(&mut self, expression: &Expression, text: impl Into<String>) {
        self.set(Reference::Expression(expression.clone()), text);
    }

    /// Returns the values that an expression may read, each once.
    pub fn bindings(&self, expression: &Expression) -> Result<Vec<ScopeBinding<'_>>, Error> {
        let references: BTreeSet<Reference> = expression::references(expression).collect();
        let is_local = |reference: &Reference| {
            let mut mentions = expression.mentions().iter();
            mentions.any(|mention: &NameMention| {
                mention.is_local && expression::mentioned(mention).ok().as_ref() == Some(reference)
            })
        };
        let mut bound = Vec::new();
        for reference in references {
            let Some(value) = self.values.get(&reference) else {
                // The name may be one that only the expression declares.
                if is_local(&reference) {
                    continue;
                }
                return Err(Error::NoValue { reference });
            };
            for path in binding_paths(&reference) {
                bound.push(ScopeBinding { path, content: value.content() });
            }
        }
        Ok(bound)
    }

    pub(crate) fn set(&mut self, reference: Reference, value: impl Into<String>) {
        self.values.insert(reference, ScopeValue::Text(value.into()));
    }

    /// Adds the value of a reference.
    pub fn insert_value(&mut self, reference: Reference, value: ScopeValue) {
        self.values.insert(reference, value);
    }

    /// Returns the value of a reference as text.
    pub(crate) fn value(&self, reference: &Reference) -> Result<&str, Error> {
        self.typed_value(reference).map(ScopeValue::as_text)
    }

    /// Returns the value of a reference: the whole of a plain name costs no evaluation.
    pub fn typed_value(&self, reference: &Reference) -> Result<&ScopeValue, Error> {
        match self.values.get(reference) {
            Some(value) => Ok(value),
            None => Err(Error::NoValue { reference: reference.clone() }),
        }
    }
}

/// Returns the names under which an expression finds a value.
fn binding_paths(reference: &Reference) -> Vec<Vec<String>> {
    let paths: &[&str] = match reference {
        Reference::Tag => &["workflow.tag", "workflow.instance", "instance"],
        Reference::Output(_)
        | Reference::Param(_)
        | Reference::Env(_)
        | Reference::WorkflowName
        | Reference::ChannelFile
        | Reference::DocumentFile
        | Reference::Task { .. }
        | Reference::Item
        | Reference::ItemIndex
        | Reference::Expression(_) => &[],
    };
    let split = |path: &str| path.split('.').map(str::to_owned).collect();
    match paths {
        [] => vec![split(&reference.to_string())],
        paths => paths.iter().copied().map(split).collect(),
    }
}
