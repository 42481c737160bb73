//! Decides by the mode of an agent about a call that no pattern matches. Pure.
//!
//! Invariant: `accept_edits` allows no edit outside of the working folder, of the workflow file, or of a path with a hidden
//! part: an agent that writes `.git/hooks`, `.claude/settings.json` or `.envrc` could run commands without an approval.

use agent_worker_backends::{BuiltinEffect, builtin_tool};
use agent_worker_protocol::{PermissionAction, PermissionMode};

use super::{
    PathContext,
    subject::{CallSubject, CallSubjects},
};

/// The effect of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolAccess {
    Reads,
    Edits,
    Fetches,
    /// A command, or a tool with an unknown effect.
    Other,
}

/// Returns the action of a mode, if the mode decides about the call.
pub(super) fn mode_action(
    mode: PermissionMode,
    tool: &str,
    subjects: &CallSubjects<'_>,
    here: &PathContext<'_>,
) -> Option<PermissionAction> {
    match (mode, ToolAccess::of(tool)) {
        (PermissionMode::AcceptEdits, ToolAccess::Edits) => {
            edits_plain_files(subjects, here).then_some(PermissionAction::Allow)
        }
        (
            PermissionMode::AcceptEdits,
            ToolAccess::Reads | ToolAccess::Fetches | ToolAccess::Other,
        )
        | (PermissionMode::Plan, ToolAccess::Fetches) => None,
        (PermissionMode::Plan, ToolAccess::Reads) => {
            reads_working_folder(subjects, here).then_some(PermissionAction::Allow)
        }
        (PermissionMode::Plan, ToolAccess::Edits | ToolAccess::Other) => {
            Some(PermissionAction::Deny)
        }
    }
}

impl ToolAccess {
    /// Returns the effect of a tool of Claude Code, or of a kind of call.
    fn of(tool: &str) -> Self {
        match builtin_tool(tool).map(|row| row.effect) {
            Some(BuiltinEffect::Reads) => return Self::Reads,
            Some(BuiltinEffect::Edits) => return Self::Edits,
            Some(BuiltinEffect::Fetches) => return Self::Fetches,
            Some(BuiltinEffect::Runs | BuiltinEffect::Follows) => return Self::Other,
            None => {}
        }
        match tool {
            "Glob" | "Grep" | "LS" | "NotebookRead" | "Read" | "read" | "search" => Self::Reads,
            "Edit" | "MultiEdit" | "NotebookEdit" | "Write" | "edit" => Self::Edits,
            "WebFetch" | "WebSearch" | "fetch" => Self::Fetches,
            _ => Self::Other,
        }
    }
}

/// Returns true if a call only changes files of the working folder that give no further rights.
fn edits_plain_files(subjects: &CallSubjects<'_>, here: &PathContext<'_>) -> bool {
    let is_plain = |subject: &CallSubject<'_>| match subject {
        CallSubject::Path(path) => path.is_plain_work_file(here),
        CallSubject::Command(_) | CallSubject::Url(_) | CallSubject::Unknown => false,
    };
    !subjects.has_unknown_argument
        && !subjects.named.is_empty()
        && subjects.named.iter().all(is_plain)
}

