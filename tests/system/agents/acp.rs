//! Approvals of real agents over the Agent Client Protocol.

use std::fs;

use serde_json::{Value, json};

use super::{
    matrix::{Cells, Situation, matrix_tests},
    testbed::{AgentEntry, AgentTestbed, Cli},
};
use crate::world::{kill, wait_for};

/// Programs that end their turn when a request is denied.
const STOPS_AFTER_DENIAL: [Cli; 3] = [Cli::AcpCodex, Cli::AcpZedCodex, Cli::AcpCopilot];

/// Waits for the only open request.
fn open_request(testbed: &AgentTestbed) -> Value {
    wait_for("a request", || {
        let open = testbed.world.list(&["pending", "--json"]);
        open.as_array().filter(|open| open.len() == 1).map(|open| open[0].clone())
    })
}

/// Checks that an agent asks before it runs a command: an approval after a kill of the daemon runs it once, a
/// denial never.
fn check_approval(cli: Cli, cells: &mut Cells) {
    let Some(testbed) = AgentTestbed::open(&[cli], "a real agent over ACP that asks") else {
        return;
    };
    let mut daemon = testbed.world.daemon();
    testbed.start(&[AgentEntry { name: "me", cli, settings: "" }], "");
    let ran = || fs::read_to_string(testbed.world.project().join("ran.txt")).unwrap_or_default();
    let run = |word: &str| {
        let call = cli.command_call(&format!("echo {word} >> ran.txt"));
        testbed.send("me", &format!("{call}SAY Over."));
    };
    run("once");
    let open = open_request(&testbed);
    let asked = (&open["tool"], &open["args"]["command"]);
    assert_eq!(asked, (&json!("execute"), &json!("echo once >> ran.txt")), "{open}");
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    assert_eq!(ran(), "");
    let mut daemon = testbed.world.daemon();
    let number = open["id"].to_string();
    let approved = testbed.world.run(&["approve", &number]);
    assert_eq!(approved.code, 0, "{approved:?}\n{}", testbed.diagnostics("me"));
    let (state, ended) = testbed.end_of_turn("me");
    assert_eq!((&*state, &ended), ("idle", &json!({"end": "ok"})), "{}", testbed.diagnostics("me"));
    assert_eq!((ran().as_str(), &testbed.status("me")["turns"]), ("once\n", &json!(1)));
    cells.passed(Situation::Approved);

    run("never");
    let number = open_request(&testbed)["id"].to_string();
    assert_eq!(testbed.world.run(&["deny", &number]).code, 0);
    let ended = testbed.end_of_turn("me").1;
    if STOPS_AFTER_DENIAL.contains(&cli) {
        assert_eq!(ended["class"], "permission", "{}", testbed.diagnostics("me"));
    } else {
        assert_eq!(ended, json!({"end": "ok"}), "{}", testbed.diagnostics("me"));
        assert_eq!(testbed.status("me")["turns"], 2);
    }
    assert_eq!(ran(), "once\n");
    cells.passed(Situation::Denied);
    assert_eq!(testbed.other_processes(), []);
    assert_eq!(testbed.world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}

matrix_tests! {
    check_approval proves [Approved, Denied] {
        claude_code_over_acp_asks_and_what_is_approved_is_done_once_by_whatever_daemon: AcpClaude,
        codex_over_acp_asks_and_what_is_approved_is_done_once_by_whatever_daemon: AcpCodex,
        zeds_codex_asks_and_what_is_approved_is_done_once_by_whatever_daemon: AcpZedCodex,
        gemini_cli_over_acp_asks_and_what_is_approved_is_done_once_by_whatever_daemon: AcpGemini,
        opencode_over_acp_asks_and_what_is_approved_is_done_once_by_whatever_daemon: AcpOpencode,
        qwen_code_over_acp_asks_and_what_is_approved_is_done_once_by_whatever_daemon: AcpQwen,
        copilot_over_acp_asks_and_what_is_approved_is_done_once_by_whatever_daemon: AcpCopilot,
    }
}
