//! Processes that are stopped for a while (SIGSTOP, a suspended machine) and continue: no time limit counts that
//! time.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    time::Duration,
};

use serde_json::Value;

use crate::world::{TEST_TIMEOUT, World, kill, wait_for};

/// An agent that prints continuously until `go` exists, so that it is silent only while it does not run.
const TEAM: &str = "name: team\nagents:\n  a:\n    backend: mock\n    silence: 1500ms\n    mock:\n      - run: |\n          \
    echo x >> tries; while ! [ -e go ]; do echo; sleep 0.1; done\n        say: done\nkickoff: '@a go'\n";

/// Twice the silence limit.
const SUSPENSION_TIME: Duration = Duration::from_secs(3);

fn start(world: &World) {
    let file = world.file("team.yaml", TEAM);
    assert_eq!(world.run(&["start", file.to_str().unwrap(), "--background"]).code, 0);
    wait_for("the turn", || world.project().join("tries").exists().then_some(()));
}

fn stop_for_a_while(pids: &[u32]) {
    for pid in pids {
        kill(*pid, "STOP");
    }
    std::thread::sleep(SUSPENSION_TIME);
    for pid in pids {
        kill(*pid, "CONT");
    }
}

fn receipt(world: &World) -> Value {
    world.list(&["receipts", "1", "@team", "--json"])[0].clone()
}

/// Returns the event that ended the first attempt.
fn first_attempt_end(world: &World) -> Value {
    let mut stream = UnixStream::connect(world.home().join("daemon.sock")).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let path = format!("/events?target=@team&after=0&project={}", world.project().display());
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let data = lines.filter_map(|line| Some(line.strip_prefix("data: ")?.to_owned()));
    let mut events = data.map(|data| serde_json::from_str::<Value>(&data).unwrap());
    events.find(|event| event["kind"] == "attempt.ended").unwrap()
}

fn attempt_count(world: &World) -> usize {
    std::fs::read_to_string(world.project().join("tries")).unwrap().lines().count()
}

#[test]
fn an_attempt_continues_after_everything_was_stopped_longer_than_its_silence_limit() {
    let world = World::with(&[("AGENT_WORKER_ORPHAN_GRACE", "1s")]);
    start(&world);
    let daemon = world.daemon_pid().unwrap();
    let mut all: Vec<u32> = world.processes().iter().map(|(pid, _)| *pid).collect();
    // The worker continues first, and has neither output nor a reply of the daemon.
    all.sort_by_key(|pid| *pid == daemon);
    stop_for_a_while(&all);
    world.file("go", "");
    let receipt = wait_for("the message to be acted upon", || {
        let receipt = receipt(&world);
        (receipt["state"] == "acted").then_some(receipt)
    });
    assert_eq!(
        (receipt["failures"].as_u64(), attempt_count(&world)),
        (Some(0), 1),
        "{}",
        world.log()
    );
    assert_eq!(world.run(&["stop", "@team"]).code, 0);
}

#[test]
fn a_daemon_that_was_stopped_longer_than_the_silence_limit_counts_no_failure() {
    let world = World::with(&[("AGENT_WORKER_ORPHAN_GRACE", "1s")]);
    start(&world);
    // Meanwhile the worker gives up, because no daemon answers.
    stop_for_a_while(&[world.daemon_pid().unwrap()]);
    wait_for("the next try", || (attempt_count(&world) == 2).then_some(()));
    let ended = first_attempt_end(&world);
    assert_eq!(ended["data"]["end"], "interrupted", "{ended}");
    assert_eq!(ended["next"], Value::Null, "nothing is to blame, so nothing waits: {ended}");
    world.file("go", "");
    wait_for("the message to be acted upon", || {
        (receipt(&world)["state"] == "acted").then_some(())
    });
    assert_eq!(receipt(&world)["failures"], 0);
    assert_eq!(world.run(&["stop", "@team"]).code, 0);
}