/// Returns true if a call reads only the working folder. A search without a path does so.
fn reads_working_folder(subjects: &CallSubjects<'_>, here: &PathContext<'_>) -> bool {
    let is_inside = |subject: &CallSubject<'_>| match subject {
        CallSubject::Path(path) => path.is_in_working_folder(here),
        CallSubject::Command(_) | CallSubject::Url(_) | CallSubject::Unknown => false,
    };
    !subjects.has_unknown_argument && subjects.named.iter().all(is_inside)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use agent_worker_protocol::Permissions;
    use serde_json::{Value, json};

    use super::{super::stance, *};

    fn action(rules: &str, tool: &str, args: &Value) -> PermissionAction {
        let rules: Permissions = serde_json::from_str(rules).unwrap();
        let link = |path: &Path| {
            let target = match path.to_str().unwrap() {
                "/home/me/work/out" => "/etc",
                "/home/me/work/git" => ".git",
                "/home/me/work/team" => "team.yaml",
                "/short" => "/home/me/work",
                _ => return None,
            };
            Some(PathBuf::from(target))
        };
        let here = PathContext {
            cwd: Path::new("/short"),
            workflow_file: Some(Path::new("/home/me/work/team.yaml")),
            resolve_link: &link,
        };
        stance(&rules, tool, args, &here)
    }

    #[test]
    fn accept_edits_allows_edits_of_plain_files_in_the_working_folder_alone() {
        use PermissionAction::{Allow, Ask};
        for (path, expected) in [
            ("a.rs", Allow),
            ("src/deep/a.rs", Allow),
            ("/short/a", Allow),
            ("/home/me/work/a", Allow),
            ("a.b/c", Allow),
            ("../a", Ask),
            ("/etc/passwd", Ask),
            ("out/passwd", Ask),
            ("~/.bashrc", Ask),
            ("", Ask),
            (".", Ask),
            (".git/hooks/pre-commit", Ask),
            ("sub/.git/config", Ask),
            ("git/hooks/pre-commit", Ask),
            (".GIT/config", Ask),
            (".claude/settings.json", Ask),
            (".codex/config.toml", Ask),
            (".vscode/tasks.json", Ask),
            (".envrc", Ask),
            ("team.yaml", Ask),
            ("team", Ask),
            ("src/../team.yaml", Ask),
        ] {
            let write = action(r#"{"mode":"accept_edits"}"#, "Write", &json!({"file_path": path}));
            assert_eq!(write, expected, "{path}");
            let changes = json!({"changes": [{"path": "ok"}, {"path": path}]});
            let edit = action(r#"{"mode":"accept_edits"}"#, "edit", &changes);
            assert_eq!(edit, expected, "{path}");
        }
    }

    #[test]
    fn explicit_rules_come_before_the_mode_and_the_default_after_it() {
        use PermissionAction::{Allow, Ask, Deny};
        let path = |path: &str| json!({"file_path": path});
        let bash = || json!({"command": "ls"});
        let (edits, plan) = (r#"{"mode":"accept_edits""#, r#"{"mode":"plan""#);
        for (rules, tool, args, expected) in [
            (edits, "", "Edit", path("a"), Allow),
            (edits, r#","deny":["Edit(a)"]"#, "Edit", path("a"), Deny),
            (edits, r#","ask":["Edit(a)"]"#, "Edit", path("a"), Ask),
            (edits, r#","allow":["Edit(.git/*)"]"#, "Edit", path(".git/x"), Allow),
            (edits, r#","default":"deny""#, "Edit", path("a"), Allow),
            (edits, r#","default":"deny""#, "Edit", path("../a"), Deny),
            (edits, "", "Edit", json!({"file_path": "a", "mode": 7}), Ask),
            (edits, "", "Bash", bash(), Ask),
            (edits, "", "delete", json!({"path": "a"}), Ask),
            (edits, "", "Read", path("/etc/passwd"), Ask),
            (plan, "", "Edit", path("a"), Deny),
            (plan, "", "Bash", bash(), Deny),
            (plan, "", "execute", bash(), Deny),
            (plan, "", "mcp__x__y", json!({}), Deny),
            (plan, "", "other", json!({}), Deny),
            (plan, "", "delete", json!({"path": "a"}), Deny),
            (plan, r#","default":"allow""#, "Bash", bash(), Deny),
            (plan, r#","allow":["Bash(ls)"]"#, "Bash", bash(), Allow),
            (plan, r#","ask":["Bash(ls)"]"#, "Bash", bash(), Ask),
            (plan, "", "Read", path("a"), Allow),
            (plan, "", "Read", path(".git/config"), Allow),
            (plan, "", "Grep", json!({"pattern": "x"}), Allow),
            (plan, "", "Glob", json!({"pattern": "/etc/*"}), Ask),
            (plan, "", "Read", path("out/passwd"), Ask),
            (plan, r#","default":"deny""#, "Read", path("/etc/passwd"), Deny),
            (plan, r#","deny":["Read(a)"]"#, "Read", path("a"), Deny),
            (plan, "", "WebFetch", json!({"url": "https://x"}), Ask),
            (plan, "", "read_file", json!({"path": "a"}), Allow),
            (plan, "", "search_code", json!({"pattern": "/etc"}), Allow),
            (plan, r#","default":"deny""#, "read_file", json!({"path": "/etc/passwd"}), Deny),
            (plan, "", "bash", bash(), Deny),
            (plan, "", "write_file", json!({"path": "a", "content": ""}), Deny),
            (plan, "", "fetch_url", json!({"url": "https://x"}), Ask),
            (edits, "", "write_file", json!({"path": "a", "content": ""}), Allow),
            (edits, "", "edit_file", json!({"path": ".git/config", "edits": []}), Ask),
        ]
        .map(|(mode, more, tool, args, expected)| (format!("{mode}{more}}}"), tool, args, expected))
        {
            assert_eq!(action(&rules, tool, &args), expected, "{rules} {tool} {args}");
        }
    }
}
