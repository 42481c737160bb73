//! Values of references: parameters, environment, names and outputs of setup steps.

use std::collections::BTreeMap;

use crate::{error::Error, template::reference::Reference};

/// Values by name. [`crate::Workflow::scope`] creates them; each setup step adds its output when it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateScope {
    values: BTreeMap<Reference, String>,
}

impl TemplateScope {
    /// Adds the output of the setup step with the name `name` (`as:`).
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
