//! The arguments of a real agent's processes, which every user of the machine can read.

use serde_json::json;

use super::testbed::{AgentEntry, AgentTestbed, Cli, DEFAULT_CLIS};
use crate::model_server::KEY;

/// Returns true if a word may be a token: as long as ours, and no ordinary word.
fn is_secret(piece: &str) -> bool {
    piece.len() >= 32 && piece.contains(|c: char| c.is_ascii_digit())
}

/// Reads the arguments in the middle of a turn, while the agent has its key and the team's tools.
fn check_arguments(cli: Cli) {
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
}

#[test]
fn no_secret_is_among_the_arguments_of_a_real_agents_processes() {
    for cli in DEFAULT_CLIS.into_iter().chain([Cli::AcpClaude, Cli::AcpGemini]) {
        check_arguments(cli);
    }
}

#[test]
fn no_secret_is_among_those_of_opencode_qwen_code_and_copilot_either() {
    for cli in [Cli::Opencode, Cli::AcpQwen, Cli::AcpCopilot] {
        check_arguments(cli);
    }
}
