//! Every command as a user types it, two or three times each.

use crate::world::{World, http_status};

#[test]
fn a_newcomers_first_run_says_what_happened() {
    let world = World::new();
    let said = world.run(&["run", &world.example("hello.yaml")]);
    assert_eq!(said.code, 0, "{said:?}\n{}", world.log());
    assert!(said.stdout.contains("Hello!"), "{said:?}");
}

#[test]
fn the_review_team_hands_over_retries_once_and_ends_by_itself() {
    let world = World::new();
    let (code, envelope) = world.envelope(&["run", &world.example("review.yaml"), "--json"]);
    assert_eq!(
        (code, envelope["outcome"].as_str()),
        (0, Some("done")),
        "{envelope}\n{}",
        world.log()
    );
    assert_eq!(envelope["dead_letters"], serde_json::json!([]));
    assert_eq!(envelope["turns"], 6, "one of them failed and was tried again: {envelope}");
}

/// A permanent team of two mock agents with scripted answers.
const ECHO: &str = "name: echo\nagents:\n  parrot:\n    backend: mock\n    mock:\n      - { on: poison, fail: fatal }\n      - { say: Polly. }\n  owl: { backend: mock, mock: [{ say: Hoo. }] }\n\
                    limits: { turns: 50 }\n";

fn echo(world: &World) {
    let file = world.file("echo.yaml", ECHO);
    let said = world.run(&["start", file.to_str().unwrap(), "--background"]);
    assert_eq!(said.code, 0, "{said:?}");
}

#[test]
fn send_names_the_woken_agents_and_waits_for_the_answer_when_asked() {
    let world = World::new();
    echo(&world);
    let said = world.run(&["send", "parrot@echo", "hello", "--wait"]);
    assert_eq!((said.code, said.stdout.trim()), (0, "Polly."), "{said:?}");
    let said = world.run(&["send", "@echo", "@owl and @parot, hello"]);
    assert_eq!((said.code, said.stdout.trim()), (0, "#3 → owl"), "{said:?}");
    assert!(said.stderr.contains("@parot is not an agent here; did you mean @parrot?"), "{said:?}");
    let sent = world.json(&["send", "@echo", "nobody in particular", "--json"]);
    assert_eq!(sent["woken"], serde_json::json!([]), "{sent}");
}

