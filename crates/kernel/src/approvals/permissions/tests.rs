//! Tests of calls and their actions, in a folder with links.

use serde_json::json;

use super::*;

fn patterns(texts: &[&str]) -> Vec<ToolPattern> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn rules(default: PermissionAction) -> Permissions {
    Permissions {
        default: Some(default),
        allow: patterns(&[
            "Read",
            "Bash(git diff*)",
            "Bash(make)",
            "Write(src/*)",
            "Edit(/a/b)",
            "WebFetch(https://docs.rs*)",
        ]),
        ask: patterns(&["Bash(git diff --output*)", "Write(src/keys*)"]),
        deny: patterns(&["Bash(rm*)", "Write(src/lock/*)", "WebFetch(http://*)", "Task"]),
        on_ask: agent_worker_protocol::OnAsk::Wait,
        mode: None,
    }
}

/// Decides about a call in a working folder with links.
fn stance_in_linked_folder(rules: &Permissions, tool: &str, args: &Value) -> PermissionAction {
    let link = |path: &Path| {
        let to = match path.to_str().unwrap() {
            "/project/src/out" => "/etc",
            "/project/src/file" => "../../home/me/.bashrc",
            "/project/src/in" => "main.rs",
            "/project/src/round" => "round",
            "/project/other" => "src/lock",
            "/short" => "/project",
            _ => return None,
        };
        Some(PathBuf::from(to))
    };
    stance(
        rules,
        tool,
        args,
        &PathContext { cwd: Path::new("/project"), workflow_file: None, resolve_link: &link },
    )
}

fn bash(command: &str) -> (&'static str, Value) {
    ("Bash", json!({ "command": command }))
}

fn write(path: &str) -> (&'static str, Value) {
    ("Write", json!({ "file_path": path, "content": "rm" }))
}

#[test]
fn deny_comes_before_ask_before_allow_and_the_default_is_last() {
    for ((tool, args), expected) in [
        (bash("git diff"), PermissionAction::Allow),
        (bash("git diff --stat"), PermissionAction::Allow),
        (bash("make"), PermissionAction::Allow),
        (bash("make install"), PermissionAction::Ask),
        (bash("git diff --output=x"), PermissionAction::Ask),
        (bash("git push"), PermissionAction::Ask),
        // A longer command is more than its prefix shows.
        (bash("git diff; curl x | sh"), PermissionAction::Ask),
        (bash("git diff $(curl x)"), PermissionAction::Ask),
        (bash("git diff\ncurl x"), PermissionAction::Ask),
        (bash("git diff > .bashrc"), PermissionAction::Ask),
        (bash("rm -rf ."), PermissionAction::Deny),
        (bash("cd / && rm -rf ."), PermissionAction::Deny),
        (bash("git diff; (rm x)"), PermissionAction::Deny),
        (("Read", json!({ "file_path": "/etc/passwd" })), PermissionAction::Allow),
        (("read", json!({ "file_path": "/etc/passwd" })), PermissionAction::Ask),
        (("WebFetch", json!({ "url": "http://x" })), PermissionAction::Deny),
        (("WebFetch", json!({ "url": "https://x" })), PermissionAction::Ask),
        (("WebFetch", json!({ "url": "https://docs.rs/x" })), PermissionAction::Allow),
        (("WebFetch", json!({ "url": "https://docs.rs.example.com" })), PermissionAction::Ask),
        (("WebFetch", json!({})), PermissionAction::Ask),
        (("Task", json!({})), PermissionAction::Deny),
    ] {
        assert_eq!(
            stance_in_linked_folder(&rules(PermissionAction::Ask), tool, &args),
            expected,
            "{tool} {args}"
        );
    }
    for default in [PermissionAction::Allow, PermissionAction::Ask, PermissionAction::Deny] {
        assert_eq!(stance_in_linked_folder(&rules(default), "Other", &json!({})), default);
    }
}

#[test]
fn a_path_is_where_it_leads() {
    for (path, expected) in [
        ("src/main.rs", PermissionAction::Allow),
        ("/project/src/main.rs", PermissionAction::Allow),
        ("./src/./main.rs", PermissionAction::Allow),
        ("/short/src/main.rs", PermissionAction::Allow),
        ("src/in", PermissionAction::Allow),
        ("src/../.git/hooks/pre-commit", PermissionAction::Ask),
        ("src", PermissionAction::Ask),
        ("src/", PermissionAction::Ask),
        ("srcs/main.rs", PermissionAction::Ask),
        ("SRC/main.rs", PermissionAction::Ask),
        ("src/keys.rs", PermissionAction::Ask),
        ("src/lock/a", PermissionAction::Deny),
        ("other/../src/lock/a", PermissionAction::Deny),
        // Links: out of the folder, to a file that may not exist, back by `..`, and into a denied folder.
        ("src/out/passwd", PermissionAction::Ask),
        ("src/out", PermissionAction::Ask),
        ("src/file", PermissionAction::Ask),
        ("src/out/../main.rs", PermissionAction::Ask),
        ("other/a", PermissionAction::Deny),
        ("/short/other/a", PermissionAction::Deny),
        // A path that cannot be resolved is denied.
        ("src/round", PermissionAction::Deny),
        ("~/.bashrc", PermissionAction::Deny),
    ] {
        let (tool, args) = write(path);
        assert_eq!(
            stance_in_linked_folder(&rules(PermissionAction::Ask), tool, &args),
            expected,
            "{path}"
        );
    }
    let edit = json!({ "file_path": "/a/../a/b" });
    assert_eq!(
        stance_in_linked_folder(&rules(PermissionAction::Ask), "Edit", &edit),
        PermissionAction::Allow
    );
}

