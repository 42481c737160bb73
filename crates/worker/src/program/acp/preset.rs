//! The preset of an agent: its row in the registry, and the hooks that it needs in addition.

use std::{io, path::Path};

use agent_worker_backends::{AcpAgentSpec, AcpModelSetting, TEAM_SERVER_NAME, find_acp_agent};
use agent_worker_protocol::CredentialMode;
use serde_json::{Value, json};

use super::{
    super::{
        ProgramInvocation, ProgramTurn,
        adapters::{claude, codex, gemini},
        private_files,
    },
    notice::{AcpNotice, codex_notice, copilot_notice},
};
use crate::{
    attachments::attachment_folder, tool_server::ToolServerEndpoint, user_question::QUESTION_TOOL,
};

/// An agent with a row in the registry.
#[derive(Clone, Copy)]
pub(super) struct AcpPreset {
    pub(super) spec: &'static AcpAgentSpec,
    pub(super) hooks: AcpHooks,
}

/// Code of single agents, for properties that the columns of the registry cannot express.
#[derive(Clone, Copy)]
pub(super) struct AcpHooks {
    /// Writes settings. Returns a file that names the team's server, if the agent reads a file instead of the
    /// protocol.
    prepare: fn(&ProgramTurn<'_>, &mut ProgramInvocation) -> io::Result<Option<String>>,
    /// Makes the metadata of a session from the system prompt and that file. Without it the system prompt comes before
    /// the prompt.
    pub(super) session_meta: Option<fn(&str, Option<&str>) -> Value>,
    /// Returns false for a successful response that is incomplete.
    pub(super) is_complete: fn(&Value) -> bool,
    /// True if the agent reports a failed request to its provider only in its log, as opencode does.
    pub(super) logs_stream_errors: bool,
    /// Recognizes a text of the agent itself among the chunks of an answer.
    pub(super) notice: fn(&str) -> Option<AcpNotice>,
}

const NO_HOOKS: AcpHooks = AcpHooks {
    prepare: |_, _| Ok(None),
    session_meta: None,
    is_complete: |_| true,
    logs_stream_errors: false,
    notice: |_| None,
};

/// Returns the hooks of an agent. An agent without an entry needs none.
fn find_hooks(agent: &str) -> AcpHooks {
    match agent {
        "claude" => AcpHooks {
            prepare: |turn, invocation| {
                write_claude_settings(turn, invocation)?;
                write_claude_servers(turn).map(Some)
            },
            session_meta: Some(claude_meta),
            ..NO_HOOKS
        },
        "codex" => AcpHooks {
            prepare: write_codex_settings,
            // After a failure of the provider, the agent reports the error as its answer, without any usage.
            is_complete: |result| result["usage"].is_object() || has_model_usage(result),
            notice: codex_notice,
            ..NO_HOOKS
        },
        // After a failure of the provider, the agent reports the error as its answer, without any usage.
        "copilot" => AcpHooks {
            is_complete: |result| result["usage"].is_object(),
            notice: copilot_notice,
            ..NO_HOOKS
        },
        "gemini" => AcpHooks {
            prepare: |turn, invocation| gemini::write_acp_settings(turn, invocation).map(|()| None),
            // After an answer that broke off, the agent reports the end of the turn without any usage.
            is_complete: has_model_usage,
            ..NO_HOOKS
        },
        "opencode" => AcpHooks {
            prepare: |turn, invocation| {
                set_opencode_settings(turn, invocation);
                Ok(None)
            },
            logs_stream_errors: true,
            ..NO_HOOKS
        },
        "qwen" => AcpHooks {
            prepare: |turn, invocation| write_qwen_defaults(turn, invocation).map(|()| None),
            ..NO_HOOKS
        },
        _ => NO_HOOKS,
    }
}

/// Returns false if the agent lists the models that it used, and lists none.
fn has_model_usage(result: &Value) -> bool {
    let used = result.pointer("/_meta/quota/model_usage").and_then(Value::as_array);
    used.is_none_or(|used| !used.is_empty())
}

impl AcpPreset {
    /// Returns the preset of an agent by its name.
    pub(super) fn find(agent: &str) -> Option<Self> {
        find_acp_agent(agent).map(|spec| Self { spec, hooks: find_hooks(agent) })
    }

