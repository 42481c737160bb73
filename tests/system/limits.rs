//! Limits and failures as a user sees them: exit codes, envelopes, dead letters.

use std::process::Stdio;

use agent_worker_host::DaemonSocket;
use agent_worker_protocol::EventKind;

use crate::world::{CommandOutput, World, kill, wait_for};

/// Two agents that never stop sending, and one whose turn lasts until the file `go` exists.
const SLOW: &str = "name: loop\nagents:\n\
    \x20 ping: { backend: mock, mock: [{ calls: [{ tool: channel_send, args: { message: '@pong ping' } }] }] }\n\
    \x20 pong: { backend: mock, mock: [{ calls: [{ tool: channel_send, args: { message: '@ping pong' } }] }] }\n\
    \x20 slow: { backend: mock, mock: [{ run: 'until [ -e go ]; do sleep 0.05; done', say: At last. }] }\n\
    kickoff: '@ping @slow go'\nlimits: { hops: 3 }\n";

#[test]
fn a_user_who_follows_a_run_to_its_limit_sees_the_current_turns_end_and_then_the_final_state() {
    let world = World::new();
    world.file("loop.yaml", SLOW);
    let mut run = world.command(&["run", "loop.yaml", "--json"]);
    let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the pause", || {
        world.home().join("agent-worker.db").exists().then_some(())?;
        let said = world.run(&["why", "@loop", "--json"]);
        said.stdout.contains("\"paused\"").then_some(())
    });
    world.file("go", "");
    let said = CommandOutput::from(run.wait_with_output().unwrap());
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.stderr.contains("slow (answer to #1): At last."), "{said:?}");
    let envelope: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    let status = world.json(&["status", "@loop", "--json"]);
    let figures = |view: &serde_json::Value| (view["turns"].clone(), view["messages"].clone());
    assert_eq!(figures(&envelope), figures(&status), "{envelope} {status}");
    assert_eq!(envelope["agents"]["slow"]["state"], "paused", "{envelope}");
    assert_eq!(envelope["agents"]["slow"]["turns"], 1, "{envelope}");

    assert_eq!(world.run(&["send", "@loop", "after the pause"]).code, 0);
    let again = world.run(&["attach", "@loop"]);
    assert_eq!(again.code, 3, "{again:?}");
    assert_eq!(again.stdout.lines().count(), 1, "{again:?}");
    assert!(again.stdout.ends_with("user: after the pause\n"), "{again:?}");
    assert_eq!(world.run(&["stop", "@loop"]).code, 0);
}

