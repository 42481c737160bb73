//! kill -9 of the daemon in the middle of real agents' turns.

use serde_json::json;

use super::testbed::{AgentEntry, AgentTestbed, Cli};
use crate::world::kill;

/// Kills the daemon at two moments of a turn: first it restarts before the next call, then only after it.
fn check_daemon_kills(cli: Cli) {
    let Some(testbed) = AgentTestbed::open(&[cli], "a daemon killed in a real agent's turn") else {
        return;
    };
    let mut daemon = testbed.world.daemon();
    testbed.start(&[AgentEntry { name: "me", cli, settings: "" }], "");
    testbed.send(
        "me",
        "CALL channel_send {\"message\":\"one\"}\nHOLD\nCALL channel_send {\"message\":\"two\"}\n\
         HOLD\nCALL document_append {\"content\":\"- three\\n\"}\nSAY Over.",
    );
    testbed.models.wait_held(1);
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    let mut daemon = testbed.world.daemon();
    testbed.models.release_held();
    testbed.models.wait_held(2);
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    testbed.models.release_held();
    let mut daemon = testbed.world.daemon();
    let (state, ended) = testbed.end_of_turn("me");
    assert_eq!((&*state, &ended), ("idle", &json!({"end": "ok"})), "{}", testbed.diagnostics("me"));
    let status = testbed.status("me");
    let attempts = status["attempts"].as_array().unwrap().len();
    assert_eq!((attempts, &status["turns"]), (1, &json!(1)), "{status}");
    let spoken: Vec<_> =
        testbed.channel_messages().into_iter().filter(|(from, _)| from == "me").collect();
    assert_eq!(spoken, ["one", "two"].map(|body| ("me".to_owned(), body.to_owned())));
    assert_eq!(testbed.world.run(&["doc", "read"]).stdout, "- three\n");
    assert_eq!(testbed.other_processes(), []);
    assert_eq!(testbed.world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}

#[test]
fn a_turn_of_claude_code_goes_on_when_the_daemon_is_killed_and_each_call_happens_once() {
    check_daemon_kills(Cli::Claude);
}

#[test]
fn a_turn_of_codex_goes_on_when_the_daemon_is_killed_and_each_call_happens_once() {
    check_daemon_kills(Cli::Codex);
}

#[test]
fn a_turn_of_claude_code_over_acp_goes_on_when_the_daemon_is_killed_and_each_call_happens_once() {
    check_daemon_kills(Cli::AcpClaude);
}

#[test]
fn a_turn_of_opencode_goes_on_when_the_daemon_is_killed_and_each_call_happens_once() {
    check_daemon_kills(Cli::Opencode);
}
