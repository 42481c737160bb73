//! `tools:` of an agent with direct access to a model, and the defaults of its permissions and its sandbox.
//!
//! The names are resolved here, so that a stored run keeps its tools in a later version.

use agent_worker_backends::{
    BUILTIN_TOOLS, BackendKind, BackendSpec, BuiltinEffect, BuiltinToolSpec, PermissionSupport,
    matching_builtin_tools, names_same_tool,
};
use agent_worker_protocol::{
    AgentSettings, ArgumentPattern, Backend, PermissionAction, Permissions, SandboxMode,
    SandboxNetwork, SandboxSettings, ToolPattern,
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
        diagnostics.add(foreign_tools(field, backend));
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

/// Creates the diagnostic for a backend that offers no built-in tools.
fn foreign_tools(field: &YamlField<'_>, backend: &BackendSpec) -> Diagnostic {
    let diagnostic = field.diagnostic("`tools` is for `backend: api`");
    let name = backend.name;
    match backend.permissions {
        PermissionSupport::PerTool | PermissionSupport::PerKind(_) => diagnostic
            .with_hint(format!("`{name}` has tools of its own; restrict them with `permissions`")),
        PermissionSupport::DefaultOnly { hint } => diagnostic.with_hint(format!(
            "`{name}` has tools of its own; restrict them with `permissions`: {hint}"
        )),
        PermissionSupport::Unsupported => diagnostic,
    }
}

fn read_entry(field: &YamlField<'_>) -> Result<Vec<&'static BuiltinToolSpec>, Diagnostic> {
    let text = field.literal_text()?;
    let found = matching_builtin_tools(text);
    if !found.is_empty() {
        return Ok(found);
    }
    if text.contains('/') {
        return Err(field.not_supported_yet(format_args!("the file of tools `{text}`")));
    }
    let names = || BUILTIN_TOOLS.iter().map(|row| row.name);
    let aliases = || BUILTIN_TOOLS.iter().flat_map(|row| row.aliases.iter().copied());
    let diagnostic = field.diagnostic(format!("there is no built-in tool `{text}`"));
    let hint = match nearest(text, names().chain(aliases())) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the built-in tools are {}", names().collect::<Vec<_>>().join(", ")),
    };
    Err(diagnostic.with_hint(hint))
}

/// Returns the tools of an agent without `tools:`: all that its rules may allow, and `fetch_url` only if the network is open or
/// a rule names it.
pub(crate) fn default_names(rules: &Permissions, network: &SandboxNetwork) -> Vec<String> {
    let is_named = |row: &BuiltinToolSpec, patterns: &[ToolPattern]| {
        patterns.iter().any(|pattern| names_same_tool(pattern.tool(), row.name))
    };
    let is_wanted =
        |row: &BuiltinToolSpec| is_named(row, &rules.allow) || is_named(row, &rules.ask);
    let is_refused = |row: &BuiltinToolSpec| {
        let mut all = rules.deny.iter().filter(|it| *it.argument() == ArgumentPattern::Any);
        all.any(|pattern| names_same_tool(pattern.tool(), row.name))
    };
    let is_offered = |row: &BuiltinToolSpec| match row.effect {
        _ if is_refused(row) => false,
        _ if is_wanted(row) => true,
        // They act on a command that another tool has started.
        BuiltinEffect::Follows => false,
        BuiltinEffect::Fetches if *network != SandboxNetwork::Open => false,
        BuiltinEffect::Fetches
        | BuiltinEffect::Reads
        | BuiltinEffect::Edits
        | BuiltinEffect::Runs => rules.default != Some(PermissionAction::Deny),
    };
    let has_commands =
        BUILTIN_TOOLS.iter().any(|row| row.effect == BuiltinEffect::Runs && is_offered(row));
    let follows = |row: &BuiltinToolSpec| {
        has_commands && row.effect == BuiltinEffect::Follows && !is_refused(row)
    };
    let offered = BUILTIN_TOOLS.iter().filter(|row| is_offered(row) || follows(row));
    offered.map(|row| row.name.to_owned()).collect()
}

/// Completes the settings of an agent with direct access to a model. Its tools have a sandbox unless the file says otherwise,
/// and with a sandbox they need no approval unless the file has rules.
pub(crate) fn complete(settings: &mut AgentSettings, keys: ToolKeys<'_>) {
    let Backend::Api(api) = &mut settings.backend else { return };
    let network = if keys.has_sandbox { &settings.sandbox.network } else { &SandboxNetwork::Off };
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
    let is_mocked = |name: &String| settings.mock_tools.iter().any(|tool| tool.name == *name);
    // Mock tools act on nothing.
    let acts_on_nothing = !settings.mock_tools.is_empty() && api.tools.iter().all(is_mocked);
    let is_safe = !settings.sandbox.is_off() || acts_on_nothing;
    if is_open && is_safe && settings.permissions.default.is_none() {
        settings.permissions.default = Some(PermissionAction::Allow);
    }
}

fn default_sandbox() -> SandboxSettings {
    SandboxSettings { mode: SandboxMode::On, ..SandboxSettings::default() }
}
