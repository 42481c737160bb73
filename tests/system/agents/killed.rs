//! kill -9 of the daemon in the middle of real agents' turns.

use serde_json::json;

use super::office::{Cli, Desk, Office};
use crate::world::kill;

/// Kills the daemon at two moments of a turn: between two of its calls it comes back before the next, later only after it.
fn goes_on(cli: Cli) {
    let Some(office) = Office::open(&[cli], "a daemon killed in a real agent's turn") else {
        return;
    };
    let mut daemon = office.world.daemon();
    office.start(&[Desk { name: "me", cli, besides: "" }], "");
    office.send(
        "me",
        "CALL channel_send {\"message\":\"one\"}\nHOLD\nCALL channel_send {\"message\":\"two\"}\n\
         HOLD\nCALL document_append {\"content\":\"- three\\n\"}\nSAY Over.",
    );
    office.models.wait_held(1);
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    let mut daemon = office.world.daemon();
    office.models.go_on();
    office.models.wait_held(2);
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    office.models.go_on();
    let mut daemon = office.world.daemon();
    let (state, ended) = office.end_of_turn("me");
    assert_eq!((&*state, &ended), ("idle", &json!({"end": "ok"})), "{}", office.story("me"));
    let status = office.status("me");
    let attempts = status["attempts"].as_array().unwrap().len();
    assert_eq!((attempts, &status["turns"]), (1, &json!(1)), "{status}");
    let spoken: Vec<_> = office.said().into_iter().filter(|(from, _)| from == "me").collect();
    assert_eq!(spoken, ["one", "two"].map(|body| ("me".to_owned(), body.to_owned())));
    assert_eq!(office.world.run(&["doc", "read"]).stdout, "- three\n");
    assert_eq!(office.others(), []);
    assert_eq!(office.world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}

#[test]
fn a_turn_of_claude_code_goes_on_when_the_daemon_is_killed_and_each_call_happens_once() {
    goes_on(Cli::Claude);
}

#[test]
fn a_turn_of_codex_goes_on_when_the_daemon_is_killed_and_each_call_happens_once() {
    goes_on(Cli::Codex);
}

#[test]
fn a_turn_of_claude_code_over_acp_goes_on_when_the_daemon_is_killed_and_each_call_happens_once() {
    goes_on(Cli::AcpClaude);
}

#[test]
fn a_turn_of_opencode_goes_on_when_the_daemon_is_killed_and_each_call_happens_once() {
    goes_on(Cli::Opencode);
}
