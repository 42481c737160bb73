//! The protocol's own conformance suite, against our MCP server.

use std::{fs, process::Child};

use serde_json::Value;

use crate::{
    external_programs::{ExternalPrograms, run},
    proxy::Proxy,
    world::World,
};

/// Starts a daemon with the fixtures of the suite, and a proxy to it.
fn daemon(world: &World) -> (Child, Proxy) {
    let daemon = world.daemon_with(&[("AGENT_WORKER_FIXTURES", "1")]);
    let card = fs::read_to_string(world.home().join("daemon.json")).unwrap();
    let card: Value = serde_json::from_str(&card).unwrap();
    let token = world.json(&["token", "create", "suite", "--json"]);
    let proxy = Proxy::to(&format!("127.0.0.1:{}", card["port"]), token["token"].as_str().unwrap());
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
