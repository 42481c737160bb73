//! JSON Schema of the keys `permissions:` and `sandbox:` of an agent.

use agent_worker_backends::BUILTIN_TOOLS;
use serde_json::{Value, json};

use super::nodes::{list, mapping, one_of, text, text_matching};
use crate::agents::{self, sandbox};

const TOOL_PATTERN: &str = r"^[A-Za-z0-9_.-]+(\([^~*)][^*]*\*?\))?$";

/// Returns the schema of `permissions:`.
pub(super) fn permissions() -> Value {
    let pattern = text_matching("`Tool`, `Tool(exact text)` or `Tool(prefix*)`.", TOOL_PATTERN);
    let mut rules = mapping(
        "Permissions of the agent: `deny` takes precedence over `ask`, `ask` over `allow`.",
        &[],
        [
            ("default", one_of("Action for all other calls (ask).", &["allow", "ask", "deny"])),
            (
                "mode",
                one_of(
                    "Rules for calls that no pattern matches, before `default`: edits in the working folder without \
                     approval, or reading only.",
                    &["acceptEdits", "plan", "default", "accept_edits", "auto_edit"],
                ),
            ),
            ("allow", list("Calls that need no approval.", &pattern)),
            ("ask", list("Calls that always need approval.", &pattern)),
            ("deny", list("Calls that are never allowed.", &pattern)),
            (
                "on_ask",
                one_of(
                    "Treatment of a request while no person is present (wait).",
                    &["wait", "deny", "fail"],
                ),
            ),
        ],
    );
    // The short form, for `backend: api`.
    let names = BUILTIN_TOOLS.iter().flat_map(|row| row.aliases.iter().chain([&row.name]));
    let names: Vec<_> = names.copied().collect();
    let tool = format!(r"^({})(\([^~*)][^*]*\*?\))?$", names.join("|"));
    rules["patternProperties"] = json!({ tool: one_of("", &["allow", "ask", "deny"]) });
    rules
}

/// Returns the schema of `sandbox:`.
pub(super) fn sandbox() -> Value {
    let words = sandbox::SANDBOX_MODES.map(|(word, _)| word);
    let paths = |description: &str| list(description, &text(""));
    let hosts =
        list("", &text("`example.org`, `*.example.org`, or with a port: `localhost:8080`."));
    let settings = mapping(
        "Sandbox with further paths.",
        &[],
        [
            ("mode", one_of("Requirement on the sandbox (on).", &words)),
            ("read", paths("Further files and folders that the program can read.")),
            ("write", paths("Further files and folders that the program can change.")),
            (
                "network",
                json!({
                    "description": "The network is open (true; for `api` false), or the hosts that can be reached.",
                    "anyOf": [{ "type": "boolean" }, hosts],
                }),
            ),
            ("memory", text("Limit of the memory of all processes inside, such as 2GiB (4GiB).")),
        ],
    );
    let backends = agents::limiting_backends(|can| can.sandbox).join(", ");
    json!({
        "description": format!("Sandbox of the whole program (off), for `api` of the built-in tools (on): {backends}."),
        "anyOf": [one_of("", &words), settings],
    })
}
