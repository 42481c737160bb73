//! How a worker reaches a model: a vendor's program, an agent of a protocol, any other program, or a script.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{mock::MockRule, words::words};

/// How a worker reaches a model, with what that way needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "backend", rename_all = "snake_case")]
pub enum Backend {
    /// A script instead of a model.
    Mock {
        /// The script.
        rules: Vec<MockRule>,
    },
    /// A vendor's own agent, started anew for every turn.
    Native(Native),
    /// An agent that speaks the Agent Client Protocol, started anew for every turn.
    Acp(Acp),
    /// Any executable.
    Command {
        /// The program and its arguments.
        command: Vec<String>,
    },
}

/// A vendor's own agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Native {
    /// Whose.
    pub cli: VendorCli,
    /// The program and what always comes first, if it is not found by its usual name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Where its settings and its login come from. Absent: isolated if there is a key, else login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<CredentialMode>,
    /// Whether a turn goes on with the conversation of the last one.
    #[serde(default)]
    pub session: SessionPolicy,
}

/// An agent that speaks the Agent Client Protocol: one whose ways are known, or any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acp {
    /// Which, if its ways are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AcpAgent>,
    /// The program and its arguments. Of a known agent: the program and what always comes first, if it is not found by its
    /// usual name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Where a known agent has its settings and its login from. Absent: isolated if there is a key, else login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<CredentialMode>,
    /// Whether a turn goes on with the conversation of the last one.
    #[serde(default)]
    pub session: SessionPolicy,
}

/// An agent of the Agent Client Protocol whose ways are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AcpAgent {
    /// Claude Code, by its adapter `claude-agent-acp`.
    Claude,
    /// Codex, by an adapter `codex-acp`.
    Codex,
    /// GitHub Copilot CLI.
    Copilot,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
    /// Qwen Code.
    Qwen,
}

/// A vendor's command-line agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VendorCli {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
    /// Cursor's CLI.
    Cursor,
}

/// Where a vendor's agent has its settings and its login from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CredentialMode {
    /// A folder of its own, and a key from the environment.
    Isolated,
    /// The person's own.
    Login,
}

/// What a turn knows of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionPolicy {
    /// The whole conversation, where the backend keeps it.
    #[default]
    Continue,
    /// Nothing.
    Fresh,
}

words! {
    AcpAgent {
        Claude => "claude", Codex => "codex", Copilot => "copilot", Gemini => "gemini", Opencode => "opencode",
        Qwen => "qwen",
    }
    VendorCli { Claude => "claude", Codex => "codex", Gemini => "gemini", Opencode => "opencode", Cursor => "cursor" }
    CredentialMode { Isolated => "isolated", Login => "login" }
    SessionPolicy { Continue => "continue", Fresh => "fresh" }
}

impl VendorCli {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Claude, Self::Codex, Self::Gemini, Self::Opencode, Self::Cursor];

    /// What its program is called, the usual name first.
    pub const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Claude => &["claude"],
            Self::Codex => &["codex"],
            Self::Gemini => &["gemini"],
            Self::Opencode => &["opencode"],
            Self::Cursor => &["cursor-agent", "agent"],
        }
    }

    /// The variables it has its key, its endpoint and its settings from: they reach it without being named in a file.
    pub const fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Claude => &[
                "ANTHROPIC_API_KEY",
                "ANTHROPIC_AUTH_TOKEN",
                "ANTHROPIC_BASE_URL",
                "CLAUDE_CODE_OAUTH_TOKEN",
                "CLAUDE_CONFIG_DIR",
            ],
            Self::Codex => &["CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_HOME"],
            Self::Gemini => {
                &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GEMINI_CLI_HOME"]
            }
            // It asks whichever provider its model is of.
            Self::Opencode => &[
                "ANTHROPIC_API_KEY",
                "ANTHROPIC_BASE_URL",
                "GEMINI_API_KEY",
                "GOOGLE_GEMINI_BASE_URL",
                "GOOGLE_GENERATIVE_AI_API_KEY",
                "OPENAI_API_KEY",
                "OPENAI_BASE_URL",
                "OPENCODE_API_KEY",
                "OPENCODE_CONFIG",
                "OPENCODE_CONFIG_DIR",
                "OPENROUTER_API_KEY",
                "XDG_CONFIG_HOME",
                "XDG_DATA_HOME",
                "XDG_STATE_HOME",
            ],
            Self::Cursor => &["CURSOR_API_KEY", "XDG_CONFIG_HOME"],
        }
    }
}

impl Acp {
    /// What the protocol tells calls apart by: it knows no names of tools. What is none of these is the last.
    pub const TOOL_KINDS: [&str; 10] = [
        "read",
        "edit",
        "delete",
        "move",
        "search",
        "execute",
        "think",
        "fetch",
        "switch_mode",
        "other",
    ];
}

impl AcpAgent {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Claude, Self::Codex, Self::Copilot, Self::Gemini, Self::Opencode, Self::Qwen];

    /// The variables it has its key, its endpoint and its settings from.
    pub const fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Claude => VendorCli::Claude.variables(),
            Self::Codex => VendorCli::Codex.variables(),
            Self::Gemini => VendorCli::Gemini.variables(),
            Self::Copilot => &[
                "COPILOT_GITHUB_TOKEN",
                "GH_TOKEN",
                "GITHUB_TOKEN",
                "COPILOT_PROVIDER_API_KEY",
                "COPILOT_PROVIDER_BASE_URL",
                "COPILOT_OFFLINE",
                "COPILOT_HOME",
            ],
            Self::Opencode => &[
                "OPENCODE_API_KEY",
                "ANTHROPIC_API_KEY",
                "OPENAI_API_KEY",
                "GEMINI_API_KEY",
                "OPENROUTER_API_KEY",
                "OPENCODE_CONFIG_CONTENT",
            ],
            Self::Qwen => &["OPENAI_API_KEY", "OPENAI_BASE_URL", "QWEN_HOME"],
        }
    }
}

impl Backend {
    /// Its word in the file.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Mock { .. } => "mock",
            Self::Native(native) => native.cli.word(),
            Self::Acp(_) => "acp",
            Self::Command { .. } => "command",
        }
    }

    /// The variables its worker gets beside those that everybody gets and those that the file names.
    pub fn variables(&self) -> &'static [&'static str] {
        match self {
            Self::Native(native) => native.cli.variables(),
            Self::Acp(acp) => acp.agent.map_or(&[], AcpAgent::variables),
            Self::Mock { .. } | Self::Command { .. } => &[],
        }
    }
}
