//! The protocol's own conformance suite, against our MCP server with the fixtures that the suite calls.
//!
//! Only the test program `tests/conformance/` has the fixtures; the product has neither them nor a switch for them.

use std::{
    path::Path,
    process::{Child, Command},
};

use crate::{
    external_programs::{ExternalPrograms, run},
    proxy::Proxy,
    world::{World, http_request},
};

/// Starts a daemon with the fixtures of the suite, and a proxy to it.
fn daemon(world: &World) -> (Child, Proxy) {
    let ours = Path::new(env!("CARGO_BIN_EXE_agent-worker"));
    let program = ours.with_file_name("examples").join("conformance-daemon");
    let built = "cargo build --workspace --all-targets";
    assert!(program.exists(), "{} is missing; `{built}` builds it", program.display());
    let mut command = Command::new(program);
    command.arg(world.home()).env("HOME", world.project());
    let daemon = world.announced(command);
    let proxy = Proxy::to(&world.address(), &world.token("suite", &[]));
    (daemon, proxy)
}

/// Runs the required scenarios of one revision, and checks their number and that all of them pass.
fn check_revision(revision: &str, required: usize) {
    let Some(external) = ExternalPrograms::locate_or_skip("the protocol's conformance suite")
    else {
        return;
    };
    let world = World::new();
    let (mut daemon, proxy) = daemon(&world);
    let mut suite = external.node("@modelcontextprotocol/conformance/dist/index.js");
    suite.args(["server", "--url", &format!("http://{}/mcp", proxy.address)]);
    suite.args(["--requirements", revision, "-o"]).arg(world.project());
    let said = run(suite);
    let summary = said.stdout.split("=== SUMMARY ===").nth(1).unwrap_or_else(|| panic!("{said:?}"));
    let (all, not_scored) = summary.split_once("\nNot scored").unwrap_or((summary, ""));
    let is_scored = |line: &&str| {
        let name = line.split([' ', ':']).nth(1).unwrap_or_default();
        line.contains(" passed, ") && !not_scored.contains(&format!(" {name} ("))
    };
    let scored: Vec<&str> =
        all.lines().filter(is_scored).filter(|line| line.starts_with(['✓', '✗'])).collect();
    let failed: Vec<_> = scored.iter().filter(|line| !line.starts_with('✓')).collect();
    assert_eq!(failed, Vec::<&&str>::new(), "{}", said.stdout);
    assert_eq!((scored.len(), said.code), (required, 0), "{summary}");
    // Scenarios that are not required yet pass as well, except for an extension that the server does not offer.
    let odd: Vec<_> = not_scored
        .lines()
        .filter(|line| line.contains('✗') && !line.contains("(extension)"))
        .collect();
    assert_eq!(odd, Vec::<&str>::new(), "{}", said.stdout);
    let _ = world.run(&["daemon", "stop", "--now"]);
    daemon.wait().unwrap();
}

#[test]
fn everything_the_revision_without_sessions_requires_is_so() {
    check_revision("2026-07-28", 37);
}

#[test]
fn everything_the_revision_with_sessions_requires_is_so() {
    check_revision("2025-11-25", 30);
}

#[test]
fn the_product_has_no_fixture_and_no_switch_for_them() {
    let world = World::new();
    let mut daemon = world.daemon_with(&[("AGENT_WORKER_FIXTURES", "1")]);
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let token = world.token("client", &[]);
    let (status, listed) = http_request(&world.address(), &token, "POST", "/mcp", list);
    assert_eq!(status, 200, "{listed}");
    assert!(listed.contains("\"channel_send\"") && !listed.contains("test_"), "{listed}");
    let program = std::fs::read(env!("CARGO_BIN_EXE_agent-worker")).unwrap();
    for name in ["AGENT_WORKER_FIXTURES", "test_simple_text", "test_simple_prompt"] {
        let is_in = program.windows(name.len()).any(|part| part == name.as_bytes());
        assert!(!is_in, "{name} is in the product");
    }
    let _ = world.run(&["daemon", "stop", "--now"]);
    daemon.wait().unwrap();
}
