//! Conversations of real agents: a team that grows, long messages, a lost conversation, and messages for a running turn.

use std::fs;

use serde_json::{Value, json};

use super::{
    matrix::{Cells, Situation, matrix_tests},
    testbed::{AgentEntry, AgentTestbed, Cli},
};
use crate::world::wait_for;

/// Code with the sign that some programs take for a reference to a file.
const CODE: &str = "@Override void f() { mail(\"a@b.example\"); } // @todo";

/// Returns the last request to the model.
fn last_request(testbed: &AgentTestbed) -> String {
    testbed.models.requests().pop().unwrap().body.to_string()
}

/// Returns two messages of almost 30 KiB each, which one prompt can hold. Both are scripts.
fn long_messages() -> [String; 2] {
    let line = format!("{CODE}\n");
    let text = line.repeat((29 << 10) / line.len());
    ["one", "two"].map(|part| format!("{text}SAY Part {part}."))
}

/// Checks a second turn that learns about a new agent and gets a prompt of 58 KiB, and one that begins after the loss of
/// the conversation.
fn check_conversation(cli: Cli, cells: &mut Cells) {
    let Some(testbed) = AgentTestbed::open(&[cli], "conversations of a real agent") else { return };
    testbed.start(&[AgentEntry { name: "me", cli, settings: "" }], "");
    testbed.send("me", "HOLD\nSAY The first answer.");
    testbed.models.wait_held(1);
    let joined = testbed.world.run(&["new", "latecomer", "-b", "mock", "--instance", "team"]);
    assert_eq!(joined.code, 0, "{joined:?}");
    let messages = long_messages();
    for message in &messages {
        testbed.send("me", message);
    }
    testbed.models.release_held();
    wait_for("the second turn", || (testbed.status("me")["turns"] == 2).then_some(()));
    let last = last_request(&testbed);
    assert!(last.contains("latecomer"), "{}", testbed.diagnostics("me"));
    cells.passed(Situation::LateJoiner);
    for message in &messages {
        let sent = json!(message).to_string();
        assert!(last.contains(sent.trim_matches('"')), "{}", testbed.diagnostics("me"));
    }
    assert_eq!(testbed.ask("me", "SAY The next answer."), "The next answer.");
    cells.passed(Situation::LongText);

    let first = testbed.status("me")["session"]["id"].clone();
    lose_conversation(&testbed);
    assert_eq!(testbed.ask("me", "SAY The last answer."), "The last answer.");
    let status = testbed.status("me");
    let attempts = status["attempts"].as_array().unwrap().len();
    assert_eq!((&status["turns"], attempts), (&json!(4), 4), "{}", testbed.diagnostics("me"));
    assert!(first == Value::Null || status["session"]["id"] != first, "{status}");
    let last = last_request(&testbed);
    assert!(!last.contains("The next answer."), "{last}");
    cells.passed(Situation::LostConversation);
}

/// Removes the files of the program.
fn lose_conversation(testbed: &AgentTestbed) {
    let run = testbed.status("me")["run"].as_str().unwrap().to_owned();
    let folder = testbed.world.home().join("runs").join(run).join("agent-me");
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            fs::remove_dir_all(entry.path()).unwrap();
        }
    }
}

/// Checks that an urgent message reaches an agent in the middle of its answer: in that turn, or after an interrupt.
fn check_send_now(cli: Cli, cells: &mut Cells) {
    let Some(testbed) = AgentTestbed::open(&[cli], "a message for now to a real agent") else {
        return;
    };
    testbed.start(&[AgentEntry { name: "me", cli, settings: "" }], "");
    testbed.send("me", "HOLD\nSAY these are a few words");
    testbed.models.wait_held(1);
    let said = testbed.world.run(&["send", "me@team", "please hurry", "--now"]);
    assert_eq!(said.code, 0, "{said:?}");
    wait_for("both messages, and the end", || {
        testbed.models.release_held();
        let status = testbed.status("me");
        let has_ended = status["state"] == "idle";
        let last = last_request(&testbed);
        (has_ended && last.contains("few words") && last.contains("please hurry")).then_some(())
    });
    let ended = testbed.status("me")["attempts"][0]["ended"].clone();
    assert_eq!(ended, json!({"end": "ok"}), "{}", testbed.diagnostics("me"));
    assert_eq!(testbed.other_processes(), []);
    cells.passed(Situation::SendNow);
}

matrix_tests! {
    check_conversation proves [LateJoiner, LongText, LostConversation] {
        the_conversation_of_claude_code_has_the_current_team_and_long_texts: Claude,
        the_conversation_of_codex_has_the_current_team_and_long_texts: Codex,
        the_conversation_of_gemini_cli_has_the_current_team_and_long_texts: Gemini,
        the_conversation_of_opencode_has_the_current_team_and_long_texts: Opencode,
        the_conversation_of_claude_code_over_acp_has_the_current_team_and_long_texts: AcpClaude,
        the_conversation_of_codex_over_acp_has_the_current_team_and_long_texts: AcpCodex,
        the_conversation_of_zeds_codex_has_the_current_team_and_long_texts: AcpZedCodex,
        the_conversation_of_gemini_cli_over_acp_has_the_current_team_and_long_texts: AcpGemini,
        the_conversation_of_opencode_over_acp_has_the_current_team_and_long_texts: AcpOpencode,
        the_conversation_of_qwen_code_has_the_current_team_and_long_texts: AcpQwen,
        the_conversation_of_copilot_has_the_current_team_and_long_texts: AcpCopilot,
    }
    check_send_now proves [SendNow] {
        a_message_for_now_reaches_claude_code_in_its_answer: Claude,
        a_message_for_now_reaches_codex_in_its_answer: Codex,
        a_message_for_now_reaches_gemini_cli_in_its_answer: Gemini,
        a_message_for_now_reaches_opencode_in_its_answer: Opencode,
        a_message_for_now_reaches_claude_code_over_acp_in_its_answer: AcpClaude,
        a_message_for_now_reaches_codex_over_acp_in_its_answer: AcpCodex,
        a_message_for_now_reaches_zeds_codex_in_its_answer: AcpZedCodex,
        a_message_for_now_reaches_gemini_cli_over_acp_in_its_answer: AcpGemini,
        a_message_for_now_reaches_opencode_over_acp_in_its_answer: AcpOpencode,
        a_message_for_now_reaches_qwen_code_in_its_answer: AcpQwen,
        a_message_for_now_reaches_copilot_in_its_answer: AcpCopilot,
    }
}
