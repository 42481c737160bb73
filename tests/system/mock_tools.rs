//! Tools with scripted results, in turns of a model and by commands.

use serde_json::json;

use crate::{model_server::ModelServer, wire::http::Ask, world::World};

const TEAM: &str = "\
name: team
agents:
  me:
    model: anthropic/claude-sonnet-5-5
    tools: [bash]
    mock_tools:
      - { name: bash, results: [{ when: { command: 'rm *' }, error: closed }, { result: it ran }] }
      - { name: git.deploy, description: Deploys a version., result: { ok: true } }
";

fn started(models: &ModelServer, team: &str) -> World {
    let variables = models.variables();
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let world = World::with(&variables);
    world.file("team.yaml", team);
    let started = world.run(&["start", "--background", "team.yaml"]);
    assert_eq!(started.code, 0, "{started:?}");
    world
}

fn ask(world: &World, text: &str) -> String {
    let said = world.run(&["send", "me@team", text, "--wait"]);
    assert_eq!(said.code, 0, "{said:?}\n{}", world.log());
    said.stdout.trim().to_owned()
}

#[test]
fn a_model_calls_mock_tools_and_no_command_runs() {
    let models = ModelServer::start();
    let world = started(&models, TEAM);
    let touch = json!({"command": "touch made"});
    assert_eq!(ask(&world, &format!("CALL bash {touch}\nECHO")), "it ran");
    assert_eq!(ask(&world, "CALL bash {\"command\":\"rm made\"}\nECHO"), "closed");
    assert_eq!(ask(&world, "CALL git_deploy {}\nECHO"), "{\"ok\":true}");
    assert!(!world.project().join("made").exists());
    let ask = Ask { method: "GET", path: "/events?target=@team&after=0", ..Ask::default() };
    let events = ask.events(&world, |event| event["kind"] == "attempt.ended");
    assert!(events.iter().any(|event| event["kind"] == "tool_call"), "{events:?}");
}

#[test]
fn the_tools_of_an_agent_of_a_file_are_listed_without_a_daemon() {
    let world = World::new();
    world.file("team.yaml", &TEAM.replace("tools: [bash]", "tools: [bash, read_file]"));
    let listed = world.json(&["tool", "list", "team.yaml", "--json"]);
    assert_eq!((&listed["agent"], &listed["backend"]), (&json!("me"), &json!("api")));
    let tools = listed["tools"].as_array().unwrap();
    let find = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap().clone();
    assert_eq!(tools.iter().filter(|tool| tool["name"] == "bash").count(), 1);
    assert_eq!(find("bash")["source"], "mock");
    assert_eq!(
        find("git.deploy"),
        json!({"name": "git.deploy", "api_name": "git_deploy", "source": "mock", "effect": "changes",
            "schema_bytes": 17, "permission": "allowed"})
    );
    let read = find("read_file");
    assert_eq!((&read["source"], &read["effect"]), (&json!("built-in"), &json!("reads")));
    assert_eq!(read["permission"], "allowed");
    assert_eq!(find("write_file")["permission"], "not_offered");
    let team = find("channel_send");
    assert_eq!((&team["source"], &team["schema_bytes"]), (&json!("team"), &json!(null)));
    let table = world.run(&["tool", "list", "team.yaml", "me"]);
    assert_eq!(table.code, 0, "{table:?}");
    let row = table.stdout.lines().find(|line| line.starts_with("git.deploy")).unwrap();
    let words: Vec<_> = row.split_whitespace().collect();
    assert_eq!(words, ["git.deploy", "mock", "changes", "17", "allowed", "git_deploy"]);
    world.file("two.yaml", "agents: { a: { backend: mock }, b: { backend: mock } }\n");
    for (words, expected) in [
        (&["tool", "list", "two.yaml"][..], "hint: the agents are: a, b"),
        (&["tool", "list", "two.yaml", "c"], "there is no agent `c` in the file"),
        (&["tool", "list", "none.yaml"], "none.yaml"),
    ] {
        let refused = world.run(words);
        assert_eq!(refused.code, 2, "{words:?}: {refused:?}");
        assert!(refused.stderr.contains(expected), "{words:?}: {refused:?}");
    }
    assert_eq!(world.daemon_pid(), None);
}

#[test]
fn a_rule_about_a_built_in_tool_holds_for_its_mock() {
    let models = ModelServer::start();
    let team = TEAM.replace("    tools: [bash]\n", "    permissions: { bash(rm*): deny }\n");
    let world = started(&models, &team);
    let denied = ask(&world, "CALL bash {\"command\":\"rm made\"}\nECHO");
    assert!(denied.contains("bash is not allowed here"), "{denied}");
    assert_eq!(ask(&world, "CALL bash {\"command\":\"ls\"}\nECHO"), "it ran");
}
