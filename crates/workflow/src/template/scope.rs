//! The values that references stand for: parameters, environment, names, what setup steps printed.

use std::collections::BTreeMap;

use crate::{error::Error, template::reference::Reference};

/// Values by name. Made by [`crate::Workflow::scope`]; setup steps add theirs as they end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateScope {
    values: BTreeMap<Reference, String>,
}

impl TemplateScope {
    /// Adds what the setup step called `name` (`as:`) printed.
    pub fn insert_output(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.set(Reference::Output(name.into()), value);
    }

    pub(crate) fn set(&mut self, reference: Reference, value: impl Into<String>) {
        self.values.insert(reference, value.into());
    }

    pub(crate) fn value(&self, reference: &Reference) -> Result<&str, Error> {
        match self.values.get(reference) {
            Some(value) => Ok(value),
            None => Err(Error::NoValue { reference: reference.clone() }),
        }
    }
}
