//! A daemon whose wall clock is set while it works: back by an hour, forward by two days. Debian's `libfaketime`
//! shifts it for the daemon only; its timers use the machine's clocks, and the machine's clock is not set.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use serde_json::Value;

use crate::world::{CommandOutput, World, record_skip, wait_for};

/// A daemon with a shifted wall clock.
struct ShiftedDaemon {
    world: World,
    daemon: Child,
    offset: PathBuf,
}

impl ShiftedDaemon {
    /// Returns `None` if the library that shifts the clock is missing.
    fn start() -> Option<Self> {
        let library = fs::read_dir("/usr/lib").unwrap().flatten();
        let library = library.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
        let Some(library) = library.into_iter().find(|path| path.exists()) else {
            record_skip("a daemon whose wall clock is set: libfaketime is missing");
            return None;
        };
        let world = World::new();
        let offset = world.file("offset", "+0\n");
        let daemon = world.daemon_with(&[
            ("LD_PRELOAD", text(&library)),
            ("FAKETIME_TIMESTAMP_FILE", text(&offset)),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ]);
        Some(Self { world, daemon, offset })
    }

    /// Sets the offset of the wall clock from the machine's. Replaces the file atomically, because the library may
    /// read it at any time.
    fn set_clock(&self, offset: &str) {
        let next = self.world.file("offset.next", &format!("{offset}\n"));
        fs::rename(next, &self.offset).unwrap();
    }

    /// Starts `run` and returns it with the file of its stderr.
    fn run(&self, file: &str) -> (Child, PathBuf) {
        let told = self.world.file("told", "");
        let mut run = self.world.command(&["run", file, "--json"]);
        let errors = fs::File::create(&told).unwrap();
        (run.stdout(Stdio::piped()).stderr(errors).spawn().unwrap(), told)
    }

    /// Waits for the end of a run that must not pause; returns its exit code and envelope.
    fn wait_run_end(&mut self, mut run: Child, told: &Path) -> (i32, Value) {
        wait_for("the run's end", || run.try_wait().unwrap());
        let said = CommandOutput::from(run.wait_with_output().unwrap());
        let envelope = serde_json::from_str(&said.stdout);
        let told = fs::read_to_string(told).unwrap();
        let envelope = envelope.unwrap_or_else(|error| panic!("{error}: {said:?} {told}"));
        assert!(!told.contains("paused"), "{told}");
        self.world.run(&["daemon", "stop", "--now"]);
        self.daemon.wait().unwrap();
        (said.code, envelope)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Waits until a follower of the run gets the notice about this clock change.
fn wait_for_jump_notice(told: &Path, how: &str) {
    wait_for("the event `clock.jumped`", || {
        fs::read_to_string(told)
            .unwrap()
            .contains(&format!("the wall clock was set {how}"))
            .then_some(())
    });
}

/// An agent that fails until the file `go` exists, and a proposal without votes.
const RETRY: &str = "name: retry\nagents:\n\
    \x20 coder: { backend: mock, mock: [{ run: '[ -e go ]', say: Done. }], retry: { max_attempts: 9, backoff: 4s, multiplier: 1 } }\n\
    \x20 voter: { backend: mock, mock: [{ say: Let me think. }] }\n\
    kickoff: '@coder go'\n";

#[test]
fn retries_and_votes_go_on_when_the_wall_clock_is_set_back_an_hour() {
    let Some(mut shifted) = ShiftedDaemon::start() else { return };
    shifted.world.file("retry.yaml", RETRY);
    let (run, told) = shifted.run("retry.yaml");
    let world = &shifted.world;
    wait_for("the back-off", || {
        let state = world.run(&["why", "coder@retry", "--json"]);
        state.stdout.contains("backing_off").then_some(())
    });
    let words = ["propose", "Ship it?", "--deadline", "6s", "--target", "@retry"];
    let proposed = world.run(&words);
    assert_eq!(proposed.code, 0, "{proposed:?}");
    shifted.set_clock("-3600");
    shifted.world.file("go", "");
    wait_for_jump_notice(&told, "back by 1h");
    // The run ends after the retry and the proposal's deadline.
    let (code, envelope) = shifted.wait_run_end(run, &told);
    assert_eq!((code, &envelope["outcome"]), (0, &Value::from("done")), "{envelope}");
    let lasted = envelope["duration_ms"].as_u64().unwrap();
    assert!((6_000..60_000).contains(&lasted), "{envelope}");
}

const LONG: &str = "name: long\nagents:\n\
    \x20 slow: { backend: mock, mock: [{ run: 'until [ -e go ]; do sleep 0.05; done', say: Done. }] }\n\
    kickoff: '@slow go'\nlimits: { wall: 2h }\n";

#[test]
fn a_run_that_is_allowed_two_hours_does_not_pause_when_the_wall_clock_is_set_forward_two_days() {
    let Some(mut shifted) = ShiftedDaemon::start() else { return };
    shifted.world.file("long.yaml", LONG);
    let (run, told) = shifted.run("long.yaml");
    let world = &shifted.world;
    wait_for("the turn", || {
        let state = world.run(&["why", "slow@long", "--json"]);
        state.stdout.contains("\"running\"").then_some(())
    });
    shifted.set_clock("+2d");
    // The same pass of the run's loop reports the jump and compares the run's time with its limit.
    wait_for_jump_notice(&told, "forward by 2d");
    shifted.world.file("go", "");
    let (code, envelope) = shifted.wait_run_end(run, &told);
    assert_eq!((code, &envelope["outcome"]), (0, &Value::from("done")), "{envelope}");
    assert!(envelope["duration_ms"].as_u64().unwrap() < 60_000, "{envelope}");
}
