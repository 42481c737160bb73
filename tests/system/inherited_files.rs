//! Open files of the process that starts the daemon: no worker and no agent inherits them.

use std::process::{Command, Stdio};

use crate::world::{CommandOutput, World};

/// An agent that lists the open files of its own shell, and reads the one that the attack left open.
const TEAM: &str = "agents:
  coder:
    backend: mock
    mock: [{ run: 'ls -m /proc/$$/fd; cat <&7 2>/dev/null; true' }]
setup:
  - { shell: 'ls -m /proc/$$/fd; cat <&7 2>/dev/null || true', as: seen }
kickoff: 'setup saw ${{ seen }} @coder go'
";

/// Runs a command in a shell that has a private file open as number 7.
fn run_with_open_file(world: &World, words: &str) -> CommandOutput {
    world.file("secret", "the secret");
    let like = world.command(&[]);
    let binary = env!("CARGO_BIN_EXE_agent-worker");
    let output = Command::new("bash")
        .args(["-c", &format!("exec 7< secret; rm secret; exec {binary} {words}")])
        .env_clear()
        .envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(world.project())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    output.into()
}

fn assert_three_open_files(world: &World) {
    let channel = world.json(&["peek", "@team", "-n", "100", "--json"]);
    let messages = channel["items"].as_array().unwrap();
    let bodies: Vec<_> = messages.iter().filter_map(|message| message["body"].as_str()).collect();
    let [setup, agent] = bodies[..] else { panic!("{bodies:?}") };
    // Bash keeps its script open as number 255.
    let setup = setup.replace(", 255", "");
    assert_eq!((setup.as_str(), agent.trim()), ("setup saw 0, 1, 2 @coder go", "0, 1, 2"));
}

#[test]
fn an_agent_inherits_no_open_file_of_the_command_that_started_the_daemon() {
    let world = World::new();
    world.file("team.yaml", TEAM);
    let ran = run_with_open_file(&world, "run team.yaml");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_three_open_files(&world);
}

#[test]
fn an_agent_inherits_no_open_file_of_a_daemon_that_was_started_directly() {
    let world = World::new();
    world.file("team.yaml", TEAM);
    world.file("secret", "the secret");
    let like = world.command(&[]);
    let binary = env!("CARGO_BIN_EXE_agent-worker");
    let mut command = Command::new("bash");
    command
        .args(["-c", &format!("exec 7< secret; exec {binary} daemon --announce")])
        .env_clear()
        .envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(world.project())
        .stdin(Stdio::null());
    let mut daemon = world.announced(command);
    let ran = world.run(&["run", "team.yaml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_three_open_files(&world);
    world.run(&["daemon", "stop", "--now"]);
    daemon.wait().unwrap();
}