#[test]
fn a_run_at_its_wall_limit_stops_its_live_turn_after_the_grace_period_and_exits_with_3() {
    let world = World::new();
    let file = "name: slow\nagents:\n\
        \x20 a: { backend: mock, mock: [{ run: 'touch up; until [ -e go ]; do sleep 0.05; done', say: Done. }] }\n\
        kickoff: '@a go'\nlimits: { wall: 1s, wall_grace: 200ms }\n";
    world.file("slow.yaml", file);
    let (code, envelope) = world.envelope(&["run", "slow.yaml", "--json"]);
    assert_eq!((code, &envelope["outcome"]), (3, &"limit".into()), "{envelope}");
    assert_eq!(envelope["turns"], 0, "{envelope}");
    assert!(world.project().join("up").exists(), "the turn had started");
    let daemon = world.daemon_pid();
    let others: Vec<_> =
        world.processes().into_iter().filter(|(pid, _)| Some(*pid) != daemon).collect();
    assert_eq!(others, [], "no process of the turn is left");
    let ended = &world.json(&["status", "a@slow", "--json"])["attempts"][0]["ended"];
    assert_eq!(ended["end"], "interrupted", "{ended}");
    assert_eq!(ended["why"], "the run reached its wall limit");
    let run = world.json(&["status", "@slow", "--json"]);
    assert_eq!(
        (&run["limits"]["wall_grace"], &run["agents"][0]["waiting"]),
        (&"200ms".into(), &1.into())
    );
    world.file("go", "");
    let resumed = world.run(&["resume", "@slow", "--wall", "1h"]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
}

#[test]
fn a_run_that_reaches_its_wall_limit_with_nothing_left_exits_with_3() {
    let world = World::new();
    let file = "name: late\nagents:\n\
        \x20 a: { backend: mock, mock: [{ run: 'sleep 1.5', say: Done. }] }\n\
        kickoff: '@a go'\nlimits: { wall: 1s }\n";
    world.file("late.yaml", file);
    let (code, envelope) = world.envelope(&["run", "late.yaml", "--json"]);
    assert_eq!((code, &envelope["outcome"]), (3, &"limit".into()), "{envelope}");
    assert_eq!((&envelope["turns"], &envelope["dropped"]), (&1.into(), &serde_json::json!([])));
    let resumed = world.run(&["resume", "@late", "--wall", "1h"]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
}

#[test]
fn ctrl_c_stops_a_run_that_waits_for_its_last_turns_at_a_limit() {
    let world = World::new();
    world.file("loop.yaml", SLOW);
    let mut run = world.command(&["run", "loop.yaml"]);
    let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the pause", || {
        world.home().join("agent-worker.db").exists().then_some(())?;
        let said = world.run(&["why", "@loop", "--json"]);
        said.stdout.contains("\"paused\"").then_some(())
    });
    kill(run.id(), "INT");
    let said = CommandOutput::from(run.wait_with_output().unwrap());
    assert_eq!(said.code, 130, "{said:?}");
}

#[test]
fn a_stop_of_the_only_agent_with_work_ends_the_run_and_stop_says_so() {
    let world = World::new();
    world.file("lone.yaml", "name: lone\nagents:\n  a: { backend: mock, mock: [{ run: 'touch up; exec sleep 600' }] }\n  b: { backend: mock, mock: [{ say: hi }] }\nkickoff: '@a go'\n");
    assert_eq!(world.run(&["run", "lone.yaml", "--detach"]).code, 0);
    let up = world.project().join("up");
    wait_for("its process", || up.exists().then_some(()));
    let said = world.run(&["stop", "a@lone"]);
    assert_eq!(said.code, 0, "{said:?}");
    let told = "warning: no other agent had work, so @lone failed: #1 for a is dropped";
    assert!(said.stderr.starts_with(told), "{said:?}");
    assert!(said.stderr.ends_with("hint: restart it: agent-worker restart @lone\n"), "{said:?}");
    assert_eq!(world.list(&["runs", "@lone", "--json"])[0]["outcome"], "failed");
}

#[test]
fn two_agents_that_never_stop_talking_are_paused_at_the_hop_limit() {
    let world = World::new();
    let yaml = "name: loop\nagents:\n\
        \x20 ping: { backend: mock, mock: [{ calls: [{ tool: channel_send, args: { message: '@pong ping' } }] }] }\n\
        \x20 pong: { backend: mock, mock: [{ calls: [{ tool: channel_send, args: { message: '@ping pong' } }] }] }\n\
        kickoff: '@ping go'\nlimits: { hops: 6 }\n";
    let file = world.file("loop.yaml", yaml);
    let (code, envelope) = world.envelope(&["run", file.to_str().unwrap(), "--json"]);
    assert_eq!((code, envelope["outcome"].as_str()), (3, Some("limit")), "{envelope}");
    let messages = world.json(&["peek", "@loop", "-n", "100", "--json"]);
    let hops = messages["items"].as_array().unwrap().iter().map(|one| one["hops"].as_u64());
    assert_eq!(hops.max().unwrap(), Some(7), "the message that went too far is kept");
    assert_eq!(world.run(&["stop", "@loop"]).code, 0);
}