#[test]
fn a_message_that_dies_makes_its_waiting_sender_fail() {
    let world = World::new();
    let file = world.file(
        "echo.yaml",
        &ECHO.replace(
            "backend: mock\n    mock",
            "backend: mock\n    retry: { backoff: 1ms }\n    mock",
        ),
    );
    assert_eq!(world.run(&["start", file.to_str().unwrap(), "--background"]).code, 0);
    let said = world.run(&["send", "parrot@echo", "poison", "--wait"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains("dead"), "{said:?}");
}

#[test]
fn send_to_what_is_not_there_says_what_to_do() {
    let world = World::new();
    echo(&world);
    let said = world.run(&["send", "@nothing", "hello"]);
    assert_ne!(said.code, 0);
    assert!(said.stderr.contains("there is no instance `@nothing`"), "{said:?}");
    assert!(said.stderr.contains("hint:"), "{said:?}");
    assert_eq!(world.run(&["stop", "@echo"]).code, 0);
    let said = world.run(&["send", "@echo", "hello"]);
    assert!(said.stderr.contains("echo has no live run"), "{said:?}");
    let said = world.run(&["send", "owll@echo", "hello"]);
    assert_ne!(said.code, 0, "{said:?}");
}

#[test]
fn peek_finds_text_and_follows_what_comes() {
    let world = World::new();
    echo(&world);
    world.run(&["send", "@echo", "a needle in the hay"]);
    world.run(&["send", "@echo", "more hay"]);
    let found = world.run(&["peek", "@echo", "--find", "NEEDLE"]);
    assert!(found.stdout.contains("a needle") && !found.stdout.contains("more hay"), "{found:?}");
    let newest_first = world.run(&["peek", "@echo", "--find", "hay"]);
    let lines: Vec<_> = newest_first.stdout.lines().collect();
    assert!(lines[0].contains("more hay") && lines[1].contains("a needle"), "{newest_first:?}");
    let newest = world.run(&["peek", "@echo", "-n", "1"]);
    assert!(newest.stdout.contains("more hay") && newest.stdout.lines().count() == 1, "{newest:?}");
    let mut follower = world
        .command(&["peek", "@echo", "--follow"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(follower.stdout.take().unwrap()));
    assert!(lines.next().unwrap().unwrap().contains("a needle"));
    world.run(&["send", "@echo", "just now"]);
    assert!(lines.any(|line| line.unwrap().contains("just now")));
    follower.kill().unwrap();
    follower.wait().unwrap();
}

#[test]
fn a_second_run_of_a_live_instance_is_refused_and_another_tag_is_not() {
    let world = World::new();
    echo(&world);
    let file = world.project().join("echo.yaml");
    let again = world.run(&["start", file.to_str().unwrap(), "--background"]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.stderr.contains("@echo is already running"), "{again:?}");
    let other = world.run(&["start", file.to_str().unwrap(), "--tag", "two", "--background"]);
    assert_eq!(other.code, 0, "{other:?}");
    let listed = world.run(&["ls"]);
    assert!(listed.stdout.contains("parrot@echo:two"), "{listed:?}");
    let stopped = world.run(&["stop", "--all"]);
    assert!(stopped.stdout.contains("@echo:two"), "{stopped:?}");
}

#[test]
fn validate_shows_the_place_of_a_mistake_and_starts_nothing() {
    let world = World::new();
    world.file("bad.yaml", "name: bad\nagents:\n  a:\n    backend: mock\n    timeot: 5m\n");
    let said = world.run(&["validate", "bad.yaml"]);
    assert_eq!(said.code, 2);
    insta::assert_snapshot!(said.stderr.replace(&world.project().display().to_string(), "."), @r"
    error: unknown key `agents.a.timeot`
     --> ./bad.yaml:5:5
      |
    5 |     timeot: 5m
      |     ^^^^^^
      |
      = help: did you mean `timeout`?
    ");
    assert_eq!(world.run(&["validate", &world.example("review.yaml")]).code, 0);
    assert_eq!(world.daemon_pid(), None);
}

#[test]
fn a_clients_token_reads_and_sends_and_nothing_else() {
    let world = World::new();
    echo(&world);
    let token = world.run(&["token", "create", "ci"]).stdout.trim().to_owned();
    let port = world.json(&["daemon", "status", "--json"])["address"].as_str().unwrap().to_owned();
    let ask = |method: &str, path: &str, body: &str| http_status(&port, &token, method, path, body);
    assert_eq!(ask("GET", "/messages?target=@echo", ""), 200);
    assert_eq!(ask("POST", "/messages", r#"{"target":"@echo","message":"hello"}"#), 200);
    assert_eq!(ask("POST", "/shutdown", r#"{"mode":"now"}"#), 403);
    assert_eq!(ask("POST", "/tokens", r#"{"name":"more"}"#), 403);
    assert_eq!(world.run(&["token", "revoke", "ci"]).code, 0);
    assert_eq!(ask("GET", "/messages?target=@echo", ""), 401);
}

#[test]
fn a_bad_file_with_json_is_still_one_envelope() {
    let world = World::new();
    world.file("bad.yaml", "agents: 7\n");
    let (code, envelope) = world.envelope(&["run", "bad.yaml", "--json"]);
    assert_eq!((code, envelope["outcome"].as_str()), (2, Some("invalid")), "{envelope}");
    assert!(envelope["error"]["message"].as_str().unwrap().contains("bad.yaml:1"), "{envelope}");
}
