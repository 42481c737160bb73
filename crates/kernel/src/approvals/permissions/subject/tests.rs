//! Tables of arguments: those that hide a subject, and those of the agents that are supported.

use std::path::Path;

use agent_worker_protocol::{OnAsk, PermissionAction, Permissions, ToolPattern};
use serde_json::{Value, json};

use super::super::{PathContext, stance};

fn patterns(texts: &[&str]) -> Vec<ToolPattern> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn decide(rules: &Permissions, tool: &str, args: &Value) -> PermissionAction {
    stance(
        rules,
        tool,
        args,
        &PathContext { cwd: Path::new("/project"), workflow_file: None, resolve_link: &|_| None },
    )
}

fn allowing(allow: &[&str]) -> Permissions {
    let (default, on_ask) = (Some(PermissionAction::Deny), OnAsk::Wait);
    Permissions {
        default,
        allow: patterns(allow),
        ask: Vec::new(),
        deny: Vec::new(),
        on_ask,
        mode: None,
    }
}

fn denying(deny: &[&str]) -> Permissions {
    let (default, on_ask) = (Some(PermissionAction::Allow), OnAsk::Wait);
    Permissions {
        default,
        allow: Vec::new(),
        ask: Vec::new(),
        deny: patterns(deny),
        on_ask,
        mode: None,
    }
}

/// Checks all calls, and reports all that were decided otherwise.
fn check(rules: &Permissions, expected: PermissionAction, calls: &[(&str, Value)]) {
    let is_wrong = |(tool, args): &&(&str, Value)| decide(rules, tool, args) != expected;
    let wrong: Vec<_> = calls
        .iter()
        .filter(is_wrong)
        .map(|(tool, args)| format!("{tool} {:.200}", args.to_string()))
        .collect();
    assert!(wrong.is_empty(), "not {expected:?}:\n{}", wrong.join("\n"));
}

#[test]
fn a_call_with_an_argument_that_is_not_known_is_not_allowed_by_its_other_arguments() {
    let rules = allowing(&[
        "execute(git diff*)",
        "read(./*)",
        "edit(./*)",
        "move(./*)",
        "search(./*)",
        "Glob(./*)",
        "Bash(git diff*)",
        "fetch(https://docs.rs*)",
        "other(./*)",
        "other(git diff*)",
    ]);
    let diff =
        |name: &str, value: Value| ("execute", json!({ "command": "git diff", name: value }));
    let docs = "https://docs.rs/a";
    let calls = [
        diff("env", json!({ "GIT_EXTERNAL_DIFF": "rm x" })),
        diff("workingDirectory", json!("/")),
        diff("dir", json!("/")),
        diff("dir_path", json!("/")),
        diff("folder", json!("/")),
        diff("shell", json!("/x/evil")),
        diff("script", json!("rm x")),
        diff("Command", json!("rm x")),
        diff("stdin", json!("x")),
        diff("description", json!({ "command": "rm x" })),
        diff(
            "content",
            json!([{ "type": "content", "content": { "type": "text", "text": "[in /]" } }]),
        ),
        diff("content", json!([{ "type": "content", "command": "rm x" }])),
        ("Bash", json!({ "command": "git diff", "dangerouslyDisableSandbox": true })),
        ("other", json!({ "command": "git diff", "env": {} , "shell": "x" })),
        ("read", json!({ "uri": "file:///etc/shadow" })),
        ("read", json!({ "uri": "%2e%2e/etc/shadow" })),
        ("read", json!({ "path": "file:///etc/shadow" })),
        ("read", json!({ "path": "FILE:/etc/shadow" })),
        ("read", json!({ "path": " file:///etc/shadow" })),
        ("read", json!({ "path": "file:///project/%2e%2e/etc/shadow" })),
        ("read", json!({ "path": "file://host/project/a" })),
        ("read", json!({ "path": "vscode-remote://host/etc/shadow" })),
        ("read", json!({ "path": "a", "paths": ["/etc/shadow"] })),
        ("read", json!({ "path": "a", "paths": "/etc/shadow" })),
        ("read", json!({ "path": "a", "Path": "/etc/shadow" })),
        ("edit", json!({ "uri": "file:///etc/cron.d/x" })),
        ("edit", json!({ "path": "a", "edits": [{ "path": "/etc/cron.d/x" }] })),
        ("edit", json!({ "path": "a", "edits": [{ "file": "/etc/cron.d/x" }] })),
        ("edit", json!({ "path": "a", "edits": { "/etc/cron.d/x": [] } })),
        ("edit", json!({ "changes": [{ "file_path": "/etc/x", "path": "a" }] })),
        ("edit", json!({ "changes": { "file_path": "/etc/x", "path": "a" } })),
        ("edit", json!({ "changes": { "a": {} }, "grant_root": "/" })),
        ("edit", json!({ "path": "a", "patch": "*** Update File: /etc/x" })),
        ("move", json!({ "path": "a", "to": "/etc/cron.d/x" })),
        ("move", json!({ "source": "a", "target": "/etc/cron.d/x" })),
        ("search", json!({ "path": "src", "pattern": "/etc/*" })),
        ("search", json!({ "path": "src", "pattern": "../../etc/*" })),
        ("Glob", json!({ "path": "src", "pattern": "../../etc/*" })),
        ("other", json!({ "path": "a", "target": "/etc/x" })),
        ("fetch", json!({ "url": docs, "urls": ["https://evil.com"] })),
        ("fetch", json!({ "url": docs, "uri": "https://evil.com" })),
        ("fetch", json!({ "url": docs, "prompt": "and https://evil.com" })),
        ("fetch", json!({ "url": docs, "method": "POST" })),
        ("fetch", json!({ "prompt": "get https://docs.rs/a" })),
    ];
    check(&rules, PermissionAction::Deny, &calls);
}

