//! `permissions:` what an agent may do by itself, and what it asks for.

use agent_worker_protocol::{
    Acp, Backend, OnAsk, PermissionAction, Permissions, ToolPattern, VendorCli,
};

use crate::{
    agents::backend::one_of,
    diagnostics::diagnostic::{Diagnostic, Diagnostics},
    yaml::fields::{AllowedKeys, YamlField, YamlFields},
};

const PERMISSION_KEYS: AllowedKeys =
    AllowedKeys { known: &["default", "allow", "ask", "deny", "on_ask"], planned: &[] };
/// What means something only where every call is asked for.
const PER_CALL_KEYS: [&str; 4] = ["allow", "ask", "deny", "on_ask"];

/// Reads what an agent may do, as far as its backend lets us say so.
pub(crate) fn read(
    field: &YamlField<'_>,
    backend: &Backend,
    diagnostics: &mut Diagnostics,
) -> Permissions {
    let Some(fields) = field.fields(&PERMISSION_KEYS, diagnostics) else {
        return Permissions::default();
    };
    check_backend_support(field, &fields, backend, diagnostics);
    let default = fields.read_with("default", diagnostics, |field| {
        one_of(
            field,
            &[PermissionAction::Allow, PermissionAction::Ask, PermissionAction::Deny]
                .map(|it| (it.word(), it)),
        )
    });
    let on_ask = fields.read_with("on_ask", diagnostics, |field| {
        one_of(field, &[OnAsk::Wait, OnAsk::Deny, OnAsk::Fail].map(|it| (it.word(), it)))
    });
    let mut patterns = |name: &str| {
        let field = fields.get(name);
        field.map(|field| patterns(&field, backend, diagnostics)).unwrap_or_default()
    };
    let (allow, ask, deny) = (patterns("allow"), patterns("ask"), patterns("deny"));
    let (default, on_ask) = (default.unwrap_or_default(), on_ask.unwrap_or_default());
    Permissions { default, allow, ask, deny, on_ask }
}

/// Complains of rules that nobody would keep.
fn check_backend_support(
    field: &YamlField<'_>,
    fields: &YamlFields<'_>,
    backend: &Backend,
    diagnostics: &mut Diagnostics,
) {
    match backend {
        Backend::Native(native) if native.cli == VendorCli::Claude => {}
        Backend::Acp(_) => {}
        Backend::Native(native) if native.cli == VendorCli::Codex => {
            for field in PER_CALL_KEYS.iter().filter_map(|name| fields.get(name)) {
                diagnostics.add(
                    field.diagnostic("`codex` asks for nothing call by call").with_hint(
                        "`default: allow` lets it write in its folder, else it only reads",
                    ),
                );
            }
        }
        Backend::Native(native)
            if [VendorCli::Opencode, VendorCli::Cursor].contains(&native.cli) =>
        {
            for field in PER_CALL_KEYS.iter().filter_map(|name| fields.get(name)) {
                let message = format!("`{}` asks for nothing call by call", backend.word());
                diagnostics.add(
                    field.diagnostic(message).with_hint("say `default: allow` or `default: deny`"),
                );
            }
        }
        Backend::Native(_) | Backend::Mock { .. } | Backend::Command { .. } => {
            let message = format!("`permissions` are not kept by `{}`", backend.word());
            diagnostics.add(field.diagnostic(message).with_hint(
                "they are by `claude` and `acp`, and `default` by `codex`, `opencode` and `cursor`",
            ));
        }
    }
}

fn patterns(
    field: &YamlField<'_>,
    backend: &Backend,
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

fn pattern(field: &YamlField<'_>, backend: &Backend) -> Result<ToolPattern, Diagnostic> {
    let text = field.literal_text()?;
    let pattern: ToolPattern =
        text.parse().map_err(|bad| field.diagnostic(format!("`{text}`: {bad}")))?;
    match backend {
        // One that fits no call would be kept by nobody.
        Backend::Acp(_) if !Acp::TOOL_KINDS.contains(&pattern.tool()) => {
            let tool = pattern.tool();
            let message = format!("with `acp` a rule names a kind of call, which `{tool}` is not");
            Err(field
                .diagnostic(message)
                .with_hint(format!("kinds are {}", Acp::TOOL_KINDS.join(", "))))
        }
        _ => Ok(pattern),
    }
}
