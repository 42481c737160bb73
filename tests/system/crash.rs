//! Repeated kill -9 of the daemon at random moments under load. `AW_KILLS` is the number of kills.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use agent_worker_host::DaemonSocket;
use agent_worker_protocol::{
    Priority,
    api::{SendReply, SendRequest},
};

use crate::{
    store_check::{AcknowledgedSends, check_store},
    world::{TEST_TIMEOUT, World, kill, wait_for},
};

const SENDERS: usize = 4;
const WORKERS: usize = 4;

fn team() -> String {
    let agents: Vec<String> = (0..WORKERS)
        .map(|n| {
            format!(
                "  w{n}:\n    backend: mock\n    mock:\n      - sleep: 30ms\n        calls: [{{ tool: channel_send, \
                 args: {{ message: 'turn done' }} }}]\n        say: ok\n"
            )
        })
        .collect();
    format!("name: load\nagents:\n{}limits: {{ turns: 100000 }}\n", agents.concat())
}

/// Sends until the test is over. Each message has a key and is repeated with that key until a daemon acknowledges
/// it.
fn send(world: &World, sender: usize, over: &AtomicBool) -> AcknowledgedSends {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let daemon = DaemonSocket::at(world.home().join("daemon.sock"));
        let mut acknowledged = AcknowledgedSends::new();
        for n in 0.. {
            if over.load(Ordering::Relaxed) {
                break;
            }
            // Every tenth message wakes an agent; a worker costs more than a message.
            let to = if n % 10 == 0 { format!("@w{} ", n / 10 % WORKERS) } else { String::new() };
            let message = format!("{to}load {sender}-{n}");
            let key = format!("{sender}-{n}");
            let deadline = Instant::now() + TEST_TIMEOUT;
            let reply = loop {
                let request = SendRequest {
                    target: Some("@load".parse().unwrap()),
                    project: Some(world.project()),
                    message: message.clone(),
                    to: Vec::new(),
                    cc: Vec::new(),
                    reply_to: None,
                    alone: false,
                    now: false,
                    priority: Priority::Normal,
                    attachments: Vec::new(),
                };
                match daemon.post_once::<_, SendReply>("/messages", &key, &request).await {
                    Ok(reply) => break reply,
                    Err(error) => assert!(Instant::now() < deadline, "{error}"),
                }
                tokio::task::yield_now().await;
            };
            acknowledged.insert(message, reply.seq.get());
        }
        acknowledged
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long the nightly runs is a setting of the test itself"
)]
fn kills() -> usize {
    std::env::var("AW_KILLS").map_or(20, |text| text.parse().unwrap())
}

/// Returns pseudo-random delays, which are the same for the same seed.
fn moments(seed: u64) -> impl Iterator<Item = Duration> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis(20 + (state >> 33) % 280)
    })
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_finished_happens_twice_however_often_the_daemon_is_killed()
 {
    let kills = kills();
    let world = Arc::new(World::new());
    let mut daemon = world.daemon();
    let file = world.file("load.yaml", &team());
    world.json(&["start", file.to_str().unwrap(), "--background", "--json"]);
    let over = Arc::new(AtomicBool::new(false));
    let senders: Vec<_> = (0..SENDERS)
        .map(|n| {
            let (world, over) = (Arc::clone(&world), Arc::clone(&over));
            thread::spawn(move || send(&world, n, &over))
        })
        .collect();
    for moment in moments(2026).take(kills) {
        thread::park_timeout(moment);
        kill(daemon.id(), "KILL");
        daemon.wait().unwrap();
        daemon = world.daemon();
    }
    over.store(true, Ordering::Relaxed);
    let mut acknowledged = AcknowledgedSends::new();
    for sender in senders {
        acknowledged.extend(sender.join().unwrap());
    }
    assert!(acknowledged.len() > kills, "the senders got through: {}", acknowledged.len());
    wait_for("everybody to be done", || {
        let agents = world.list(&["ls", "@load", "--json"]);
        let agents = agents.as_array().unwrap();
        agents.iter().all(|agent| agent["state"] == "idle").then_some(())
    });
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
    assert!(world.processes().is_empty(), "{:?}", world.processes());
    check_store(&world.home(), &acknowledged);
}
