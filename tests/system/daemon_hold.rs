//! Tests of the hold: after `daemon stop` a command that only reads starts a daemon that starts no work.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::{
    shell_transcript::shell,
    world::{World, kill, wait_for},
};

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
    let wakes = "the hold ends: agent-worker daemon start";
    assert_eq!(why["wakes_when"], wakes, "{why}");
    let doctor = world.run(&["doctor"]);
    assert!(doctor.stdout.contains("the daemon was stopped, so no agent runs"), "{doctor:?}");
    let why = world.json(&["why", "@team", "--json"]);
    assert_eq!(why["because"][0], "the daemon was stopped, so no agent runs", "{why}");
    assert_eq!(why["wakes_when"], wakes, "{why}");
    // A restart, a crash and another stop keep the hold.
    let restarted = world.run(&["daemon", "restart"]);
    assert_eq!(restarted.code, 0);
    assert!(restarted.stderr.contains("; held: the daemon was stopped"), "{restarted:?}");
    assert!(restarted.stderr.ends_with(hint), "{restarted:?}");
    assert_eq!(coder(&world).0, "paused");
    kill(world.daemon_pid().unwrap(), "KILL");
    wait_for("its death", || world.daemon_pid().is_none().then_some(()));
    assert_eq!(coder(&world).0, "paused");
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    assert_eq!(coder(&world).0, "paused");
    assert_eq!(turns(&world), 1, "no agent ran");
    let started = world.run(&["daemon", "start"]);
    assert!(
        started.stderr.starts_with("the hold has ended; runs continue: version "),
        "{started:?}"
    );
    assert_eq!(world.json(&["daemon", "status", "--json"])["status"], "ok");
    wait_until_acted(&world);
    let again = world.run(&["daemon", "start"]);
    assert!(again.stderr.starts_with("the daemon is already running: "), "{again:?}");
}

#[test]
fn the_status_of_a_stopped_daemon_names_the_hold() {
    let world = busy_team();
    assert_eq!(world.run(&["daemon", "stop", "--now"]).code, 0);
    let status = world.run(&["daemon", "status"]);
    assert_eq!((status.code, status.stdout.as_str()), (1, "no daemon is running\n"));
    let hint = "hint: to let the agents run again: agent-worker daemon start\n";
    assert_eq!(status.stderr, format!("the daemon was stopped, so no agent runs\n{hint}"));
    let (code, status) = world.envelope(&["daemon", "status", "--json"]);
    assert_eq!((code, &status["running"], &status["held"]), (1, &json!(false), &json!(true)));
}

#[test]
fn a_start_while_the_daemon_stops_waits_and_starts_the_next_one() {
    let world = busy_team();
    let stop = world.command(&["daemon", "stop"]).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the daemon to stop", || {
        (world.json(&["daemon", "status", "--json"])["status"] == "draining").then_some(())
    });
    let start = world.command(&["daemon", "start"]).stderr(Stdio::piped()).spawn();
    let mut start = start.unwrap();
    let mut lines = BufReader::new(start.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert_eq!(first, "the daemon is stopping; waiting for its end");
    world.file("go", "");
    let last = lines.next().unwrap().unwrap();
    assert!(last.starts_with("the daemon is started: version "), "{last}");
    assert!(start.wait().unwrap().success());
    assert!(stop.wait_with_output().unwrap().status.success());
    assert_eq!(world.json(&["daemon", "status", "--json"])["status"], "ok");
    wait_until_acted(&world);
}

#[test]
fn a_follower_of_a_held_daemon_says_so() {
    let world = busy_team();
    let attach = world.command(&["attach", "@team"]).stderr(Stdio::piped()).spawn();
    let mut attach = attach.unwrap();
    let mut lines = BufReader::new(attach.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("following @team"), "{first}");
    let next = shell(&world, "agent-worker daemon stop --now && agent-worker ls @team");
    assert_eq!(next.code, 0, "{next:?}");
    let told: Vec<String> = lines
        .by_ref()
        .map_while(Result::ok)
        .take_while(|line| !line.starts_with("hint:"))
        .collect();
    assert!(told.iter().any(|line| line == "the daemon was stopped, so no agent runs"), "{told:?}");
    assert!(!told.iter().any(|line| line == "connected again"), "{told:?}");
    assert_eq!(world.run(&["daemon", "start"]).code, 0);
    wait_until_acted(&world);
    assert_eq!(world.run(&["stop", "@team"]).code, 0);
    attach.wait().unwrap();
}

#[test]
fn the_envelope_of_a_run_whose_daemon_was_stopped_names_the_run() {
    let world = World::new();
    world.file(
        "slow.yaml",
        "name: slow\nagents:\n  a: { backend: mock, mock: [{ run: 'touch up; until [ -e go ]; do sleep 0.02; done', say: Done. }] }\nkickoff: '@a go'\n",
    );
    let run = world.command(&["run", "slow.yaml", "--tag", "t", "--json"]);
    let run = { run }.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("its turn", || world.project().join("up").exists().then_some(()));
    let id = world.list(&["runs", "@slow:t", "--json"])[0]["run"].clone();
    assert_eq!(world.run(&["daemon", "stop", "--now"]).code, 0);
    let output = run.wait_with_output().unwrap();
    let envelope: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &envelope["outcome"]), (Some(5), &json!("interrupted")));
    let named = [&envelope["workflow"], &envelope["tag"], &envelope["run"], &envelope["messages"]];
    assert_eq!(named, [&json!("slow"), &json!("t"), &id, &json!(1)], "{envelope}");
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
