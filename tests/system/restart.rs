//! A daemon that is killed or upgraded during turns: the turns continue, and each happens once.

use serde_json::Value;

use crate::world::{World, is_alive, kill, wait_for};

/// Returns a team of twenty agents, each of which works for a while and sends one message.
fn team_of_twenty(sleep: &str) -> String {
    let agents: Vec<String> = (1..=20)
        .map(|n| {
            format!(
                "  a{n}:\n    backend: mock\n    mock:\n      - sleep: {sleep}\n        calls: [{{ tool: channel_send, \
                 args: {{ message: 'done by a{n}' }} }}]\n        say: ok\n"
            )
        })
        .collect();
    format!("name: twenty\nagents:\n{}kickoff: '@all go'\n", agents.concat())
}

fn working_agents(world: &World) -> Vec<Value> {
    let agents = world.list(&["ls", "@twenty", "--json"]);
    agents
        .as_array()
        .unwrap()
        .clone()
        .into_iter()
        .filter(|agent| agent["state"] == "running")
        .collect()
}

fn channel_bodies(world: &World) -> Vec<String> {
    let reply = world.json(&["peek", "@twenty", "-n", "200", "--json"]);
    let messages = reply["items"].as_array().unwrap();
    let bodies = messages.iter().filter(|message| message["kind"] == "message");
    let mut bodies: Vec<String> =
        bodies.map(|message| message["body"].as_str().unwrap().to_owned()).collect();
    bodies.sort();
    bodies
}

#[test]
fn twenty_turns_under_way_when_the_daemon_is_killed_finish_once_in_their_first_attempt() {
    let world =
        World::with(&[("AGENT_WORKER_WORKERS", "20"), ("AGENT_WORKER_WORKERS_PER_INSTANCE", "20")]);
    let mut daemon = world.daemon();
    let file = world.file("twenty.yaml", &team_of_twenty("3s"));
    let run = world.json(&["start", file.to_str().unwrap(), "--background", "--json"]);
    assert!(run["run"].is_string(), "{run}");
    wait_for("twenty running turns", || (working_agents(&world).len() == 20).then_some(()));
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    let mut next = world.daemon();
    let expected: Vec<String> = {
        let mut bodies: Vec<String> = (1..=20).map(|n| format!("done by a{n}")).collect();
        bodies.push("@all go".into());
        bodies.sort();
        bodies
    };
    wait_for("all to have spoken", || {
        (channel_bodies(&world).len() >= expected.len()).then_some(())
    });
    wait_for("all to be idle", || working_agents(&world).is_empty().then_some(()));
    assert_eq!(channel_bodies(&world), expected);
    for agent in world.list(&["ls", "@twenty", "--json"]).as_array().unwrap() {
        assert_eq!(agent["turns"], 1, "{agent}");
    }
    world.run(&["stop", "@twenty"]);
    world.run(&["daemon", "stop"]);
    next.wait().unwrap();
}

#[test]
fn a_worker_that_finished_while_no_daemon_was_there_is_counted() {
    let world = World::with(&[("AGENT_WORKER_ORPHAN_GRACE", "3s")]);
    let mut daemon = world.daemon();
    let yaml = "name: alone\nagents:\n  a:\n    backend: mock\n    mock:\n      - run: echo x >> turns; sleep 1\n        say: done alone\nkickoff: '@a go'\n";
    let file = world.file("alone.yaml", yaml);
    world.json(&["start", file.to_str().unwrap(), "--background", "--json"]);
    wait_for("its turn", || world.project().join("turns").exists().then_some(()));
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    wait_for("the worker to be gone, its last word only on disk", || {
        world.processes().is_empty().then_some(())
    });
    let mut next = world.daemon();
    let agents = world.list(&["ls", "@alone", "--json"]);
    assert_eq!((&agents[0]["state"], &agents[0]["turns"]), (&"idle".into(), &1.into()), "{agents}");
    let answer = world.run(&["peek", "@alone", "-n", "1"]).stdout;
    assert!(answer.contains("done alone"), "{answer}");
    assert_eq!(std::fs::read_to_string(world.project().join("turns")).unwrap(), "x\n");
    world.run(&["daemon", "stop"]);
    next.wait().unwrap();
}

#[test]
fn without_a_daemon_for_the_orphan_grace_no_worker_is_left() {
    let world = World::with(&[("AGENT_WORKER_ORPHAN_GRACE", "1s")]);
    let mut daemon = world.daemon();
    let file = world.file("twenty.yaml", &team_of_twenty("10m").replace("@all go", "@a1 @a2 go"));
    world.json(&["start", file.to_str().unwrap(), "--background", "--json"]);
    wait_for("running turns", || (working_agents(&world).len() == 2).then_some(()));
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    wait_for("the workers to be gone", || world.processes().is_empty().then_some(()));
}

#[test]
fn a_run_that_is_watched_survives_the_death_of_its_daemon() {
    let world = World::new();
    let run = world.command(&["run", &world.example("review.yaml"), "--json"]).output();
    let first: Value = serde_json::from_slice(&run.unwrap().stdout).unwrap();
    assert_eq!(first["outcome"], "done", "{first}");
    let daemon = wait_for("a daemon", || world.daemon_pid());
    let child = world
        .command(&["run", &world.example("review.yaml"), "--json"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("the second run", || {
        let runs = world.list(&["ls", "--all", "--json"]);
        runs.as_array().unwrap().iter().any(|agent| agent["state"] == "running").then_some(())
    });
    kill(daemon, "KILL");
    wait_for("its death", || (!is_alive(daemon)).then_some(()));
    let output = child.wait_with_output().unwrap();
    let second: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(second["outcome"], "done", "{second}\n{}", world.log());
    assert_ne!(world.daemon_pid(), Some(daemon));
    assert_eq!(second["turns"], first["turns"]);
    assert_eq!(second["items"], first["items"]);
}

#[test]
fn a_run_that_is_watched_does_not_undo_a_stop_of_its_daemon() {
    let world = World::with(&[("AGENT_WORKER_DRAIN_GRACE", "50ms")]);
    let yaml = "name: slow\nagents:\n  a: { backend: mock, mock: [{ sleep: 2s, say: slept }] }\nkickoff: '@a go'\n";
    let file = world.file("slow.yaml", yaml);
    let run = world
        .command(&["run", file.to_str().unwrap(), "--json"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("a running turn", || {
        world.home().join("agent-worker.db").exists().then_some(())?;
        let agents = world.list(&["ls", "--json"]);
        (agents[0]["state"] == "running").then_some(())
    });
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    let output = run.wait_with_output().unwrap();
    let envelope: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &envelope["outcome"]), (Some(5), &"interrupted".into()));
    assert!(world.processes().is_empty(), "{:?}", world.processes());
    assert_eq!(world.list(&["ls", "--json"])[0]["state"], "paused");
    assert_eq!(world.run(&["daemon", "start"]).code, 0);
    wait_for("the answer", || {
        let messages = world.json(&["peek", "@slow", "--json"]);
        messages["items"].as_array()?.iter().any(|one| one["body"] == "slept").then_some(())
    });
}
