//! Messages that reach real agents in the middle of their turns (`send --now`).

use serde_json::json;

use super::testbed::{AgentEntry, AgentTestbed, Cli};
use crate::world::wait_for;

/// Sends a message for now while a command of the agent runs, then ends the command. Returns the output of `send`.
fn send_now_during_command(testbed: &AgentTestbed, call: &str) -> String {
    testbed.send("me", &format!("CALL {call}\nSAY One."));
    wait_for("its command", || {
        testbed
            .other_processes()
            .iter()
            .any(|(_, line)| line.contains("test -e gate"))
            .then_some(())
    });
    let said = testbed.world.run(&["send", "me@team", "please hurry", "--now"]);
    assert_eq!(said.code, 0, "{said:?}");
    testbed.world.file("gate", "");
    said.stdout
}

/// Checks that a message joins the running turn: its model gets it with the result of the command.
fn check_joined_message(cli: Cli, call: &str) {
    let Some(testbed) = AgentTestbed::open(&[cli], "a message for now to a real agent") else {
        return;
    };
    testbed
        .start(&[AgentEntry { name: "me", cli, settings: "permissions: { default: allow }" }], "");
    let said = send_now_during_command(&testbed, call);
    assert!(said.contains("its running turn gets this message"), "{said}");
    let (state, ended) = testbed.end_of_turn("me");
    assert_eq!((&*state, &ended), ("idle", &json!({"end": "ok"})), "{}", testbed.diagnostics("me"));
    let attempts = testbed.status("me")["attempts"].clone();
    assert_eq!(attempts.as_array().unwrap().len(), 1, "{}", testbed.diagnostics("me"));
    let last = testbed.models.requests().pop().unwrap().body.to_string();
    assert!(last.contains("from=user>\\nplease hurry"), "{last}");
    let receipts = testbed.world.list(&["receipts", "2", "--target", "@team", "--json"]);
    assert_eq!(receipts[0]["state"], "acted", "{receipts}");
}

/// A command that runs until the file `gate` exists.
const GATED_COMMAND: &str = "until test -e gate; do sleep 0.1; done";

#[test]
fn a_message_for_now_joins_the_turn_of_claude_code() {
    let call = json!({"command": GATED_COMMAND});
    check_joined_message(Cli::Claude, &format!("Bash {call}"));
}

#[test]
fn a_message_for_now_joins_the_turn_of_codex() {
    let call = json!({"cmd": GATED_COMMAND, "yield_time_ms": 30_000});
    check_joined_message(Cli::Codex, &format!("exec_command {call}"));
}

#[test]
fn a_message_for_now_interrupts_gemini_cli_and_its_next_turn_has_both_messages() {
    let Some(testbed) = AgentTestbed::open(&[Cli::Gemini], "a message for now to Gemini CLI")
    else {
        return;
    };
    testbed.start(&[AgentEntry { name: "me", cli: Cli::Gemini, settings: "" }], "");
    testbed.send("me", "HOLD\nSAY One.");
    testbed.models.wait_held(1);
    let said = testbed.world.run(&["send", "me@team", "please hurry", "--now"]);
    assert!(said.stdout.contains("interrupted the turn"), "{said:?}");
    testbed.models.wait_held(2);
    testbed.models.release_held();
    let (state, ended) = testbed.end_of_turn("me");
    assert_eq!((&*state, &ended), ("idle", &json!({"end": "ok"})), "{}", testbed.diagnostics("me"));
    let last = testbed.models.requests().pop().unwrap().body.to_string();
    assert!(last.contains("SAY One.") && last.contains("please hurry"), "{last}");
    assert_eq!(testbed.status("me")["attempts"][1]["ended"]["why"], "by user");
}