    /// Returns the invocation for this turn, and the file that names the team's server, if the agent reads one.
    pub(super) fn invocation(
        &self,
        turn: &ProgramTurn<'_>,
    ) -> io::Result<(ProgramInvocation, Option<String>)> {
        let mut invocation = ProgramInvocation::default();
        let add_args = |args: &[&str], invocation: &mut ProgramInvocation| {
            invocation.args.extend(args.iter().map(|word| (*word).to_owned()));
        };
        add_args(self.spec.args, &mut invocation);
        for (name, value) in self.spec.env {
            invocation.env(name, value);
        }
        if let CredentialMode::Isolated = turn.mode {
            for (name, folder) in self.spec.homes {
                let home = turn.context.folders.keep.join("acp").join(folder);
                invocation.env(name, &private_files::create_private_folder(&home)?);
            }
        }
        match (self.spec.model_setting, &turn.model) {
            (AcpModelSetting::Argument(name), Some(model)) => invocation.args([name, model]),
            (AcpModelSetting::Variable(name), Some(model)) => invocation.env(name, model),
            (AcpModelSetting::Settings, _) | (_, None) => {}
        }
        if let CredentialMode::Isolated = turn.mode {
            add_args(self.spec.isolated_args, &mut invocation);
        }
        let servers = (self.hooks.prepare)(turn, &mut invocation)?;
        Ok((invocation, servers))
    }
}

/// Writes the settings of an isolated Claude Code, which exclude the memory of the user.
fn write_claude_settings(turn: &ProgramTurn<'_>, invocation: &ProgramInvocation) -> io::Result<()> {
    let Some(folder) = invocation.env.get("CLAUDE_CONFIG_DIR") else { return Ok(()) };
    let mut settings = json!({});
    claude::exclude_home_memory(&turn.context.child_env.env, &mut settings);
    private_files::write_private_file(Path::new(folder), "settings.json", &settings.to_string())?;
    Ok(())
}

/// Writes the servers to a file. With the protocol, the agent would pass them, with their token, as arguments to a
/// program that it starts.
fn write_claude_servers(turn: &ProgramTurn<'_>) -> io::Result<String> {
    let ToolServerEndpoint { url, token } = turn.tool_server;
    let headers = json!({"Authorization": format!("Bearer {token}")});
    let server = json!({"type": "http", "url": url, "headers": headers});
    let servers = json!({"mcpServers": {TEAM_SERVER_NAME: server}});
    private_files::write_private_file(
        &turn.context.folders.attempt,
        "mcp.json",
        &servers.to_string(),
    )
}

fn claude_meta(system: &str, servers: Option<&str>) -> Value {
    // The protocol cannot carry the answer to a question; the model has `ask_human`.
    let never = [&claude::BYPASSING_TOOLS[..], &[QUESTION_TOOL]].concat();
    let options = json!({
        "extraArgs": {"mcp-config": servers},
        "strictMcpConfig": true,
        "allowedTools": [format!("mcp__{TEAM_SERVER_NAME}")],
        "disallowedTools": never,
    });
    json!({"systemPrompt": {"append": system}, "claudeCode": {"options": options}})
}

/// Writes the settings file, the agent's only source for its model and its provider.
fn write_codex_settings(
    turn: &ProgramTurn<'_>,
    invocation: &mut ProgramInvocation,
) -> io::Result<Option<String>> {
    codex::set_temp_folder(turn, invocation)?;
    let model = turn.model.as_deref();
    let home = match (invocation.env.get("CODEX_HOME").cloned(), model) {
        (Some(home), _) => home,
        (None, None) => return Ok(None),
        (None, Some(_)) => {
            let why = "with `mode: login` this agent takes its model only from your settings";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
    };
    let text = codex::settings_file(&turn.endpoint, model);
    private_files::write_private_file(home.as_ref(), "config.toml", &text)?;
    invocation.env(codex::MODEL_KEY, turn.endpoint.key.as_deref().unwrap_or_default());
    Ok(None)
}

/// Writes defaults, which the settings of the user override. Without them the agent waits up to an hour for a busy provider
/// and reports nothing meanwhile, although the daemon can wait without a process.
fn write_qwen_defaults(
    turn: &ProgramTurn<'_>,
    invocation: &mut ProgramInvocation,
) -> io::Result<()> {
    let defaults = json!({"model": {"generationConfig": {"maxRetries": 0}}});
    let file = private_files::write_private_file(
        &turn.context.folders.attempt,
        "qwen.json",
        &defaults.to_string(),
    )?;
    invocation.env("QWEN_CODE_SYSTEM_DEFAULTS_PATH", &file);
    Ok(())
}

/// Makes the agent ask for permission, which it does not do by default. Keeps the user's settings except those that
/// are set here.
fn set_opencode_settings(turn: &ProgramTurn<'_>, invocation: &mut ProgramInvocation) {
    const SETTINGS: &str = "OPENCODE_CONFIG_CONTENT";
    let theirs = turn
        .context
        .child_env
        .env
        .get(SETTINGS)
        .and_then(|text| serde_json::from_str::<Value>(text).ok());
    let mut settings = theirs.filter(Value::is_object).unwrap_or_else(|| json!({}));
    settings["autoupdate"] = json!(false);
    settings["share"] = json!("disabled");
    // The program would write into `.opencode` of the project. Without its settings it does not read this file either.
    invocation.env("OPENCODE_DISABLE_PROJECT_CONFIG", "1");
    let mut instructions = settings["instructions"].as_array().cloned().unwrap_or_default();
    instructions.push(json!(turn.context.child_env.cwd.join("AGENTS.md")));
    settings["instructions"] = json!(instructions);
    // The last matching rule decides, and the rules are serialized in alphabetical order.
    settings["permission"] = json!({"*": "ask", format!("{TEAM_SERVER_NAME}_*"): "allow"});
    if let Some(folder) = attachment_folder(&turn.context.request.attachments) {
        let pattern = folder.join("*").to_string_lossy().into_owned();
        settings["permission"]["external_directory"] = json!({"*": "ask", pattern: "allow"});
        // The program names a file by its path from the root of the project.
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        settings["permission"]["read"] = json!({"*": "ask", format!("*/{name}/*"): "allow"});
    }
    // The model reads a refusal and may do something else.
    settings["experimental"]["continue_loop_on_deny"] = json!(true);
    if let Some(model) = &turn.model {
        settings["model"] = json!(model);
    }
    invocation.env(SETTINGS, &settings.to_string());
    if let CredentialMode::Isolated = turn.mode {
        // It would read skills and memory of other programs, and its own agents, in the user's home.
        invocation.env("OPENCODE_DISABLE_CLAUDE_CODE", "1");
        invocation.env("OPENCODE_DISABLE_EXTERNAL_SKILLS", "1");
        let npm = turn.context.folders.keep.join("acp/opencode/npm").display().to_string();
        invocation.env("npm_config_cache", &npm);
        invocation.env("OPENCODE_DISABLE_MODELS_FETCH", "1");
        let home = turn.context.folders.keep.join("acp/opencode/home").display().to_string();
        invocation.env("OPENCODE_TEST_HOME", &home);
    }
}
