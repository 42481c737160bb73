//! The agents of the protocol whose ways are known: how each is started, told, kept apart and counted.

use std::io;

use agent_worker_protocol::{AcpAgent, CredentialMode, VendorCli};
use serde_json::{Value, json};

use super::super::{
    ProgramInvocation, ProgramTurn, codex,
    endpoint::{ModelEndpoint, cli_endpoint, endpoint_from_env},
    gemini,
    model_table::model_for,
    private_files,
};
use crate::tool_server::{TEAM_SERVER_NAME, ToolServerEndpoint};

/// The ways of one agent.
pub(super) struct AcpPreset {
    /// What its program is usually called.
    pub(super) program: &'static str,
    /// What makes it speak the protocol, and keeps it to itself.
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    /// Folders of its own when isolated, and the variables that name them.
    homes: &'static [(&'static str, &'static str)],
    /// How it is told its model.
    model: AcpModelSetting,
    pub(super) system_prompt: AcpSystemPrompt,
    /// The mode in which it asks a person, where that is not the one it begins in.
    pub(super) mode: Option<&'static str>,
    /// Whether a conversation can be gone on with.
    pub(super) session_support: AcpSessionSupport,
    /// The tokens in its answer, and what it says that things cost.
    pub(super) tokens: AcpUsageScope,
    pub(super) cost: AcpUsageScope,
    pub(super) tool_naming: AcpToolNaming,
    /// Whether an answer that is said to be one is.
    pub(super) is_complete: fn(&Value) -> bool,
    /// What else it needs. Answers with a file that names our tools, if it has them from there.
    prepare: fn(&ProgramTurn<'_>, &mut ProgramInvocation) -> io::Result<Option<String>>,
}

enum AcpModelSetting {
    Argument(&'static str),
    Variable(&'static str),
    /// By what is prepared.
    Settings,
}

/// How it is told who it is.
pub(super) enum AcpSystemPrompt {
    /// In front of the prompt.
    Prompt,
    /// Where the protocol lets agents have words of their own. The second is the file that names our tools.
    SessionMeta(fn(&str, Option<&str>) -> Value),
}

/// What becomes of its conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcpSessionSupport {
    /// They are kept, if it says so.
    AsAdvertised,
    /// It says so and loses them: to load one it begins another in the same file.
    Unsupported,
}

/// What a figure of its is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcpUsageScope {
    /// This turn. A process has no other.
    Turn,
    /// All turns of the conversation so far.
    Conversation,
    /// Nobody knows.
    Unknown,
}

/// Where it says which tool a call is for. The protocol has a place for the name, which few use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AcpToolNaming {
    #[default]
    NameField,
    /// In the title: a tool of ours by its name and server, of what it runs the command, to the letter.
    Title,
    /// In the input: server and tool.
    RawInput,
}

const BASE_PRESET: AcpPreset = AcpPreset {
    program: "",
    args: &[],
    env: &[],
    homes: &[],
    model: AcpModelSetting::Argument("--model"),
    system_prompt: AcpSystemPrompt::Prompt,
    mode: None,
    session_support: AcpSessionSupport::AsAdvertised,
    tokens: AcpUsageScope::Unknown,
    cost: AcpUsageScope::Unknown,
    tool_naming: AcpToolNaming::NameField,
    is_complete: |_| true,
    prepare: |_, _| Ok(None),
};