#[test]
fn one_poison_among_twenty_good_messages_dies_alone_after_three_attempts() {
    let world = World::new();
    let sends: Vec<String> = (1..=20)
        .map(|n| {
            let body = if n == 7 { "@b poison".to_owned() } else { format!("@b good {n}") };
            format!("          - {{ tool: channel_send, args: {{ message: '{body}' }} }}\n")
        })
        .collect();
    let yaml = format!(
        "name: poison\nagents:\n  a:\n    backend: mock\n    mock:\n      - sleep: 10ms\n        calls:\n{}\
         \x20 b:\n    backend: mock\n    retry: {{ backoff: 10ms }}\n    mock:\n      - {{ on: poison, fail: crash }}\n      - {{ say: fine }}\n\
         kickoff: '@a go'\n",
        sends.concat()
    );
    let file = world.file("poison.yaml", &yaml);
    let (code, envelope) = world.envelope(&["run", file.to_str().unwrap(), "--json"]);
    assert_eq!((code, envelope["outcome"].as_str()), (1, Some("failed")), "{envelope}");
    let dead = envelope["dead_letters"].as_array().unwrap();
    assert_eq!(dead.len(), 1, "{envelope}");
    assert_eq!((&dead[0]["agent"], &dead[0]["failures"]), (&"b".into(), &3.into()), "{envelope}");
    // The other messages: each is done, and exactly one turn finished it.
    let mut finished = finished_messages(&world, envelope["run"].as_str().unwrap(), "b");
    finished.sort_unstable();
    let messages = world.json(&["peek", "@poison", "-n", "100", "--json"]);
    let good = messages["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["body"].as_str().is_some_and(|body| body.starts_with("@b good")));
    let good: Vec<i64> = good.map(|one| one["seq"].as_i64().unwrap()).collect();
    assert_eq!((good.len(), &finished), (19, &good));
}

/// Returns the messages that the turns of an agent finished, with repetitions.
fn finished_messages(world: &World, run: &str, agent: &str) -> Vec<i64> {
    let daemon = DaemonSocket::at(world.home().join("daemon.sock"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut events = daemon.events(&format!("/events?run={run}"), None).await.unwrap();
        let mut acted = Vec::new();
        while let Ok(Some((_, event))) = events.next().await {
            if event.kind() == Some(EventKind::AttemptEnded) && event.agent == agent.parse().ok() {
                let seqs = event.data()["acted"].as_array().cloned().unwrap_or_default();
                acted.extend(seqs.iter().filter_map(serde_json::Value::as_i64));
            }
            if event.kind() == Some(EventKind::RunEnded) {
                break;
            }
        }
        acted
    })
}

#[test]
fn a_failing_setup_command_stops_the_run_with_its_own_words() {
    let world = World::new();
    let yaml = "name: bad\nagents:\n  a: { backend: mock, mock: [{ say: hi }] }\n\
                setup:\n  - { shell: 'echo the disk is on fire >&2; exit 7' }\nkickoff: '@a go'\n";
    let file = world.file("bad.yaml", yaml);
    let said = world.run(&["run", file.to_str().unwrap()]);
    assert_eq!(said.code, 1, "{said:?}");
    let shown = format!("{}{}", said.stdout, said.stderr);
    assert!(shown.contains("the disk is on fire") && shown.contains("status 7"), "{said:?}");
}

#[test]
fn a_run_that_wakes_no_agent_is_an_error_not_a_success() {
    let world = World::new();
    let yaml = "name: quiet\nagents:\n  coder: { backend: mock, mock: [{ say: hi }] }\nkickoff: '@codr go'\n";
    let file = world.file("quiet.yaml", yaml);
    let said = world.run(&["run", file.to_str().unwrap()]);
    assert_eq!(said.code, 2, "{said:?}");
    let shown = format!("{}{}", said.stdout, said.stderr);
    assert!(shown.contains("did you mean `@coder`"), "{said:?}");
}
