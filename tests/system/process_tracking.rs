//! Attribution of a process whose environment is cleared, whose session is its own, and whose worker and daemon
//! were killed.

use std::{
    fs,
    path::PathBuf,
    process::Child,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::world::{World, is_alive, kill, record_skip, wait_for};

/// A process that clears its environment, leaves its session and its parents, and calls the daemon on request.
const LEFTOVER_SCRIPT: &str = r#"#!/bin/bash
cd PROJECT
echo $$ > leftover
while :; do
  if [ -e ask ]; then
    rm ask
    AGENT_WORKER_HOME=HOME BINARY token create stolen > asked 2>&1
    echo "exit $?" >> asked
    mv asked answer
  fi
  sleep 0.05
done
"#;

const TEAM: &str = "name: team\nagents:\n  a:\n    backend: mock\n    mock:\n      - run: |\n          \
    (env -i PATH=\"$PATH\" setsid bash leftover.sh > /dev/null 2>&1 < /dev/null &) ; touch up; sleep 600\n\
    kickoff: '@a go'\n";

/// Returns the folder of the daemon's control groups, if the daemon tracks processes by groups.
fn tracking(world: &World) -> Option<PathBuf> {
    let health = world.json(&["daemon", "status", "--json"]);
    let path = health["tracking"]["path"].as_str().map(PathBuf::from);
    assert_eq!(health["tracking"]["by"] == "cgroup", path.is_some(), "{health}");
    path
}

/// Returns the folder of a daemon's groups. If the daemon can create none, the test is counted as skipped and the
/// daemon is stopped.
fn groups_of(world: &World, daemon: &mut Child) -> Option<PathBuf> {
    let groups = tracking(world);
    if groups.is_none() {
        record_skip("control groups: none can be created here");
        kill(daemon.id(), "TERM");
        daemon.wait().unwrap();
    }
    groups
}

/// Starts a run that leaves a process behind; returns the pid of that process.
fn start_with_leftover(world: &World, yaml: &str) -> u32 {
    let script = LEFTOVER_SCRIPT
        .replace("PROJECT", world.project().to_str().unwrap())
        .replace("HOME=HOME", &format!("HOME={}", world.home().display()))
        .replace("BINARY", env!("CARGO_BIN_EXE_agent-worker"));
    world.file("leftover.sh", &script);
    let file = world.file("team.yaml", yaml);
    assert_eq!(world.run(&["start", file.to_str().unwrap(), "--background"]).code, 0);
    wait_for("the leftover process", || {
        fs::read_to_string(world.project().join("leftover")).ok()?.trim().parse().ok()
    })
}

/// Starts a team whose agent leaves a process behind; returns the pids of that process and of the worker.
fn start_leftover(world: &World) -> (u32, u32) {
    let leftover = start_with_leftover(world, TEAM);
    let is_worker = |line: &str| line.trim_end().ends_with(" worker");
    let worker = world.processes().into_iter().find(|(_, line)| is_worker(line)).unwrap().0;
    (leftover, worker)
}

/// Makes the leftover process request a token, which only the user may have.
fn ask_as_leftover(world: &World) -> String {
    let _ = fs::remove_file(world.project().join("answer"));
    world.file("ask", "");
    wait_for("its answer", || fs::read_to_string(world.project().join("answer")).ok())
}

fn is_refused(answer: &str) -> bool {
    answer.contains("only the user") && !answer.contains("exit 0")
}

fn kill_and_wait(pid: u32) {
    kill(pid, "KILL");
    wait_for("a process to be gone", || (!is_alive(pid)).then_some(()));
}

#[test]
fn a_leftover_whose_worker_and_daemon_were_killed_is_never_the_user_and_is_ended_by_the_next_daemon()
 {
    let world = World::new();
    let mut daemon = world.daemon();
    let Some(groups) = groups_of(&world, &mut daemon) else { return };
    let (leftover, worker) = start_leftover(&world);
    assert!(is_refused(&ask_as_leftover(&world)), "an agent's process");
    let marks: Vec<_> = fs::read_dir(&groups).unwrap().flatten().map(|one| one.path()).collect();
    assert!(marks.iter().any(|path| path.join("cgroup.procs").is_file()), "{marks:?}");
    // The daemon is killed first, because it would end the processes of a lost worker.
    kill_and_wait(daemon.id());
    daemon.wait().unwrap();
    kill_and_wait(worker);
    assert!(is_alive(leftover), "nobody is left to end it");
    // A daemon of another home also knows that this process is not its user.
    let other = World::new();
    let mut others = other.daemon();
    let own = world.project().join("leftover.sh");
    let home = format!("AGENT_WORKER_HOME={}", world.home().display());
    assert!(fs::read_to_string(&own).unwrap().contains(&home));
    let link = fs::rename(world.home(), world.home().with_extension("away"))
        .and_then(|()| std::os::unix::fs::symlink(other.home(), world.home()));
    link.unwrap();
    let answer = ask_as_leftover(&world);
    fs::remove_file(world.home()).unwrap();
    fs::rename(world.home().with_extension("away"), world.home()).unwrap();
    assert!(!answer.contains("exit 0"), "{answer}");
    assert!(other.list(&["token", "list", "--json"]).as_array().unwrap().is_empty());
    kill(others.id(), "TERM");
    others.wait().unwrap();
    let mut next = world.daemon();
    assert!(
        !is_alive(leftover),
        "the process is ended before the daemon serves requests: {}",
        world.log()
    );
    kill(next.id(), "TERM");
    next.wait().unwrap();
    assert!(!groups.exists(), "no group is left");
}

#[test]
fn a_leftover_of_a_worker_that_outlived_its_daemon_is_ended_with_it() {
    let world = World::with(&[("AGENT_WORKER_KILL_GRACE", "200ms")]);
    let mut daemon = world.daemon();
    if groups_of(&world, &mut daemon).is_none() {
        return;
    }
    let (leftover, worker) = start_leftover(&world);
    kill_and_wait(daemon.id());
    daemon.wait().unwrap();
    let mut next = world.daemon();
    assert!(is_alive(leftover) && is_alive(worker), "the attempt continues: {}", world.log());
    assert!(is_refused(&ask_as_leftover(&world)), "an agent's process");
    // No ancestor is left: only the control group identifies the process.
    kill_and_wait(worker);
    wait_for("the leftover process to be gone", || (!is_alive(leftover)).then_some(()));
    assert_eq!(world.run(&["stop", "@team"]).code, 0);
    kill(next.id(), "TERM");
    next.wait().unwrap();
}

#[test]
fn without_groups_a_leftover_of_a_worker_that_outlived_its_daemon_is_ended_with_it() {
    let world = World::with(&[
        ("AGENT_WORKER_PROCESS_TRACKING", "tree"),
        ("AGENT_WORKER_KILL_GRACE", "200ms"),
    ]);
    let mut daemon = world.daemon();
    let (leftover, worker) = start_leftover(&world);
    kill_and_wait(daemon.id());
    daemon.wait().unwrap();
    let mut next = world.daemon();
    assert!(is_alive(leftover) && is_alive(worker), "the attempt continues: {}", world.log());
    assert!(is_refused(&ask_as_leftover(&world)), "its chain of parents leads to its worker");
    // The daemon has recorded the tree below the worker that it adopted.
    kill_and_wait(worker);
    let deadline = Instant::now() + Duration::from_secs(20);
    while is_alive(leftover) && Instant::now() < deadline {
        std::thread::park_timeout(Duration::from_millis(10));
    }
    let survived = is_alive(leftover);
    kill(leftover, "KILL");
    assert!(!survived, "the process outlived its worker and acts as the user");
    assert_eq!(world.run(&["stop", "@team"]).code, 0);
    kill(next.id(), "TERM");
    next.wait().unwrap();
}

#[test]
fn without_groups_a_process_that_a_task_left_is_not_the_user_of_a_later_daemon() {
    let world = World::with(&[
        ("AGENT_WORKER_PROCESS_TRACKING", "tree"),
        ("AGENT_WORKER_KILL_GRACE", "200ms"),
    ]);
    let mut daemon = world.daemon();
    let yaml = "name: team\ntasks:\n  - shell: (env -i PATH=\"$PATH\" setsid bash leftover.sh > /dev/null 2>&1 < /dev/null &)\n  \
        - shell: touch second; sleep 600\n";
    let leftover = start_with_leftover(&world, yaml);
    wait_for("the next task", || world.project().join("second").exists().then_some(()));
    let is_anonymous = |answer: &str| answer.contains("needs a token") && answer.contains("exit 1");
    assert!(is_anonymous(&ask_as_leftover(&world)), "the daemon is its parent");
    for _ in 0..2 {
        kill_and_wait(daemon.id());
        daemon.wait().unwrap();
        daemon = world.daemon();
        assert!(is_alive(leftover), "its run lives: {}", world.log());
        let answer = ask_as_leftover(&world);
        assert!(is_anonymous(&answer), "{answer}");
    }
    assert_eq!(world.run(&["stop", "@team"]).code, 0);
    assert!(!is_alive(leftover), "it ends with its run");
    kill(daemon.id(), "TERM");
    daemon.wait().unwrap();
}

#[test]
fn processes_are_tracked_by_their_tree_where_that_is_asked_for() {
    let world = World::with(&[
        ("AGENT_WORKER_PROCESS_TRACKING", "tree"),
        ("AGENT_WORKER_KILL_GRACE", "200ms"),
    ]);
    let mut daemon = world.daemon();
    assert_eq!(tracking(&world), None);
    let doctor = world.json(&["doctor", "--json"]);
    let findings: &Vec<Value> = doctor["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["about"] == "process").unwrap();
    let message = "attempts are tracked by their process tree: --process-tracking tree";
    assert_eq!((&finding["state"], &finding["message"]), (&"note".into(), &message.into()));
    let (leftover, worker) = start_leftover(&world);
    assert!(is_refused(&ask_as_leftover(&world)), "its chain of parents leads to its worker");
    kill_and_wait(worker);
    wait_for("the leftover process to be gone", || (!is_alive(leftover)).then_some(()));
    assert_eq!(world.run(&["stop", "@team"]).code, 0);
    kill(daemon.id(), "TERM");
    daemon.wait().unwrap();
}

#[test]
fn doctor_names_the_folder_of_the_groups_and_none_is_left_after_a_turn() {
    let world = World::new();
    let mut daemon = world.daemon();
    let Some(groups) = groups_of(&world, &mut daemon) else { return };
    let doctor = world.run(&["doctor"]);
    assert!(doctor.stdout.replace("\n               ", " ").contains(groups.to_str().unwrap()));
    // A fork bomb of a kind: each process starts the next one and ends.
    let bomb = "name: bomb\nagents:\n  a:\n    backend: mock\n    mock:\n      - run: |\n          \
        echo 'sleep 0.01; env -i setsid sh hop.sh &' > hop.sh; env -i setsid sh hop.sh & echo\n        say: done\n\
        kickoff: '@a go'\n";
    let file = world.file("bomb.yaml", bomb);
    let (code, envelope) = world.envelope(&["run", file.to_str().unwrap(), "--json"]);
    assert_eq!(code, 0, "{envelope}\n{}", world.log());
    assert!(!groups.exists(), "{groups:?}");
    kill(daemon.id(), "TERM");
    daemon.wait().unwrap();
}
