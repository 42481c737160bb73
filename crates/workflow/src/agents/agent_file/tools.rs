//! Tools and rules of an agent file as `permissions:` of a backend. Pure.
//!
//! Invariant: a restriction of the file is kept, or the file is refused. Over the Agent Client Protocol rules are about
//! kinds of calls, which a note says.

use std::collections::BTreeMap;

use agent_worker_protocol::{ArgumentPattern, PermissionAction, Permissions, ToolPattern};

use super::format::AgentFileFormat;

/// Tools or rules of an agent file.
#[derive(Debug, PartialEq)]
pub(super) enum FileTools {
    Claude(ClaudeTools),
    /// Names of the only tools.
    Gemini(Vec<String>),
    Opencode(OpencodeRules),
    Codex(CodexSandbox),
}

/// Tools of an agent of Claude Code.
#[derive(Debug, PartialEq)]
pub(super) struct ClaudeTools {
    /// The only tools; none for every tool.
    pub(super) allow: Option<Vec<ToolPattern>>,
    pub(super) deny: Vec<ToolPattern>,
}

/// Rules of an agent of opencode, whose last matching rule applies. Without a rule a call is allowed.
#[derive(Debug, Default, PartialEq)]
pub(super) struct OpencodeRules {
    /// Action of the rule `*`.
    every: Option<PermissionAction>,
    of_tools: BTreeMap<String, PermissionAction>,
}

/// Sandbox of an agent of Codex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodexSandbox {
    ReadOnly,
    WorkspaceWrite,
    Unlimited,
}

/// The way in which an agent of a team runs the program of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramAccess {
    /// By its adapter.
    Native,
    /// Over the Agent Client Protocol.
    Acp,
    /// The agent has the built-in tools.
    Api,
    /// The agent runs another program.
    Other,
}

/// Result of a translation.
#[derive(Debug, PartialEq)]
pub(super) enum ToolsTranslation {
    /// Rules with the same effect.
    Rules(Permissions),
    /// Rules for kinds of calls.
    KindRules(Permissions),
    /// The key has no effect, and restricts nothing.
    NoEffect,
    /// A restriction would be lost.
    Lost,
}

/// Kinds of calls of the Agent Client Protocol, by the names of a program's tools.
type ToolKinds = &'static [(&'static str, &'static str)];

const CLAUDE_KINDS: ToolKinds = &[
    ("Agent", "think"),
    ("Bash", "execute"),
    ("Edit", "edit"),
    ("Glob", "search"),
    ("Grep", "search"),
    ("Read", "read"),
    ("WebFetch", "fetch"),
    ("WebSearch", "fetch"),
    ("Write", "edit"),
];
const GEMINI_KINDS: ToolKinds = &[
    ("glob", "search"),
    ("google_web_search", "search"),
    ("grep_search", "search"),
    ("list_directory", "search"),
    ("read_file", "read"),
    ("read_many_files", "read"),
    ("replace", "edit"),
    ("run_shell_command", "execute"),
    ("search_file_content", "search"),
    ("web_fetch", "fetch"),
    ("write_file", "edit"),
];
/// Built-in tools of agents with direct access to a model, by the names of Gemini CLI.
const GEMINI_BUILTIN_TOOLS: ToolKinds = &[
    ("glob", "list_files"),
    ("grep_search", "search_code"),
    ("list_directory", "list_files"),
    ("read_file", "read_file"),
    ("read_many_files", "read_file"),
    ("replace", "edit_file"),
    ("run_shell_command", "bash"),
    ("search_file_content", "search_code"),
    ("web_fetch", "fetch_url"),
    ("write_file", "write_file"),
];
const OPENCODE_KINDS: ToolKinds = &[
    ("bash", "execute"),
    ("edit", "edit"),
    ("glob", "search"),
    ("grep", "search"),
    ("read", "read"),
    ("task", "think"),
    ("webfetch", "fetch"),
];
/// Tools of opencode that `default: deny` leaves to an agent.
const OPENCODE_READING: [&str; 4] = ["glob", "grep", "list", "read"];
/// Tools of opencode that change something or reach the network.
const OPENCODE_ACTING: [&str; 3] = ["bash", "edit", "webfetch"];

