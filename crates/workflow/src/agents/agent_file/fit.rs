//! Fits the settings of an agent file to the backend of an agent. Keys of the workflow file have priority.

use agent_worker_backends::{BackendSpec, CapabilitySupport, PermissionSupport};
use agent_worker_protocol::{AgentSettings, Backend, Effort, Keyword as _};

use super::{
    AgentFile, at_use,
    file_keys::FileValue,
    tools::{FileTools, ProgramAccess, ToolsTranslation, keeping_settings},
};
use crate::{
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    yaml::fields::YamlFields,
};

impl AgentFile<'_> {
    /// Fills the settings that the workflow file leaves open.
    pub(crate) fn fill(
        self,
        settings: &mut AgentSettings,
        spec: &BackendSpec,
        fields: &YamlFields<'_>,
        diagnostics: &mut Diagnostics,
    ) {
        let access = self.access(&settings.backend);
        let is_open = |key: &str| fields.get(key).is_none();
        let file = &self.settings;
        if is_open("system_prompt") {
            settings.system_prompt.clone_from(&file.prompt);
        }
        if let Some(model) = file.model.as_ref().filter(|_| is_open("model")) {
            match access {
                ProgramAccess::Native | ProgramAccess::Acp => {
                    settings.model = Some(model.value.clone());
                }
                ProgramAccess::Api | ProgramAccess::Other => {
                    self.warn(model, spec, diagnostics);
                }
            }
        }
        if let Some(effort) = file.effort.as_ref().filter(|_| is_open("effort")) {
            settings.effort = find_effort(spec, &effort.value);
            if settings.effort.is_none() {
                self.warn(effort, spec, diagnostics);
            }
        }
        if let Some(steps) = file.max_steps.as_ref().filter(|_| is_open("max_steps")) {
            if spec.can.max_steps == CapabilitySupport::No {
                self.warn(steps, spec, diagnostics);
            } else {
                settings.max_steps = Some(steps.value);
            }
        }
        if let Some(timeout) = file.timeout.as_ref().filter(|_| is_open("timeout")) {
            settings.timeout = timeout.value;
        }
        if let Some(tools) = &file.tools {
            self.fill_permissions(tools, (settings, spec, access), diagnostics);
        }
    }

    /// Returns the way in which a backend runs the program of the file.
    fn access(&self, backend: &Backend) -> ProgramAccess {
        let word = self.format.word();
        match backend {
            Backend::Native(native) if native.cli.word() == word => ProgramAccess::Native,
            Backend::Acp(acp) if acp.agent.as_ref().is_some_and(|it| it.word() == word) => {
                ProgramAccess::Acp
            }
            Backend::Api(_) => ProgramAccess::Api,
            Backend::Native(_)
            | Backend::Acp(_)
            | Backend::Command { .. }
            | Backend::Mock { .. } => ProgramAccess::Other,
        }
    }

    fn fill_permissions(
        &self,
        tools: &FileValue<FileTools>,
        (settings, spec, access): (&mut AgentSettings, &BackendSpec, ProgramAccess),
        diagnostics: &mut Diagnostics,
    ) {
        match tools.value.translate(access) {
            ToolsTranslation::Rules(rules) => settings.permissions = rules,
            ToolsTranslation::KindRules(rules) => {
                settings.permissions = rules;
                let what = format!("over ACP `{}` becomes rules for kinds of calls", tools.key);
                let hint =
                    "calls that the agent does not ask about, such as reading, stay possible";
                diagnostics.warn(self.place(tools.diagnostic(what).with_hint(hint)));
            }
            ToolsTranslation::NoEffect => self.warn(tools, spec, diagnostics),
            ToolsTranslation::Lost => {
                let what = format!("backend `{}` cannot keep `{}`", spec.name, tools.key);
                let replacing = match spec.permissions {
                    PermissionSupport::PerTool
                    | PermissionSupport::PerKind(_)
                    | PermissionSupport::DefaultOnly { .. } => {
                        "write `permissions:` in the workflow file, which replaces it".to_owned()
                    }
                    PermissionSupport::Unsupported => {
                        format!("remove `{}` from the agent file", tools.key)
                    }
                };
                let hint = match keeping_settings(self.format, access) {
                    Some(keeping) => format!("use {keeping}, or {replacing}"),
                    None => replacing,
                };
                diagnostics.add(self.place(tools.diagnostic(what).with_hint(hint)));
            }
        }
    }

    /// Warns that the backend has no setting for a value.
    fn warn<T>(&self, value: &FileValue<T>, spec: &BackendSpec, diagnostics: &mut Diagnostics) {
        let message = format!("`{}` has no effect with backend `{}`", value.key, spec.name);
        let hint = format!("it is a setting of {}", self.format.program());
        diagnostics.warn(self.place(value.diagnostic(message).with_hint(hint)));
    }

    fn place(&self, diagnostic: Diagnostic) -> Diagnostic {
        at_use(&self.field, self.path, &self.lines, diagnostic)
    }
}

/// Returns the effort of a word that the backend can select.
fn find_effort(spec: &BackendSpec, word: &str) -> Option<Effort> {
    spec.efforts.iter().copied().find(|effort| effort.word() == word)
}
