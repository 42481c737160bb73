//! One daemon follows another while other clients wait: `daemon stop` and `daemon restart` report correct results,
//! and followers continue at the point of disconnection.

use std::{
    io::{BufRead as _, BufReader, Read},
    process::{Child, Stdio},
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::world::{World, is_alive, kill, wait_for};

/// Shorter than the timeout of `stop` and `restart`.
const SUCCESSION_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs `work` while two other clients start a daemon whenever none runs.
fn run_with_other_clients(world: &World, work: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    world.run(&["feedback", "hello"]);
                }
            });
        }
        let _over = SetOnDrop(&is_over);
        work();
    });
}

/// Sets a flag even if the test panics, so that its other threads end.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_restart_and_a_stop_succeed_though_another_client_starts_the_next_daemon_first() {
    let world = World::new();
    assert_eq!(world.run(&["feedback", "hello"]).code, 0);
    run_with_other_clients(&world, || {
        let mut before = world.json(&["daemon", "status", "--json"])["pid"].clone();
        for round in 0..4 {
            let began = Instant::now();
            let restarted = world.json(&["daemon", "restart", "--json"]);
            assert_eq!(restarted["running"], true, "round {round}: {restarted}");
            assert_ne!(restarted["pid"], before, "round {round}");
            let stopped = world.json(&["daemon", "stop", "--json"]);
            assert_eq!(stopped["stopped"], true, "round {round}: {stopped}");
            assert_ne!(stopped["successor"], restarted["pid"], "round {round}: {stopped}");
            before = restarted["pid"].clone();
            assert!(
                began.elapsed() < SUCCESSION_TIMEOUT,
                "round {round} took {:?}",
                began.elapsed()
            );
        }
    });
}

/// Starts a team that waits for messages, and a follower of its channel or of an agent's log.
fn start_follower(words: &[&str]) -> (World, Child) {
    let world = World::new();
    let yaml = "name: team\nagents:\n  coder: { backend: mock, mock: [{ run: 'echo printed', say: done }] }\n";
    let file = world.file("team.yaml", yaml);
    world.json(&["start", file.to_str().unwrap(), "--background", "--json"]);
    let follower = world.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    (world, follower.unwrap())
}

/// Replaces the daemon while the follower is stopped, sends a message, and lets the follower continue.
fn send_while_away(world: &World, follower: &Child, replace: impl FnOnce(&World), message: &str) {
    kill(follower.id(), "STOP");
    replace(world);
    world.json(&["send", "@team", message, "--json"]);
    kill(follower.id(), "CONT");
}

fn restart(world: &World) {
    assert_eq!(world.run(&["daemon", "restart"]).code, 0);
}

fn kill_and_start(world: &World) {
    let pid = world.daemon_pid().unwrap();
    kill(pid, "KILL");
    wait_for("its death", || (!is_alive(pid)).then_some(()));
    assert_eq!(world.run(&["feedback", "hello"]).code, 0);
}

/// Returns the lines of a stream as they arrive, so that a test can wait for one of them.
fn lines(stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            sender.send(line.unwrap()).unwrap();
        }
    });
    receiver
}

fn next_line(lines: &mpsc::Receiver<String>) -> String {
    lines.recv_timeout(SUCCESSION_TIMEOUT).unwrap()
}

#[test]
fn a_follower_of_a_channel_shows_every_message_once_across_restarts_and_kills() {
    let (world, mut follower) = start_follower(&["peek", "@team", "--follow", "--json"]);
    let said = lines(follower.stdout.take().unwrap());
    let body = || serde_json::from_str::<Value>(&next_line(&said)).unwrap()["body"].clone();
    world.json(&["send", "@team", "zero", "--json"]);
    assert_eq!(body(), "zero");
    send_while_away(&world, &follower, restart, "one");
    assert_eq!(body(), "one");
    send_while_away(&world, &follower, kill_and_start, "two");
    assert_eq!(body(), "two");
    world.json(&["send", "@team", "three", "--json"]);
    assert_eq!(body(), "three");
    send_while_away(&world, &follower, restart, "four");
    assert_eq!(world.run(&["stop", "@team"]).code, 0);
    assert_eq!(body(), "four");
    assert!(said.recv_timeout(SUCCESSION_TIMEOUT).is_err(), "no message is shown twice");
    let output = follower.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && told.contains("the run has ended"), "{told}");
}

#[test]
fn a_follower_of_a_log_shows_every_turn_once_across_restarts_and_kills() {
    let (world, mut follower) = start_follower(&["logs", "coder@team", "--follow"]);
    let printed = lines(follower.stdout.take().unwrap());
    let turn = |follower: &Child, replace: &dyn Fn(&World)| {
        send_while_away(&world, follower, replace, "@coder go");
        // Reads the tool call, its output and its result.
        let [call, output, _] = [next_line(&printed), next_line(&printed), next_line(&printed)];
        assert!(call.starts_with("→ shell"), "{call}");
        assert_eq!(output, "printed");
    };
    turn(&follower, &|_| ());
    turn(&follower, &restart);
    turn(&follower, &kill_and_start);
    kill(follower.id(), "STOP");
    restart(&world);
    assert_eq!(world.run(&["stop", "@team"]).code, 0);
    kill(follower.id(), "CONT");
    assert!(printed.recv_timeout(SUCCESSION_TIMEOUT).is_err(), "no turn is shown twice");
    let output = follower.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && told.contains("the run has ended"), "{told}");
}

#[test]
fn a_follower_ends_with_the_reason_when_the_daemon_is_stopped_for_good() {
    let (world, mut follower) = start_follower(&["peek", "@team", "--follow"]);
    let said = lines(follower.stdout.take().unwrap());
    world.json(&["send", "@team", "zero", "--json"]);
    assert!(next_line(&said).ends_with("zero"));
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    let output = follower.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("the daemon was stopped"), "{told}");
}
