//! The history of turns: everything that an agent was given, said, called and got back, without secrets.

use std::{fs, path::Path, process::Child};

use serde_json::Value;

use crate::world::{World, kill, wait_for};

/// A value that occurs only in the environment, and what replaces it.
const SECRET: &str = "sk-s3cret-0123456789";
const REPLACEMENT: &str = "[secret TEST_API_KEY]";

/// Agents that see the secret: a mock agent in the output of a command, and a program that prints it.
const TEAM: &str = r#"
name: team
agents:
  coder:
    backend: mock
    env: [TEST_API_KEY]
    mock:
      - calls: [{ tool: channel_send, args: { message: "@helper look \u202e宽" } }]
        run: 'printf "\033[31mred\033[0m 宽 %s\n" "$TEST_API_KEY"; seq 1 9000; echo "$TEST_API_KEY"'
        say: "All done."
  helper:
    backend: command
    env: [TEST_API_KEY]
    command:
      - sh
      - -c
      - |
        cat > prompt.txt
        echo '{"kind":"text","text":"I look at '$TEST_API_KEY'. \u001b[2J"}'
        echo '{"kind":"retry","why":"with '$TEST_API_KEY'"}'
        echo '{"kind":"usage","input_tokens":10,"output_tokens":5,"cost_micros":20000}'
        echo '{"kind":"finished","text":"Looked."}'
kickoff: "@coder go"
"#;

fn world() -> World {
    World::with(&[("TEST_API_KEY", SECRET)])
}

/// Returns the turns of a target, oldest first.
fn turns(world: &World, target: &str) -> Vec<Value> {
    world.list(&["turns", target, "--json"]).as_array().unwrap().clone()
}

fn id(turn: &Value) -> String {
    turn["turn"].as_str().unwrap().to_owned()
}

fn detail(world: &World, id: &str) -> Value {
    world.json(&["turns", id, "--json"])
}

/// Returns the kinds of the entries of a turn.
fn kinds(turn: &Value) -> Vec<String> {
    let items = turn["items"].as_array().unwrap();
    items.iter().map(|item| item["kind"].as_str().unwrap().to_owned()).collect()
}

fn entry<'a>(turn: &'a Value, kind: &str) -> &'a Value {
    let items = turn["items"].as_array().unwrap();
    items.iter().find(|item| item["kind"] == kind).unwrap_or_else(|| panic!("no {kind}: {turn}"))
}

/// Returns true if a file of the database contains the text.
fn database_has(home: &Path, text: &str) -> bool {
    ["agent-worker.db", "agent-worker.db-wal"].iter().any(|name| {
        let bytes = fs::read(home.join(name)).unwrap_or_default();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    })
}

#[test]
fn turns_of_a_model_and_of_a_program_are_shown_with_all_their_texts() {
    let world = world();
    world.file("team.yaml", TEAM);
    let said = world.run(&["run", "team.yaml"]);
    assert_eq!(said.code, 0, "{said:?}");
    let all = turns(&world, "@team");
    let agents: Vec<_> = all.iter().map(|turn| turn["agent"].as_str().unwrap()).collect();
    assert_eq!(agents, ["coder", "helper"], "newest last");
    assert_eq!(turns(&world, "helper@team"), all[1..]);

    let coder = detail(&world, &id(&all[0]));
    assert_eq!(coder["history"], "full");
    assert_eq!(coder["woken_by"]["text"], "@coder go");
    assert_eq!(coder["shown"][0]["body"], "@coder go");
    let expected =
        ["system", "prompt", "tool_call", "tool_result", "tool_call", "tool_result", "words"];
    assert_eq!(kinds(&coder), expected);
    assert!(entry(&coder, "system")["text"].as_str().unwrap().contains("You are coder"));
    assert!(entry(&coder, "prompt")["text"].as_str().unwrap().contains("@coder go"));
    assert_eq!(entry(&coder, "tool_call")["args"]["message"], "@helper look \u{202e}宽");
    let result = &coder["items"][5];
    let text = result["text"].as_str().unwrap();
    assert!(text.starts_with("\u{1b}[31mred") && text.contains("\n8999\n9000\n"), "{text}");
    assert_eq!(
        (&result["state"], result["bytes"].as_u64()),
        (&"whole".into(), Some(text.len() as u64))
    );
    assert_eq!(text.matches(REPLACEMENT).count(), 2);
    assert!(Path::new(coder["log"].as_str().unwrap()).exists());

    let helper = detail(&world, &id(&all[1]));
    assert_eq!(kinds(&helper), ["system", "prompt", "words", "retry", "usage"]);
    let given = fs::read_to_string(world.project().join("prompt.txt")).unwrap();
    let given: Value = serde_json::from_str(&given).unwrap();
    for (name, kind) in [("system_prompt", "system"), ("prompt", "prompt")] {
        assert_eq!(given[name], entry(&helper, kind)["text"], "the program got this {name}");
    }
    assert_eq!(entry(&helper, "retry")["why"], format!("with {REPLACEMENT}"));
    assert_eq!(helper["usage"]["cost_micros"], 20_000);
    assert_eq!(helper["text"], "Looked.");

    let exported = world.json(&["export", "@team", "--full", "--json"]);
    assert_eq!(exported["turns"], Value::from(vec![coder, helper]));
    let plain = world.json(&["export", "@team", "--json"]);
    assert_eq!((&plain["items"], plain.get("turns")), (&exported["items"], None));
}

