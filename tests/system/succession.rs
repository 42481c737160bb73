//! One daemon follows another while other clients wait for it: `daemon stop` and `daemon restart` report the truth, and
//! followers continue where the connection broke.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::world::World;

/// Shorter than the time after which `stop` and `restart` give up.
const PROMPT: Duration = Duration::from_secs(20);

/// Runs `work` while two other clients start a daemon whenever none runs.
fn beside_other_clients(world: &World, work: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    world.run(&["feedback", "hello"]);
                }
            });
        }
        // Set also when `work` panics, so that the scope can end.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _over = Over(&is_over);
        work();
    });
}

#[test]
fn a_restart_and_a_stop_succeed_though_another_client_starts_the_next_daemon_first() {
    let world = World::new();
    assert_eq!(world.run(&["feedback", "hello"]).code, 0);
    beside_other_clients(&world, || {
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
            assert!(began.elapsed() < PROMPT, "round {round} took {:?}", began.elapsed());
        }
    });
}
