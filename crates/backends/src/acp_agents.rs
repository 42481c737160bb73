//! The agents of the Agent Client Protocol that have a row: how each is started and isolated, how it gets its model, and how its usage is
//! counted.
//!
//! An agent that needs more than these columns (a settings file, say) has a hook in the worker.

use crate::{
    models::{ModelNames, model_name},
    providers::EndpointSource,
    registry::{CLAUDE_VARIABLES, CODEX_VARIABLES, GEMINI_VARIABLES},
    spec::TEAM_SERVER_NAME,
    variables::{CLAUDE_CLOUDS, CloudVariables, GEMINI_CLOUDS},
};

/// An agent of the protocol, as a row of the registry.
#[derive(Debug)]
pub struct AcpAgentSpec {
    /// The word in `agent:`.
    pub name: &'static str,
    /// The usual name of its program.
    pub program: &'static str,
    /// A command that installs the program.
    pub install: &'static str,
    /// Arguments that make it speak the protocol.
    pub args: &'static [&'static str],
    /// Further arguments when it is isolated.
    pub isolated_args: &'static [&'static str],
    /// Environment of every turn.
    pub env: &'static [(&'static str, &'static str)],
    /// Folders of its own when isolated, after the variables that name them.
    pub homes: &'static [(&'static str, &'static str)],
    /// Variables with its key, endpoint and settings folder. They reach it without being named in a workflow file.
    pub variables: &'static [&'static str],
    /// The clouds through which it can reach its models.
    pub clouds: &'static [CloudVariables],
    /// The endpoint and key of its models.
    pub endpoint: EndpointSource,
    /// The form in which it takes the name of a model.
    pub model_names: ModelNames,
    /// The place of the name of a model.
    pub model_setting: AcpModelSetting,
    /// The mode in which it asks a person, if it starts in another.
    pub mode: Option<&'static str>,
    /// Its support for continuing a conversation.
    pub session_support: AcpSessionSupport,
    /// The scope of the tokens it reports.
    pub tokens: AcpUsageScope,
    /// The scope of the cost it reports.
    pub cost: AcpUsageScope,
    /// The place of the name of a tool.
    pub tool_naming: AcpToolNaming,
}

/// The place of the name of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcpModelSetting {
    /// An option on the command line.
    Argument(&'static str),
    /// An environment variable.
    Variable(&'static str),
    /// A settings file, which a hook in the worker writes.
    Settings,
}

/// Support of an agent for continuing a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcpSessionSupport {
    /// As it advertises.
    AsAdvertised,
    /// No, although it advertises it: to load one it begins another in the same file.
    Unsupported,
}

/// The scope of a figure that an agent reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcpUsageScope {
    /// Usage of this turn.
    Turn,
    /// All turns of the conversation so far.
    Conversation,
    /// The scope is unknown.
    Unknown,
}

/// The place of the name of a tool. The protocol has a field for it, which few agents use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcpToolNaming {
    /// The field of the protocol.
    #[default]
    NameField,
    /// The title: name and server of a tool of the team, or the exact command that it runs.
    Title,
    /// The input: server and tool.
    RawInput,
}

/// A row with nothing in it.
const EMPTY: AcpAgentSpec = AcpAgentSpec {
    name: "",
    program: "",
    install: "",
    args: &[],
    isolated_args: &[],
    env: &[],
    homes: &[],
    variables: &[],
    clouds: &[],
    endpoint: EndpointSource::Unknown,
    model_names: ModelNames::AsWritten,
    model_setting: AcpModelSetting::Argument("--model"),
    mode: None,
    session_support: AcpSessionSupport::AsAdvertised,
    tokens: AcpUsageScope::Unknown,
    cost: AcpUsageScope::Unknown,
    tool_naming: AcpToolNaming::NameField,
};