#[test]
fn a_call_that_is_about_several_things_or_about_nothing_readable_is_not_allowed_by_one() {
    for (tool, args, expected) in [
        ("Write", json!({ "file_path": "/etc/x", "command": "src/ok" }), PermissionAction::Ask),
        ("Write", json!({ "file_path": "/etc/x", "path": "src/ok" }), PermissionAction::Ask),
        ("Write", json!({ "file_path": "src/ok", "path": "src/lock/a" }), PermissionAction::Deny),
        ("Write", json!({ "file_path": "src/ok", "path": null }), PermissionAction::Allow),
        ("Write", json!({ "file_path": ["src/ok"] }), PermissionAction::Deny),
        ("Bash", json!({ "command": ["git", "diff"] }), PermissionAction::Allow),
        ("Bash", json!({ "command": ["git", 1] }), PermissionAction::Deny),
        ("Bash", json!({ "command": [] }), PermissionAction::Deny),
        ("Bash", json!({ "command": "make", "args": ["install"] }), PermissionAction::Ask),
        ("Bash", json!({ "command": "make", "args": [] }), PermissionAction::Allow),
        ("Bash", json!({ "command": "sudo", "args": ["rm", "x"] }), PermissionAction::Deny),
        ("Edit", json!({ "file_path": { "a": 1 } }), PermissionAction::Ask),
        ("Write", json!("src/ok"), PermissionAction::Ask),
    ] {
        assert_eq!(
            stance_in_linked_folder(&rules(PermissionAction::Ask), tool, &args),
            expected,
            "{tool} {args}"
        );
    }
}

#[test]
fn a_command_is_allowed_only_as_all_of_its_words_and_only_in_the_working_folder() {
    for (args, expected) in [
        (json!({ "command": ["/x/evil", "-lc", "git diff"] }), PermissionAction::Ask),
        (json!({ "command": ["git diff", "--stat"] }), PermissionAction::Ask),
        (json!({ "command": ["git", "diff", "a b"] }), PermissionAction::Allow),
        (json!({ "command": ["git", "diff", "a;b"] }), PermissionAction::Ask),
        (json!({ "command": ["bash", "-c", "cd /; rm x"] }), PermissionAction::Deny),
        (json!({ "command": "git diff", "cwd": "src" }), PermissionAction::Allow),
        (json!({ "command": "git diff", "cwd": "/project" }), PermissionAction::Allow),
        (json!({ "command": "git diff", "cwd": "/short/src" }), PermissionAction::Allow),
        (json!({ "command": "git diff", "cwd": "/projects" }), PermissionAction::Ask),
        (json!({ "command": "git diff", "cwd": "src/../.." }), PermissionAction::Ask),
        (json!({ "command": "git diff", "cwd": "src/out" }), PermissionAction::Ask),
        (json!({ "command": "git diff", "cwd": "~" }), PermissionAction::Ask),
        (json!({ "command": "git diff", "cwd": 1 }), PermissionAction::Ask),
        (json!({ "command": "git diff", "workdir": "/" }), PermissionAction::Ask),
        (json!({ "command": "rm x", "cwd": "/" }), PermissionAction::Deny),
        // A command that is too long to be searched may contain anything.
        (
            json!({ "command": format!("git diff {}", "x".repeat(64 * 1024)) }),
            PermissionAction::Deny,
        ),
    ] {
        assert_eq!(
            stance_in_linked_folder(&rules(PermissionAction::Ask), "Bash", &args),
            expected,
            "{args}"
        );
    }
}

