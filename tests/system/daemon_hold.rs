//! Tests of the hold: after `daemon stop` a command that only reads starts a daemon that starts no work.

use serde_json::{Value, json};

use crate::world::{World, kill, wait_for};

/// Starts a team whose agent waits for a file, and sends it a message.
fn busy_team() -> World {
    let world = World::new();
    world.file(
        "team.yaml",
        "name: team\nagents:\n  coder:\n    backend: mock\n    mock:\n      - { run: 'echo x >> turns; until [ -e go ]; do sleep 0.02; done', say: Done. }\n  lead: { backend: mock, mock: [{ say: Hoo. }] }\n",
    );
    assert_eq!(world.run(&["up", "team.yaml"]).code, 0);
    assert_eq!(world.run(&["send", "coder@team", "work"]).code, 0);
    wait_for("its turn", || world.project().join("turns").exists().then_some(()));
    world
}

fn turns(world: &World) -> usize {
    std::fs::read_to_string(world.project().join("turns")).unwrap().lines().count()
}

/// Returns the state of the coder and the reason for it.
fn coder(world: &World) -> (Value, Value) {
    let agent = world.json(&["status", "coder@team", "--json"]);
    (agent["state"].clone(), agent["why"].clone())
}

fn wait_until_acted(world: &World) {
    world.file("go", "");
    wait_for("the message to be acted upon", || {
        let receipts = world.list(&["receipts", "1", "@team", "--json"]);
        (receipts[0]["state"] == "acted").then_some(())
    });
}

#[test]
fn after_a_stop_reading_starts_no_work_and_every_view_says_so() {
    let world = busy_team();
    let stopped = world.run(&["daemon", "stop", "--now"]);
    let hint = "hint: to let the agents run again: agent-worker daemon start\n";
    assert_eq!(stopped.stderr, format!("the daemon is stopped\n{hint}"));
    let listed = world.run(&["ls", "@team"]);
    assert_eq!(listed.stderr, format!("the daemon was stopped, so no agent runs\n{hint}"));
    assert!(listed.stdout.contains("paused: the daemon was stopped"), "{listed:?}");
    assert_eq!(coder(&world), (json!("paused"), json!("the daemon was stopped")));
    assert_eq!(world.list(&["runs", "--json"])[0]["held"], true);
    let status = world.run(&["daemon", "status"]);
    let held = "held: the daemon was stopped, so no agent runs · version ";
    assert!(status.stdout.starts_with(held) && status.stderr == hint, "{status:?}");
    assert_eq!(world.json(&["daemon", "status", "--json"])["status"], "held");
    let why = world.json(&["why", "coder@team", "--json"]);
    let wakes = "the daemon may start work again: agent-worker daemon start";
    assert_eq!(why["wakes_when"], wakes, "{why}");
    let doctor = world.run(&["doctor"]);
    assert!(doctor.stdout.contains("the daemon was stopped, so no agent runs"), "{doctor:?}");
    // A restart, a crash and another stop keep the hold.
    assert_eq!(world.run(&["daemon", "restart"]).code, 0);
    assert_eq!(coder(&world).0, "paused");
    kill(world.daemon_pid().unwrap(), "KILL");
    wait_for("its death", || world.daemon_pid().is_none().then_some(()));
    assert_eq!(coder(&world).0, "paused");
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    assert_eq!(coder(&world).0, "paused");
    assert_eq!(turns(&world), 1, "no agent ran");
    let started = world.run(&["daemon", "start"]);
    assert!(started.stderr.starts_with("the daemon works again: version "), "{started:?}");
    assert_eq!(world.json(&["daemon", "status", "--json"])["status"], "ok");
    wait_until_acted(&world);
    let again = world.run(&["daemon", "start"]);
    assert!(again.stderr.starts_with("the daemon is already running: "), "{again:?}");
}

#[test]
fn a_command_that_gives_work_ends_the_hold_and_one_that_cleans_up_does_not() {
    let commands: [(&[&str], bool); 6] = [
        (&["send", "lead@team", "hello"], true),
        (&["resume", "@team", "--detach"], true),
        (&["resume", "coder@team"], true),
        (&["send", "ghost@team", "hello"], false),
        (&["stop", "lead@team"], false),
        (&["peek", "@team"], false),
    ];
    for (words, works) in commands {
        let world = busy_team();
        assert_eq!(world.run(&["daemon", "stop", "--now"]).code, 0);
        let said = world.run(words);
        let status = world.json(&["daemon", "status", "--json"])["status"].clone();
        assert_eq!(status, if works { "ok" } else { "held" }, "{words:?}: {said:?}");
        if works {
            wait_until_acted(&world);
        }
    }
}

#[test]
fn a_client_that_stops_the_daemon_holds_the_next_one_and_its_message_ends_the_hold() {
    let world = busy_team();
    let token = world.run(&["token", "create", "ci", "--allow", "read,send,shutdown"]);
    let token = token.stdout.trim().to_owned();
    let ask = |method: &str, path: &str, body: &str| {
        let address = world.json(&["daemon", "status", "--json"])["address"].clone();
        crate::world::http_status(address.as_str().unwrap(), &token, method, path, body)
    };
    assert_eq!(ask("POST", "/shutdown", r#"{"mode": "now"}"#), 202);
    wait_for("its end", || world.daemon_pid().is_none().then_some(()));
    assert_eq!(coder(&world).0, "paused");
    assert_eq!(ask("GET", "/agents", ""), 200);
    assert_eq!(ask("POST", "/release", ""), 403, "its token does not allow `run`");
    assert_eq!(world.json(&["daemon", "status", "--json"])["status"], "held");
    let body = json!({"target": "lead@team", "message": "hello"}).to_string();
    assert_eq!(ask("POST", "/messages", &body), 200);
    wait_until_acted(&world);
}

#[test]
fn a_signal_or_a_crash_does_not_hold_the_next_daemon() {
    for signal in ["TERM", "KILL"] {
        let world = busy_team();
        kill(world.daemon_pid().unwrap(), signal);
        wait_for("its end", || world.daemon_pid().is_none().then_some(()));
        let agents = world.list(&["ls", "@team", "--json"]);
        assert_ne!(agents[0]["state"], "paused", "{signal}: {agents}");
        wait_until_acted(&world);
    }
}

#[test]
fn a_stop_without_a_daemon_holds_the_next_one_too() {
    let world = busy_team();
    kill(world.daemon_pid().unwrap(), "KILL");
    wait_for("its death", || world.daemon_pid().is_none().then_some(()));
    // It ends the worker that the dead daemon left, and starts no other.
    let stopped = world.run(&["daemon", "stop"]);
    assert!(stopped.stderr.contains("ended "), "{stopped:?}");
    assert_eq!(coder(&world).0, "paused");
    assert_eq!(turns(&world), 1);
    assert_eq!(world.run(&["daemon", "start"]).code, 0);
    wait_until_acted(&world);
}
