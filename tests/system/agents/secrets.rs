//! The arguments of a real agent's processes, which every user of the machine can read.

use serde_json::json;

use super::{
    matrix::{Cells, Situation, matrix_tests},
    testbed::{AgentEntry, AgentTestbed, Cli},
};
use crate::model_server::KEY;

/// Returns true if a word may be a token: as long as ours, and no ordinary word.
fn is_secret(piece: &str) -> bool {
    piece.len() >= 32 && piece.contains(|c: char| c.is_ascii_digit())
}

/// Reads the arguments in the middle of a turn, while the agent has its key and the team's tools.
fn check_arguments(cli: Cli, cells: &mut Cells) {
    let Some(testbed) = AgentTestbed::open(&[cli], "the arguments of a real agent's processes")
    else {
        return;
    };
    testbed.start(&[AgentEntry { name: "me", cli, settings: "" }], "");
    testbed.send("me", "CALL channel_send {\"message\":\"one\"}\nHOLD\nSAY Over.");
    testbed.models.wait_held(1);
    assert_ne!(testbed.agent_pids("me"), [0; 0], "{cli:?} does not run");
    for (pid, line) in testbed.other_processes() {
        let mut pieces = line.split(|c: char| !c.is_ascii_alphanumeric());
        let secret = pieces.find(|piece| is_secret(piece)).or(line.contains(KEY).then_some(KEY));
        assert_eq!(secret, None, "{cli:?}, process {pid}: {line}");
    }
    testbed.models.release_held();
    let (_, ended) = testbed.end_of_turn("me");
    assert_eq!(ended, json!({"end": "ok"}), "{}", testbed.diagnostics("me"));
    cells.passed(Situation::NoSecrets);
}

matrix_tests! {
    check_arguments proves [NoSecrets] {
        no_secret_is_among_the_arguments_of_claude_code: Claude,
        no_secret_is_among_the_arguments_of_codex: Codex,
        no_secret_is_among_the_arguments_of_gemini_cli: Gemini,
        no_secret_is_among_the_arguments_of_opencode: Opencode,
        no_secret_is_among_the_arguments_of_claude_code_over_acp: AcpClaude,
        no_secret_is_among_the_arguments_of_codex_over_acp: AcpCodex,
        no_secret_is_among_the_arguments_of_zeds_codex: AcpZedCodex,
        no_secret_is_among_the_arguments_of_gemini_cli_over_acp: AcpGemini,
        no_secret_is_among_the_arguments_of_opencode_over_acp: AcpOpencode,
        no_secret_is_among_the_arguments_of_qwen_code: AcpQwen,
        no_secret_is_among_the_arguments_of_copilot: AcpCopilot,
    }
}
