//! Messages that reach real agents in the middle of their turns (`send --now`).

use serde_json::json;

use super::testbed::{AgentEntry, AgentTestbed, Cli};
use crate::world::{kill, wait_for};

/// The daemon during the turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DaemonInTurn {
    Runs,
    /// It is killed after the message was sent, and the next one starts before the model gets the message.
    IsKilled,
}

/// Sends a message for now while a command of the agent runs, then ends the command. Returns the output of `send`.
fn send_now_during_command(testbed: &AgentTestbed, call: &str, daemon: DaemonInTurn) -> String {
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
    if daemon == DaemonInTurn::IsKilled {
        kill(testbed.world.daemon_pid().unwrap(), "KILL");
        assert_eq!(testbed.world.run(&["ls", "@team"]).code, 0);
    }
    testbed.world.file("gate", "");
    said.stdout
}

/// Checks that a message joins the running turn: its model gets it once, with the result of the command.
fn check_joined_message(cli: Cli, daemon: DaemonInTurn) {
    let Some(testbed) = AgentTestbed::open(&[cli], "a message for now to a real agent") else {
        return;
    };
    testbed
        .start(&[AgentEntry { name: "me", cli, settings: "permissions: { default: allow }" }], "");
    let said = send_now_during_command(&testbed, &gated_call(cli), daemon);
    assert!(said.contains("its running turn gets this message"), "{said}");
    let (state, ended) = testbed.end_of_turn("me");
    assert_eq!((&*state, &ended), ("idle", &json!({"end": "ok"})), "{}", testbed.diagnostics("me"));
    let attempts = testbed.status("me")["attempts"].clone();
    assert_eq!(attempts.as_array().unwrap().len(), 1, "{}", testbed.diagnostics("me"));
    let last = testbed.models.requests().pop().unwrap().body.to_string();
    assert_eq!(last.matches("from=user>\\nplease hurry").count(), 1, "{last}");
    let receipts = testbed.world.list(&["receipts", "2", "--target", "@team", "--json"]);
    assert_eq!(receipts[0]["state"], "acted", "{receipts}");
}

/// A command that runs until the file `gate` exists.
const GATED_COMMAND: &str = "until test -e gate; do sleep 0.1; done";

/// Returns the call of that command.
fn gated_call(cli: Cli) -> String {
    match cli {
        Cli::Codex => {
            format!("exec_command {}", json!({"cmd": GATED_COMMAND, "yield_time_ms": 30_000}))
        }
        _ => format!("Bash {}", json!({"command": GATED_COMMAND})),
    }
}

#[test]
fn a_message_for_now_joins_the_turn_of_claude_code() {
    check_joined_message(Cli::Claude, DaemonInTurn::Runs);
}

#[test]
fn a_message_for_now_joins_the_turn_of_codex() {
    check_joined_message(Cli::Codex, DaemonInTurn::Runs);
}

#[test]
fn a_message_for_now_joins_the_turn_of_claude_code_once_though_the_daemon_is_killed() {
    check_joined_message(Cli::Claude, DaemonInTurn::IsKilled);
}

#[test]
fn a_message_for_now_joins_the_turn_of_codex_once_though_the_daemon_is_killed() {
    check_joined_message(Cli::Codex, DaemonInTurn::IsKilled);
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
