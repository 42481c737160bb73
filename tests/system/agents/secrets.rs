//! What every user of the machine can read of a real agent at work: the arguments of its processes.

use serde_json::json;

use super::office::{Cli, Desk, EVERY, Office};
use crate::model_server::KEY;

/// Whether it may be a token: as long as ours, and no word.
fn is_secret(piece: &str) -> bool {
    piece.len() >= 32 && piece.contains(|c: char| c.is_ascii_digit())
}

/// Looks at its processes in the middle of a turn, when it has its key and the team's tools.
fn tells_nobody(cli: Cli) {
    let Some(office) = Office::open(&[cli], "the arguments of a real agent's processes") else {
        return;
    };
    office.start(&[Desk { name: "me", cli, besides: "" }], "");
    office.send("me", "CALL channel_send {\"message\":\"one\"}\nHOLD\nSAY Over.");
    office.models.wait_held(1);
    assert_ne!(office.programs("me"), [0; 0], "{cli:?} does not run");
    for (pid, line) in office.others() {
        let mut pieces = line.split(|c: char| !c.is_ascii_alphanumeric());
        let secret = pieces.find(|piece| is_secret(piece)).or(line.contains(KEY).then_some(KEY));
        assert_eq!(secret, None, "{cli:?}, process {pid}: {line}");
    }
    office.models.go_on();
    let (_, ended) = office.end_of_turn("me");
    assert_eq!(ended, json!({"end": "ok"}), "{}", office.story("me"));
}

#[test]
fn no_secret_is_among_the_arguments_of_a_real_agents_processes() {
    for cli in EVERY.into_iter().chain([Cli::AcpClaude, Cli::AcpGemini]) {
        tells_nobody(cli);
    }
}

#[test]
fn no_secret_is_among_those_of_opencode_qwen_code_and_copilot_either() {
    for cli in [Cli::Opencode, Cli::AcpQwen, Cli::AcpCopilot] {
        tells_nobody(cli);
    }
}
