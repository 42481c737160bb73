//! `tools:` of an agent with direct access to a model, and the defaults of its permissions and its sandbox.
//!
//! The names are resolved here, so that a stored run keeps its tools in a later version.

use agent_worker_backends::{
    BUILTIN_TOOLS, BackendKind, BackendSpec, BuiltinEffect, BuiltinToolSpec,
    matching_builtin_tools, names_same_tool,
};
use agent_worker_protocol::{
    AgentSettings, Backend, PermissionAction, Permissions, SandboxMode, SandboxNetwork,
    SandboxSettings,
};

use crate::{
    agents::permissions::WrittenPermissions,
    diagnostics::{
        diagnostic::{Diagnostic, Diagnostics},
        spelling::nearest,
    },
    yaml::fields::YamlField,
};

/// The keys of an agent that its tools depend on.
#[derive(Clone, Copy)]
pub(crate) struct ToolKeys<'a> {
    /// Names of `tools:`; none without that key.
    pub(crate) tools: Option<&'a [String]>,
    pub(crate) permissions: WrittenPermissions,
    pub(crate) has_sandbox: bool,
}

/// Reads `tools:`: names, names of Claude Code, and patterns with `*`.
pub(crate) fn read(
    field: &YamlField<'_>,
    backend: Option<&BackendSpec>,
    diagnostics: &mut Diagnostics,
) -> Vec<String> {
    if let Some(backend) = backend.filter(|spec| spec.kind != BackendKind::Api) {
        let message =
            format!("`tools` is for `backend: api`; `{}` has tools of its own", backend.name);
        let hint = "restrict them with `permissions`, such as `permissions: {deny: [Bash]}`";
        diagnostics.add(field.diagnostic(message).with_hint(hint));
        return Vec::new();
    }
    let mut names = Vec::new();
    for item in diagnostics.ok_or_add(field.list()).unwrap_or_default() {
        for row in diagnostics.ok_or_add(read_entry(&item)).unwrap_or_default() {
            if !names.iter().any(|name| name == row.name) {
                names.push(row.name.to_owned());
            }
        }
    }
    names
}

fn read_entry(field: &YamlField<'_>) -> Result<Vec<&'static BuiltinToolSpec>, Diagnostic> {
    let text = field.literal_text()?;
    let found = matching_builtin_tools(text);
    if !found.is_empty() {
        return Ok(found);
    }
    let names = || BUILTIN_TOOLS.iter().map(|row| row.name);
    let aliases = || BUILTIN_TOOLS.iter().flat_map(|row| row.aliases.iter().copied());
    let diagnostic = field.diagnostic(format!("there is no built-in tool `{text}`"));
    Err(match nearest(text, names().chain(aliases())) {
        Some(near) => diagnostic.with_hint(format!("did you mean `{near}`?")),
        None => {
            let names: Vec<_> = names().collect();
            diagnostic.with_hint(format!("the built-in tools are {}", names.join(", ")))
        }
    })
}

/// Returns the tools of an agent without `tools:`: all, but `fetch_url` only if the network or a rule allows it.
pub(crate) fn default_names(rules: &Permissions, network: SandboxNetwork) -> Vec<String> {
    let patterns = || rules.allow.iter().chain(&rules.ask);
    let is_offered = |row: &&BuiltinToolSpec| {
        row.effect != BuiltinEffect::Fetches
            || network == SandboxNetwork::Open
            || patterns().any(|pattern| names_same_tool(pattern.tool(), row.name))
    };
    BUILTIN_TOOLS.iter().filter(is_offered).map(|row| row.name.to_owned()).collect()
}

/// Completes the settings of an agent with direct access to a model. Its tools have a sandbox unless the file says otherwise,
/// and with a sandbox they need no approval unless the file has rules.
pub(crate) fn complete(settings: &mut AgentSettings, keys: ToolKeys<'_>) {
    let Backend::Api(api) = &mut settings.backend else { return };
    let network = if keys.has_sandbox { settings.sandbox.network } else { SandboxNetwork::Off };
    api.tools = match keys.tools {
        Some(names) => names.to_vec(),
        None => default_names(&settings.permissions, network),
    };
    if !keys.has_sandbox && !api.tools.is_empty() {
        settings.sandbox = default_sandbox();
    }
    let is_open = match keys.permissions {
        WrittenPermissions::Absent | WrittenPermissions::ByTool => true,
        WrittenPermissions::Rules => false,
    };
    if is_open && !settings.sandbox.is_off() && settings.permissions.default.is_none() {
        settings.permissions.default = Some(PermissionAction::Allow);
    }
}

fn default_sandbox() -> SandboxSettings {
    SandboxSettings { mode: SandboxMode::On, ..SandboxSettings::default() }
}
