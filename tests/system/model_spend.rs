//! Limits of cost and tokens: no call of a model exceeds them, for one agent and for several at once.

use serde_json::{Value, json};

use crate::{
    api_agents::{ApiWorld, MODELS},
    world::{World, kill, wait_for},
};

/// Starts a team of one agent with these limits.
fn start(test: &ApiWorld, keys: &str, limits: &str) {
    test.write(&[("me", keys)], &format!("limits: {{ {limits} }}\n"));
    let started = test.world.run(&["start", "--background", "team.yaml"]);
    assert_eq!(started.code, 0, "{started:?}");
}

fn run_state(test: &ApiWorld) -> Value {
    test.world.json(&["status", "@team", "--json"])
}

fn wait_paused(test: &ApiWorld) -> Value {
    wait_for("the pause", || {
        let run = run_state(test);
        (run["state"] == "paused").then_some(run)
    })
}

#[test]
fn a_call_that_could_exceed_the_cost_limit_is_not_made_and_a_higher_limit_continues() {
    let test = ApiWorld::new();
    // $10 for a million tokens of output: 20,000 can cost $0.20, and each call costs $0.0003.
    let keys = format!("{}, max_tokens: 20000", MODELS[0].1);
    start(&test, &keys, "cost_usd: 0.1");
    let sent = test.world.run(&["send", "me@team", "SAY Done."]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let run = wait_paused(&test);
    let cause = run["cause"].to_string();
    assert!(cause.contains("\"limit\":\"cost\""), "{run}");
    assert!(cause.contains("$0 spent in the last 24 hours and up to $0.2"), "{run}");
    assert!(test.models.requests().is_empty(), "no call was made");
    let why = test.world.run(&["why", "@team"]).stdout;
    assert!(why.contains("cost limit"), "{why}");
    let kept = test.world.run(&["resume", "@team", "--detach"]);
    assert_ne!(kept.code, 0, "{kept:?}");
    assert!(kept.stderr.contains("agent-worker resume @team --cost-usd 0.4"), "{kept:?}");
    let resumed = test.world.run(&["resume", "@team", "--cost-usd", "5", "--detach"]);
    assert_eq!(resumed.code, 0, "{resumed:?}");
    wait_for("the answer", || {
        let read = test.world.json(&["peek", "@team", "-n", "20", "--json"]);
        let mut items = read["items"].as_array().unwrap().iter();
        items.any(|item| item["body"] == "Done.").then_some(())
    });
    let status = test.world.json(&["status", "me@team", "--json"]);
    let ends: Vec<_> =
        status["attempts"].as_array().unwrap().iter().map(|it| &it["ended"]["end"]).collect();
    assert_eq!(ends, [&json!("ok"), &json!("interrupted")], "{status}");
}

#[test]
fn the_tokens_of_several_agents_stay_within_the_limit() {
    let test = ApiWorld::new();
    let names = ["a", "b", "c"];
    let keys = format!("{}, max_tokens: 2000", MODELS[3].1);
    let agents = names.map(|name| (name, keys.as_str()));
    let limit = 120_000;
    let calls = "CALL document_list {}\n".repeat(12);
    let kickoff = json!(format!("@a @b @c go\nUSAGE 4000 2000\n{calls}SAY Done."));
    test.write(&agents, &format!("limits: {{ tokens: {limit} }}\nkickoff: {kickoff}\n"));
    let (code, envelope) = test.world.envelope(&["run", "team.yaml", "--json"]);
    assert_eq!(code, 3, "{envelope}");
    let usage = &envelope["usage"];
    let used = usage["input_tokens"].as_u64().unwrap() + usage["output_tokens"].as_u64().unwrap();
    assert!(used <= limit, "{used} tokens");
    assert_eq!(used, 6_000 * u64::try_from(test.models.requests().len()).unwrap());
    assert!(used > limit / 2, "{used} tokens: the agents have worked");
}

#[test]
fn calls_whose_provider_reports_no_usage_count_with_all_that_they_could_use() {
    let test = ApiWorld::new();
    start(&test, &format!("{}, max_tokens: 2000", MODELS[3].1), "tokens: 60000");
    let calls = "CALL document_list {}\n".repeat(25);
    let sent = test.world.run(&["send", "me@team", &format!("USAGE 0 0\n{calls}SAY Done.")]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let run = wait_paused(&test);
    assert!(run["cause"].to_string().contains("\"limit\":\"tokens\""), "{run}");
    let requests = test.models.requests().len();
    assert!((1..=30).contains(&requests), "{requests} calls");
}

#[test]
fn a_call_that_is_under_way_when_daemon_and_worker_are_killed_counts_as_spent() {
    let test = ApiWorld::new();
    start(&test, &format!("{}, max_tokens: 40000", MODELS[3].1), "tokens: 75000");
    let sent = test.world.run(&["send", "me@team", "HOLD\nCALL document_list {}\nSAY Done."]);
    assert_eq!(sent.code, 0, "{sent:?}");
    test.models.wait_held(1);
    let daemon = test.world.daemon_pid().unwrap();
    let processes = test.world.processes();
    kill(daemon, "KILL");
    for (pid, _) in processes.iter().filter(|(pid, _)| *pid != daemon) {
        kill(*pid, "KILL");
    }
    assert_eq!(test.world.run(&["ls", "@team"]).code, 0);
    let run = wait_paused(&test);
    assert!(run["cause"].to_string().contains("\"limit\":\"tokens\""), "{run}");
    assert_eq!(test.models.requests().len(), 1, "the second attempt made no call");
}

#[test]
fn an_unknown_price_is_named_and_tokens_still_count() {
    let test = ApiWorld::new();
    start(&test, &format!("{}, max_tokens: 100", MODELS[3].1), "cost_usd: 0.01, tokens: 100000");
    assert_eq!(test.ask("CALL document_list {}\nSAY Done."), "Done.");
    let notes = test.events("note");
    assert_eq!(notes.len(), 1, "{notes:?}");
    let note = notes[0]["data"]["text"].as_str().unwrap();
    assert!(note.starts_with("the price of a call of local/scripted is not known"), "{note}");
}

#[test]
fn a_program_starts_no_attempt_after_a_limit_and_its_turn_finishes() {
    let test = ApiWorld::new();
    let usage = r#"{"kind":"usage","input_tokens":900,"output_tokens":200}"#;
    let script = format!("echo '{usage}'; echo done");
    test.write(
        &[("me", &format!("backend: command, command: [sh, -c, {}]", json!(script)))],
        "limits: { tokens: 1000 }\n",
    );
    let started = test.world.run(&["start", "--background", "team.yaml"]);
    assert_eq!(started.code, 0, "{started:?}");
    let ended = test.end_of("one");
    assert_eq!(ended["end"], "ok", "{ended}");
    test.world.run(&["send", "me@team", "two"]);
    let run = wait_paused(&test);
    assert!(
        run["cause"].to_string().contains("1100 tokens used in the last 24 hours, 1000 allowed"),
        "{run}"
    );
    let status = test.world.json(&["status", "me@team", "--json"]);
    assert_eq!(status["attempts"].as_array().unwrap().len(), 1, "{status}");
}

#[test]
fn a_start_at_its_limit_goes_on_by_itself_when_its_use_is_24_hours_old() {
    let world = World::new();
    let usage = r#"{"kind":"usage","input_tokens":900,"output_tokens":200}"#;
    let script = json!(format!("echo '{usage}'; echo done"));
    let agent = format!("me: {{ backend: command, command: [sh, -c, {script}] }}");
    world.file(
        "team.yaml",
        &format!("name: team\nlimits: {{ tokens: 1000 }}\nagents:\n  {agent}\n"),
    );
    let run = |words: &[&str]| {
        let output = world.run(words);
        assert_eq!(output.code, 0, "{output:?}");
        output.stdout
    };
    run(&["start", "--background", "team.yaml"]);
    run(&["send", "me@team", "one", "--wait"]);
    run(&["send", "me@team", "two"]);
    let paused = wait_for("the pause", || {
        let run = world.json(&["status", "@team", "--json"]);
        (run["state"] == "paused").then_some(run)
    });
    assert!(paused["cause"]["room_at"].is_string(), "{paused}");
    let why = run(&["why", "@team"]);
    assert!(
        why.contains("or its limit is raised: agent-worker resume @team --tokens 2200"),
        "{why}"
    );
    let wait = "when the run continues by itself, or raise the limit: agent-worker resume @team";
    assert!(why.contains(wait), "{why}");
    let refused = world.run(&["resume", "@team", "--detach"]);
    assert!(refused.stderr.contains(wait), "{refused:?}");
    run(&["daemon", "stop"]);
    age_spend_by_a_day(&world);
    run(&["daemon", "start"]);
    wait_for("the second turn", || {
        let status = world.json(&["status", "me@team", "--json"]);
        let ends = status["attempts"].as_array().unwrap().iter().map(|it| &it["ended"]["end"]);
        (ends.collect::<Vec<_>>() == [&json!("ok"), &json!("ok")]).then_some(())
    });
}

#[test]
fn a_stored_conversation_is_exported_as_json_lines() {
    for (api, keys) in MODELS {
        let test = ApiWorld::new();
        test.start(keys);
        let absent = test.world.run(&["export", "@team", "--conversation", "me"]);
        assert_eq!(absent.code, 1, "{absent:?}");
        assert!(absent.stderr.contains("has no stored conversation"), "{absent:?}");
        test.ask("CALL document_append {\"content\":\"x\"}\nSAY First.");
        test.ask("SAY Second.");
        let exported = test.world.run(&["export", "@team", "--conversation", "me"]);
        assert_eq!(exported.code, 0, "{api}: {exported:?}");
        let lines: Vec<Value> =
            exported.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let roles: Vec<_> = lines.iter().map(|line| line["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "model", "user", "model", "user", "model"], "{api}");
        assert_eq!(lines[1]["parts"][0]["call"]["tool"], "document_append", "{api}");
        assert_eq!(lines[2]["parts"][0]["result"]["status"], "done", "{api}");
        assert_eq!(lines[5]["parts"][0]["text"]["text"], "Second.", "{api}");
    }
}

/// Moves the spend in the store of a stopped daemon back by a little more than 24 hours.
#[expect(clippy::disallowed_methods, reason = "the test changes the time behind the store's back")]
fn age_spend_by_a_day(world: &World) {
    let db = rusqlite::Connection::open(world.home().join("agent-worker.db")).unwrap();
    assert_eq!(db.execute("UPDATE spend_slot SET slot = slot - 145", ()).unwrap(), 1);
}
