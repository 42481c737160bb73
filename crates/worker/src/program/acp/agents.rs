//! The agents of the protocol whose ways are known: how each is started, told, kept apart and counted.

use std::io;

use agent_worker_protocol::{AcpAgent, Cli, Mode};
use serde_json::{Value, json};

use super::super::{
    Invocation, Turn, codex,
    endpoint::{Endpoint, endpoint, given},
    files, gemini,
    models::model_for,
};
use crate::door::{Entrance, SERVER};

/// The ways of one agent.
pub(super) struct Preset {
    /// What its program is usually called.
    pub(super) program: &'static str,
    /// What makes it speak the protocol, and keeps it to itself.
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    /// Folders of its own when isolated, and the variables that name them.
    homes: &'static [(&'static str, &'static str)],
    /// How it is told its model.
    model: Model,
    pub(super) system: System,
    /// The mode in which it asks a person, where that is not the one it begins in.
    pub(super) mode: Option<&'static str>,
    /// Whether a conversation can be gone on with.
    pub(super) memory: Memory,
    /// The tokens in its answer, and what it says that things cost.
    pub(super) tokens: Counts,
    pub(super) cost: Counts,
    pub(super) says: Says,
    /// Whether an answer that is said to be one is.
    pub(super) is_whole: fn(&Value) -> bool,
    /// What else it needs. Answers with a file that names our tools, if it has them from there.
    prepare: fn(&Turn<'_>, &mut Invocation) -> io::Result<Option<String>>,
}

enum Model {
    Argument(&'static str),
    Variable(&'static str),
    /// By what is prepared.
    Settings,
}

/// How it is told who it is.
pub(super) enum System {
    /// In front of the prompt.
    Prompt,
    /// Where the protocol lets agents have words of their own. The second is the file that names our tools.
    Meta(fn(&str, Option<&str>) -> Value),
}

/// What becomes of its conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// They are kept, if it says so.
    AsItSays,
    /// It says so and loses them: to load one it begins another in the same file.
    None,
}

/// What a figure of its is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    /// This turn. A process has no other.
    Turn,
    /// All turns of the conversation so far.
    Conversation,
    /// Nobody knows.
    Unknown,
}

/// Where it says which tool a call is for. The protocol has a place for the name, which few use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Says {
    #[default]
    ByName,
    /// In the title: a tool of ours by its name and server, of what it runs the command, to the letter.
    InTitle,
    /// In the input: server and tool.
    InInput,
}

const PLAIN: Preset = Preset {
    program: "",
    args: &[],
    env: &[],
    homes: &[],
    model: Model::Argument("--model"),
    system: System::Prompt,
    mode: None,
    memory: Memory::AsItSays,
    tokens: Counts::Unknown,
    cost: Counts::Unknown,
    says: Says::ByName,
    is_whole: |_| true,
    prepare: |_, _| Ok(None),
};