#[test]
fn no_secret_is_in_the_database_or_shown() {
    let world = world();
    world.file("team.yaml", TEAM);
    let mut daemon = world.daemon_with(&[("DAEMON_TOKEN", "of-the-daemon-0123")]);
    world.file("leak.txt", "of-the-daemon-0123");
    let leaking = "name: leak\nagents:\n  a:\n    backend: mock\n    mock: [{ run: cat leak.txt, say: ok }]\nkickoff: '@a go'\n";
    world.file("leak.yaml", leaking);
    for file in ["team.yaml", "leak.yaml"] {
        assert_eq!(world.run(&["run", file]).code, 0);
    }
    let leak = detail(&world, &id(&turns(&world, "@leak")[0]));
    assert_eq!(entry(&leak, "tool_result")["text"], "[secret DAEMON_TOKEN]");
    for turn in turns(&world, "@team") {
        let shown = detail(&world, &id(&turn)).to_string();
        assert!(!shown.contains(SECRET) && shown.contains(REPLACEMENT), "{shown}");
    }
    for secret in [SECRET, "of-the-daemon-0123"] {
        assert!(!database_has(&world.home(), secret), "{secret}");
    }
    assert!(database_has(&world.home(), "@coder go"), "the search finds what is there");
    stop(&world, &mut daemon);
    assert!(!database_has(&world.home(), SECRET));
}

fn stop(world: &World, daemon: &mut Child) {
    assert_eq!(world.run(&["daemon", "stop"]).code, 0);
    daemon.wait().unwrap();
}

#[test]
fn what_an_agent_prints_is_shown_and_not_obeyed() {
    let world = world();
    world.file("team.yaml", TEAM);
    assert_eq!(world.run(&["run", "team.yaml"]).code, 0);
    let all = turns(&world, "@team");
    let mut texts = vec![world.run(&["turns", "@team"]).stdout];
    texts.extend(all.iter().map(|turn| world.run(&["turns", &id(turn)]).stdout));
    texts.push(world.run(&["export", "@team", "--full", "--format", "md"]).stdout);
    for text in &texts {
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    }
    let coder = &texts[1];
    assert!(
        coder.contains("\n← shell: ok\n  ␛[31mred␛[0m 宽 [secret TEST_API_KEY]\n  1\n"),
        "{coder}"
    );
    assert!(coder.contains("\n→ channel_send\n  message: @helper look \\u{202e}宽\n"), "{coder}");
    assert!(coder.ends_with("\nwords\n  All done.\n"), "{coder}");
    let helper = &texts[2];
    assert!(helper.contains("usage     10 tokens in, 5 out, $0.02\n"), "{helper}");
    assert!(helper.contains("\nwords\n  I look at [secret TEST_API_KEY]. ␛[2J\n"), "{helper}");
    assert!(helper.ends_with("\nanswer\n  Looked.\n"), "{helper}");
}

#[test]
fn a_shorter_history_keeps_what_its_mode_says() {
    let world = world();
    let run = |mode: &str| {
        let text =
            format!("{TEAM}history: {mode}\n").replace("name: team", &format!("name: {mode}"));
        world.file("team.yaml", &text);
        let said = world.run(&["run", "team.yaml"]);
        assert_eq!(said.code, 0, "{said:?}");
        detail(&world, &id(&turns(&world, &format!("coder@{mode}"))[0]))
    };
    let short = run("short");
    assert_eq!(short["history"], "short");
    assert_eq!(entry(&short, "words")["text"], "All done.");
    let result = &short["items"][5];
    assert_eq!(result["state"], "short");
    assert!(
        result["text"].as_str().unwrap().len() < 510 && result["bytes"].as_u64() > Some(40_000)
    );
    let off = run("off");
    assert_eq!(off["history"], "off");
    assert_eq!(
        kinds(&off),
        ["system", "prompt", "tool_call", "tool_result", "tool_call", "tool_result"]
    );
    assert_eq!(
        (&entry(&off, "prompt")["text"], &entry(&off, "prompt")["state"]),
        (&Value::Null, &"off".into())
    );
    let said = world.run(&["turns", &id(&off)]);
    assert!(
        said.stdout.contains("history   off: neither prompts nor words are kept"),
        "{}",
        said.stdout
    );
    world.file("team.yaml", &format!("{TEAM}history: on\n"));
    let refused = world.run(&["validate", "team.yaml"]);
    assert!(refused.stderr.contains("`full` or `short` or `off`"), "{refused:?}");
}

