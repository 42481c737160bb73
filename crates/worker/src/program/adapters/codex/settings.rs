//! Settings of the program: its arguments, its variables and the parameters of a thread.

use std::io;

use agent_worker_models::is_strict_schema;
use agent_worker_protocol::{
    CredentialMode, Keyword as _, OnAsk, PermissionAction, PermissionMode, Permissions,
};
use serde_json::{Value, json};

use crate::{
    program::{
        ModelEndpoint, ProgramInvocation, ProgramTurn, endpoint::provider_url, private_files,
    },
    tool_server::TEAM_SERVER_NAME,
    turn::TurnContext,
};

/// Variables that the settings name, so that no secret is among the arguments.
pub(in crate::program) const MODEL_KEY: &str = "AGENT_WORKER_MODEL_KEY";
const TOOLS_KEY: &str = "AGENT_WORKER_TOOLS_KEY";
/// Maximum number of retries by the program.
const MAX_RETRIES: u32 = 2;
/// The same behind an adapter: neither reports that the program waits for the time that its provider named.
const ADAPTER_MAX_RETRIES: u32 = 0;
/// Variables that make the program log each response of its provider, without colours. Its own commands do not inherit
/// them.
const LOG_VARIABLES: [(&str, &str); 2] =
    [("RUST_LOG", "error,codex_http_client::client=debug"), ("NO_COLOR", "1")];

/// Returns arguments and environment of the program.
pub(super) fn program_invocation(turn: &ProgramTurn<'_>) -> io::Result<ProgramInvocation> {
    let TurnContext { permissions, folders, .. } = turn.context;
    let mut invocation = ProgramInvocation {
        keeps_input_open: true,
        takes_messages: true,
        ..ProgramInvocation::default()
    };
    invocation.args(["app-server"]);
    let mut set = |key: &str, value: String| {
        invocation.args.extend(["-c".to_owned(), format!("{key}={value}")]);
    };
    set(
        &format!("mcp_servers.{TEAM_SERVER_NAME}"),
        format!(
            "{{url={},bearer_token_env_var={},required=true,default_tools_approval_mode=\"approve\"}}",
            toml_string(&turn.tool_server.url),
            toml_string(TOOLS_KEY)
        ),
    );
    // No user can answer it: the model asks a person with the team's own tool.
    set("tools.experimental_request_user_input.enabled", "false".to_owned());
    // A parameter of the thread would make the program note in its settings that it trusts the folder.
    if let Some(sandbox) = sandbox_mode(permissions) {
        set("sandbox_mode", toml_string(sandbox));
    }
    let hidden = LOG_VARIABLES.map(|(name, _)| name);
    set("shell_environment_policy.exclude", json!(hidden).to_string());
    if let CredentialMode::Isolated = turn.mode {
        set("model_provider", toml_string("given"));
        set("model_providers.given", provider_settings(&turn.endpoint, MAX_RETRIES));
        // Its list of skills includes those of the user's home.
        set("skills.include_instructions", "false".to_owned());
    }
    invocation.args(["--disable", "plugins", "--disable", "apps"]);
    set_temp_folder(turn, &mut invocation)?;
    invocation.env(TOOLS_KEY, &turn.tool_server.token);
    for (name, value) in LOG_VARIABLES {
        invocation.env(name, value);
    }
    if let CredentialMode::Isolated = turn.mode {
        let home = private_files::create_private_folder(&folders.keep.join("codex"))?;
        invocation.env("CODEX_HOME", &home);
        invocation.env(MODEL_KEY, turn.endpoint.key.as_deref().unwrap_or_default());
    }
    Ok(invocation)
}

/// Sets a folder for temporary files that does not contain the program's settings folder. Otherwise, as with a home in
/// `/tmp`, the program installs no link to its sandbox, and on a machine with bubblewrap all its commands fail.
pub(in crate::program) fn set_temp_folder(
    turn: &ProgramTurn<'_>,
    invocation: &mut ProgramInvocation,
) -> io::Result<()> {
    invocation.env("TMPDIR", &private_files::create_temp_folder(&turn.context.folders)?);
    Ok(())
}

/// Returns the parameters of a new or a continued thread.
pub(super) fn thread_params(turn: &ProgramTurn<'_>) -> Value {
    let policy = if needs_decisions(&turn.context.permissions) { "untrusted" } else { "never" };
    let mut params = json!({"approvalPolicy": policy, "approvalsReviewer": "user"});
    if let Some(model) = &turn.model {
        params["model"] = json!(model);
    }
    params
}