static CLAUDE: AcpPreset = AcpPreset {
    program: "claude-agent-acp",
    env: &[
        ("ENABLE_TOOL_SEARCH", "false"),
        ("CLAUDE_CODE_DISABLE_ATTACHMENTS", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("CLAUDE_CODE_MAX_RETRIES", "3"),
    ],
    homes: &[("CLAUDE_CONFIG_DIR", "claude")],
    model: AcpModelSetting::Variable("ANTHROPIC_MODEL"),
    system_prompt: AcpSystemPrompt::SessionMeta(claude_meta),
    tokens: AcpUsageScope::Turn,
    cost: AcpUsageScope::Turn,
    prepare: |turn, _| write_claude_servers(turn).map(Some),
    ..BASE_PRESET
};

static CODEX: AcpPreset = AcpPreset {
    program: "codex-acp",
    homes: &[("CODEX_HOME", "codex")],
    model: AcpModelSetting::Settings,
    // One of the two adapters lets a model decide what a person would be asked for, unless it is told this.
    mode: Some("read-only"),
    tokens: AcpUsageScope::Turn,
    tool_naming: AcpToolNaming::RawInput,
    prepare: write_codex_settings,
    ..BASE_PRESET
};

static COPILOT: AcpPreset = AcpPreset {
    program: "copilot",
    args: &[
        "--acp",
        "--no-auto-update",
        "--disable-builtin-mcps",
        "--allow-tool",
        TEAM_SERVER_NAME,
    ],
    homes: &[("COPILOT_HOME", "copilot")],
    model: AcpModelSetting::Variable("COPILOT_MODEL"),
    tokens: AcpUsageScope::Turn,
    ..BASE_PRESET
};

static GEMINI: AcpPreset = AcpPreset {
    program: "gemini",
    args: &["--acp", "--skip-trust", "--allowed-mcp-server-names", TEAM_SERVER_NAME],
    env: &[("GEMINI_CLI_NO_RELAUNCH", "true")],
    homes: &[("GEMINI_CLI_HOME", "gemini")],
    session_support: AcpSessionSupport::Unsupported,
    tokens: AcpUsageScope::Turn,
    // It has no servers but ours, so that no other's title is a model's own words.
    tool_naming: AcpToolNaming::Title,
    // Of a model whose answer broke off it says that its turn ended, and has nothing to count.
    is_complete: |result| {
        let used = result.pointer("/_meta/quota/model_usage").and_then(Value::as_array);
        used.is_none_or(|used| !used.is_empty())
    },
    prepare: |turn, invocation| gemini::write_acp_settings(turn, invocation).map(|()| None),
    ..BASE_PRESET
};

static OPENCODE: AcpPreset = AcpPreset {
    program: "opencode",
    args: &["acp", "--pure"],
    env: &[("OPENCODE_DISABLE_AUTOUPDATE", "1"), ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1")],
    homes: &[
        ("XDG_DATA_HOME", "opencode/data"),
        ("XDG_CONFIG_HOME", "opencode/config"),
        ("XDG_CACHE_HOME", "opencode/cache"),
        ("XDG_STATE_HOME", "opencode/state"),
    ],
    model: AcpModelSetting::Settings,
    // Its tokens are those of its last step alone.
    cost: AcpUsageScope::Conversation,
    prepare: |turn, invocation| {
        set_opencode_settings(turn, invocation);
        Ok(None)
    },
    ..BASE_PRESET
};

static QWEN: AcpPreset = AcpPreset {
    program: "qwen",
    args: &["--acp", "--allowed-tools", "mcp__team"],
    homes: &[("QWEN_HOME", "qwen")],
    // Without settings it knows no way to log in.
    prepare: |turn, invocation| {
        if let CredentialMode::Isolated = turn.mode {
            invocation.args(["--auth-type", "openai"]);
        }
        Ok(None)
    },
    ..BASE_PRESET
};

/// The ways of an agent.
pub(super) fn preset(agent: AcpAgent) -> &'static AcpPreset {
    match agent {
        AcpAgent::Claude => &CLAUDE,
        AcpAgent::Codex => &CODEX,
        AcpAgent::Copilot => &COPILOT,
        AcpAgent::Gemini => &GEMINI,
        AcpAgent::Opencode => &OPENCODE,
        AcpAgent::Qwen => &QWEN,
    }
}

/// Where it reaches its model.
pub(super) fn model_endpoint(
    agent: AcpAgent,
    model: Option<&str>,
    env: &std::collections::BTreeMap<String, String>,
) -> ModelEndpoint {
    match agent {
        AcpAgent::Claude => cli_endpoint(VendorCli::Claude, model, env),
        AcpAgent::Codex => cli_endpoint(VendorCli::Codex, model, env),
        AcpAgent::Gemini => cli_endpoint(VendorCli::Gemini, model, env),
        AcpAgent::Copilot => {
            let keys =
                ["COPILOT_PROVIDER_API_KEY", "COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"];
            endpoint_from_env("COPILOT_PROVIDER_BASE_URL", &keys, env)
        }
        AcpAgent::Opencode => {
            let keys = [
                "OPENCODE_API_KEY",
                "ANTHROPIC_API_KEY",
                "OPENAI_API_KEY",
                "GEMINI_API_KEY",
                "OPENROUTER_API_KEY",
            ];
            endpoint_from_env("", &keys, env)
        }
        AcpAgent::Qwen => endpoint_from_env("OPENAI_BASE_URL", &["OPENAI_API_KEY"], env),
    }
}

impl AcpPreset {
    /// How it is started for this turn, and the file that names our tools, if it has them from there.
    pub(super) fn invocation(
        &self,
        agent: AcpAgent,
        turn: &ProgramTurn<'_>,
    ) -> io::Result<(ProgramInvocation, Option<String>)> {
        let mut invocation = ProgramInvocation::default();
        invocation.args.extend(self.args.iter().map(|word| (*word).to_owned()));
        for (name, value) in self.env {
            invocation.env(name, value);
        }
        if let CredentialMode::Isolated = turn.mode {
            for (name, folder) in self.homes {
                invocation.env(
                    name,
                    &private_files::create_private_folder(
                        &turn.context.folders.keep.join("acp").join(folder),
                    )?,
                );
            }
        }
        match (&self.model, agent_model(agent, turn)) {
            (AcpModelSetting::Argument(name), Some(model)) => invocation.args([name, &model]),
            (AcpModelSetting::Variable(name), Some(model)) => invocation.env(name, &model),
            (AcpModelSetting::Settings, _) | (_, None) => {}
        }
        let servers = (self.prepare)(turn, &mut invocation)?;
        Ok((invocation, servers))
    }
}

/// The model's name, as its agent wants it.
fn agent_model(agent: AcpAgent, turn: &ProgramTurn<'_>) -> Option<String> {
    let written = turn.context.request.model.as_deref();
    match agent {
        AcpAgent::Claude => model_for(VendorCli::Claude, written),
        AcpAgent::Codex => model_for(VendorCli::Codex, written),
        AcpAgent::Gemini => model_for(VendorCli::Gemini, written),
        AcpAgent::Copilot | AcpAgent::Opencode | AcpAgent::Qwen => {
            written.filter(|name| !["", "auto"].contains(name)).map(str::to_owned)
        }
    }
}

/// Given by the protocol, its servers would stand among the arguments of a program it starts, with their token.
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
    let options = json!({
        "extraArgs": {"mcp-config": servers},
        "strictMcpConfig": true,
        "allowedTools": [format!("mcp__{TEAM_SERVER_NAME}")],
    });
    json!({"systemPrompt": {"append": system}, "claudeCode": {"options": options}})
}

/// It has its model and its provider from a file alone.
fn write_codex_settings(
    turn: &ProgramTurn<'_>,
    invocation: &mut ProgramInvocation,
) -> io::Result<Option<String>> {
    let model = agent_model(AcpAgent::Codex, turn);
    let home = match (invocation.env.get("CODEX_HOME").cloned(), &model) {
        (Some(home), _) => home,
        (None, None) => return Ok(None),
        (None, Some(_)) => {
            let why = "with `mode: login` this agent has its model from your settings alone";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
    };
    let text = codex::settings_file(&turn.endpoint, model.as_deref());
    private_files::write_private_file(home.as_ref(), "config.toml", &text)?;
    invocation.env(codex::MODEL_KEY, turn.endpoint.key.as_deref().unwrap_or_default());
    Ok(None)
}

/// By itself it asks for nothing. What is given it stays, but for what keeps a person asked.
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
    // The last that fits decides.
    settings["permission"] = json!({"*": "ask", format!("{TEAM_SERVER_NAME}_*"): "allow"});
    if let Some(model) = agent_model(AcpAgent::Opencode, turn) {
        settings["model"] = json!(model);
    }
    invocation.env(SETTINGS, &settings.to_string());
}
