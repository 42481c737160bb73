//! `permissions:` what an agent may do by itself, and what it asks for.

use agent_worker_protocol::{Acp, Backend, Cli, OnAsk, Permissions, Stance, ToolPattern};

use crate::{
    backend::word,
    complaint::{Complaint, Complaints},
    fields::{Field, Fields, Keys},
};

const PERMISSIONS: Keys =
    Keys { known: &["default", "allow", "ask", "deny", "on_ask"], later: &[] };
/// What means something only where every call is asked for.
const PER_CALL: [&str; 4] = ["allow", "ask", "deny", "on_ask"];

/// Reads what an agent may do, as far as its backend lets us say so.
pub(crate) fn read(
    field: &Field<'_>,
    backend: &Backend,
    complaints: &mut Complaints,
) -> Permissions {
    let Some(fields) = field.fields(&PERMISSIONS, complaints) else {
        return Permissions::default();
    };
    check(field, &fields, backend, complaints);
    let default = fields.take("default", complaints, |field| {
        word(field, &[Stance::Allow, Stance::Ask, Stance::Deny].map(|it| (it.word(), it)))
    });
    let on_ask = fields.take("on_ask", complaints, |field| {
        word(field, &[OnAsk::Wait, OnAsk::Deny, OnAsk::Fail].map(|it| (it.word(), it)))
    });
    let mut patterns = |name: &str| {
        let field = fields.get(name);
        field.map(|field| patterns(&field, backend, complaints)).unwrap_or_default()
    };
    let (allow, ask, deny) = (patterns("allow"), patterns("ask"), patterns("deny"));
    let (default, on_ask) = (default.unwrap_or_default(), on_ask.unwrap_or_default());
    Permissions { default, allow, ask, deny, on_ask }
}

/// Complains of rules that nobody would keep.
fn check(field: &Field<'_>, fields: &Fields<'_>, backend: &Backend, complaints: &mut Complaints) {
    match backend {
        Backend::Native(native) if native.cli == Cli::Claude => {}
        Backend::Acp(_) => {}
        Backend::Native(native) if native.cli == Cli::Codex => {
            for field in PER_CALL.iter().filter_map(|name| fields.get(name)) {
                complaints.add(
                    field
                        .complaint("`codex` asks for nothing call by call")
                        .hint("`default: allow` lets it write in its folder, else it only reads"),
                );
            }
        }
        Backend::Native(native) if [Cli::Opencode, Cli::Cursor].contains(&native.cli) => {
            for field in PER_CALL.iter().filter_map(|name| fields.get(name)) {
                let message = format!("`{}` asks for nothing call by call", backend.word());
                complaints
                    .add(field.complaint(message).hint("say `default: allow` or `default: deny`"));
            }
        }
        Backend::Native(_) | Backend::Mock { .. } | Backend::Command { .. } => {
            let message = format!("`permissions` are not kept by `{}`", backend.word());
            complaints.add(field.complaint(message).hint(
                "they are by `claude` and `acp`, and `default` by `codex`, `opencode` and `cursor`",
            ));
        }
    }
}

fn patterns(field: &Field<'_>, backend: &Backend, complaints: &mut Complaints) -> Vec<ToolPattern> {
    let mut patterns = Vec::new();
    for item in complaints.keep(field.list()).unwrap_or_default() {
        if complaints.is_full() {
            break;
        }
        patterns.extend(complaints.keep(pattern(&item, backend)));
    }
    patterns
}

fn pattern(field: &Field<'_>, backend: &Backend) -> Result<ToolPattern, Complaint> {
    let text = field.text_as_is()?;
    let pattern: ToolPattern =
        text.parse().map_err(|bad| field.complaint(format!("`{text}`: {bad}")))?;
    match backend {
        // One that fits no call would be kept by nobody.
        Backend::Acp(_) if !Acp::KINDS.contains(&pattern.tool()) => {
            let tool = pattern.tool();
            let message = format!("with `acp` a rule names a kind of call, which `{tool}` is not");
            Err(field.complaint(message).hint(format!("kinds are {}", Acp::KINDS.join(", "))))
        }
        _ => Ok(pattern),
    }
}
