//! Test of a signal to `run`, in a process of its own: a signal reaches every test of a process.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, a panic is the report")]
#![expect(dead_code, reason = "the fake and its stories serve two test programs")]

#[path = "cli/fake_daemon.rs"]
mod fake_daemon;
#[path = "cli/sample_responses.rs"]
mod sample_responses;

use std::thread;

use rustix::process::{Signal, getpid, kill_process};
use serde_json::json;

use crate::{
    fake_daemon::{AfterEvents, FakeReply, TestHome, until},
    sample_responses::{FILE, GET_RUN, RUN, STOP_RUN, a_conversation, run_view, started},
};

#[test]
fn a_signal_stops_the_run_says_what_ended_and_exits_130() {
    let stopped = json!({"run": RUN, "instance": "review", "attempts": ["coder"], "processes": 2});
    let world = TestHome::with_daemon(vec![
        ("POST /runs", started()),
        ("GET /events", FakeReply::Events(a_conversation()[..2].to_vec(), AfterEvents::Hang)),
        (STOP_RUN, FakeReply::Json(stopped)),
        (GET_RUN, run_view(&json!({"state": "ended", "outcome": "stopped"}))),
    ]);
    world.file("review.yaml", FILE);
    let seen = thread::scope(|scope| {
        let typed = scope.spawn(|| world.run_command(&["run", "review.yaml", "--target", "main"]));
        until(|| !world.asked("GET /events").is_empty());
        kill_process(getpid(), Signal::INT).unwrap();
        typed.join().unwrap()
    });
    assert!(seen.exits(130), "{seen:?}");
    insta::assert_snapshot!(seen.err, @r"
    stopping @review (interrupt again to leave that to the daemon)
    stopped @review: ended coder (2 processes)
    stopped after 9.0s · 1 turn · 2 messages
    ");
}
