//! Calls of Codex that need approval: approved, denied, decided by rules, without a person, and with kills in between.

use serde_json::json;

use super::{
    super::{
        matrix::{Cells, Situation, matrix_tests},
        testbed::{AgentEntry, AgentTestbed, Cli},
    },
    ATTACH, RUN, run_until_asked_and_kill_the_daemon,
};
use crate::world::{kill, wait_for};

const RUN_ONCE_SCRIPT: &str = "CALL exec_command {\"cmd\":\"echo once >> ran.txt\"}\n";

fn codex_testbed(what: &str, permissions: &str, program: &str) -> Option<AgentTestbed> {
    let testbed = AgentTestbed::open(&[Cli::Codex], what)?;
    let settings = format!("permissions: {{ {permissions} }}\nretry: {{ max_attempts: 2 }}");
    let entry = AgentEntry { name: "me", cli: Cli::Codex, settings: &settings };
    testbed.write(&[entry], &format!("kickoff: {}\n", json!(format!("@me\n{program}"))));
    Some(testbed)
}

/// Returns a call that adds a file.
fn add_file(name: &str) -> String {
    let patch = format!("*** Begin Patch\n*** Add File: {name}\n+text\n*** End Patch");
    let cmd = format!("apply_patch <<'EOF'\n{patch}\nEOF");
    format!("CALL exec_command {}\n", json!({ "cmd": cmd }))
}

/// Returns the last input of the model.
fn last_input(testbed: &AgentTestbed) -> String {
    testbed.models.requests().pop().unwrap().body["input"].to_string()
}

#[track_caller]
fn check_outcome(testbed: &AgentTestbed, words: &[&str], code: i32, outcome: &str) {
    let seen = testbed.envelope_outcome(words);
    assert_eq!(seen, (code, json!(outcome)), "{}", testbed.diagnostics("me"));
}

matrix_tests! {
    check_approval_and_denial proves [Approved, Denied] {
        codex_does_what_is_approved_once_and_nothing_that_is_denied: Codex,
    }
    check_kills_while_asking proves [Approved] {
        what_codex_asked_is_answered_and_done_once_though_the_daemon_and_then_the_worker_are_killed: Codex,
    }
}

fn check_approval_and_denial(_: Cli, cells: &mut Cells) {
    let program = format!("{RUN_ONCE_SCRIPT}{}SAY Over.", add_file("denied.txt"));
    let what = "Codex that asks for approval";
    let Some(testbed) = codex_testbed(what, "default: ask", &program) else { return };
    check_outcome(&testbed, &RUN, 4, "human");
    let asked = testbed.open_requests();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let project = testbed.world.project();
    let args = json!({"command": "echo once >> ran.txt", "cwd": project});
    assert_eq!((&asked[0]["tool"], &asked[0]["args"]), (&json!("execute"), &args));
    assert_eq!(testbed.text("ran.txt"), None, "nothing has happened");
    assert_eq!(testbed.world.run(&["approve", "1"]).code, 0);
    check_outcome(&testbed, &ATTACH, 4, "human");
    assert_eq!(testbed.text("ran.txt").as_deref(), Some("once\n"));
    let asked = testbed.open_requests();
    let change =
        json!({"path": project.join("denied.txt"), "kind": {"type": "add"}, "diff": "text\n"});
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(
        (&asked[0]["tool"], &asked[0]["args"]),
        (&json!("edit"), &json!({"changes": [change]}))
    );
    assert_eq!(testbed.world.run(&["deny", "2", "-r", "not into that file"]).code, 0);
    check_outcome(&testbed, &ATTACH, 0, "done");
    let files = (testbed.text("ran.txt"), testbed.text("denied.txt"));
    assert_eq!(files, (Some("once\n".to_owned()), None));
    let told = last_input(&testbed);
    assert!(told.contains("denied by user: not into that file"), "{told}");
    assert_eq!(testbed.status("me")["turns"], 1, "one turn went through all of it");
    cells.passed(Situation::Approved);
    cells.passed(Situation::Denied);
    assert_eq!(testbed.other_processes(), []);
}

fn check_kills_while_asking(_: Cli, cells: &mut Cells) {
    let program = format!("{RUN_ONCE_SCRIPT}SAY Over.");
    let what = "kills while Codex waits";
    let Some(testbed) = codex_testbed(what, "default: ask", &program) else { return };
    run_until_asked_and_kill_the_daemon(&testbed);
    let mut daemon = testbed.world.daemon();
    assert_eq!(testbed.open_requests().len(), 1, "it waits in the next daemon too");
    // Kills the worker and its program without notice.
    for (pid, _) in testbed.other_processes() {
        kill(pid, "KILL");
    }
    wait_for("the next attempt", || {
        let attempts = testbed.status("me")["attempts"].as_array().unwrap().len();
        (attempts == 2 && testbed.open_requests().len() == 1).then_some(())
    });
    assert_eq!(testbed.text("ran.txt"), None);
    assert_eq!(testbed.world.run(&["approve", "1"]).code, 0);
    check_outcome(&testbed, &ATTACH, 0, "done");
    assert_eq!(testbed.text("ran.txt").as_deref(), Some("once\n"), "{}", testbed.diagnostics("me"));
    assert_eq!(testbed.world.run(&["approve", "2"]).code, 1, "there was one request");
    cells.passed(Situation::Approved);
    assert_eq!(testbed.world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}

#[test]
fn without_a_person_present_codex_continues_without_approval_or_its_turn_fails() {
    let program = format!("{RUN_ONCE_SCRIPT}SAY Over.");
    let what = "Codex with nobody there";
    let Some(denied) = codex_testbed(what, "on_ask: deny", &program) else { return };
    check_outcome(&denied, &RUN, 0, "done");
    let told = last_input(&denied);
    assert!(told.contains("no person is present to approve it"), "{told}");
    let Some(fails) = codex_testbed(what, "default: ask, on_ask: fail", &program) else { return };
    check_outcome(&fails, &RUN, 1, "failed");
    let ended = &fails.status("me")["attempts"][0]["ended"];
    assert_eq!(ended["class"], "permission", "{ended}");
    assert_eq!((denied.text("ran.txt"), fails.text("ran.txt")), (None, None));
    assert_eq!(fails.other_processes(), []);
}

#[test]
fn rules_decide_about_commands_and_files_of_codex_without_a_person() {
    let program = format!(
        "CALL exec_command {{\"cmd\":\"touch ran.txt\"}}\n{}SAY Over.",
        add_file("src/a.txt")
    );
    for (permissions, runs, edits) in [
        ("default: deny, allow: ['execute(touch*)']", true, false),
        ("default: deny, allow: ['edit(src/*)']", false, true),
        ("default: allow, deny: ['execute(touch*)']", false, true),
        ("default: allow, deny: ['edit(src/*)']", true, false),
        ("default: deny", false, false),
    ] {
        let what = "Codex with rules for its calls";
        let Some(testbed) = codex_testbed(what, permissions, &program) else { return };
        std::fs::create_dir(testbed.world.project().join("src")).unwrap();
        check_outcome(&testbed, &RUN, 0, "done");
        let done = (testbed.text("ran.txt").is_some(), testbed.text("src/a.txt").is_some());
        assert_eq!(done, (runs, edits), "{permissions}: {}", testbed.diagnostics("me"));
        let told = last_input(&testbed);
        let explains = told.contains("is not allowed here");
        assert_eq!(explains, permissions != "default: deny", "{permissions}: {told}");
    }
}
