//! kill -9 of the daemon in the middle of real agents' turns.

use serde_json::json;

use super::{
    matrix::{Cells, Situation, matrix_tests},
    testbed::{AgentEntry, AgentTestbed, Cli},
};
use crate::world::kill;

/// Kills the daemon at two moments of a turn: first it restarts before the next call, then only after it.
fn check_daemon_kills(cli: Cli, cells: &mut Cells) {
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
    cells.passed(Situation::DaemonKilled);
    assert_eq!(testbed.world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}

matrix_tests! {
    check_daemon_kills proves [DaemonKilled] {
        a_turn_of_claude_code_goes_on_when_the_daemon_is_killed_and_each_call_happens_once: Claude,
        a_turn_of_codex_goes_on_when_the_daemon_is_killed_and_each_call_happens_once: Codex,
        a_turn_of_gemini_cli_goes_on_when_the_daemon_is_killed_and_each_call_happens_once: Gemini,
        a_turn_of_opencode_goes_on_when_the_daemon_is_killed_and_each_call_happens_once: Opencode,
        a_turn_of_claude_code_over_acp_goes_on_when_the_daemon_is_killed_and_each_call_happens_once: AcpClaude,
        a_turn_of_codex_over_acp_goes_on_when_the_daemon_is_killed_and_each_call_happens_once: AcpCodex,
        a_turn_of_zeds_codex_goes_on_when_the_daemon_is_killed_and_each_call_happens_once: AcpZedCodex,
        a_turn_of_gemini_cli_over_acp_goes_on_when_the_daemon_is_killed_and_each_call_happens_once: AcpGemini,
        a_turn_of_opencode_over_acp_goes_on_when_the_daemon_is_killed_and_each_call_happens_once: AcpOpencode,
        a_turn_of_qwen_code_goes_on_when_the_daemon_is_killed_and_each_call_happens_once: AcpQwen,
        a_turn_of_copilot_goes_on_when_the_daemon_is_killed_and_each_call_happens_once: AcpCopilot,
    }
}
