//! A machine without free file descriptors: no worker can be started, and no message is charged for that.

use std::{fs, time::Duration};

use agent_worker_host::DaemonSocket;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};

use crate::world::{World, wait_for};

/// Enough to read a file, too few for a worker's log and pipes.
const FREE_DESCRIPTORS: usize = 3;

/// Returns the limit that leaves this process [`FREE_DESCRIPTORS`] more file descriptors.
fn tight_limit(pid: u32) -> u64 {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let open: Vec<u64> =
        open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    (0..).filter(|number| !open.contains(number)).nth(FREE_DESCRIPTORS).unwrap()
}

fn limit_descriptors(pid: u32, most: u64) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap());
    let maximum = getrlimit(Resource::Nofile).maximum;
    prlimit(pid, Resource::Nofile, Rlimit { current: Some(most), maximum }).unwrap();
}

#[test]
fn a_worker_that_cannot_be_started_is_backed_off_and_makes_no_dead_letter() {
    let world = World::new();
    world.file(
        "team.yaml",
        "name: team\nagents:\n  coder: { backend: mock, retry: { backoff: 1ms }, mock: [{ say: hi }] }\n",
    );
    assert_eq!(world.run(&["start", "team.yaml", "--background"]).code, 0);
    assert_eq!(world.run(&["send", "coder@team", "warm up", "--wait"]).stdout.trim(), "hi");
    let daemon = world.daemon_pid().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // Connected before the limit, because the daemon cannot accept a connection afterwards.
        let client = DaemonSocket::at(world.home().join("daemon.sock"));
        let project = world.project();
        let agent = async || -> Value {
            let path = format!("/agents?target=@team&project={}", project.display());
            client.get::<Value>(&path).await.unwrap()["items"][0].clone()
        };
        agent().await;
        limit_descriptors(daemon, tight_limit(daemon));
        let body = json!({"target": "coder@team", "project": project, "message": "do it"});
        let sent: Value = client.post("/messages", &body).await.unwrap();
        let tries = || world.log().matches("a worker could not be ").count();
        // Twice the number of attempts of a message.
        for _ in 0..3_000 {
            if tries() > 6 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(tries() > 6, "{}", world.log());
        // Between two waits the agent is in an attempt whose worker is being started.
        let mut state = agent().await;
        for _ in 0..3_000 {
            if state["state"] != "running" {
                break;
            }
            state = agent().await;
        }
        assert_eq!(state["state"], "backing_off", "{state}");
        let why = "the worker could not be started: Too many open files (os error 24)";
        assert_eq!(state["why"], why, "{state}");
        limit_descriptors(daemon, 1024);
        let seq = sent["seq"].to_string();
        let receipt = wait_for("the message to be acted upon", || {
            let receipts = world.list(&["receipts", &seq, "@team", "--json"]);
            let receipt = receipts[0].clone();
            (receipt["state"] != "pending" && receipt["state"] != "leased").then_some(receipt)
        });
        assert_eq!((&receipt["state"], &receipt["failures"]), (&json!("acted"), &json!(0)));
    });
    assert_eq!(world.run(&["stop", "@team"]).code, 0);
}
