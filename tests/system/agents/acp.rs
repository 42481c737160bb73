//! Real agents over the Agent Client Protocol: Gemini CLI, and Claude Code by its adapter.

use std::fs;

use serde_json::{Value, json};

use super::{
    finishes,
    office::{Cli, Desk, Office},
    works,
};
use crate::world::{kill, wait_for};

#[test]
fn gemini_cli_over_acp_works_with_the_team_as_itself() {
    works(Cli::AcpGemini);
}

#[test]
fn claude_code_over_acp_works_with_the_team_as_itself_and_goes_on_in_its_next_turn() {
    works(Cli::AcpClaude);
}

#[test]
fn qwen_code_over_acp_works_with_the_team_as_itself_and_goes_on_in_its_next_turn() {
    works(Cli::AcpQwen);
}

#[test]
fn copilot_over_acp_works_with_the_team_as_itself_and_goes_on_in_its_next_turn() {
    works(Cli::AcpCopilot);
}

#[test]
fn a_team_of_which_one_speaks_acp_finishes_a_workflow() {
    finishes([Cli::Claude, Cli::Codex, Cli::AcpGemini]);
}

/// Waits for the one request that is open.
fn open_request(office: &Office) -> Value {
    wait_for("a request", || {
        let open = office.world.json(&["pending", "--json"]);
        open.as_array().filter(|open| open.len() == 1).map(|open| open[0].clone())
    })
}

/// It asks before it runs a command: what is approved after the daemon was killed runs once, what is denied never.
fn asks(cli: Cli, tool: &str) {
    let Some(office) = Office::open(&[cli], "a real agent over ACP that asks") else { return };
    let mut daemon = office.world.daemon();
    office.start(&[Desk { name: "me", cli, besides: "" }], "");
    let ran = || fs::read_to_string(office.world.project().join("ran.txt")).unwrap_or_default();
    let run = |word: &str| {
        let args = json!({"command": format!("echo {word} >> ran.txt"), "description": "writes"});
        office.send("me", &format!("CALL {tool} {args}\nSAY Over."));
    };
    run("once");
    let open = open_request(&office);
    let asked = (&open["tool"], &open["args"]["command"]);
    assert_eq!(asked, (&json!("execute"), &json!("echo once >> ran.txt")), "{open}");
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    assert_eq!(ran(), "");
    let mut daemon = office.world.daemon();
    let number = open["id"].to_string();
    let approved = office.world.run(&["approve", &number]);
    assert_eq!(approved.code, 0, "{approved:?}\n{}", office.story("me"));
    let (state, ended) = office.end_of_turn("me");
    assert_eq!((&*state, &ended), ("idle", &json!({"end": "ok"})), "{}", office.story("me"));
    assert_eq!((ran().as_str(), &office.status("me")["turns"]), ("once\n", &json!(1)));

    run("never");
    let number = open_request(&office)["id"].to_string();
    assert_eq!(office.world.run(&["deny", &number]).code, 0);
    wait_for("the second turn", || (office.status("me")["turns"] == 2).then_some(()));
    let status = office.status("me");
    assert_eq!(status["attempts"][0]["ended"], json!({"end": "ok"}), "{}", office.story("me"));
    assert_eq!(ran(), "once\n");
    assert_eq!(office.others(), []);
    assert_eq!(office.world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}

#[test]
fn gemini_cli_over_acp_asks_and_what_is_approved_is_done_once_by_whatever_daemon() {
    asks(Cli::AcpGemini, "run_shell_command");
}

#[test]
fn claude_code_over_acp_asks_and_what_is_approved_is_done_once_by_whatever_daemon() {
    asks(Cli::AcpClaude, "Bash");
}
