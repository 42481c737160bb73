//! The configuration file of the user: its precedence, its safety, and the commands that show it.

use std::{fs, os::unix::fs::PermissionsExt as _};

use insta::assert_snapshot;
use serde_json::Value;

use crate::world::World;

const TEAM: &str =
    "name: team\nagents:\n  coder:\n  other: { mock: [{ say: ok }] }\nkickoff: '@coder hi'\n";

/// Returns a world with a configuration file at the default path.
fn world_with(config: &str) -> World {
    let world = World::new();
    let folder = world.home().parent().unwrap().join(".config/agent-worker");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.join("config.toml"), config).unwrap();
    world
}

/// Returns the text without the folder of the test.
fn shown(world: &World, text: &str) -> String {
    text.replace(&world.home().parent().unwrap().display().to_string(), "~")
}

#[test]
fn a_run_takes_from_the_file_what_the_workflow_file_leaves_open() {
    let world = world_with(
        "backend = \"mock\"\n[models]\nmock = \"mock/small\"\n[limits]\nturns = 9\nhops = 7\n",
    );
    world.file("team.yaml", &format!("{TEAM}limits: {{ hops: 5 }}\n"));
    let (code, envelope) = world.envelope(&["run", "team.yaml", "--json"]);
    assert_eq!(code, 0, "{envelope}");
    let run = world.json(&["status", "@team", "--json"]);
    let limits = &run["limits"];
    assert_eq!((&limits["hops"], &limits["turns"]), (&5.into(), &9.into()), "{run}");
    assert_eq!(limits["wall"], "2h");
    let coder = run["agents"].as_array().unwrap().iter().find(|one| one["name"] == "coder");
    assert_eq!(coder.unwrap()["model"], "mock/small");
    // The setting belongs to the command, not to the daemon.
    let said = world.run(&["--config", "none", "run", "team.yaml", "--replace"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.stderr.contains("`coder` needs a `backend`"), "{said:?}");
    let agent = world.json(&["new", "solo", "--json"]);
    assert_eq!((&agent["backend"], &agent["model"]), (&"mock".into(), &"mock/small".into()));
}

#[test]
fn a_broken_file_ends_the_commands_that_need_it_with_2_and_no_other() {
    let world = world_with("backend = \"mock\"\n\n[limits]\ntunrs = 9\n");
    world.file("team.yaml", TEAM);
    for words in [
        &["run", "team.yaml"][..],
        &["start", "team.yaml"],
        &["up", "team.yaml"],
        &["validate", "team.yaml"],
        &["new", "a", "-b", "mock"],
        &["config"],
        &["config", "get", "backend"],
    ] {
        let said = world.run(words);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{words:?}: {said:?}");
    }
    let said = world.run(&["config"]);
    assert_snapshot!(shown(&world, &said.stderr), @r"
    error: unknown key `limits.tunrs`
     --> ~/.config/agent-worker/config.toml:4:1
      |
    4 | tunrs = 9
      | ^^^^^
      |
      = help: did you mean `turns`?
    ");
    let said = world.run(&["config", "--json"]);
    let error: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(error["error"]["code"], "bad_file");
    assert_eq!(world.run(&["ls"]).code, 0);
    assert_eq!(world.run(&["config", "path"]).code, 0);
    assert_eq!(world.run(&["--config=none", "validate", "team.yaml"]).code, 2, "no backend");
    let doctor = world.run(&["doctor"]);
    assert_eq!(doctor.code, 1);
    assert!(doctor.stdout.contains("unknown key `limits.tunrs`"), "{doctor:?}");
}

#[test]
fn a_file_that_others_can_write_is_refused() {
    let world = world_with("");
    let file = world.home().parent().unwrap().join(".config/agent-worker/config.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let said = world.run(&["config"]);
    assert_eq!(said.code, 2);
    assert_snapshot!(shown(&world, &said.stderr), @r"
    error: the configuration ~/.config/agent-worker/config.toml is refused: other users can write ~/.config/agent-worker/config.toml (mode 666)
    hint: chmod go-w ~/.config/agent-worker/config.toml
    ");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let folder = file.parent().unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
    let said = world.run(&["config"]);
    assert_snapshot!(shown(&world, &said.stderr), @r"
    error: the configuration ~/.config/agent-worker/config.toml is refused: other users can write ~/.config/agent-worker (mode 777)
    hint: chmod go-w ~/.config/agent-worker
    ");
}

#[test]
fn config_shows_each_value_with_its_origin() {
    let world = world_with("# mine\nbackend = \"claude\"\n[notify]\non = [\"done\"]\n");
    let all = world.json(&["config", "--json"]);
    let of = |key: &str| {
        let settings = all["settings"].as_array().unwrap().iter();
        settings.clone().find(|one| one["key"] == key).unwrap().clone()
    };
    assert_eq!(of("backend")["from"]["line"], 2);
    assert_eq!(of("notify.on")["value"], serde_json::json!(["done"]));
    assert_eq!(of("limits.turns")["value"], serde_json::json!({"run": 200, "start": 500}));
    assert_eq!(of("limits.turns")["from"]["origin"], "default");
    assert_eq!(of("daemon.port")["from"]["variable"], "AGENT_WORKER_PORT");
    let said = world.run(&["config", "get", "limts.turns"]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    assert_snapshot!(said.stderr, @r"
    error: there is no setting `limts.turns`
    hint: did you mean `limits.turns`?
    ");
    assert_eq!(world.run(&["config", "get", "backend"]).stdout, "claude\n");
    let path = world.run(&["config", "path"]).stdout;
    assert_eq!(shown(&world, &path), "~/.config/agent-worker/config.toml\n");
    let said = world.run(&["--config", "none", "config", "path"]);
    assert_eq!(said.code, 1);
    let text = world.run(&["config"]).stdout;
    let rows: Vec<String> = text
        .lines()
        .take(3)
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_snapshot!(shown(&world, &rows.join("\n")), @r"
    KEY FROM VALUE
    backend config.toml:2 claude
    models.claude default none
    ");
}