static CLAUDE: Preset = Preset {
    program: "claude-agent-acp",
    env: &[
        ("ENABLE_TOOL_SEARCH", "false"),
        ("CLAUDE_CODE_DISABLE_ATTACHMENTS", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("CLAUDE_CODE_MAX_RETRIES", "3"),
    ],
    homes: &[("CLAUDE_CONFIG_DIR", "claude")],
    model: Model::Variable("ANTHROPIC_MODEL"),
    system: System::Meta(claude_meta),
    tokens: Counts::Turn,
    cost: Counts::Turn,
    prepare: |turn, _| claude_servers(turn).map(Some),
    ..PLAIN
};

static CODEX: Preset = Preset {
    program: "codex-acp",
    homes: &[("CODEX_HOME", "codex")],
    model: Model::Settings,
    // One of the two adapters lets a model decide what a person would be asked for, unless it is told this.
    mode: Some("read-only"),
    tokens: Counts::Turn,
    says: Says::InInput,
    prepare: codex_settings,
    ..PLAIN
};

static COPILOT: Preset = Preset {
    program: "copilot",
    args: &["--acp", "--no-auto-update", "--disable-builtin-mcps", "--allow-tool", SERVER],
    homes: &[("COPILOT_HOME", "copilot")],
    model: Model::Variable("COPILOT_MODEL"),
    tokens: Counts::Turn,
    ..PLAIN
};

static GEMINI: Preset = Preset {
    program: "gemini",
    args: &["--acp", "--skip-trust", "--allowed-mcp-server-names", SERVER],
    env: &[("GEMINI_CLI_NO_RELAUNCH", "true")],
    homes: &[("GEMINI_CLI_HOME", "gemini")],
    memory: Memory::None,
    tokens: Counts::Turn,
    // It has no servers but ours, so that no other's title is a model's own words.
    says: Says::InTitle,
    // Of a model whose answer broke off it says that its turn ended, and has nothing to count.
    is_whole: |result| {
        let used = result.pointer("/_meta/quota/model_usage").and_then(Value::as_array);
        used.is_none_or(|used| !used.is_empty())
    },
    prepare: |turn, invocation| gemini::settle(turn, invocation).map(|()| None),
    ..PLAIN
};

static OPENCODE: Preset = Preset {
    program: "opencode",
    args: &["acp", "--pure"],
    env: &[("OPENCODE_DISABLE_AUTOUPDATE", "1"), ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1")],
    homes: &[
        ("XDG_DATA_HOME", "opencode/data"),
        ("XDG_CONFIG_HOME", "opencode/config"),
        ("XDG_CACHE_HOME", "opencode/cache"),
        ("XDG_STATE_HOME", "opencode/state"),
    ],
    model: Model::Settings,
    // Its tokens are those of its last step alone.
    cost: Counts::Conversation,
    prepare: |turn, invocation| {
        opencode_settings(turn, invocation);
        Ok(None)
    },
    ..PLAIN
};

static QWEN: Preset = Preset {
    program: "qwen",
    args: &["--acp", "--allowed-tools", "mcp__team"],
    homes: &[("QWEN_HOME", "qwen")],
    // Without settings it knows no way to log in.
    prepare: |turn, invocation| {
        if let Mode::Isolated = turn.mode {
            invocation.args(["--auth-type", "openai"]);
        }
        Ok(None)
    },
    ..PLAIN
};

/// The ways of an agent.
pub(super) fn preset(agent: AcpAgent) -> &'static Preset {
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
pub(super) fn reached(
    agent: AcpAgent,
    model: Option<&str>,
    env: &std::collections::BTreeMap<String, String>,
) -> Endpoint {
    match agent {
        AcpAgent::Claude => endpoint(Cli::Claude, model, env),
        AcpAgent::Codex => endpoint(Cli::Codex, model, env),
        AcpAgent::Gemini => endpoint(Cli::Gemini, model, env),
        AcpAgent::Copilot => {
            let keys =
                ["COPILOT_PROVIDER_API_KEY", "COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"];
            given("COPILOT_PROVIDER_BASE_URL", &keys, env)
        }
        AcpAgent::Opencode => {
            let keys = [
                "OPENCODE_API_KEY",
                "ANTHROPIC_API_KEY",
                "OPENAI_API_KEY",
                "GEMINI_API_KEY",
                "OPENROUTER_API_KEY",
            ];
            given("", &keys, env)
        }
        AcpAgent::Qwen => given("OPENAI_BASE_URL", &["OPENAI_API_KEY"], env),
    }
}

impl Preset {
    /// How it is started for this turn, and the file that names our tools, if it has them from there.
    pub(super) fn invocation(
        &self,
        agent: AcpAgent,
        turn: &Turn<'_>,
    ) -> io::Result<(Invocation, Option<String>)> {
        let mut invocation = Invocation::default();
        invocation.args.extend(self.args.iter().map(|word| (*word).to_owned()));
        for (name, value) in self.env {
            invocation.env(name, value);
        }
        if let Mode::Isolated = turn.mode {
            for (name, folder) in self.homes {
                invocation.env(name, &files::folder(&turn.job.keep.join("acp").join(folder))?);
            }
        }
        match (&self.model, model_of(agent, turn)) {
            (Model::Argument(name), Some(model)) => invocation.args([name, &model]),
            (Model::Variable(name), Some(model)) => invocation.env(name, &model),
            (Model::Settings, _) | (_, None) => {}
        }
        let servers = (self.prepare)(turn, &mut invocation)?;
        Ok((invocation, servers))
    }
}

/// The model's name, as its agent wants it.
fn model_of(agent: AcpAgent, turn: &Turn<'_>) -> Option<String> {
    let written = turn.job.model.as_deref();
    match agent {
        AcpAgent::Claude => model_for(Cli::Claude, written),
        AcpAgent::Codex => model_for(Cli::Codex, written),
        AcpAgent::Gemini => model_for(Cli::Gemini, written),
        AcpAgent::Copilot | AcpAgent::Opencode | AcpAgent::Qwen => {
            written.filter(|name| !["", "auto"].contains(name)).map(str::to_owned)
        }
    }
}

/// Given by the protocol, its servers would stand among the arguments of a program it starts, with their token.
fn claude_servers(turn: &Turn<'_>) -> io::Result<String> {
    let Entrance { url, token } = turn.door;
    let headers = json!({"Authorization": format!("Bearer {token}")});
    let server = json!({"type": "http", "url": url, "headers": headers});
    let servers = json!({"mcpServers": {SERVER: server}});
    files::private(&turn.job.folder, "mcp.json", &servers.to_string())
}

fn claude_meta(system: &str, servers: Option<&str>) -> Value {
    let options = json!({
        "extraArgs": {"mcp-config": servers},
        "strictMcpConfig": true,
        "allowedTools": [format!("mcp__{SERVER}")],
    });
    json!({"systemPrompt": {"append": system}, "claudeCode": {"options": options}})
}

/// It has its model and its provider from a file alone.
fn codex_settings(turn: &Turn<'_>, invocation: &mut Invocation) -> io::Result<Option<String>> {
    let model = model_of(AcpAgent::Codex, turn);
    let home = match (invocation.env.get("CODEX_HOME").cloned(), &model) {
        (Some(home), _) => home,
        (None, None) => return Ok(None),
        (None, Some(_)) => {
            let why = "with `mode: login` this agent has its model from your settings alone";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
    };
    let text = codex::settings(&turn.endpoint, model.as_deref());
    files::private(home.as_ref(), "config.toml", &text)?;
    invocation.env(codex::MODEL_KEY, turn.endpoint.key.as_deref().unwrap_or_default());
    Ok(None)
}

/// By itself it asks for nothing. What is given it stays, but for what keeps a person asked.
fn opencode_settings(turn: &Turn<'_>, invocation: &mut Invocation) {
    const SETTINGS: &str = "OPENCODE_CONFIG_CONTENT";
    let theirs =
        turn.job.env.get(SETTINGS).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let mut settings = theirs.filter(Value::is_object).unwrap_or_else(|| json!({}));
    settings["autoupdate"] = json!(false);
    settings["share"] = json!("disabled");
    // The last that fits decides.
    settings["permission"] = json!({"*": "ask", format!("{SERVER}_*"): "allow"});
    if let Some(model) = model_of(AcpAgent::Opencode, turn) {
        settings["model"] = json!(model);
    }
    invocation.env(SETTINGS, &settings.to_string());
}