#[test]
fn every_path_of_a_call_counts_and_a_call_about_files_without_one_may_be_about_any() {
    let rules = Permissions {
        default: Some(PermissionAction::Ask),
        allow: patterns(&["edit(src/*)", "execute(make)", "Write(src/*)"]),
        ask: Vec::new(),
        deny: patterns(&["edit(secret/*)", "execute(secret/*)", "Write(secret/*)"]),
        on_ask: agent_worker_protocol::OnAsk::Wait,
        mode: None,
    };
    let listed = |path: &str| json!([{ "path": path }]);
    for (tool, args, expected) in [
        ("edit", json!({ "filePath": "src/a" }), PermissionAction::Allow),
        ("edit", json!({ "filePath": "secret/a" }), PermissionAction::Deny),
        ("edit", json!({ "filepath": "secret/a" }), PermissionAction::Deny),
        ("edit", json!({ "absolute_path": "/project/secret/a" }), PermissionAction::Deny),
        ("edit", json!({ "path": "src/a", "locations": listed("src/b") }), PermissionAction::Allow),
        ("edit", json!({ "path": "src/a", "locations": listed("/x") }), PermissionAction::Ask),
        (
            "edit",
            json!({ "path": "src/a", "locations": listed("secret/a") }),
            PermissionAction::Deny,
        ),
        ("edit", json!({ "path": "src/a", "content": listed("secret/a") }), PermissionAction::Deny),
        ("edit", json!({ "path": "src/a", "locations": [{ "path": 1 }] }), PermissionAction::Deny),
        ("edit", json!({ "changes": { "src/a": {}, "src/b": {} } }), PermissionAction::Allow),
        ("edit", json!({ "changes": { "src/a": {}, "secret/b": {} } }), PermissionAction::Deny),
        (
            "edit",
            json!({ "changes": { "src/a": { "move_path": "secret/b" } } }),
            PermissionAction::Deny,
        ),
        ("edit", json!({ "changes": [{ "path": "secret/b" }] }), PermissionAction::Deny),
        ("edit", json!({ "source": "src/a", "destination": "secret/a" }), PermissionAction::Deny),
        ("edit", json!({}), PermissionAction::Deny),
        ("edit", json!({ "patch": "x" }), PermissionAction::Deny),
        ("edit", json!("src/a"), PermissionAction::Deny),
        ("edit", json!({ "locations": [] }), PermissionAction::Deny),
        (
            "execute",
            json!({ "command": "make", "locations": listed("/x") }),
            PermissionAction::Allow,
        ),
        ("Write", json!({ "source": "secret/a", "path": "src/a" }), PermissionAction::Deny),
        ("Write", json!({ "filePath": "secret/a" }), PermissionAction::Deny),
        ("Write", json!({ "file_path": "src/a", "content": "text" }), PermissionAction::Allow),
    ] {
        assert_eq!(stance_in_linked_folder(&rules, tool, &args), expected, "{tool} {args}");
    }
}

#[test]
fn the_same_rules_hold_for_the_built_in_tools_under_their_own_names() {
    use PermissionAction::{Allow, Ask, Deny};
    let rules = rules(Ask);
    let edits = json!([{ "old_string": "rm", "new_string": "", "replace_all": true }]);
    for (tool, args, expected) in [
        (
            "bash",
            json!({ "command": "git diff -w", "timeout": 5, "run_in_background": true }),
            Allow,
        ),
        ("bash", json!({ "command": "git diff --output=x" }), Ask),
        ("bash", json!({ "command": "git diff; rm x" }), Deny),
        ("read_file", json!({ "path": "/etc/passwd", "offset": 3, "limit": 2 }), Allow),
        ("write_file", json!({ "path": "src/a", "content": "rm" }), Allow),
        ("write_file", json!({ "path": "src/keys", "content": "" }), Ask),
        ("write_file", json!({ "path": "other/x", "content": "" }), Deny),
        ("edit_file", json!({ "path": "/a/b", "edits": edits }), Allow),
        ("edit_file", json!({ "path": "/a/c", "edits": edits }), Ask),
        ("fetch_url", json!({ "url": "https://docs.rs/x" }), Allow),
        ("fetch_url", json!({ "url": "http://docs.rs/x" }), Deny),
        ("bash_output", json!({ "id": "bash-1" }), Allow),
        ("search_code", json!({ "pattern": "x" }), Ask),
        // Other tools keep their spelling.
        ("BASH", json!({ "command": "git diff" }), Ask),
        ("read", json!({ "path": "x" }), Ask),
    ] {
        assert_eq!(stance_in_linked_folder(&rules, tool, &args), expected, "{tool} {args}");
    }
}

#[test]
fn without_a_default_a_built_in_tool_that_only_reads_needs_no_approval() {
    use PermissionAction::{Allow, Ask, Deny};
    let rules = Permissions::default();
    let denied = Permissions { deny: patterns(&["BashOutput"]), ..Permissions::default() };
    for (rules, tool, expected) in [
        (&rules, "read_file", Allow),
        (&rules, "search_code", Allow),
        (&rules, "bash_kill", Allow),
        (&rules, "bash", Ask),
        (&rules, "write_file", Ask),
        (&rules, "fetch_url", Ask),
        (&rules, "Read", Ask),
        (&denied, "bash_output", Deny),
    ] {
        assert_eq!(stance_in_linked_folder(rules, tool, &json!({})), expected, "{tool}");
    }
}
