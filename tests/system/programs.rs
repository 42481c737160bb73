//! Programs as agents: the documented examples, and a stand-in for a program that is not available.

use std::{fmt::Write as _, fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::{Value, json};

use crate::world::{World, is_on_path, record_skip, wait_for};

#[test]
fn agents_of_ones_own_are_any_executables() {
    if !["python3", "curl"].into_iter().all(is_on_path) {
        record_skip("agents in Python and shell (needs python3, curl)");
        return;
    }
    let world = World::new();
    let examples = world.project().join("examples");
    fs::create_dir(&examples).unwrap();
    for name in ["agent.py", "agent.sh", "own.yaml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name);
        fs::copy(path, examples.join(name)).unwrap();
    }
    let run = world.run(&["run", "examples/own.yaml"]);
    assert_eq!(run.code, 0, "{run:?}");
    let answers = ["counter (answer to #1): Counted.", "clerk (answer to #2): Noted in notes.md."];
    assert!(answers.iter().all(|answer| run.stdout.contains(answer)), "{run:?}");
    let notes = world.run(&["doc", "read"]);
    assert_eq!(notes.stdout, "- clerk was asked: @clerk there are 1 files here\n");
}

#[test]
fn a_folder_of_a_workflow_file_is_relative_to_the_file_and_a_missing_one_is_reported_whole() {
    let world = World::new();
    let teams = world.project().join("teams");
    fs::create_dir_all(teams.join("sub")).unwrap();
    let team = |cwd: &str, setup: &str| {
        format!(
            "agents:\n  a: {{ backend: mock, cwd: {cwd}, mock: [{{ run: pwd }}] }}\n  \
             b: {{ backend: mock, mock: [{{ run: pwd }}] }}\n\
             setup: [{{ shell: pwd, as: at, cwd: {setup} }}]\nkickoff: '@a @b ${{{{ at }}}}'\n"
        )
    };
    world.file("teams/here.yaml", &team("sub", "./sub"));
    let run = world.run(&["run", "teams/here.yaml"]);
    let project = world.project().canonicalize().unwrap();
    let (sub, here) = (project.join("teams/sub"), project.display());
    for line in [
        format!("user → a, b: @a @b {}", sub.display()),
        format!("a (answer to #1): {}", sub.display()),
        format!("b (answer to #1): {here}"),
    ] {
        assert!(run.stdout.contains(&format!("{line}\n")), "{line}: {run:?}");
    }
    world.file("teams/setup.yaml", &team("sub", "gone"));
    let run = world.run(&["run", "teams/setup.yaml"]);
    let gone = format!("the folder `{}` does not exist", project.join("teams/gone").display());
    assert!(run.code == 1 && run.stderr.contains(&gone), "{run:?}");
    let agent = "agents:\n  a: { backend: command, command: [cat], cwd: gone, retry: { max_attempts: 1 } }\nkickoff: '@a go'\n";
    world.file("teams/agent.yaml", agent);
    let run = world.run(&["run", "teams/agent.yaml"]);
    let gone =
        format!("the working folder `{}` does not exist", project.join("teams/gone").display());
    assert!(run.code == 1 && run.stderr.contains(&gone), "{run:?}");
}

/// Returns the input of the stand-in for Cursor's CLI in one turn, under this program name.
fn received_input(world: &World, name: &str, prompt: &str) -> Value {
    let bin = world.project().join("bin");
    let _ = fs::create_dir(&bin);
    let stand_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/system/programs/cursor-agent");
    fs::copy(stand_in, bin.join(name)).unwrap();
    fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    let said = world.run(&["send", "me@team", prompt, "--wait"]);
    assert_eq!((said.code, said.stdout.trim()), (0, "Seen."), "{said:?}\n{}", world.log());
    let read = world.json(&["peek", "@team", "-n", "200", "--json"]);
    let messages = read["items"].as_array().unwrap().iter().rev();
    let told = messages.filter(|it| it["kind"] == "message").find(|it| it["from"] == "me").unwrap();
    serde_json::from_str(told["body"].as_str().unwrap()).unwrap()
}

/// Returns a world with a team of one, whose program is in the project.
fn cursor_team(key: &str, besides: &str) -> World {
    let world = World::with(&[("CURSOR_API_KEY", key)]);
    let yaml =
        format!("name: team\nagents:\n  me: {{ backend: cursor, model: cursor/gpt-5{besides} }}\n");
    world.file("team.yaml", &yaml);
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", world.project().join("bin").display());
    // The tests install the program after the start.
    let mut start = world.command(&["start", "--background", "team.yaml", "--allow-missing"]);
    assert!(start.env("PATH", path).output().unwrap().status.success());
    world
}

#[test]
fn cursor_is_started_as_it_documents_and_finds_the_team_in_a_home_of_its_own() {
    if !is_on_path("python3") {
        return record_skip("the stand-in for Cursor's CLI (needs python3)");
    }
    let world = cursor_team("secret", ", permissions: { default: allow }");
    let first = received_input(&world, "cursor-agent", "hello");
    let usual =
        ["-p", "--output-format", "stream-json", "--approve-mcps", "--force", "--model", "gpt-5"];
    assert_eq!(first["args"], json!([&usual[..], &["--"]].concat()));
    let told = |name: &str| first[name].clone();
    assert_eq!(
        (told("stdin"), told("key"), told("mode")),
        (json!(""), json!("secret"), json!("0o600"))
    );
    assert_eq!(
        (told("login"), told("mine"), told("secret")),
        (json!(false), json!(false), json!(false))
    );
    assert_eq!(first["rules"]["permissions"]["allow"], json!(["Mcp(team:*)"]));
    let again = received_input(&world, "cursor-agent", "hello");
    assert_eq!(again["args"], json!([&usual[..], &["--resume", "chat-1", "--"]].concat()));
    assert!(!world.project().join(".cursor").exists());
}

#[test]
fn a_prompt_that_is_too_long_for_an_argument_comes_to_cursor_in_a_file() {
    if !is_on_path("python3") {
        return record_skip("the stand-in for Cursor's CLI (needs python3)");
    }
    let world = cursor_team("secret", &format!(", system_prompt: {}", "word ".repeat(25_000)));
    let seen = received_input(&world, "cursor-agent", "hello");
    let [argument, told] = ["length", "told"].map(|name| seen[name].as_u64().unwrap());
    assert!(argument < 300 && told > 120_000, "{seen}");
}

#[test]
fn cursor_with_a_persons_login_finds_it_and_leaves_their_settings_as_they_are() {
    if !is_on_path("python3") {
        return record_skip("the stand-in for Cursor's CLI (needs python3)");
    }
    let world = cursor_team("", "");
    let home = world.project().parent().unwrap().to_owned();
    let theirs = [
        (".config/cursor/auth.json", "{}"),
        (".cursor/mcp.json", "{\"mcpServers\":{\"theirs\":{}}}"),
        (
            ".cursor/cli-config.json",
            "{\"version\":1,\"permissions\":{\"allow\":[\"Shell(ls)\"],\"deny\":[]}}",
        ),
        ("notes.txt", "mine"),
    ];
    for (name, text) in theirs {
        fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
        fs::write(home.join(name), text).unwrap();
    }
    // Newer versions of the program have this name.
    let seen = received_input(&world, "agent", "hello");
    assert_eq!((&seen["login"], &seen["mine"]), (&json!(true), &json!(true)), "{seen}");
    assert_eq!(seen["rules"]["permissions"]["allow"], json!(["Shell(ls)", "Mcp(team:*)"]));
    assert!(!seen["args"].as_array().unwrap().contains(&json!("--force")), "{seen}");
    for (name, text) in theirs {
        assert_eq!(fs::read_to_string(home.join(name)).unwrap(), text, "{name}");
    }
}

#[test]
fn a_program_that_waits_for_its_provider_without_a_word_is_ended_and_not_asked_again_too_soon() {
    let world = World::new();
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/worker/streams");
    let mut yaml = "name: team\nagents:\n".to_owned();
    for (name, log) in [("opencode", "opencode-rate-limited"), ("codex", "codex-paused")] {
        let log = logs.join(format!("{log}.log"));
        let script =
            format!("#!/bin/sh\nread -r first\ncat '{}' >&2\nexec sleep 600\n", log.display());
        let path = world.file(name, &script);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let _ = writeln!(
            yaml,
            "  {name}: {{ backend: {name}, command: {}, retry: {{ backoff: 1h }} }}",
            json!(path)
        );
    }
    world.file("team.yaml", &yaml);
    assert_eq!(world.run(&["start", "--background", "team.yaml"]).code, 0);
    for name in ["opencode", "codex"] {
        assert_eq!(world.run(&["send", &format!("{name}@team"), "hello"]).code, 0);
    }
    for (name, why) in [("opencode", "scripted 429"), ("codex", "retry after 600 s")] {
        let ended = wait_for("the end of its turn", || {
            let status = world.json(&["status", &format!("{name}@team"), "--json"]);
            status["attempts"][0].get("ended").cloned()
        });
        assert_eq!(ended["class"], "transient", "{ended}");
        assert!(ended["why"].as_str().unwrap().contains(why), "{ended}");
    }
}
