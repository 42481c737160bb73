//! `permissions:` section: calls that an agent may make alone, and calls that need an approval.

use agent_worker_backends::{
    BUILTIN_TOOLS, BackendKind, BackendSpec, PermissionSupport, available_backends, find_acp_agent,
    find_builtin_tool,
};
use agent_worker_protocol::{
    Keyword as _, OnAsk, PermissionAction, PermissionMode, Permissions, ToolPattern,
};

use crate::{
    agents::backend::one_of,
    diagnostics::{
        diagnostic::{Diagnostic, Diagnostics},
        spelling::nearest,
    },
    yaml::fields::{AllowedKeys, YamlField, YamlFields, YamlKey},
};

const PERMISSION_KEYS: AllowedKeys =
    AllowedKeys { known: &["default", "mode", "allow", "ask", "deny", "on_ask"], planned: &[] };
/// Keys that have a meaning only if the backend asks for each call.
const PER_CALL_KEYS: [&str; 5] = ["allow", "ask", "deny", "on_ask", "mode"];
/// Modes in the words of Claude Code, Gemini CLI and this program.
const MODES: [(&str, Option<PermissionMode>); 5] = [
    ("acceptEdits", Some(PermissionMode::AcceptEdits)),
    ("plan", Some(PermissionMode::Plan)),
    ("default", None),
    ("accept_edits", Some(PermissionMode::AcceptEdits)),
    ("auto_edit", Some(PermissionMode::AcceptEdits)),
];

/// The form of `permissions:` in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WrittenPermissions {
    Absent,
    /// An action for each tool, such as `{bash: ask}`, for agents with built-in tools.
    ByTool,
    Rules,
}

/// Returns the form of a section: the first key decides.
pub(crate) fn written_form(
    field: Option<&YamlField<'_>>,
    backend: Option<&BackendSpec>,
) -> WrittenPermissions {
    let Some(field) = field else { return WrittenPermissions::Absent };
    let first = field.named_entries().ok().and_then(|entries| entries.into_iter().next());
    match first {
        Some((key, _))
            if backend.is_some_and(|spec| spec.kind == BackendKind::Api)
                && !PERMISSION_KEYS.known.contains(&key.text) =>
        {
            WrittenPermissions::ByTool
        }
        Some(_) | None => WrittenPermissions::Rules,
    }
}

/// Reads the permissions of an agent in their form.
pub(crate) fn read_form(
    field: &YamlField<'_>,
    form: WrittenPermissions,
    backend: Option<&BackendSpec>,
    diagnostics: &mut Diagnostics,
) -> Permissions {
    match form {
        WrittenPermissions::ByTool => read_by_tool(field, diagnostics),
        WrittenPermissions::Absent | WrittenPermissions::Rules => read(field, backend, diagnostics),
    }
}

/// Reads the short form: an action for each tool.
fn read_by_tool(field: &YamlField<'_>, diagnostics: &mut Diagnostics) -> Permissions {
    let mut rules = Permissions::default();
    for (key, value) in diagnostics.ok_or_add(field.named_entries()).unwrap_or_default() {
        let pattern = diagnostics.ok_or_add(tool_key(&key));
        let action = diagnostics.ok_or_add(one_of(&value, &actions()));
        let (Some(pattern), Some(action)) = (pattern, action) else { continue };
        match action {
            PermissionAction::Allow => rules.allow.push(pattern),
            PermissionAction::Ask => rules.ask.push(pattern),
            PermissionAction::Deny => rules.deny.push(pattern),
        }
    }
    rules
}

fn tool_key(key: &YamlKey<'_>) -> Result<ToolPattern, Diagnostic> {
    let text = key.text;
    if PERMISSION_KEYS.known.contains(&text) {
        let message = format!("`{text}` cannot stand next to an action for a tool");
        let hint = "write `ask: [bash]` instead of `bash: ask`";
        return Err(key.diagnostic(message).with_hint(hint));
    }
    let pattern: ToolPattern =
        text.parse().map_err(|bad| key.diagnostic(format!("`{text}`: {bad}")))?;
    check_builtin_name(&pattern).map_err(|hint| {
        let message = format!("there is no built-in tool `{}`", pattern.tool());
        key.diagnostic(message).with_hint(hint)
    })?;
    Ok(pattern)
}

/// Refuses a rule about no built-in tool, which would have no effect. The error is a hint.
fn check_builtin_name(pattern: &ToolPattern) -> Result<(), String> {
    if find_builtin_tool(pattern.tool()).is_some() {
        return Ok(());
    }
    let names = || BUILTIN_TOOLS.iter().map(|row| row.name);
    Err(match nearest(pattern.tool(), names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the built-in tools are {}", names().collect::<Vec<_>>().join(", ")),
    })
}

