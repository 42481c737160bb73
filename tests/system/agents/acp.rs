//! Real agents over the Agent Client Protocol: Gemini CLI, and Claude Code through its adapter.

use std::fs;

use serde_json::{Value, json};

use super::{
    check_hand_over, check_team_tools_and_session,
    testbed::{AgentEntry, AgentTestbed, Cli},
};
use crate::world::{kill, wait_for};

#[test]
fn gemini_cli_over_acp_works_with_the_team_as_itself() {
    check_team_tools_and_session(Cli::AcpGemini);
}

#[test]
fn claude_code_over_acp_works_with_the_team_as_itself_and_goes_on_in_its_next_turn() {
    check_team_tools_and_session(Cli::AcpClaude);
}

#[test]
fn qwen_code_over_acp_works_with_the_team_as_itself_and_goes_on_in_its_next_turn() {
    check_team_tools_and_session(Cli::AcpQwen);
}

#[test]
fn copilot_over_acp_works_with_the_team_as_itself_and_goes_on_in_its_next_turn() {
    check_team_tools_and_session(Cli::AcpCopilot);
}

#[test]
fn a_team_of_which_one_speaks_acp_finishes_a_workflow() {
    check_hand_over([Cli::Claude, Cli::Codex, Cli::AcpGemini]);
}

/// Waits for the only open request.
fn open_request(testbed: &AgentTestbed) -> Value {
    wait_for("a request", || {
        let open = testbed.world.list(&["pending", "--json"]);
        open.as_array().filter(|open| open.len() == 1).map(|open| open[0].clone())
    })
}

/// Checks that an agent asks before it runs a command: an approval after a kill of the daemon runs it once, a
/// denial never.
fn check_approval(cli: Cli, tool: &str) {
    let Some(testbed) = AgentTestbed::open(&[cli], "a real agent over ACP that asks") else {
        return;
    };
    let mut daemon = testbed.world.daemon();
    testbed.start(&[AgentEntry { name: "me", cli, settings: "" }], "");
    let ran = || fs::read_to_string(testbed.world.project().join("ran.txt")).unwrap_or_default();
    let run = |word: &str| {
        let args = json!({"command": format!("echo {word} >> ran.txt"), "description": "writes"});
        testbed.send("me", &format!("CALL {tool} {args}\nSAY Over."));
    };
    run("once");
    let open = open_request(&testbed);
    let asked = (&open["tool"], &open["args"]["command"]);
    assert_eq!(asked, (&json!("execute"), &json!("echo once >> ran.txt")), "{open}");
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    assert_eq!(ran(), "");
    let mut daemon = testbed.world.daemon();
    let number = open["id"].to_string();
    let approved = testbed.world.run(&["approve", &number]);
    assert_eq!(approved.code, 0, "{approved:?}\n{}", testbed.diagnostics("me"));
    let (state, ended) = testbed.end_of_turn("me");
    assert_eq!((&*state, &ended), ("idle", &json!({"end": "ok"})), "{}", testbed.diagnostics("me"));
    assert_eq!((ran().as_str(), &testbed.status("me")["turns"]), ("once\n", &json!(1)));

    run("never");
    let number = open_request(&testbed)["id"].to_string();
    assert_eq!(testbed.world.run(&["deny", &number]).code, 0);
    wait_for("the second turn", || (testbed.status("me")["turns"] == 2).then_some(()));
    let status = testbed.status("me");
    assert_eq!(
        status["attempts"][0]["ended"],
        json!({"end": "ok"}),
        "{}",
        testbed.diagnostics("me")
    );
    assert_eq!(ran(), "once\n");
    assert_eq!(testbed.other_processes(), []);
    assert_eq!(testbed.world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}

#[test]
fn gemini_cli_over_acp_asks_and_what_is_approved_is_done_once_by_whatever_daemon() {
    check_approval(Cli::AcpGemini, "run_shell_command");
}

#[test]
fn claude_code_over_acp_asks_and_what_is_approved_is_done_once_by_whatever_daemon() {
    check_approval(Cli::AcpClaude, "Bash");
}