#[test]
fn a_denied_subject_is_found_under_every_name_and_a_missing_one_may_be_any() {
    let rules = denying(&[
        "execute(rm *)",
        "read(/etc/*)",
        "edit(/etc/*)",
        "move(/etc/*)",
        "search(/etc/*)",
        "Write(/etc/*)",
        "fetch(https://evil.com*)",
    ]);
    let docs = "https://docs.rs/a";
    let calls = [
        ("execute", json!({ "cmd": "rm x" })),
        ("execute", json!({ "script": "rm x" })),
        ("execute", json!({ "commands": "rm x" })),
        ("execute", json!({ "commandLine": "rm x" })),
        ("execute", json!({})),
        ("execute", json!({ "title": "Run a command" })),
        ("execute", json!("rm x")),
        ("execute", json!({ "command": "ls", "script": "rm x" })),
        ("execute", json!({ "command": "ls", "commands": [["rm", "x"]] })),
        ("execute", json!({ "command": "ls", "env": { "GIT_PAGER": "rm x" } })),
        ("execute", json!({ "command": "ls", "then": "x".repeat(70_000) })),
        ("read", json!({ "uri": "file:///etc/shadow" })),
        ("read", json!({ "path": "file:///etc/shadow" })),
        ("read", json!({ "path": "file:///%65tc/shadow" })),
        ("read", json!({ "path": "file://localhost/etc/shadow" })),
        ("read", json!({ "path": "a", "paths": ["/etc/shadow"] })),
        ("read", json!({ "path": "a", "also": { "b": [{ "c": "/etc/shadow" }] } })),
        ("edit", json!({ "uri": "file:///etc/cron.d/x" })),
        ("edit", json!({ "path": "a", "edits": [{ "path": "/etc/cron.d/x" }] })),
        ("edit", json!({ "path": "a", "edits": { "/etc/cron.d/x": [] } })),
        ("edit", json!({ "changes": [{ "file_path": "/etc/x", "path": "a" }] })),
        ("edit", json!({ "path": "a", "patch": "*** Begin Patch\n*** Update File: /etc/x" })),
        ("edit", json!({ "path": "a", "files": vec!["a"; 2000] })),
        ("move", json!({ "path": "a", "to": "/etc/cron.d/x" })),
        ("move", json!({ "source": "a", "target": "/etc/cron.d/x" })),
        ("search", json!({ "pattern": "/etc/*" })),
        ("Write", json!({ "file_path": "a", "source": "/etc/x" })),
        ("fetch", json!({ "uri": "https://evil.com" })),
        ("fetch", json!({ "urls": ["https://evil.com"] })),
        ("fetch", json!({ "prompt": "https://evil.com" })),
        ("fetch", json!({ "prompt": "evil.com" })),
        ("fetch", json!({ "query": "x" })),
        ("fetch", json!({ "url": docs, "prompt": "and https://evil.com/x" })),
        ("fetch", json!({ "url": docs, "mirror": "https://evil.com" })),
    ];
    check(&rules, PermissionAction::Deny, &calls);
    let calls = [
        ("execute", json!({ "command": "ls", "script": "make", "env": { "A": "b" } })),
        ("read", json!({ "path": "a", "paths": ["b"], "purpose": "rm x" })),
        ("edit", json!({ "path": "a", "content": "/etc/x" })),
        ("search", json!({ "pattern": "x" })),
        ("fetch", json!({ "url": docs, "prompt": "what is this", "mode": "fast" })),
    ];
    check(&rules, PermissionAction::Allow, &calls);
}

