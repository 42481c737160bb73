//! Process trees that end together, the inheritance of environments, and shells that act only as their agent.

use std::time::{Duration, Instant};

use crate::world::{World, is_alive, kill, wait_for};

#[test]
fn a_child_that_ignores_term_and_a_setsid_grandchild_are_gone_twelve_seconds_after_stop() {
    let world = World::new();
    let stubborn = "trap '' TERM; setsid sh -c \"trap '' TERM; touch up; sleep 600\" & \
                    env -i setsid sleep 601 & sleep 602 & wait";
    let yaml = format!(
        "name: stubborn\nagents:\n  a:\n    backend: mock\n    mock:\n      - run: |\n          {stubborn}\nkickoff: '@a go'\n"
    );
    let file = world.file("stubborn.yaml", &yaml);
    world.json(&["start", file.to_str().unwrap(), "--background", "--json"]);
    wait_for("the tree to be up", || world.project().join("up").exists().then_some(()));
    let daemon = world.daemon_pid().unwrap();
    let began = Instant::now();
    let stopped = world.run(&["stop", "@stubborn"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    let left: Vec<_> = world.processes().into_iter().filter(|(pid, _)| *pid != daemon).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_agents_shell_is_only_its_agent_whatever_it_does_to_its_process() {
    let world = World::new();
    let binary = env!("CARGO_BIN_EXE_agent-worker");
    let socket = world.home().join("daemon.sock");
    let script = format!(
        r#"#!/bin/bash
export AGENT_WORKER_HOME={home}
note() {{ echo "$1: $2" >> {project}/tried; }}
{binary} stop @sly > out 2>&1; note plain "$(grep -c 'only the user' out)"
env -i AGENT_WORKER_HOME={home} {binary} stop @sly > out 2>&1; note cleared "$(grep -c 'only the user' out)"
setsid -w env -i AGENT_WORKER_HOME={home} {binary} stop @sly > out 2>&1; note setsid "$(grep -c 'only the user' out)"
env -i AGENT_WORKER_HOME={home} {binary} run {project}/sly.yaml --tag other > out 2>&1; note run "$(grep -c 'only the user' out)"
env -i AGENT_WORKER_HOME={home} {binary} token create mine > out 2>&1; note token "$(grep -c 'only the user' out)"
(setsid sh -c 'sleep 0.3; env -i AGENT_WORKER_HOME={home} {binary} stop @sly > forked 2>&1; echo over >> forked' &)
until grep -q over forked 2>/dev/null; do sleep 0.05; done; note forked "$(grep -c 'only the user' forked)"
env -i AGENT_WORKER_HOME={home} {binary} send @sly "hello from the shell" > out 2>&1; note send "$?"
"#,
        home = world.home().display(),
        project = world.project().display(),
    );
    world.file("try.sh", &script);
    let yaml = "name: sly\nagents:\n  a:\n    backend: mock\n    mock:\n      - { run: bash try.sh, say: tried }\nkickoff: '@a go'\n";
    let file = world.file("sly.yaml", yaml);
    let (code, envelope) = world.envelope(&["run", file.to_str().unwrap(), "--json"]);
    assert_eq!(code, 0, "{envelope}\n{}", world.log());
    assert!(socket.exists());
    let tried = std::fs::read_to_string(world.project().join("tried")).unwrap();
    assert_eq!(tried, "plain: 1\ncleared: 1\nsetsid: 1\nrun: 1\ntoken: 1\nforked: 1\nsend: 0\n");
    let messages = world.json(&["peek", "@sly", "--json"]);
    let spoken = messages["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|message| message["body"] == "hello from the shell");
    assert_eq!(spoken.unwrap()["from"], "a", "what an agent's shell sends comes from the agent");
    assert!(world.run(&["token", "list"]).stdout.lines().all(|line| !line.contains("mine")));
}

#[test]
fn setup_and_worker_see_the_callers_environment_not_the_daemons() {
    let world = World::new();
    let mut daemon = world.daemon();
    let yaml = "name: env\nagents:\n  a:\n    backend: mock\n    env: [FOO]\n    mock:\n      - { run: 'echo worker:$FOO > seen-by-worker' }\n\
                setup:\n  - { shell: 'echo setup:$FOO > seen-by-setup' }\nkickoff: '@a go'\n";
    let file = world.file("env.yaml", yaml);
    let status = world.command(&["run", file.to_str().unwrap()]).env("FOO", "1").output().unwrap();
    assert!(status.status.success(), "{status:?}");
    let seen = |name: &str| std::fs::read_to_string(world.project().join(name)).unwrap();
    assert_eq!(
        (seen("seen-by-setup").trim(), seen("seen-by-worker").trim()),
        ("setup:1", "worker:1")
    );
    world.run(&["daemon", "stop"]);
    daemon.wait().unwrap();
}

const STUBBORN: &str = "name: stubborn\nagents:\n  a:\n    backend: mock\n    mock:\n      - run: |\n          echo $$ >> pids; trap '' TERM; while true; do sleep 1; done\nkickoff: '@a go'\n";

fn written_pids(world: &World) -> Vec<u32> {
    let text = std::fs::read_to_string(world.project().join("pids")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn an_agents_next_run_waits_until_the_processes_of_the_last_one_are_gone() {
    let world = World::with(&[("AGENT_WORKER_KILL_GRACE", "1s")]);
    let file = world.file("stubborn.yaml", STUBBORN);
    let start = || world.run(&["start", file.to_str().unwrap(), "--background"]);
    assert_eq!(start().code, 0);
    let first = wait_for("the first process", || written_pids(&world).first().copied());
    let mut stop = world.command(&["stop", "@stubborn"]).spawn().unwrap();
    wait_for("the first run to be over", || (start().code == 0).then_some(()));
    let agents = world.list(&["ls", "@stubborn", "--json"]);
    assert!(is_alive(first), "it takes its time: {agents}");
    let second = wait_for("the second process", || written_pids(&world).get(1).copied());
    assert!(!is_alive(first), "{first} was still there when {second} began");
    assert!(stop.wait().unwrap().success());
    assert_eq!(world.run(&["stop", "@stubborn"]).code, 0);
}

#[test]
fn what_a_stop_that_was_cut_off_left_running_is_ended_at_the_next_start() {
    let world = World::with(&[("AGENT_WORKER_KILL_GRACE", "200ms")]);
    let mut daemon = world.daemon_with(&[("AGENT_WORKER_KILL_GRACE", "10m")]);
    let file = world.file("stubborn.yaml", STUBBORN);
    assert_eq!(world.run(&["start", file.to_str().unwrap(), "--background"]).code, 0);
    let pid = wait_for("its process", || written_pids(&world).first().copied());
    let mut stop = world.command(&["stop", "@stubborn"]).spawn().unwrap();
    wait_for("the run to be over", || {
        world.list(&["ls", "--json"]).as_array().unwrap().is_empty().then_some(())
    });
    stop.kill().unwrap();
    stop.wait().unwrap();
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    assert!(is_alive(pid), "the stop was not done");
    let mut next = world.daemon();
    let left: Vec<_> = world.processes().into_iter().filter(|one| one.0 != next.id()).collect();
    assert!(left.is_empty(), "before the daemon serves requests: {left:?}\n{}", world.log());
    kill(next.id(), "TERM");
    assert!(next.wait().unwrap().success());
}

#[test]
fn stop_ends_a_team_whose_daemon_is_dead() {
    let world = World::with(&[("AGENT_WORKER_KILL_GRACE", "1s")]);
    let file = world.file("stubborn.yaml", STUBBORN);
    assert_eq!(world.run(&["start", file.to_str().unwrap(), "--background"]).code, 0);
    let pid = wait_for("its process", || written_pids(&world).first().copied());
    let daemon = world.daemon_pid().unwrap();
    kill(daemon, "KILL");
    wait_for("the daemon's death", || (!is_alive(daemon)).then_some(()));
    let said = world.run(&["stop", "@stubborn"]);
    assert!(said.code == 0 && said.stdout.contains("ended a"), "{said:?}");
    assert!(!is_alive(pid));
}

#[test]
fn what_a_killed_worker_leaves_behind_is_ended() {
    let world = World::new();
    let script = "setsid sleep 611 & env -i setsid sleep 612 & sleep 613 & kill -9 $PPID; wait";
    let yaml = format!(
        "name: orphan\nagents:\n  a:\n    backend: mock\n    retry: {{ max_attempts: 1 }}\n    mock:\n      - run: |\n          {script}\nkickoff: '@a go'\n"
    );
    let file = world.file("orphan.yaml", &yaml);
    let (code, envelope) = world.envelope(&["run", file.to_str().unwrap(), "--json"]);
    assert_eq!((code, envelope["dead_letters"].as_array().unwrap().len()), (1, 1), "{envelope}");
    let daemon = world.daemon_pid().unwrap();
    let left: Vec<_> = world.processes().into_iter().filter(|(pid, _)| *pid != daemon).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_worker_that_is_stopped_by_its_own_child_is_not_tried_for_ever() {
    let world = World::new();
    let yaml = "name: again\nagents:\n  a:\n    backend: mock\n    retry: { backoff: 1ms, multiplier: 1 }\n    mock:\n      - run: |\n          echo x >> tries; kill $PPID; sleep 5\nkickoff: '@a go'\n";
    let file = world.file("again.yaml", yaml);
    let (code, envelope) = world.envelope(&["run", file.to_str().unwrap(), "--json"]);
    assert_eq!((code, envelope["dead_letters"].as_array().unwrap().len()), (1, 1), "{envelope}");
    let tries = std::fs::read_to_string(world.project().join("tries")).unwrap();
    assert_eq!(tries.lines().count(), 10);
}

#[test]
fn what_a_setup_leaves_running_stays_until_its_run_is_over() {
    let world = World::new();
    // The process clears its environment, as servers that set their own title do.
    let yaml = "name: server\nagents:\n  a: { backend: mock, mock: [{ say: hi }] }\nsetup:\n  - { shell: 'env -i setsid sleep 614 & echo $! > server' }\n";
    let file = world.file("server.yaml", yaml);
    assert_eq!(world.run(&["start", file.to_str().unwrap(), "--background"]).code, 0);
    let pid: u32 =
        std::fs::read_to_string(world.project().join("server")).unwrap().trim().parse().unwrap();
    assert_eq!(world.run(&["send", "a@server", "hello", "--wait"]).stdout.trim(), "hi");
    assert!(is_alive(pid), "a turn of an agent is no reason to end it");
    assert_eq!(world.run(&["stop", "@server"]).code, 0);
    assert!(!is_alive(pid), "it goes with its run");
}

#[test]
fn a_daemon_that_is_to_stop_now_gives_its_workers_no_time() {
    // A grace period longer than any test.
    let world = World::with(&[("AGENT_WORKER_KILL_GRACE", "1h")]);
    world.file(
        "deaf.yaml",
        "name: deaf\nagents:\n  a: { backend: mock, mock: [{ run: 'trap \"\" TERM; echo > up; while :; do sleep 1; done' }] }\n\
         kickoff: '@a go'\n",
    );
    assert_eq!(world.run(&["start", "deaf.yaml", "--background"]).code, 0);
    wait_for("the worker to be deaf", || world.project().join("up").exists().then_some(()));
    let stopped = world.run(&["daemon", "stop", "--now"]);
    assert_eq!(stopped.code, 0, "{stopped:?}\n{}", world.log());
    assert_eq!(world.processes(), []);
}
