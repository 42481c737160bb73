//! A real agent in a sandbox: it reaches its model and the team's tools, and its commands see nothing of the home folder.

use std::{fs, process::Command};

use super::testbed::{AgentEntry, AgentTestbed, Cli};
use crate::world::record_skip;

/// Runs a command and a tool of the team in a turn. Returns the secret as far as the command could read it.
fn secret_seen(cli: Cli, settings: &str) -> Option<String> {
    let testbed = AgentTestbed::open(&[cli], "a real agent in a sandbox")?;
    let project = testbed.world.project();
    fs::write(project.with_file_name("secret"), "canary").unwrap();
    testbed.start(&[AgentEntry { name: "me", cli, settings }], "");
    let command = cli.command_call("cat ~/secret > seen; echo x > made");
    let program = format!("{command}\nCALL channel_send {{\"message\":\"I am here\"}}\nSAY Done.");
    assert_eq!(testbed.ask("me", &program), "Done.", "{}", testbed.diagnostics("me"));
    let spoken = testbed.channel_messages();
    assert!(spoken.iter().any(|(_, text)| text == "I am here"), "{spoken:?}");
    assert_eq!(fs::read_to_string(project.join("made")).unwrap(), "x\n");
    Some(fs::read_to_string(project.join("seen")).unwrap())
}

#[test]
fn claude_code_works_in_a_sandbox_and_its_commands_see_no_home_folder() {
    let probe = Command::new(env!("CARGO_BIN_EXE_agent-worker"))
        .args(["sandbox", "--level", "full", "--json"])
        .output();
    if !probe.unwrap().status.success() {
        record_skip("a real agent in a sandbox (needs bubblewrap with namespaces)");
        return;
    }
    for (sandbox, expected) in [("full", ""), ("off", "canary")] {
        let settings = format!("sandbox: {sandbox}\npermissions: {{ default: allow }}");
        if let Some(seen) = secret_seen(Cli::Claude, &settings) {
            assert_eq!(seen, expected, "{sandbox}");
        }
    }
}
