//! Files in messages to real agents: their models see images, and the programs may read other files.

use std::fs;

use super::{
    matrix::{Cells, Situation, matrix_tests},
    testbed::{AgentEntry, AgentTestbed, Cli},
};

/// A PNG of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn send_file(testbed: &AgentTestbed, program: &str, file: &str) -> String {
    let said = testbed.world.run(&["send", "me@team", program, "--attach", file, "--wait"]);
    assert_eq!(said.code, 0, "{said:?}\n{}", testbed.diagnostics("me"));
    said.stdout.trim().to_owned()
}

/// Checks that the model gets the bytes of an image, in the first turn and in one that continues the conversation.
fn check_image(cli: Cli) {
    let Some(testbed) = AgentTestbed::open(&[cli], "a real agent that is shown an image") else {
        return;
    };
    let bytes: Vec<u8> = agent_worker_protocol::Base64Bytes::try_from(PIXEL.to_owned()).unwrap().0;
    fs::write(testbed.world.project().join("pixel.png"), bytes).unwrap();
    testbed.start(&[AgentEntry { name: "me", cli, settings: "" }], "");
    let images = || {
        let last = testbed.models.requests().pop().unwrap().body.to_string();
        assert!(last.contains("-1-pixel.png (image/png, "), "the prompt names the file: {last}");
        last.matches(PIXEL).count()
    };
    assert_eq!(send_file(&testbed, "SAY One.", "pixel.png"), "One.");
    assert_eq!(images(), 1, "{}", testbed.diagnostics("me"));
    assert_eq!(send_file(&testbed, "SAY Two.", "pixel.png"), "Two.");
    assert_eq!(images(), 2, "{}", testbed.diagnostics("me"));
    assert_eq!(testbed.ask("me", "SAY Three."), "Three.");
    assert_eq!(images(), 2, "{}", testbed.diagnostics("me"));
}

/// Checks that the program reads a file by the path in its prompt, without a question to a person.
fn check_text(cli: Cli, cells: &mut Cells) {
    let Some(testbed) = AgentTestbed::open(&[cli], "a real agent that reads a file of a message")
    else {
        return;
    };
    testbed.world.file("note.txt", "the word is walrus\n");
    // A question to a person would be denied.
    let settings = match cli {
        Cli::Codex | Cli::Gemini | Cli::Opencode => "",
        _ => "permissions: { on_ask: deny }",
    };
    testbed.start(&[AgentEntry { name: "me", cli, settings }], "");
    let answer = send_file(&testbed, &format!("{}ECHO", cli.read_call()), "note.txt");
    assert!(answer.contains("the word is walrus"), "{answer}\n{}", testbed.diagnostics("me"));
    cells.passed(Situation::AttachedFile);
}

#[test]
fn the_model_of_claude_code_sees_an_attached_image() {
    check_image(Cli::Claude);
}

#[test]
fn the_model_of_codex_sees_an_attached_image() {
    check_image(Cli::Codex);
}

#[test]
fn the_model_of_claude_code_over_acp_sees_an_attached_image() {
    check_image(Cli::AcpClaude);
}

matrix_tests! {
    check_text proves [AttachedFile] {
        claude_code_reads_an_attached_file: Claude,
        codex_reads_an_attached_file: Codex,
        gemini_cli_reads_an_attached_file: Gemini,
        opencode_reads_an_attached_file: Opencode,
        claude_code_over_acp_reads_an_attached_file: AcpClaude,
        codex_over_acp_reads_an_attached_file: AcpCodex,
        zeds_codex_reads_an_attached_file: AcpZedCodex,
        gemini_cli_over_acp_reads_an_attached_file: AcpGemini,
        opencode_over_acp_reads_an_attached_file: AcpOpencode,
        qwen_code_reads_an_attached_file: AcpQwen,
        copilot_reads_an_attached_file: AcpCopilot,
    }
}