fn actions() -> [(&'static str, PermissionAction); 3] {
    [PermissionAction::Allow, PermissionAction::Ask, PermissionAction::Deny]
        .map(|it| (it.word(), it))
}

/// Reads the permissions of an agent, as far as its backend supports them. An unknown backend has its own diagnostic.
fn read(
    field: &YamlField<'_>,
    backend: Option<&BackendSpec>,
    diagnostics: &mut Diagnostics,
) -> Permissions {
    let Some(fields) = field.fields(&PERMISSION_KEYS, diagnostics) else {
        return Permissions::default();
    };
    if let Some(backend) = backend {
        check_backend_support(field, &fields, backend, diagnostics);
    }
    let default = fields.read_with("default", diagnostics, |field| one_of(field, &actions()));
    let on_ask = fields.read_with("on_ask", diagnostics, |field| {
        one_of(field, &[OnAsk::Wait, OnAsk::Deny, OnAsk::Fail].map(|it| (it.word(), it)))
    });
    let mode = fields.read_with("mode", diagnostics, |field| {
        let mode = one_of(field, &MODES)?;
        check_mode(field, mode, backend)?;
        Ok(mode)
    });
    let mut patterns = |name: &str| {
        let field = fields.get(name);
        field.map(|field| patterns(&field, backend, diagnostics)).unwrap_or_default()
    };
    let (allow, ask, deny) = (patterns("allow"), patterns("ask"), patterns("deny"));
    Permissions {
        default,
        allow,
        ask,
        deny,
        on_ask: on_ask.unwrap_or_default(),
        mode: mode.flatten(),
    }
}

/// Refuses a mode that the backend would not keep: an ACP agent may change files without asking.
fn check_mode(
    field: &YamlField<'_>,
    mode: Option<PermissionMode>,
    backend: Option<&BackendSpec>,
) -> Result<(), Diagnostic> {
    match (mode, backend) {
        (Some(PermissionMode::Plan), Some(spec)) if spec.kind == BackendKind::Acp => {
            let message = format!(
                "with `{}` an agent may act without asking, so that `plan` cannot be kept",
                spec.name
            );
            Err(field.diagnostic(message).with_hint("use `backend: claude` or `backend: codex`"))
        }
        (Some(PermissionMode::Plan | PermissionMode::AcceptEdits) | None, _) => Ok(()),
    }
}

/// Reports rules that the backend would not keep.
fn check_backend_support(
    field: &YamlField<'_>,
    fields: &YamlFields<'_>,
    backend: &BackendSpec,
    diagnostics: &mut Diagnostics,
) {
    let name = backend.name;
    match backend.permissions {
        PermissionSupport::PerTool | PermissionSupport::PerKind(_) => {}
        PermissionSupport::DefaultOnly { hint } => {
            for field in PER_CALL_KEYS.iter().filter_map(|name| fields.get(name)) {
                let message = format!("`{name}` does not ask for permission per call");
                diagnostics.add(field.diagnostic(message).with_hint(hint));
            }
            if let Some(field) = fields.get("default").filter(is_ask) {
                let message = format!("`{name}` cannot ask for approval during a turn");
                let hint = asking_hint(name).unwrap_or_else(|| hint.to_owned());
                diagnostics.add(field.diagnostic(message).with_hint(hint));
            }
        }
        PermissionSupport::Unsupported => {
            let message = format!("`{name}` does not support `permissions`");
            let hint = asking_hint(name).unwrap_or_else(support_hint);
            diagnostics.add(field.diagnostic(message).with_hint(hint));
        }
    }
}

/// Returns the settings with which the same program can ask for approval.
fn asking_hint(name: &str) -> Option<String> {
    find_acp_agent(name)
        .map(|agent| format!("to be asked, use `backend: acp, agent: {}`", agent.name))
}

/// Returns true for the word `ask`. A value that is no text has its own diagnostic.
fn is_ask(field: &YamlField<'_>) -> bool {
    field.literal_text().is_ok_and(|text| text == PermissionAction::Ask.word())
}

/// Lists the backends that keep permissions.
fn support_hint() -> String {
    let names = |is_it: fn(PermissionSupport) -> bool| {
        let rows = available_backends().filter(|spec| is_it(spec.permissions));
        let names: Vec<_> = rows.map(|spec| format!("`{}`", spec.name)).collect();
        match names.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            Some(_) | None => names.concat(),
        }
    };
    format!(
        "supported by {}; only `default` by {}",
        names(|it| matches!(it, PermissionSupport::PerTool | PermissionSupport::PerKind(_))),
        names(|it| matches!(it, PermissionSupport::DefaultOnly { .. }))
    )
}

fn patterns(
    field: &YamlField<'_>,
    backend: Option<&BackendSpec>,
    diagnostics: &mut Diagnostics,
) -> Vec<ToolPattern> {
    let mut patterns = Vec::new();
    for item in diagnostics.ok_or_add(field.list()).unwrap_or_default() {
        if diagnostics.is_full() {
            break;
        }
        patterns.extend(diagnostics.ok_or_add(pattern(&item, backend)));
    }
    patterns
}

fn pattern(
    field: &YamlField<'_>,
    backend: Option<&BackendSpec>,
) -> Result<ToolPattern, Diagnostic> {
    let text = field.literal_text()?;
    let pattern: ToolPattern =
        text.parse().map_err(|bad| field.diagnostic(format!("`{text}`: {bad}")))?;
    if backend.is_some_and(|spec| spec.kind == BackendKind::Api) {
        check_builtin_name(&pattern).map_err(|hint| {
            let message = format!("there is no built-in tool `{}`", pattern.tool());
            field.diagnostic(message).with_hint(hint)
        })?;
    }
    match backend.map(|spec| (spec.name, spec.permissions)) {
        // A pattern that fits no call would have no effect.
        Some((name, PermissionSupport::PerKind(kinds))) if !kinds.contains(&pattern.tool()) => {
            let tool = pattern.tool();
            let message =
                format!("with `{name}` a rule must name a kind of call, and `{tool}` is not one");
            let hint = format!("kinds are {}", kinds.join(", "));
            Err(field.diagnostic(message).with_hint(hint))
        }
        _ => Ok(pattern),
    }
}
