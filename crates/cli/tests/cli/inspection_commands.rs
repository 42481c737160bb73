//! Tests of the commands that inspect or stop something, and of invalid arguments.

use serde_json::{Value, json};

use crate::{
    fake_daemon::{AfterEvents, FakeReply, TestHome},
    sample_responses::{FILE, RUN, STOP_RUN, agent, event, message_event, run_view, ts},
};

#[test]
fn ls_shows_who_does_what_and_where_they_come_from() {
    let waiting = json!({"state": "backing_off", "until": ts(5), "why": "429"});
    let agents = json!({"items": [
        agent("coder", "/nowhere/repo", &json!({"state": "idle"})),
        agent("reviewer", "/elsewhere", &waiting),
    ], "next": null});
    let world = TestHome::with_daemon(vec![("GET /agents", FakeReply::Json(agents.clone()))]);
    insta::assert_snapshot!(world.run_command(&["ls"]).out, @r"
    NAME             SOURCE      STATUS             WAITING  TURNS  MESSAGES
    coder@review     ~/repo      idle               1        2      3
    reviewer@review  /elsewhere  retrying now: 429  1        2      3
    ");
    assert_eq!(world.run_command(&["ls", "@review", "--all", "--json"]).json(), agents);
    let query = &world.asked("GET /agents")[1].query;
    assert!(
        query.starts_with("target=%40review&project=") && query.ends_with("&limit=1000"),
        "{query}"
    );
}

#[test]
fn a_list_longer_than_a_page_is_printed_whole() {
    let coder = agent("coder", "/nowhere/repo", &json!({"state": "idle"}));
    let reviewer = agent("reviewer", "/elsewhere", &json!({"state": "idle"}));
    let world = TestHome::with_daemon(vec![
        ("GET /agents", FakeReply::Json(json!({"items": [coder], "next": "more"}))),
        ("GET /agents", FakeReply::Json(json!({"items": [reviewer], "next": null}))),
    ]);
    let listed = world.run_command(&["ls", "--all", "--json"]).json();
    assert_eq!(listed, json!({"items": [coder, reviewer], "next": null}));
    let asked = world.asked("GET /agents");
    assert_eq!(
        asked.iter().map(|asked| asked.query.as_str()).collect::<Vec<_>>(),
        ["limit=1000", "limit=1000&after=more"]
    );
}

#[test]
fn peek_prints_as_many_messages_as_were_asked_for_and_where_the_rest_begins() {
    let message = |no| message_event(no, "coder", &["reviewer"], "ready")["data"].clone();
    let page = |numbers: &[u32], next: Value| {
        let items: Vec<_> = numbers.iter().map(|no| message(*no)).collect();
        FakeReply::Json(json!({"instance": "review", "items": items, "next": next}))
    };
    let world = TestHome::with_daemon(vec![
        ("GET /messages", page(&[4, 5], json!("older"))),
        ("GET /messages", page(&[2, 3], json!("oldest"))),
    ]);
    let read = world.run_command(&["peek", "@review", "-n", "4", "--json"]).json();
    let seqs: Vec<_> = read["items"].as_array().unwrap().iter().map(|one| &one["seq"]).collect();
    assert_eq!((json!(seqs), &read["next"]), (json!([2, 3, 4, 5]), &json!("oldest")));
    let asked = world.asked("GET /messages");
    assert!(asked[0].query.ends_with("&limit=4"), "{asked:?}");
    assert!(asked[1].query.ends_with("&limit=2&after=older"), "{asked:?}");
}

#[test]
fn alone_it_says_what_runs_and_what_to_type_first() {
    let world = TestHome::without_daemon("exit 1");
    insta::assert_snapshot!(world.run_command(&[]).out, @r#"
    Nothing is running.

      agent-worker demo             watch a team of scripted agents
      agent-worker init team.yaml   write a first team
      agent-worker run team.yaml    run it to its end
      agent-worker peek @team       read its messages

    All commands: agent-worker --help
    "#);
}

#[test]
fn peek_shows_the_channel_and_follows_it_without_a_gap() {
    let message = |no| message_event(no, "coder", &["reviewer"], "ready")["data"].clone();
    let events = vec![
        message_event(1, "user", &[], "old"),
        message_event(2, "coder", &["reviewer"], "ready"),
        message_event(3, "coder", &[], "new"),
        event(4, "run.ended", &Value::Null),
        message_event(5, "user", &[], "of the next run"),
    ];
    let world = TestHome::with_daemon(vec![
        ("GET /messages", FakeReply::Json(json!({"instance": "review", "items": [message(2)]}))),
        ("GET /events", FakeReply::Events(events, AfterEvents::Hang)),
    ]);
    let seen = world.run_command(&["peek", "@review", "--follow", "-n", "1"]);
    assert!(seen.exits(0), "{seen:?}");
    let shown: Vec<_> = seen.out.lines().map(|line| line.splitn(3, ' ').nth(2).unwrap()).collect();
    assert_eq!(shown, ["#2 coder → reviewer: ready", "#3 coder: new"]);
    assert_eq!(world.order(), ["GET /health", "GET /workflows", "GET /events", "GET /messages"]);
    let json = world.run_command(&["peek", "@review", "--find", "rea dy", "--json"]).json();
    assert_eq!(json["items"][0]["seq"], 2);
    assert!(world.asked("GET /messages")[1].query.ends_with("&search=rea%20dy&limit=20"));
}

#[test]
fn stop_says_what_it_ended() {
    let FakeReply::Json(view) = run_view(&json!({"state": "running"})) else { unreachable!() };
    let stopped = json!({"run": RUN, "instance": "review", "attempts": ["coder"], "processes": 3});
    let world = TestHome::with_daemon(vec![
        ("GET /runs", FakeReply::Json(json!({"items": [view], "next": null}))),
        (STOP_RUN, FakeReply::Json(stopped.clone())),
    ]);
    assert_eq!(
        world.run_command(&["stop", "@review"]).out,
        "stopped @review: ended coder (3 processes)\n"
    );
    assert_eq!(world.run_command(&["stop", "--json"]).json(), json!({"stopped": [stopped]}));
    assert!(world.asked(STOP_RUN).iter().all(|asked| asked.query.is_empty()));
    world.run_command(&["stop", "@review", "--now"]);
    assert_eq!(world.asked(STOP_RUN)[2].query, "now=true");
}

#[test]
fn an_agent_is_stopped_at_once_when_that_is_what_was_typed() {
    const STOP: &str = "POST /agents/coder%40review/stop";
    let stopped = json!({"agent": "coder", "instance": "review", "processes": 2});
    let world = TestHome::with_daemon(vec![(STOP, FakeReply::Json(stopped))]);
    for words in [&["stop", "coder@review"][..], &["stop", "coder@review", "--now"]] {
        let seen = world.run_command(words);
        assert_eq!(seen.out, "stopped coder@review: ended 2 processes\n", "{seen:?}");
    }
    let asked = world.asked(STOP);
    assert!(!asked[0].query.contains("now"), "{asked:?}");
    assert!(asked[1].query.ends_with("&now=true"), "{asked:?}");
}

#[test]
fn a_token_is_printed_alone() {
    let created = json!({"name": "ci", "token": "s3cret"});
    let world = TestHome::with_daemon(vec![
        ("POST /tokens", FakeReply::Json(created)),
        ("DELETE /tokens/c%2Fi", FakeReply::Json(Value::Null)),
    ]);
    let seen = world.run_command(&["token", "create", "ci"]);
    assert_eq!((seen.out.as_str(), seen.err.as_str()), ("s3cret\n", ""));
    assert!(world.run_command(&["token", "revoke", "c/i"]).exits(0));
}

#[test]
fn validate_lists_agents_and_parameters_without_a_daemon() {
    let world = TestHome::without_daemon("exit 1");
    world.file("review.yaml", FILE);
    insta::assert_snapshot!(world.run_command(&["validate", "review.yaml"]).out, @r"
    valid: review (1 agent)
      coder  mock
      --target VALUE  [required]
    ");
    let expected = json!({
        "valid": true, "workflow": "review", "agents": ["coder"],
        "params": [{"name": "target", "required": true}], "warnings": [], "mistakes": [],
        "error": null,
    });
    assert_eq!(world.run_command(&["validate", "review.yaml", "--json"]).json(), expected);
    world.file("bad.yaml", "agents: []");
    let seen = world.run_command(&["validate", "bad.yaml", "--json"]);
    assert!(seen.exits(2) && seen.json()["valid"] == false, "{seen:?}");
}

#[test]
fn validate_shows_everything_that_is_wrong_with_a_file() {
    let world = TestHome::without_daemon("exit 1");
    world.file(
        "bad.yaml",
        "agents:\n  coder: { backend: mok, timeout: 5 }\nlimits: { hops: 0, turns: 0 }\n",
    );
    let seen = world.run_command(&["validate", "bad.yaml"]);
    assert!(seen.exits(2) && seen.out.is_empty(), "{seen:?}");
    insta::assert_snapshot!(world.redact_paths(&seen.err), @r"
    error: there is no backend `mok`
     --> /tmp/project/bad.yaml:2:21
      |
    2 |   coder: { backend: mok, timeout: 5 }
      |                     ^^^
      |
      = help: did you mean `mock`?

    error: `agents.coder.timeout` must be a length of time such as `30s`, not a number
     --> /tmp/project/bad.yaml:2:35
      |
    2 |   coder: { backend: mok, timeout: 5 }
      |                                   ^

    error: `limits.hops` must be between 1 and 1000000
     --> /tmp/project/bad.yaml:3:17
      |
    3 | limits: { hops: 0, turns: 0 }
      |                 ^

    error: `limits.turns` must be between 1 and 1000000
     --> /tmp/project/bad.yaml:3:27
      |
    3 | limits: { hops: 0, turns: 0 }
      |                           ^
    ");
    let json = world.run_command(&["validate", "bad.yaml", "--json"]).json();
    let places: Vec<_> = json["mistakes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mistake| (mistake["line"].as_u64().unwrap(), mistake["column"].as_u64().unwrap()))
        .collect();
    assert_eq!(places, [(2, 21), (2, 35), (3, 17), (3, 27)]);
    assert_eq!(json["mistakes"][0]["hint"], "did you mean `mock`?");
}

#[test]
fn validate_warns_of_a_kickoff_that_wakes_no_agent() {
    let world = TestHome::without_daemon("exit 1");
    world.file("silent.yaml", "agents: { coder: { backend: mock } }\nkickoff: '`@coder` go'\n");
    let seen = world.run_command(&["validate", "silent.yaml"]);
    assert!(seen.exits(0), "{seen:?}");
    assert!(seen.out.starts_with("valid: silent"), "{seen:?}");
    insta::assert_snapshot!(seen.err, @r"
    warning: the kickoff mentions no agent, so none is woken
    hint: mention an agent in the kickoff's own text, such as `@coder`; as it is, `run` refuses the file and `start` waits for a message
    ");
    let json = world.run_command(&["validate", "silent.yaml", "--json"]);
    assert!(json.exits(0) && json.err.is_empty(), "{json:?}");
    let (valid, message) = (&json.json()["valid"], &json.json()["warnings"][0]["message"]);
    assert_eq!(*valid, true);
    assert!(message.as_str().unwrap().contains("none is woken"), "{message}");
    world.file("bare.yaml", "agents: { coder: { backend: mock } }\n");
    let bare = world.run_command(&["validate", "bare.yaml"]);
    assert!(bare.exits(0) && bare.err.contains("the file has no kickoff"), "{bare:?}");
}

#[test]
fn validate_warns_of_keys_of_an_agent_file_without_an_effect() {
    let world = TestHome::without_daemon("exit 1");
    world.file("reviewer.md", "---\nname: reviewer\ntools: Read\nhooks: {}\n---\nYou review.\n");
    let file = "agents:\n  a: { use: reviewer.md, command: /bin/true }\nkickoff: '@a go'\n";
    world.file("team.yaml", file);
    let seen = world.run_command(&["validate", "team.yaml"]);
    assert!(seen.exits(0) && seen.out.ends_with("  a  claude\n"), "{seen:?}");
    insta::assert_snapshot!(world.redact_paths(&seen.err), @r"
    warning: /tmp/project/team.yaml:2:13: reviewer.md:4: `hooks` has no effect in a team
    hint: keys with an effect are tools, disallowedTools, model, maxTurns, effort
    ");
    let json = world.run_command(&["validate", "team.yaml", "--json"]).json();
    let message = json["warnings"][0]["message"].as_str().unwrap();
    assert!(message.ends_with("reviewer.md:4: `hooks` has no effect in a team"), "{message}");
    world.file("team.yaml", &file.replace("command", "backend: codex, command"));
    let seen = world.run_command(&["validate", "team.yaml"]);
    assert!(seen.exits(2), "{seen:?}");
    insta::assert_snapshot!(world.redact_paths(&seen.err), @r"
    error: reviewer.md:3: backend `codex` cannot keep `tools`
     --> /tmp/project/team.yaml:2:13
      |
    2 |   a: { use: reviewer.md, backend: codex, command: /bin/true }
      |             ^^^^^^^^^^^
      |
      = help: use `backend: claude`, or write `permissions:` in the workflow file, which replaces it
    ");
}

#[test]
fn words_that_make_no_sense_are_answered_with_what_was_meant() {
    let world = TestHome::without_daemon("exit 1");
    let seen = world.run_command(&["sned", "coder", "hi"]);
    assert!(seen.exits(2) && seen.err.contains("'send'"), "{seen:?}");
    let json = world.run_command(&["ls", "al ice", "--json"]);
    assert!(json.exits(2), "{json:?}");
    assert_eq!(json.json()["error"]["code"], "usage");
    let run = world.run_command(&["run", "--json"]);
    assert_eq!((run.exits(2), &run.json()["outcome"]), (true, &json!("invalid")));
    let help = world.run_command(&["run", "--help"]);
    assert!(help.exits(0) && help.out.contains("Example: agent-worker run"), "{help:?}");
}
