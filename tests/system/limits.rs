//! Limits and failures as a user sees them: exit codes, envelopes, dead letters.

use agent_worker_host::Daemon;
use agent_worker_protocol::EventKind;

use crate::world::World;

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
    let hops = messages["messages"].as_array().unwrap().iter().map(|one| one["hops"].as_u64());
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
    // Its neighbours: each is done, and was finished by exactly one turn.
    let mut finished = acted(&world, envelope["run"].as_str().unwrap(), "b");
    finished.sort_unstable();
    let messages = world.json(&["peek", "@poison", "-n", "100", "--json"]);
    let good = messages["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["body"].as_str().is_some_and(|body| body.starts_with("@b good")));
    let good: Vec<i64> = good.map(|one| one["seq"].as_i64().unwrap()).collect();
    assert_eq!((good.len(), &finished), (19, &good));
}

/// What the turns of an agent finished, by message, as often as they did.
fn acted(world: &World, run: &str, agent: &str) -> Vec<i64> {
    let daemon = Daemon::at(world.home().join("daemon.sock"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut events = daemon.events(&format!("/events?run={run}"), None).await.unwrap();
        let mut acted = Vec::new();
        while let Ok(Some((_, event))) = events.next().await {
            if event.kind == EventKind::AttemptEnded && event.agent == agent.parse().ok() {
                let seqs = event.data["acted"].as_array().cloned().unwrap_or_default();
                acted.extend(seqs.iter().filter_map(serde_json::Value::as_i64));
            }
            if event.kind == EventKind::RunEnded {
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
fn a_run_that_wakes_nobody_is_an_error_not_a_success() {
    let world = World::new();
    let yaml = "name: quiet\nagents:\n  coder: { backend: mock, mock: [{ say: hi }] }\nkickoff: '@codr go'\n";
    let file = world.file("quiet.yaml", yaml);
    let said = world.run(&["run", file.to_str().unwrap()]);
    assert_eq!(said.code, 2, "{said:?}");
    let shown = format!("{}{}", said.stdout, said.stderr);
    assert!(shown.contains("did you mean `@coder`"), "{said:?}");
}
