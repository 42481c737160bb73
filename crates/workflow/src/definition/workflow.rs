//! A workflow that has been read and checked. The daemon stores it with the run, because the file may change
//! meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use agent_worker_backends::backend_variables;
use agent_worker_protocol::{
    AgentName, AgentSettings, BASE_ENV, DocumentPath, HistoryMode, NotifySettings, Tag,
    WorkflowName,
};
use serde::{Deserialize, Serialize};

use crate::{
    definition::{
        answers::AnswerHandling, context::WorkflowContext, gates::GateSettings,
        limits::LimitSettings, param_value, params::Param, setup::SetupStep, tasks::TaskProcedure,
    },
    diagnostics::report::Mistake,
    error::Error,
    template::Template,
    template::{reference::Reference, scope::TemplateScope},
};

/// Whole workflow file after the checks: every name is known, every default is filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workflow {
    /// Name of the workflow; by default the name of the file.
    pub name: WorkflowName,
    /// Parameters that the user may or must give.
    pub params: Vec<Param>,
    /// Agents of the team in the order of the file; at least one if there are no tasks.
    pub agents: Vec<AgentSettings>,
    /// Channel and documents that the agents share.
    pub context: WorkflowContext,
    /// Commands that run before any agent is woken, in order.
    pub setup: Vec<SetupStep>,
    /// First message of a run.
    pub kickoff: Option<Template>,
    /// Treatment of the final answers of the agents.
    #[serde(default, skip_serializing_if = "AnswerHandling::is_default")]
    pub answers: AnswerHandling,
    /// Agent that may set the verdict of a run (`finisher:`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finisher: Option<AgentName>,
    /// Limits that the file sets.
    pub limits: LimitSettings,
    /// Notifications that the file sets.
    #[serde(default, skip_serializing_if = "NotifySettings::is_empty")]
    pub notify: NotifySettings,
    /// Voters and rules of the gates that the file fixes, by the name of the gate.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gates: BTreeMap<String, GateSettings>,
    /// Mode in which the texts of turns are kept (`history:`).
    #[serde(default, skip_serializing_if = "HistoryMode::is_default")]
    pub history: HistoryMode,
    /// Procedure of a run (`tasks:`, `finally:`, `output:`).
    #[serde(default, skip_serializing_if = "TaskProcedure::is_empty")]
    pub tasks: TaskProcedure,
    /// Environment variables that the file mentions and the caller must send.
    pub env_names: BTreeSet<String>,
    /// Parts of the file, or of a file that it uses, without an effect. They are not stored with the run.
    #[serde(skip)]
    pub warnings: Vec<Mistake>,
}

impl Workflow {
    /// Collects the initial values of a run, and refuses a run that would lack one later. `folder` is the folder of
    /// the file.
    pub fn scope(
        &self,
        params: &BTreeMap<String, String>,
        env: &BTreeMap<String, String>,
        tag: &Tag,
        folder: &Path,
    ) -> Result<TemplateScope, Error> {
        let problems = param_value::problems(&self.params, params);
        if !problems.is_empty() {
            return Err(Error::Params { problems });
        }
        let mut scope = TemplateScope::default();
        for param in &self.params {
            let value =
                params.get(&param.name).map_or_else(|| param.value_by_default(), String::as_str);
            let value = param.value_type.scope_value(value);
            scope.insert_value(Reference::Param(param.name.clone()), value);
        }
        for name in self.env_references() {
            let value = env.get(name).ok_or_else(|| Error::UnsetEnv { name: name.to_owned() })?;
            scope.set(Reference::Env(name.to_owned()), value);
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

    /// Returns true if the file itself names an environment variable: in a reference, or in an agent's `env:`. The
    /// variables of a backend are not named by the file.
    pub fn declares_env(&self, name: &str) -> bool {
        self.env_references().any(|one| one == name)
            || self.agents.iter().any(|agent| agent.env.iter().any(|one| one == name))
    }

    /// Returns the environment of a command of `setup` or of a task: the run's without the variables that only `env:` of
    /// a command refers to, and those of its own `env:`.
    pub fn setup_env(
        &self,
        step: &SetupStep,
        mut run_env: BTreeMap<String, String>,
        scope: &TemplateScope,
    ) -> Result<BTreeMap<String, String>, Error> {
        for name in self.variable_references() {
            if !BASE_ENV.contains(&name) && !self.mentions_env(name) {
                run_env.remove(name);
            }
        }
        run_env.extend(step.variables(scope)?);
        Ok(run_env)
    }

    /// Returns true if a text or an agent of the file needs an environment variable.
    fn mentions_env(&self, name: &str) -> bool {
        let of_agent = |agent: &AgentSettings| {
            agent.env.iter().any(|one| one == name)
                || backend_variables(&agent.backend).any(|one| *one == *name)
        };
        self.text_references().any(|one| one == name) || self.agents.iter().any(of_agent)
    }

    /// Returns the environment variables to which the workflow refers; a name may occur more than once.
    pub(crate) fn env_references(&self) -> impl Iterator<Item = &str> {
        self.text_references().chain(self.variable_references())
    }

    /// Returns the environment variables to which texts refer, other than those of `env:`.
    fn text_references(&self) -> impl Iterator<Item = &str> {
        let kickoff = self.kickoff.iter().flat_map(Template::references);
        let scripts = self.setup.iter().flat_map(|step| step.shell.references());
        let texts = scripts.chain(kickoff).flat_map(Reference::env_names);
        texts.chain(self.tasks.text_env_names())
    }

    /// Returns the environment variables to which `env:` of the commands refers.
    fn variable_references(&self) -> impl Iterator<Item = &str> {
        let steps = self.setup.iter().chain(self.tasks.commands());
        steps.flat_map(SetupStep::env_references).flat_map(Reference::env_names)
    }
}