impl ClaudeTools {
    /// Returns true if the tools restrict nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }

    fn rules(&self) -> Permissions {
        Permissions {
            default: self.allow.as_ref().map(|_| PermissionAction::Deny),
            allow: self.allow.clone().unwrap_or_default(),
            deny: self.deny.clone(),
            ..Permissions::default()
        }
    }

    fn kind_rules(&self) -> ToolsTranslation {
        let rules = self.rules();
        let of = |patterns: &[ToolPattern]| -> Vec<_> {
            patterns.iter().map(|pattern| kind_pattern(CLAUDE_KINDS, pattern)).collect()
        };
        let deny: Option<Vec<_>> = of(&rules.deny).into_iter().collect();
        // A tool without a kind is not allowed; one that the file denies would be.
        let Some(deny) = deny else { return ToolsTranslation::Lost };
        let allow = without_duplicates(of(&rules.allow).into_iter().flatten());
        let deny = without_duplicates(deny.into_iter());
        ToolsTranslation::KindRules(Permissions { allow, deny, ..rules })
    }
}

impl OpencodeRules {
    /// Adds a rule behind the others.
    pub(super) fn set(&mut self, tool: &str, action: PermissionAction) {
        if tool == "*" {
            self.of_tools.clear();
            self.every = Some(action);
        } else {
            self.of_tools.insert(tool.to_owned(), action);
        }
    }

    /// Returns true if a rule does more than to allow calls.
    pub(super) fn is_restricted(&self) -> bool {
        self.every.iter().chain(self.of_tools.values()).any(|it| *it != PermissionAction::Allow)
    }

    fn action(&self, tool: &str) -> PermissionAction {
        let action = self.of_tools.get(tool).copied().or(self.every);
        action.unwrap_or(PermissionAction::Allow)
    }

    /// Translates for the adapter, which knows two modes: everything, or reading alone.
    fn rules(&self) -> ToolsTranslation {
        let reads = OPENCODE_READING.iter().all(|it| self.action(it) == PermissionAction::Allow);
        let acts = OPENCODE_ACTING.iter().any(|it| self.action(it) != PermissionAction::Deny);
        if acts || !reads || self.action("*") == PermissionAction::Ask {
            return ToolsTranslation::Lost;
        }
        let default = Some(PermissionAction::Deny);
        ToolsTranslation::Rules(Permissions { default, ..Permissions::default() })
    }

    /// Translates for the protocol, over which the agent asks about every call.
    fn kind_rules(&self) -> ToolsTranslation {
        let mut rules = Permissions { default: self.every, ..Permissions::default() };
        for (tool, action) in &self.of_tools {
            let pattern = kind_of(OPENCODE_KINDS, tool).and_then(|kind| kind.parse().ok());
            match (pattern, action) {
                (Some(pattern), PermissionAction::Allow) => rules.allow.push(pattern),
                (Some(pattern), PermissionAction::Ask) => rules.ask.push(pattern),
                (Some(pattern), PermissionAction::Deny) => rules.deny.push(pattern),
                (None, PermissionAction::Allow) => {}
                (None, PermissionAction::Ask | PermissionAction::Deny) => {
                    return ToolsTranslation::Lost;
                }
            }
        }
        ToolsTranslation::Rules(rules)
    }
}

impl CodexSandbox {
    /// Translates for the adapter, which selects the sandbox by the default action.
    fn rules(self) -> ToolsTranslation {
        let default = match self {
            Self::ReadOnly => PermissionAction::Deny,
            Self::WorkspaceWrite => PermissionAction::Allow,
            Self::Unlimited => return ToolsTranslation::NoEffect,
        };
        ToolsTranslation::Rules(Permissions { default: Some(default), ..Permissions::default() })
    }

    /// Translates for the protocol, over which the agent asks for everything that leaves a sandbox for reading.
    fn kind_rules(self) -> ToolsTranslation {
        match self {
            Self::ReadOnly => self.rules(),
            Self::WorkspaceWrite | Self::Unlimited => ToolsTranslation::NoEffect,
        }
    }
}

