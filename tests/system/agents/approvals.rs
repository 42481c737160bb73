//! Calls that need approval: approved, denied, without a person, and with kills in between. Here those of Claude Code.

pub(super) mod codex;
mod for_run;
mod modes;

use std::fs;

use serde_json::{Value, json};

use super::{
    matrix::{Cells, Situation, matrix_tests},
    testbed::{AgentEntry, AgentTestbed, Cli},
};
use crate::world::{kill, wait_for};

const RUN_ONCE_SCRIPT: &str =
    "CALL Bash {\"command\":\"echo once >> ran.txt\",\"description\":\"notes it\"}\n";

fn claude_testbed(what: &str, permissions: &str, program: &str) -> Option<AgentTestbed> {
    let testbed = AgentTestbed::open(&[Cli::Claude], what)?;
    let settings = format!("permissions: {{ {permissions} }}\nretry: {{ max_attempts: 2 }}");
    let entry = AgentEntry { name: "me", cli: Cli::Claude, settings: &settings };
    testbed.write(&[entry], &format!("kickoff: {}\n", json!(format!("@me\n{program}"))));
    Some(testbed)
}

impl AgentTestbed {
    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.world.project().join(name)).ok()
    }

    /// Follows the run without a terminal; returns the exit code and the outcome in the envelope.
    fn envelope_outcome(&self, words: &[&str]) -> (i32, Value) {
        let (code, envelope) = self.world.envelope(words);
        (code, envelope["outcome"].clone())
    }

    fn open_requests(&self) -> Vec<Value> {
        self.world.list(&["pending", "--json"]).as_array().unwrap().clone()
    }

    /// Returns the last input of the model.
    fn last_model_input(&self) -> String {
        self.models.requests().pop().unwrap().body["messages"].to_string()
    }
}

const RUN: [&str; 3] = ["run", "team.yaml", "--json"];
const ATTACH: [&str; 3] = ["attach", "@team", "--json"];

/// Runs the team until its agent asks for an approval, then kills the daemon.
fn run_until_asked_and_kill_the_daemon(testbed: &AgentTestbed) {
    let mut daemon = testbed.world.daemon();
    assert_eq!(
        testbed.envelope_outcome(&RUN),
        (4, json!("human")),
        "{}",
        testbed.diagnostics("me")
    );
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
}

matrix_tests! {
    check_approval_and_denial proves [Approved, Denied] {
        claude_code_does_what_is_approved_once_and_nothing_that_is_denied: Claude,
    }
    check_kills_while_asking proves [Approved] {
        what_claude_code_asked_is_answered_and_done_once_though_the_daemon_and_then_the_worker_are_killed: Claude,
    }
}

fn check_approval_and_denial(_: Cli, cells: &mut Cells) {
    let program = format!(
        "{RUN_ONCE_SCRIPT}CALL Write {{\"file_path\":\"denied.txt\",\"content\":\"never\"}}\nSAY Over."
    );
    let Some(testbed) = claude_testbed("a real agent that asks for approval", "", &program) else {
        return;
    };
    assert_eq!(
        testbed.envelope_outcome(&RUN),
        (4, json!("human")),
        "{}",
        testbed.diagnostics("me")
    );
    let asked = testbed.open_requests();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let args = json!({"command": "echo once >> ran.txt", "description": "notes it"});
    assert_eq!((&asked[0]["tool"], &asked[0]["args"]), (&json!("Bash"), &args));
    assert_eq!(testbed.text("ran.txt"), None, "nothing has happened");
    assert_eq!(testbed.world.run(&["approve", "1"]).code, 0);
    assert_eq!(
        testbed.envelope_outcome(&ATTACH),
        (4, json!("human")),
        "{}",
        testbed.diagnostics("me")
    );
    assert_eq!(testbed.text("ran.txt").as_deref(), Some("once\n"));
    let asked = testbed.open_requests();
    assert_eq!((asked.len(), &asked[0]["tool"]), (1, &json!("Write")), "{asked:?}");
    assert_eq!(testbed.world.run(&["deny", "2", "-r", "not into that file"]).code, 0);
    assert_eq!(
        testbed.envelope_outcome(&ATTACH),
        (0, json!("done")),
        "{}",
        testbed.diagnostics("me")
    );
    assert_eq!(
        (testbed.text("ran.txt").as_deref(), testbed.text("denied.txt")),
        (Some("once\n"), None)
    );
    assert!(
        testbed.last_model_input().contains("denied by user: not into that file"),
        "{}",
        testbed.last_model_input()
    );
    assert_eq!(testbed.status("me")["turns"], 1, "one turn went through all of it");
    cells.passed(Situation::Approved);
    cells.passed(Situation::Denied);
}

