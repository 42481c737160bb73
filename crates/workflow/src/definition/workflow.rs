//! A workflow that has been read and checked. The daemon keeps it with the run; the file may
//! change meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use agent_worker_protocol::{AgentSettings, DocumentPath, Tag, WorkflowName};
use serde::{Deserialize, Serialize};

use crate::{
    definition::{
        context::WorkflowContext, limits::LimitSettings, params::Param, setup::SetupStep,
    },
    diagnostics::spelling::nearest,
    error::Error,
    template::Template,
    template::{reference::Reference, scope::TemplateScope},
};

/// A whole workflow file, checked: every name is known, every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    /// Its name; the file's, if it has none of its own.
    pub name: WorkflowName,
    /// What the user may or must give.
    pub params: Vec<Param>,
    /// Who takes part, in the order of the file. At least one.
    pub agents: Vec<AgentSettings>,
    /// What they share.
    pub context: WorkflowContext,
    /// Commands that run before anybody is woken, in order.
    pub setup: Vec<SetupStep>,
    /// The first message.
    pub kickoff: Option<Template>,
    /// Where a run stops by itself.
    pub limits: LimitSettings,
    /// Every environment variable the file mentions: what the caller has to send.
    pub env_names: BTreeSet<String>,
}

impl Workflow {
    /// Gathers the values a run begins with, and refuses a run that would lack one later. `folder` is the file's.
    pub fn scope(
        &self,
        params: &BTreeMap<String, String>,
        env: &BTreeMap<String, String>,
        tag: &Tag,
        folder: &Path,
    ) -> Result<TemplateScope, Error> {
        if let Some(name) = params.keys().find(|name| !self.has_param(name)) {
            return Err(self.unknown_param(name));
        }
        let mut scope = TemplateScope::default();
        for param in &self.params {
            let value = match (params.get(&param.name), &param.default, param.required) {
                (Some(value), _, _) => value,
                (None, _, true) => return Err(Error::MissingParam { name: param.name.clone() }),
                (None, Some(default), false) => default,
                (None, None, false) => "",
            };
            scope.set(Reference::Param(param.name.clone()), value);
        }
        for reference in self.references() {
            if let Reference::Env(name) = reference {
                let value = env.get(name).ok_or_else(|| Error::UnsetEnv { name: name.clone() })?;
                scope.set(reference.clone(), value);
            }
        }
        scope.set(Reference::WorkflowName, self.name.as_str());
        scope.set(Reference::Tag, tag.as_str());
        let layout = &self.context.layout;
        let file = |beneath: Vec<String>, path: &DocumentPath| {
            let folder = folder.join(beneath.iter().collect::<PathBuf>());
            folder.join(path.as_str()).to_string_lossy().into_owned()
        };
        let (channel, documents) =
            (layout.folder(&self.name, tag), layout.document_folder(&self.name, tag));
        scope.set(Reference::ChannelFile, file(channel, &layout.channel));
        scope.set(Reference::DocumentFile, file(documents, &layout.document));
        Ok(scope)
    }

    /// Everything that is filled in somewhere.
    pub(crate) fn references(&self) -> impl Iterator<Item = &Reference> {
        let kickoff = self.kickoff.iter().flat_map(Template::references);
        self.setup.iter().flat_map(|step| step.shell.references()).chain(kickoff)
    }

    fn has_param(&self, name: &str) -> bool {
        self.params.iter().any(|param| param.name == name)
    }

    fn unknown_param(&self, name: &str) -> Error {
        let names: Vec<&str> = self.params.iter().map(|param| param.name.as_str()).collect();
        let hint = match (nearest(name, names.iter().copied()), names.is_empty()) {
            (Some(near), _) => format!("did you mean `--{near}`?"),
            (None, false) => format!("it has: {}", names.join(", ")),
            (None, true) => "it takes no parameters".to_owned(),
        };
        Error::UnknownParam { name: name.to_owned(), hint }
    }
}