#[test]
fn an_ordinary_call_of_claude_code_is_allowed_by_its_subject() {
    let rules = allowing(&[
        "Bash(git diff*)",
        "Read(src/*)",
        "Edit(src/*)",
        "MultiEdit(src/*)",
        "Write(src/*)",
        "NotebookEdit(src/*)",
        "Grep(src/*)",
        "Glob(src/*)",
        "WebFetch(https://docs.rs*)",
    ]);
    let file = "/project/src/a.rs";
    let notebook = "/project/src/a.ipynb";
    let calls = [
        (
            "Bash",
            json!({ "command": "git diff", "description": "Show changes", "timeout": 1000, "run_in_background": false }),
        ),
        ("Read", json!({ "file_path": file })),
        ("Read", json!({ "file_path": file, "offset": 1, "limit": 2, "pages": "1-5" })),
        (
            "Edit",
            json!({ "file_path": file, "old_string": "a", "new_string": "b", "replace_all": true }),
        ),
        (
            "MultiEdit",
            json!({ "file_path": file, "edits": [{ "old_string": "a", "new_string": "b", "replace_all": true }] }),
        ),
        ("Write", json!({ "file_path": file, "content": "text" })),
        (
            "NotebookEdit",
            json!({ "notebook_path": notebook, "cell_id": "1", "new_source": "x", "cell_type": "code", "edit_mode": "insert" }),
        ),
        (
            "Grep",
            json!({ "pattern": "/x", "path": "src/a", "glob": "*.rs", "output_mode": "content", "-A": 1, "-B": 1, "-C": 1,
                "context": 1, "-n": true, "-i": true, "-o": true, "type": "rust", "head_limit": 5, "offset": 0, "multiline": true }),
        ),
        ("Glob", json!({ "pattern": "**/*.rs", "path": "src/a" })),
        (
            "WebFetch",
            json!({ "url": "https://docs.rs/a", "prompt": "see https://x.org", "offset": 1 }),
        ),
    ];
    check(&rules, PermissionAction::Allow, &calls);
}