impl FileTools {
    /// Translates the tools for an agent of a team.
    pub(super) fn translate(&self, access: ProgramAccess) -> ToolsTranslation {
        match (self, access) {
            // The built-in tools have the names of Claude Code as aliases; another tool does not exist.
            (Self::Claude(tools), ProgramAccess::Native | ProgramAccess::Api) => {
                ToolsTranslation::Rules(tools.rules())
            }
            (Self::Gemini(names), ProgramAccess::Api) => {
                ToolsTranslation::Rules(kind_allowance(GEMINI_BUILTIN_TOOLS, names))
            }
            (Self::Claude(tools), ProgramAccess::Acp) => tools.kind_rules(),
            (Self::Gemini(names), ProgramAccess::Acp) => gemini_kind_rules(names),
            (Self::Opencode(rules), ProgramAccess::Native) => rules.rules(),
            (Self::Opencode(rules), ProgramAccess::Acp) => rules.kind_rules(),
            (Self::Codex(sandbox), ProgramAccess::Native) => sandbox.rules(),
            (Self::Codex(sandbox), ProgramAccess::Acp) => sandbox.kind_rules(),
            (
                Self::Codex(CodexSandbox::WorkspaceWrite | CodexSandbox::Unlimited),
                ProgramAccess::Other | ProgramAccess::Api,
            ) => ToolsTranslation::NoEffect,
            (Self::Gemini(_), ProgramAccess::Native)
            | (Self::Opencode(_) | Self::Codex(CodexSandbox::ReadOnly), ProgramAccess::Api)
            | (
                Self::Claude(_)
                | Self::Gemini(_)
                | Self::Opencode(_)
                | Self::Codex(CodexSandbox::ReadOnly),
                ProgramAccess::Other,
            ) => ToolsTranslation::Lost,
        }
    }
}

/// Returns the settings of a workflow file that may keep the tools of a format, unless the agent has them.
pub(super) fn keeping_settings(
    format: AgentFileFormat,
    access: ProgramAccess,
) -> Option<&'static str> {
    match (format, access) {
        (AgentFileFormat::Claude, _) => Some("`backend: claude`"),
        (AgentFileFormat::Codex, _) => Some("`backend: codex`"),
        (AgentFileFormat::Gemini | AgentFileFormat::Opencode, ProgramAccess::Acp) => None,
        (AgentFileFormat::Gemini, _) => Some("`backend: acp, agent: gemini`"),
        (AgentFileFormat::Opencode, _) => Some("`backend: acp, agent: opencode`"),
    }
}

fn gemini_kind_rules(names: &[String]) -> ToolsTranslation {
    ToolsTranslation::KindRules(kind_allowance(GEMINI_KINDS, names))
}

/// Returns rules that allow the kinds of these tools and nothing else.
fn kind_allowance(kinds: ToolKinds, names: &[String]) -> Permissions {
    let patterns = names.iter().filter_map(|name| kind_of(kinds, name)?.parse().ok());
    let (default, allow) = (Some(PermissionAction::Deny), without_duplicates(patterns));
    Permissions { default, allow, ..Permissions::default() }
}

fn kind_of(kinds: ToolKinds, tool: &str) -> Option<&'static str> {
    kinds.iter().find(|(name, _)| *name == tool).map(|(_, kind)| *kind)
}

/// Returns the pattern for the kind of a tool, with the same condition.
fn kind_pattern(kinds: ToolKinds, pattern: &ToolPattern) -> Option<ToolPattern> {
    let kind = kind_of(kinds, pattern.tool())?;
    let text = match pattern.argument() {
        ArgumentPattern::Any => kind.to_owned(),
        ArgumentPattern::Exact(text) => format!("{kind}({text})"),
        ArgumentPattern::Prefix(start) => format!("{kind}({start}*)"),
    };
    text.parse().ok()
}

fn without_duplicates(patterns: impl Iterator<Item = ToolPattern>) -> Vec<ToolPattern> {
    let mut kept = Vec::new();
    for pattern in patterns {
        if !kept.contains(&pattern) {
            kept.push(pattern);
        }
    }
    kept
}