#[test]
fn a_turn_is_found_by_its_id_only_and_goes_with_its_team() {
    let world = world();
    world.file("team.yaml", TEAM);
    assert_eq!(world.run(&["run", "team.yaml"]).code, 0);
    let coder = id(&turns(&world, "coder@team")[0]);
    let start = &coder[..18];
    assert_eq!(detail(&world, start)["turn"], coder.as_str());
    assert_eq!(world.run(&["turns", &coder.to_uppercase()]).code, 0);
    let several = world.run(&["turns", &coder[..4]]);
    assert!(several.stderr.contains("several turns begin with"), "{several:?}");
    let token = world.token("reader", &["--allow", "read"]);
    let status = |path: &str| crate::world::http_status(&world.address(), &token, "GET", path, "");
    assert_eq!(status("/turns?target=@team"), 200);
    assert_eq!(status(&format!("/turns/{coder}")), 403, "the history is the user's");
    assert_eq!(world.run(&["rm", "@team", "--yes"]).code, 0);
    let gone = world.run(&["turns", &coder]);
    assert_eq!(gone.code, 1);
    assert!(gone.stderr.contains(&format!("there is no turn `{coder}`")), "{gone:?}");
}

/// An agent that calls a tool, then waits until the test writes to a pipe.
const WAITING: &str = r#"
name: wait
agents:
  a:
    backend: mock
    mock:
      - calls: [{ tool: channel_read }]
        run: 'cat go'
        say: "Went."
"#;

#[test]
fn a_running_turn_is_shown_and_a_killed_daemon_loses_nothing_of_it() {
    let world = World::new();
    world.file("wait.yaml", WAITING);
    let made = std::process::Command::new("mkfifo").arg(world.project().join("go")).status();
    assert!(made.unwrap().success());
    let mut daemon = world.daemon();
    assert_eq!(world.run(&["start", "wait.yaml", "--background"]).code, 0);
    assert_eq!(world.run(&["send", "a@wait", "go"]).code, 0);
    let calls = |turn: &Value| kinds(turn).iter().filter(|kind| *kind == "tool_call").count();
    let running = wait_for("both calls", || {
        let turn = turns(&world, "a@wait").pop()?;
        Some(detail(&world, &id(&turn))).filter(|turn| calls(turn) == 2)
    });
    assert_eq!(running["ended"], Value::Null);
    kill(daemon.id(), "KILL");
    daemon.wait().unwrap();
    let mut daemon = world.daemon();
    let after = detail(&world, &id(&running));
    let seen = running["items"].as_array().unwrap();
    assert_eq!(after["items"].as_array().unwrap()[..seen.len()], seen[..], "what was acknowledged");
    fs::write(world.project().join("go"), "gone").unwrap();
    let ended = wait_for("the end", || {
        Some(detail(&world, &id(&running))).filter(|turn| !turn["ended"].is_null())
    });
    let expected =
        ["system", "prompt", "tool_call", "tool_result", "tool_call", "tool_result", "words"];
    assert_eq!(kinds(&ended), expected, "each once");
    stop(&world, &mut daemon);
}

#[test]
fn a_killed_worker_leaves_the_history_up_to_its_end() {
    let world = World::new();
    let crashing = "name: crash\nagents:\n  a:\n    backend: mock\n    retry: { max_attempts: 1 }\n    mock:\n      - calls: \
        [{ tool: channel_read }]\n        run: echo here\n        fail: crash\nkickoff: '@a go'\n";
    world.file("crash.yaml", crashing);
    assert_eq!(world.run(&["run", "crash.yaml"]).code, 1);
    let turn = detail(&world, &id(&turns(&world, "@crash")[0]));
    let expected = ["system", "prompt", "tool_call", "tool_result", "tool_call", "tool_result"];
    assert_eq!(kinds(&turn), expected);
    assert_eq!(turn["items"][5]["text"], "here\n");
    assert_eq!(turn["ended"]["class"], "crash");
}
