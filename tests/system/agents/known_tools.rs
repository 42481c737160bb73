//! The tools of each program that its model is offered beside the team's, for the tested versions. A new tool fails a test, so
//! that a person decides whether it reaches anything past the daemon or past the turn.

use super::testbed::Cli;

/// Returns the tools of a program's own.
pub(super) fn known_tools(cli: Cli) -> &'static [&'static str] {
    match cli {
        Cli::Claude => &[
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
        ],
        Cli::Codex | Cli::AcpCodex => &[
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
        ],
        Cli::Gemini => &[
            "glob",
            "google_web_search",
            "grep_search",
            // Agents of its own, inside its process.
            "invoke_agent",
            "list_directory",
            "read_file",
            "update_topic",
        ],
        Cli::Opencode | Cli::AcpOpencode => &[
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
        ],
        Cli::AcpClaude => &[
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
        ],
        Cli::AcpZedCodex => &[
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
        ],
        Cli::AcpGemini => &[
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
        ],
        Cli::AcpQwen => &[
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
        ],
        Cli::AcpCopilot => &[
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
        ],
    }
}
