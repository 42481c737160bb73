//! The tools of each program that its model is offered beside the team's, for the tested versions. A new tool fails a test, so
//! that a person decides whether it reaches anything past the daemon or past the turn.

use super::testbed::Cli;

const CLAUDE_TOOLS: &[&str] = &[
    "Agent",
    // Becomes `ask_human`.
    "AskUserQuestion",
    "Bash",
    "Edit",
    "NotebookEdit",
    "Read",
    "ReportFindings",
    "Skill",
    "WebFetch",
    "WebSearch",
    "Write",
];

const CODEX_TOOLS: &[&str] = &[
    "create_goal",
    "exec_command",
    "get_goal",
    "list_mcp_resource_templates",
    "list_mcp_resources",
    // Agents of its own, inside its process.
    "multi_agent_v1",
    "read_mcp_resource",
    "update_goal",
    "view_image",
    "write_stdin",
];

const GEMINI_TOOLS: &[&str] = &[
    "glob",
    "google_web_search",
    "grep_search",
    // Agents of its own, inside its process.
    "invoke_agent",
    "list_directory",
    "read_file",
    "update_topic",
];

const OPENCODE_TOOLS: &[&str] = &[
    "bash",
    "edit",
    "glob",
    "grep",
    "read",
    "skill",
    // Agents of its own, inside its process.
    "task",
    "todowrite",
    "webfetch",
    "write",
];

const ACP_CLAUDE_TOOLS: &[&str] = &[
    "Agent",
    "Bash",
    "Edit",
    "NotebookEdit",
    "Read",
    "Skill",
    // A list of the session's own tasks.
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskUpdate",
    "WebFetch",
    "WebSearch",
    "Write",
];

const ACP_ZED_CODEX_TOOLS: &[&str] = &[
    "create_goal",
    "exec_command",
    "get_goal",
    "list_mcp_resource_templates",
    "list_mcp_resources",
    // Agents of its own, inside its process.
    "multi_agent_v1",
    "read_mcp_resource",
    "update_goal",
    "update_plan",
    "view_image",
    "write_stdin",
];

const ACP_GEMINI_TOOLS: &[&str] = &[
    "activate_skill",
    "glob",
    "google_web_search",
    "grep_search",
    // Agents of its own, inside its process.
    "invoke_agent",
    // Commands that it left running in this turn.
    "list_background_processes",
    "list_directory",
    "read_background_output",
    "read_file",
    "replace",
    "run_shell_command",
    "update_topic",
    "web_fetch",
    "write_file",
    "write_todos",
];

const ACP_QWEN_TOOLS: &[&str] = &[
    "edit",
    "glob",
    "grep_search",
    "list_directory",
    "read_file",
    "run_shell_command",
    "skill",
    "todo_write",
    "tool_search",
    "web_fetch",
    "write_file",
];

const ACP_COPILOT_TOOLS: &[&str] = &[
    "bash",
    "create",
    "edit",
    "glob",
    "grep",
    "list_bash",
    "read_bash",
    "sql",
    "stop_bash",
    "view",
];

/// Returns the tools of a program's own.
pub(super) fn known_tools(cli: Cli) -> &'static [&'static str] {
    match cli {
        Cli::Claude => CLAUDE_TOOLS,
        Cli::Codex | Cli::AcpCodex => CODEX_TOOLS,
        Cli::Gemini => GEMINI_TOOLS,
        Cli::Opencode | Cli::AcpOpencode => OPENCODE_TOOLS,
        Cli::AcpClaude => ACP_CLAUDE_TOOLS,
        Cli::AcpZedCodex => ACP_ZED_CODEX_TOOLS,
        Cli::AcpGemini => ACP_GEMINI_TOOLS,
        Cli::AcpQwen => ACP_QWEN_TOOLS,
        Cli::AcpCopilot => ACP_COPILOT_TOOLS,
    }
}
