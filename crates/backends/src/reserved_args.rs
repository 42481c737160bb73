//! Arguments of the vendors' programs that `args:` of a workflow file may not contain: the worker or another key sets them,
//! or they would break a turn.

/// Arguments of Claude Code that `args:` may not contain.
pub(crate) const CLAUDE_RESERVED_ARGS: &[&str] = &[
    "--agent",
    "--agents",
    "--allowedTools",
    "--allowed-tools",
    "--append-system-prompt",
    "--append-system-prompt-file",
    "--bg",
    "--continue",
    "--dangerously-skip-permissions",
    "--disallowedTools",
    "--disallowed-tools",
    "--effort",
    "--fallback-model",
    "--fork-session",
    "--input-format",
    "--max-turns",
    "--mcp-config",
    "--model",
    "--no-session-persistence",
    "--output-format",
    "--permission-mode",
    "--permission-prompt-tool",
    "--permission-prompts",
    "--print",
    "--resume",
    "--session-id",
    "--settings",
    "--strict-mcp-config",
    "--system-prompt",
    "--system-prompt-file",
    "--system-prompt-snapshot",
    "--tools",
    "--worktree",
    "-c",
    "-p",
    "-r",
    "-w",
];

/// Arguments of Codex that `args:` may not contain.
pub(crate) const CODEX_RESERVED_ARGS: &[&str] = &[
    "--ask-for-approval",
    "--cd",
    "--dangerously-bypass-approvals-and-sandbox",
    "--ephemeral",
    "--full-auto",
    "--json",
    "--model",
    "--sandbox",
    "--skip-git-repo-check",
    "--yolo",
    "-C",
    "-a",
    "-m",
    "-s",
    "exec",
    "resume",
];

/// Arguments of Cursor's CLI that `args:` may not contain.
pub(crate) const CURSOR_RESERVED_ARGS: &[&str] =
    &["--approve-mcps", "--force", "--model", "--output-format", "--print", "--resume", "-f", "-p"];

/// Arguments of opencode that `args:` may not contain.
pub(crate) const OPENCODE_RESERVED_ARGS: &[&str] = &[
    "--attach",
    "--continue",
    "--format",
    "--log-level",
    "--model",
    "--print-logs",
    "--session",
    "--title",
    "--variant",
    "-c",
    "-m",
    "-s",
    "run",
];

/// Arguments of Gemini CLI that `args:` may not contain.
pub(crate) const GEMINI_RESERVED_ARGS: &[&str] = &[
    "--acp",
    "--allowed-mcp-server-names",
    "--approval-mode",
    "--experimental-acp",
    "--model",
    "--output-format",
    "--prompt",
    "--prompt-interactive",
    "--resume",
    "--skip-trust",
    "--yolo",
    "-i",
    "-m",
    "-o",
    "-p",
    "-r",
    "-y",
];