/// Returns the parameters of the turn, without its text.
pub(super) fn turn_params(turn: &ProgramTurn<'_>) -> Value {
    let mut params = json!({});
    if let Some(effort) = turn.context.request.effort {
        params["effort"] = effort.word().into();
    }
    // The program demands that the provider enforces the schema, which refuses any other one.
    let schema = turn.context.answer_schema.as_ref().map(|answers| answers.schema());
    if let Some(schema) = schema.filter(|schema| is_strict_schema(schema)) {
        params["outputSchema"] = schema.clone();
    }
    params
}

/// Returns true if the daemon decides about single calls. Without rules the program never asks, and a call that its sandbox
/// forbids fails.
fn needs_decisions(rules: &Permissions) -> bool {
    let Permissions { default, allow, ask, deny, on_ask, mode } = rules;
    match mode {
        Some(PermissionMode::AcceptEdits) => return true,
        // The sandbox lets commands read, and they need no decision.
        Some(PermissionMode::Plan) => return [allow, ask, deny].iter().any(|it| !it.is_empty()),
        None => {}
    }
    match default {
        Some(PermissionAction::Ask) => true,
        Some(PermissionAction::Allow) => !(ask.is_empty() && deny.is_empty()),
        Some(PermissionAction::Deny) => !(allow.is_empty() && ask.is_empty()),
        None => [allow, ask, deny].iter().any(|it| !it.is_empty()) || *on_ask != OnAsk::Wait,
    }
}

/// Returns the sandbox mode, unless the user's settings decide. A command that was approved runs outside of the sandbox.
fn sandbox_mode(rules: &Permissions) -> Option<&'static str> {
    match rules.default {
        _ if rules.mode == Some(PermissionMode::Plan) => Some("read-only"),
        Some(PermissionAction::Allow) => Some("workspace-write"),
        Some(PermissionAction::Deny | PermissionAction::Ask) => Some("read-only"),
        None => needs_decisions(rules).then_some("read-only"),
    }
}

/// Returns the provider settings for a key from the environment.
fn provider_settings(endpoint: &ModelEndpoint, retries: u32) -> String {
    let url = endpoint.base_url.as_deref().unwrap_or_else(|| provider_url("openai"));
    format!(
        "{{name=\"given\",base_url={},env_key={},wire_api=\"responses\",request_max_retries={retries},stream_max_retries={retries}}}",
        toml_string(url),
        toml_string(MODEL_KEY)
    )
}

/// Returns the same settings as a file, for agents that start the program without passing arguments on.
pub(in crate::program) fn settings_file(endpoint: &ModelEndpoint, model: Option<&str>) -> String {
    let model = model.map(|model| format!("model={}\n", toml_string(model))).unwrap_or_default();
    format!(
        "{model}model_provider=\"given\"\nmodel_providers.given={}\n\
         tools.experimental_request_user_input.enabled=false\nskills.include_instructions=false\n\
         features.plugins=false\nfeatures.apps=false\n",
        provider_settings(endpoint, ADAPTER_MAX_RETRIES)
    )
}

/// Quotes a string for TOML, whose escapes include those of JSON.
fn toml_string(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_asks_only_if_the_rules_need_a_decision_about_single_calls() {
        let rules = |text: &str| serde_json::from_str::<Permissions>(text).unwrap();
        for (text, asks, sandbox) in [
            ("{}", false, None),
            (r#"{"default":"allow"}"#, false, Some("workspace-write")),
            (r#"{"default":"deny"}"#, false, Some("read-only")),
            (r#"{"default":"ask"}"#, true, Some("read-only")),
            (r#"{"deny":["execute(rm*)"]}"#, true, Some("read-only")),
            (r#"{"on_ask":"fail"}"#, true, Some("read-only")),
            (r#"{"default":"allow","deny":["execute(rm*)"]}"#, true, Some("workspace-write")),
            (r#"{"default":"allow","allow":["edit"]}"#, false, Some("workspace-write")),
            (r#"{"default":"deny","allow":["edit"]}"#, true, Some("read-only")),
            (r#"{"default":"deny","deny":["edit"]}"#, false, Some("read-only")),
            (r#"{"mode":"plan"}"#, false, Some("read-only")),
            (r#"{"mode":"plan","default":"allow"}"#, false, Some("read-only")),
            (r#"{"mode":"plan","allow":["execute(ls*)"]}"#, true, Some("read-only")),
            (r#"{"mode":"accept_edits"}"#, true, Some("read-only")),
            (r#"{"mode":"accept_edits","default":"allow"}"#, true, Some("workspace-write")),
            (r#"{"mode":"accept_edits","default":"deny"}"#, true, Some("read-only")),
        ] {
            let rules = rules(text);
            assert_eq!((needs_decisions(&rules), sandbox_mode(&rules)), (asks, sandbox), "{text}");
        }
    }
}