/// All agents with a row.
pub static ACP_AGENTS: [AcpAgentSpec; 6] = [
    AcpAgentSpec {
        name: "claude",
        program: "claude-agent-acp",
        install: "npm install --global @agentclientprotocol/claude-agent-acp",
        env: &[
            ("ENABLE_TOOL_SEARCH", "false"),
            ("CLAUDE_CODE_DISABLE_ATTACHMENTS", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("CLAUDE_CODE_MAX_RETRIES", "3"),
            ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
        ],
        homes: &[("CLAUDE_CONFIG_DIR", "claude")],
        variables: CLAUDE_VARIABLES,
        clouds: CLAUDE_CLOUDS,
        endpoint: EndpointSource::Provider("anthropic"),
        model_names: ModelNames::Bare(&["anthropic", "claude"]),
        model_setting: AcpModelSetting::Variable("ANTHROPIC_MODEL"),
        tokens: AcpUsageScope::Turn,
        cost: AcpUsageScope::Turn,
        ..EMPTY
    },
    AcpAgentSpec {
        name: "codex",
        program: "codex-acp",
        install: "npm install --global @agentclientprotocol/codex-acp",
        homes: &[("CODEX_HOME", "codex")],
        variables: CODEX_VARIABLES,
        endpoint: EndpointSource::Provider("openai"),
        model_names: ModelNames::Bare(&["openai", "codex"]),
        model_setting: AcpModelSetting::Settings,
        // In its first mode one of the two adapters lets a model decide instead of a person.
        mode: Some("read-only"),
        tokens: AcpUsageScope::Turn,
        tool_naming: AcpToolNaming::RawInput,
        ..EMPTY
    },
    AcpAgentSpec {
        name: "copilot",
        program: "copilot",
        install: "npm install --global @github/copilot",
        args: &[
            "--acp",
            "--no-auto-update",
            "--disable-builtin-mcps",
            "--allow-tool",
            TEAM_SERVER_NAME,
            // Agents of its own, which work on after the turn.
            "--excluded-tools",
            "task",
            "list_agents",
            "read_agent",
            "write_agent",
        ],
        homes: &[("COPILOT_HOME", "copilot")],
        variables: &[
            "COPILOT_GITHUB_TOKEN",
            "GH_TOKEN",
            "GITHUB_TOKEN",
            "COPILOT_PROVIDER_API_KEY",
            "COPILOT_PROVIDER_BASE_URL",
            "COPILOT_OFFLINE",
            "COPILOT_HOME",
        ],
        endpoint: EndpointSource::Variables {
            base_url: Some("COPILOT_PROVIDER_BASE_URL"),
            keys: &["COPILOT_PROVIDER_API_KEY", "COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"],
        },
        model_setting: AcpModelSetting::Variable("COPILOT_MODEL"),
        tokens: AcpUsageScope::Turn,
        ..EMPTY
    },
    AcpAgentSpec {
        name: "gemini",
        program: "gemini",
        install: "npm install --global @google/gemini-cli",
        args: &["--acp", "--skip-trust", "--allowed-mcp-server-names", TEAM_SERVER_NAME],
        env: &[("GEMINI_CLI_NO_RELAUNCH", "true")],
        homes: &[("GEMINI_CLI_HOME", "gemini")],
        variables: GEMINI_VARIABLES,
        clouds: GEMINI_CLOUDS,
        endpoint: EndpointSource::Provider("google"),
        model_names: ModelNames::Bare(&["google", "gemini"]),
        session_support: AcpSessionSupport::Unsupported,
        tokens: AcpUsageScope::Turn,
        // It has the team's server alone, so that no title of another server can be a model's own words.
        tool_naming: AcpToolNaming::Title,
        ..EMPTY
    },
    AcpAgentSpec {
        name: "opencode",
        program: "opencode",
        install: "npm install --global opencode-ai",
        args: &["acp", "--pure", "--print-logs", "--log-level", "ERROR"],
        env: &[("OPENCODE_DISABLE_AUTOUPDATE", "1"), ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1")],
        homes: &[
            ("XDG_DATA_HOME", "opencode/data"),
            ("XDG_CONFIG_HOME", "opencode/config"),
            ("XDG_CACHE_HOME", "opencode/cache"),
            ("XDG_STATE_HOME", "opencode/state"),
        ],
        variables: &[
            "OPENCODE_API_KEY",
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "OPENROUTER_API_KEY",
            "OPENCODE_CONFIG_CONTENT",
        ],
        endpoint: EndpointSource::Variables {
            base_url: None,
            keys: &[
                "OPENCODE_API_KEY",
                "ANTHROPIC_API_KEY",
                "OPENAI_API_KEY",
                "GEMINI_API_KEY",
                "OPENROUTER_API_KEY",
            ],
        },
        model_setting: AcpModelSetting::Settings,
        // Its tokens are those of its last step alone.
        cost: AcpUsageScope::Conversation,
        ..EMPTY
    },
    AcpAgentSpec {
        name: "qwen",
        program: "qwen",
        install: "npm install --global @qwen-code/qwen-code",
        args: &[
            "--acp",
            "--allowed-tools",
            "mcp__team",
            // Agents of its own and tools that watch them, which work on after the turn.
            "--exclude-tools",
            "agent",
            "--exclude-tools",
            "send_message",
            "--exclude-tools",
            "task_stop",
            "--exclude-tools",
            "monitor",
        ],
        // Without settings it knows no way to log in.
        isolated_args: &["--auth-type", "openai"],
        homes: &[("QWEN_HOME", "qwen")],
        variables: &["OPENAI_API_KEY", "OPENAI_BASE_URL", "QWEN_HOME"],
        endpoint: EndpointSource::Variables {
            base_url: Some("OPENAI_BASE_URL"),
            keys: &["OPENAI_API_KEY"],
        },
        ..EMPTY
    },
];

/// Returns an agent by its word.
pub fn find_acp_agent(word: &str) -> Option<&'static AcpAgentSpec> {
    ACP_AGENTS.iter().find(|agent| agent.name == word)
}

impl AcpAgentSpec {
    /// Returns the name of a model as the agent takes it; `None` where the agent chooses.
    pub fn model_name(&self, written: Option<&str>) -> Option<String> {
        model_name(self.name, self.model_names, written)
    }
}