fn check_kills_while_asking(_: Cli, cells: &mut Cells) {
    let program = format!("{RUN_ONCE_SCRIPT}SAY Over.");
    let Some(testbed) = claude_testbed("kills while a real agent waits", "", &program) else {
        return;
    };
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
    assert_eq!(testbed.world.run(&["approve", "1"]).code, 0);
    assert_eq!(
        testbed.envelope_outcome(&ATTACH),
        (0, json!("done")),
        "{}",
        testbed.diagnostics("me")
    );
    assert_eq!(testbed.text("ran.txt").as_deref(), Some("once\n"), "{}", testbed.diagnostics("me"));
    assert_eq!(testbed.world.run(&["approve", "2"]).code, 1, "there was one request");
    cells.passed(Situation::Approved);
    assert_eq!(testbed.world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}

#[test]
fn an_answer_given_while_no_attempt_of_claude_code_lives_is_used_by_the_next_and_not_again() {
    let program = format!("{RUN_ONCE_SCRIPT}{RUN_ONCE_SCRIPT}SAY Over.");
    let Some(testbed) = claude_testbed("an answer between two attempts", "", &program) else {
        return;
    };
    run_until_asked_and_kill_the_daemon(&testbed);
    for (pid, _) in testbed.other_processes() {
        kill(pid, "KILL");
    }
    let mut daemon = testbed.world.daemon();
    assert_eq!(testbed.world.run(&["approve", "1"]).code, 0);
    // The same call again is a new request: one answer is for one call.
    wait_for("the second request", || {
        let open = testbed.open_requests();
        (open.first()?["id"] == 2).then_some(())
    });
    assert_eq!(testbed.text("ran.txt").as_deref(), Some("once\n"), "{}", testbed.diagnostics("me"));
    assert_eq!(testbed.world.run(&["deny", "2"]).code, 0);
    assert_eq!(
        testbed.envelope_outcome(&ATTACH),
        (0, json!("done")),
        "{}",
        testbed.diagnostics("me")
    );
    assert_eq!(testbed.text("ran.txt").as_deref(), Some("once\n"));
    assert_eq!(testbed.world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}

#[test]
fn without_a_person_present_claude_code_continues_without_approval_or_its_turn_fails() {
    let program = format!("{RUN_ONCE_SCRIPT}SAY Over.");
    let what = "a real agent with nobody there";
    let Some(denied) = claude_testbed(what, "on_ask: deny", &program) else { return };
    assert_eq!(denied.envelope_outcome(&RUN), (0, json!("done")), "{}", denied.diagnostics("me"));
    assert!(
        denied.last_model_input().contains("no person is present to approve it"),
        "{}",
        denied.last_model_input()
    );
    let Some(fails) = claude_testbed(what, "on_ask: fail", &program) else { return };
    let (code, envelope) = fails.world.envelope(&RUN);
    assert_eq!((code, &envelope["outcome"]), (1, &json!("failed")), "{envelope}");
    let ended = &fails.status("me")["attempts"][0]["ended"];
    assert_eq!(ended["class"], "permission", "{ended}");
    assert_eq!((denied.text("ran.txt"), fails.text("ran.txt")), (None, None));
}

#[test]
fn the_model_of_claude_code_approves_nothing_itself() {
    let itself = json!({"tool_name": "Bash", "input": {"command": "echo once >> ran.txt", "description": "notes it"}});
    let program = format!("CALL mcp__gate__approve {itself}\n{RUN_ONCE_SCRIPT}SAY Over.");
    let what = "a model that would approve by itself";
    let Some(testbed) = claude_testbed(what, "", &program) else { return };
    assert_eq!(
        testbed.envelope_outcome(&RUN),
        (4, json!("human")),
        "{}",
        testbed.diagnostics("me")
    );
    let first = testbed.models.requests().remove(0).body;
    let offered: Vec<_> =
        first["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str()).collect();
    assert!(offered.contains(&Some("mcp__team__inbox_check")), "{offered:?}");
    assert!(!offered.contains(&Some("mcp__gate__approve")), "{offered:?}");
    let told = testbed.last_model_input();
    assert!(told.contains("No such tool available: mcp__gate__approve"), "{told}");
    let asked = testbed.open_requests();
    assert_eq!((asked.len(), &asked[0]["id"]), (1, &json!(1)), "what it called asked for nothing");
    assert_eq!(testbed.world.run(&["deny", "1"]).code, 0);
    assert_eq!(
        testbed.envelope_outcome(&ATTACH),
        (0, json!("done")),
        "{}",
        testbed.diagnostics("me")
    );
    assert_eq!(testbed.text("ran.txt"), None);
}

/// Reads a file in two ways for which Claude Code does not ask by default.
const READS: &str = "CALL Bash {\"command\":\"cat secret.txt\",\"description\":\"reads\"}\n\
    CALL Read {\"file_path\":\"secret.txt\"}\nSAY Over.";

#[test]
fn what_claude_code_would_do_without_asking_is_kept_from_it_where_the_file_says_so() {
    let what = "a real agent that reads what it may not";
    for (permissions, reads) in [
        ("default: allow", "the secret"),
        ("deny: ['Bash(cat*)', 'Read(secret*)']", "is not allowed here"),
        ("default: deny, allow: ['Bash(ls*)', 'Read(src/*)']", "is not allowed here"),
        ("default: deny", "there is no tool Bash"),
    ] {
        let Some(testbed) = claude_testbed(what, permissions, READS) else { return };
        testbed.world.file("secret.txt", "the secret");
        assert_eq!(
            testbed.envelope_outcome(&RUN),
            (0, json!("done")),
            "{permissions}: {}",
            testbed.diagnostics("me")
        );
        let said = testbed.world.run(&["peek", "@team"]).stdout;
        let told = format!("{} {said}", testbed.last_model_input());
        assert!(told.contains(reads), "{permissions}: {told}");
        assert_eq!(told.contains("the secret"), reads == "the secret", "{permissions}: {told}");
    }
}