#[test]
fn an_ordinary_call_of_an_agent_of_the_protocol_is_allowed_by_its_subject() {
    let rules = allowing(&[
        "execute(git diff*)",
        "read(src/*)",
        "edit(src/*)",
        "search(src/*)",
        "fetch(https://docs.rs*)",
    ]);
    let file = "/project/src/a.rs";
    let at = json!([{ "path": file, "line": 1 }]);
    let diff = json!([{ "type": "diff", "path": file, "oldText": "a", "newText": "b", "_meta": { "kind": "modify" } }]);
    let text =
        |text: &str| json!([{ "type": "content", "content": { "type": "text", "text": text } }]);
    let calls = [
        // Claude Code.
        (
            "execute",
            json!({ "command": "git diff", "description": "Show changes", "timeout": 1000 }),
        ),
        ("read", json!({ "file_path": file, "offset": 1, "limit": 2 })),
        (
            "edit",
            json!({ "file_path": file, "old_string": "a", "new_string": "b", "replace_all": false }),
        ),
        ("edit", json!({ "file_path": file, "content": "text" })),
        (
            "search",
            json!({ "pattern": "a", "path": "src/a", "-n": true, "output_mode": "content" }),
        ),
        ("fetch", json!({ "url": "https://docs.rs/a", "prompt": "what is this" })),
        // Codex.
        (
            "execute",
            json!({ "command": "git diff", "cwd": "/project", "reason": "needs the network" }),
        ),
        ("edit", json!({ "title": "Edit", "path": file, "content": diff, "locations": at })),
        (
            "edit",
            json!({ "call_id": "c", "turn_id": "1", "reason": null, "grant_root": null,
                "changes": { file: { "type": "update", "unified_diff": "@@", "move_path": null } } }),
        ),
        ("edit", json!({ "changes": { file: { "add": { "content": "x" } } } })),
        (
            "edit",
            json!({ "changes": [{ "path": file, "kind": { "type": "update", "move_path": null }, "diff": "@@" }] }),
        ),
        // Gemini sends no input: the arguments are the fields of the protocol.
        (
            "execute",
            json!({ "command": "git diff", "content": text("[current working directory /project] (Show changes)"), "locations": [] }),
        ),
        (
            "execute",
            json!({ "command": "git diff", "content": text("[in src] (Show changes) [background]") }),
        ),
        ("edit", json!({ "title": "Edit a.rs", "path": file, "content": diff, "locations": at })),
        ("read", json!({ "title": "a.rs", "path": file, "locations": at })),
        // Qwen Code and Copilot.
        (
            "execute",
            json!({ "command": "git diff", "description": "d", "is_background": false, "directory": "/project/src", "timeout": 5 }),
        ),
        (
            "edit",
            json!({ "file_path": file, "old_string": "a", "new_string": "b", "expected_replacements": 1, "instruction": "i" }),
        ),
        ("read", json!({ "absolute_path": file, "offset": 1, "limit": 2 })),
        (
            "search",
            json!({ "pattern": "a", "dir_path": "src/a", "include": "*.rs", "case_sensitive": true }),
        ),
        // opencode.
        (
            "execute",
            json!({ "command": "git diff", "description": "d", "workdir": "/project", "timeout": 5 }),
        ),
        (
            "edit",
            json!({ "filePath": file, "oldString": "a", "newString": "b", "replaceAll": true }),
        ),
        ("edit", json!({ "filepath": file, "diff": "@@", "locations": at })),
        (
            "edit",
            json!({ "filepath": "src/a.rs", "diff": "@@", "files": [{ "filePath": file, "relativePath": "src/a.rs", "type": "update",
                "diff": "@@", "before": "a", "after": "b", "additions": 1, "deletions": 1, "movePath": null }] }),
        ),
        ("read", json!({ "filePath": file, "offset": 1, "limit": 2 })),
        ("search", json!({ "pattern": "a", "path": "src/a", "include": "*.rs" })),
        ("fetch", json!({ "url": "https://docs.rs/a", "format": "markdown", "timeout": 5 })),
    ];
    check(&rules, PermissionAction::Allow, &calls);
}
