//! Permission modes of Claude Code and of Codex: edits without approval, and reading only.

use serde_json::json;

use super::{
    super::testbed::{AgentEntry, AgentTestbed, Cli},
    RUN,
};

fn testbed(cli: Cli, what: &str, permissions: &str, program: &str) -> Option<AgentTestbed> {
    let testbed = AgentTestbed::open(&[cli], what)?;
    let settings = format!("permissions: {{ {permissions}, on_ask: deny }}");
    let entry = AgentEntry { name: "me", cli, settings: &settings };
    testbed.write(&[entry], &format!("kickoff: {}\n", json!(format!("@me\n{program}"))));
    testbed.world.file("read.txt", "the content");
    for folder in ["src", ".git/hooks", ".claude"] {
        std::fs::create_dir_all(testbed.world.project().join(folder)).unwrap();
    }
    let seen = testbed.envelope_outcome(&RUN);
    assert_eq!(seen, (0, json!("done")), "{}", testbed.diagnostics("me"));
    Some(testbed)
}

fn claude_write(path: &str) -> String {
    format!("CALL Write {}\n", json!({ "file_path": path, "content": "text" }))
}

const CLAUDE_COMMAND: &str =
    "CALL Bash {\"command\":\"touch ran.txt\",\"description\":\"marks\"}\n";

fn codex_add(file: &str) -> String {
    let patch = format!("*** Begin Patch\n*** Add File: {file}\n+text\n*** End Patch");
    format!(
        "CALL exec_command {}\n",
        json!({ "cmd": format!("apply_patch <<'EOF'\n{patch}\nEOF") })
    )
}

const CODEX_COMMAND: &str = "CALL exec_command {\"cmd\":\"touch ran.txt\"}\n";

/// Checks that only the plain file was written, and no command has run.
fn check_accepted_edits(testbed: &AgentTestbed) {
    let text = |name| testbed.text(name);
    assert!(text("src/a.txt").is_some(), "{}", testbed.diagnostics("me"));
    let others = ["ran.txt", ".git/hooks/pre-commit", ".claude/settings.json", "../outside.txt"];
    assert_eq!(others.map(text), [const { None }; 4], "{}", testbed.diagnostics("me"));
    let yaml = text("team.yaml").unwrap();
    assert!(yaml.contains("on_ask: deny"), "{yaml}");
}

#[test]
fn claude_code_edits_files_of_its_folder_without_asking_and_nothing_that_would_give_it_rights() {
    let paths = [
        "src/a.txt",
        ".git/hooks/pre-commit",
        ".claude/settings.json",
        "../outside.txt",
        "team.yaml",
    ];
    let writes: String = paths.iter().map(|path| claude_write(path)).collect();
    let program = format!("{writes}{CLAUDE_COMMAND}SAY Over.");
    let what = "Claude Code that may edit";
    let Some(testbed) = testbed(Cli::Claude, what, "mode: acceptEdits", &program) else { return };
    check_accepted_edits(&testbed);
}

#[test]
fn codex_edits_files_of_its_folder_without_asking_and_nothing_that_would_give_it_rights() {
    let paths = ["src/a.txt", ".git/hooks/pre-commit", ".claude/settings.json", "../outside.txt"];
    let writes: String = paths.iter().map(|path| codex_add(path)).collect();
    let program = format!("{writes}{CODEX_COMMAND}SAY Over.");
    let what = "Codex that may edit";
    let Some(testbed) = testbed(Cli::Codex, what, "mode: acceptEdits", &program) else { return };
    check_accepted_edits(&testbed);
}

#[test]
fn claude_code_that_plans_reads_and_is_told_why_it_does_nothing_else() {
    let read = "CALL Read {\"file_path\":\"read.txt\"}\n";
    let list = "CALL Bash {\"command\":\"ls\",\"description\":\"lists\"}\n";
    let program = format!("{read}{}{list}{CLAUDE_COMMAND}SAY Over.", claude_write("src/a.txt"));
    let what = "Claude Code that plans";
    let Some(testbed) = testbed(Cli::Claude, what, "mode: plan, default: allow", &program) else {
        return;
    };
    assert_eq!(["src/a.txt", "ran.txt"].map(|name| testbed.text(name)), [None, None]);
    let told = testbed.last_model_input();
    assert!(told.contains("the content"), "{told}");
    assert_eq!(told.matches("Bash is not allowed in plan mode").count(), 2, "{told}");
    assert!(told.contains("Write is not allowed in plan mode"), "{told}");
    let first = testbed.models.requests().remove(0).body;
    let tools = first["tools"].as_array().unwrap().iter();
    let own: Vec<_> = tools
        .filter_map(|tool| tool["name"].as_str())
        .filter(|name| !name.starts_with("mcp__team__"))
        .collect();
    assert!(own.iter().all(|name| !["Task", "Agent", "Skill"].contains(name)), "{own:?}");
}

#[test]
fn codex_that_plans_reads_and_changes_nothing() {
    let read = "CALL exec_command {\"cmd\":\"cat read.txt\"}\n";
    let program = format!("{read}{}{CODEX_COMMAND}SAY Over.", codex_add("src/a.txt"));
    let what = "Codex that plans";
    let Some(testbed) = testbed(Cli::Codex, what, "mode: plan, default: allow", &program) else {
        return;
    };
    assert_eq!(["src/a.txt", "ran.txt"].map(|name| testbed.text(name)), [None, None]);
    let told = testbed.models.requests().pop().unwrap().body["input"].to_string();
    assert!(told.contains("the content"), "{told}");
}
